// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a run with its baseline to the digit. Virtual time only: there equal means
//! identical.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::core::{
    parts::{self, Kernel, Part, Parts},
    samples,
};

/// What must be the same for two virtual-time results to be comparable at all, as
/// baseline.yaml holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The scenario's hash.
    pub scenario: String,
    /// QEMU's version.
    pub qemu: String,
    /// The form of its command line.
    pub command: u32,
    /// The key of PID 1.
    pub init: String,
    /// Images of user space -> their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// Kernel (`6.1`, `6.1+parallel-shutdown`) -> the source used, and the keys of the kernel
    /// and its modules.
    pub kernels: BTreeMap<String, [String; 3]>,
    /// Kernel -> its compiler. None in baselines that were saved before this was kept; a
    /// kernel of the same key has the same one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub compilers: BTreeMap<String, String>,
}

impl Identity {
    /// That of the scenario with this hash, which was made of `parts`.
    pub fn of(scenario: String, parts: Parts) -> Self {
        let (mut kernels, mut compilers) = (BTreeMap::new(), BTreeMap::new());
        for (name, kernel) in parts.kernels {
            if let Some(compiler) = kernel.compiler {
                compilers.insert(name.clone(), compiler);
            }
            kernels.insert(name, [kernel.source, kernel.key, kernel.modules]);
        }
        Self {
            scenario,
            qemu: parts.qemu,
            command: parts.command,
            init: parts.init,
            images: parts.images,
            kernels,
            compilers,
        }
    }

    /// What it was made of.
    pub fn parts(&self) -> Parts {
        let kernel = |(name, [source, key, modules]): (&String, &[String; 3])| {
            let kernel = Kernel {
                source: source.clone(),
                key: key.clone(),
                modules: modules.clone(),
                compiler: self.compilers.get(name).cloned(),
                image: None,
            };
            (name.clone(), kernel)
        };
        Parts {
            qemu: self.qemu.clone(),
            command: self.command,
            accelerator: None,
            init: self.init.clone(),
            images: self.images.clone(),
            kernels: self.kernels.iter().map(kernel).collect(),
        }
    }

    /// What differs in that of a run, in words; empty: comparable.
    pub fn differs(&self, run: &Self) -> Vec<String> {
        let mut out = Vec::new();
        if self.scenario != run.scenario {
            out.push("the scenario has changed".into());
        }
        let (was, is) = (self.parts(), run.parts());
        out.extend(was.differing(&is).iter().filter_map(in_words));
        out
    }
}

fn in_words(differs: &parts::Difference<'_>) -> Option<String> {
    let both = differs.both();
    let (was, is) = both.unwrap_or_default();
    let one_side = || match differs.was {
        Some(_) => "was not booted",
        None => "is not in the baseline",
    };
    Some(match differs.part {
        Part::Qemu => format!("QEMU {is} instead of {was}"),
        Part::Command => "QEMU's command line has another form".into(),
        Part::Accelerator => format!("{is} instead of {was}"),
        Part::Init => "PID 1 is another".into(),
        Part::UserSpace(name) => match both {
            Some(_) => format!("user space {name} is another (packages, or how it is made)"),
            None => format!("user space {name} {}", one_side()),
        },
        Part::Kernel(name) => format!("kernel {name} {}", one_side()),
        Part::Source(name) => format!("kernel {name} from {is} instead of {was}"),
        // Where it was not recorded the kernel's build says enough.
        Part::Compiler(name) => {
            both.map(|_| format!("kernel {name} built by {is} instead of {was}"))?
        }
        Part::Build(name) => {
            format!("kernel {name} was built otherwise (compiler, configuration or patches)")
        }
        Part::Image(name) => format!("kernel {name} has other bytes, although it was built alike"),
        Part::Modules(name) => format!("the guest modules for kernel {name} differ"),
    })
}

/// One sample that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The row without its value: `shutdown-2018,serial,0,virtual,device_shutdown,ns`.
    pub what: String,
    /// In the baseline; `None`: it was not there.
    pub before: Option<u64>,
    /// In the run; `None`: it is not there.
    pub after: Option<u64>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: Option<u64>| v.map_or("nothing".to_owned(), |v| v.to_string());
        write!(
            f,
            "{}: {} in the baseline, {} now",
            self.what,
            show(self.before),
            show(self.after)
        )?;
        if let (Some(before @ 1..), Some(after)) = (self.before, self.after) {
            write!(
                f,
                " ({:+.4} %)",
                (after as f64 / before as f64 - 1.0) * 100.0
            )?;
        }
        Ok(())
    }
}

/// Every sample that differs between two samples.csv.
///
/// # Errors
/// Names the first row that is no sample.
pub fn differences(before: &str, after: &str) -> Result<Vec<Difference>, String> {
    let (before, after) = (rows(before)?, rows(after)?);
    let mut out = Vec::new();
    for (what, value) in &before {
        let now = after.get(what).copied();
        if now != Some(*value) {
            out.push(Difference {
                what: (*what).to_owned(),
                before: Some(*value),
                after: now,
            });
        }
    }
    for (what, value) in after.iter().filter(|(w, _)| !before.contains_key(*w)) {
        out.push(Difference {
            what: (*what).to_owned(),
            before: None,
            after: Some(*value),
        });
    }
    Ok(out)
}

fn rows(csv: &str) -> Result<BTreeMap<&str, u64>, String> {
    let rows = samples::read(csv)?;
    Ok(rows.into_iter().map(|row| (row.key, row.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = samples::HEADER;

    #[test]
    fn names_every_change_and_only_those() {
        let a = format!("{HEAD}s,v,0,virtual,boot,ns,10\ns,v,0,virtual,probe,ns,5\n");
        let b = format!("{HEAD}s,v,0,virtual,boot,ns,11\ns,v,0,virtual,reboot,ns,7\n");
        assert_eq!(differences(&a, &a), Ok(vec![]));
        let text: Vec<_> = differences(&a, &b)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            text,
            [
                "s,v,0,virtual,boot,ns: 10 in the baseline, 11 now (+10.0000 %)",
                "s,v,0,virtual,probe,ns: 5 in the baseline, nothing now",
                "s,v,0,virtual,reboot,ns: nothing in the baseline, 7 now",
            ]
        );
    }
}
