// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel as somebody built it, with no patch and no module of ours: booted to PID 1 and
//! restarted once, seen by the tracer alone.

use std::{path::Path, sync::Arc};

use anyhow::{Result, bail};

use super::{
    Artifacts, Rig,
    tracing::{Seen, Tracing},
    wish::Wish,
};
use crate::{
    core::{
        fault::Fault,
        machine::{End, Machine},
        plan::{Overrides, Trial, plan},
        program::Finish,
        scenario::{self, Known},
    },
    edge::{cache::Cache, qemu::AccelChoice},
};

/// The machine that it is given.
#[derive(Clone, Debug)]
pub struct Given {
    /// Guest CPUs.
    pub cpus: u32,
    /// `512 MiB`.
    pub memory: String,
    /// Words for its command line.
    pub words: Vec<String>,
}

/// What became of it.
pub enum Outcome {
    /// It could not be traced here, for this reason.
    NotTraced(String),
    /// What was seen, and how the machine ended where it did not restart.
    Traced(Box<Seen>, Option<String>),
}

/// Boots the bzImage `image` with what `wish` asks to be seen.
///
/// # Errors
/// Usage: no bzImage, symbols that are not of it, a machine that cannot be.
pub fn boot(
    root: &Path,
    cache: Cache,
    image: &Path,
    given: &Given,
    wish: Wish,
    say: &dyn Fn(&str),
) -> Result<Outcome> {
    let plan = [trial(image, given)?];
    let artifacts = Artifacts::bare(root, cache, image, &plan[0].kernel, say)?;
    let rig = Rig::new(artifacts, &plan, AccelChoice::Tcg, Finish::Restart, say)?;
    let tracing = match Tracing::new(root, &rig, &plan, wish, say)? {
        Ok(tracing) => tracing,
        Err(why) => return Ok(Outcome::NotTraced(why)),
    };
    let raw = tracing.boot(&plan[0])?;
    let cut = match raw.end {
        End::Finished => None,
        End::Early(why) | End::Splat(why) | End::Deadline(why) | End::NotAvailable(why) => {
            Some(why)
        }
        End::Machine(why) => bail!("booting {}: {why}", image.display()),
    };
    match tracing.take(&plan[0]) {
        Some(Ok(seen)) => Ok(Outcome::Traced(Box::new(seen), cut)),
        Some(Err(why)) => Err(Fault::usage(format!("{}: {why}", image.display())).into()),
        None => {
            let end = cut.unwrap_or_else(|| "nothing was seen".into());
            bail!("booting {}: {end}", image.display())
        }
    }
}

fn trial(image: &Path, given: &Given) -> Result<Trial> {
    let stem = image.file_name().unwrap_or_default().to_string_lossy();
    let name = name(&stem);
    let Given {
        cpus,
        memory,
        words,
    } = given;
    let words = serde_json::to_string(words)?;
    let memory = serde_json::to_string(memory)?;
    let text = format!(
        "about: A kernel as it is.\nkernel: {}\nmachine: {{type: microvm, cpus: {cpus}, memory: {memory}}}\ntimeout: 600 s\ndevices: []\nvariants: {{bare: {{order: serial, cmdline: {words}}}}}\nmeasure: [boot, reboot]\n",
        serde_json::to_string(&name)?
    );
    let scenario = scenario::parse("kernel.yaml", &text, &Known::default()).map_err(Fault::from)?;
    let mut trials = plan(&[Arc::new(scenario)], Overrides::default());
    Ok(trials.swap_remove(0))
}

/// Whatever a file is called: the name of a kernel.
fn name(stem: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let name: String = stem
        .to_ascii_lowercase()
        .chars()
        .filter(|c| plain(*c))
        .collect();
    let name: String = name.trim_matches(['-', '.']).chars().take(40).collect();
    if name.is_empty() {
        "kernel".into()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(cpus: u32, memory: &str, words: &[&str]) -> Given {
        Given {
            cpus,
            memory: memory.into(),
            words: words.iter().map(|w| (*w).to_owned()).collect(),
        }
    }

    #[test]
    fn any_file_is_a_kernel_by_some_name() {
        for file in [
            "/boot/vmlinuz-6.1.0-53-amd64",
            "bzImage",
            "a b'\"\n",
            "..",
            "_",
        ] {
            let trial = trial(Path::new(file), &given(2, "512 MiB", &["nosmt"])).unwrap();
            assert_eq!(trial.scenario.machine.cpus, 2, "{file}");
            assert!(trial.boots_again());
        }
        assert_eq!(name("bzImage"), "bzimage");
        assert_eq!(name("-"), "kernel");
    }

    #[test]
    fn a_machine_that_cannot_be_is_refused() {
        for (given, want) in [
            (given(1, "lots", &[]), "memory"),
            (given(1, "512 MiB", &["init=/bin/sh"]), "init=/bin/sh"),
        ] {
            let error = trial(Path::new("bzImage"), &given).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
