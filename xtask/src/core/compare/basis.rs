// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a measurement stands on, and when two of them may be compared.

use crate::core::{
    parts::{Difference, Part, Parts},
    scenario::Clock,
};

/// What one scenario was measured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The scenario's hash.
    pub scenario: String,
    /// The clock of its numbers.
    pub clock: Clock,
    /// Wall time: the host. Virtual time is the same on every host.
    pub host: Option<String>,
    /// Whether its kernels checked themselves.
    pub debug: bool,
    /// What else it was made of.
    pub parts: Parts,
}

/// What it means for a comparison that a part is another.
enum Means {
    /// The two cannot be compared.
    Obstacle(String),
    /// That may be just what is compared.
    Subject(String),
}

impl Basis {
    /// Why `other` cannot be compared with this; empty: it can.
    pub fn obstacles(&self, other: &Self) -> Vec<String> {
        let mut out = Vec::new();
        if self.clock != other.clock {
            out.push(format!("{} time against {} time", self.clock, other.clock));
        }
        if self.scenario != other.scenario {
            out.push("the scenario has changed (another hash)".into());
        }
        if self.debug != other.debug {
            out.push("kernels that check themselves (--debug) on one side only".into());
        }
        if let (Some(host), Some(now)) = (&self.host, &other.host)
            && host != now
        {
            out.push(format!("another machine: {host} against {now}"));
        }
        out.extend(self.means(other).filter_map(|means| match means {
            Means::Obstacle(why) => Some(why),
            Means::Subject(_) => None,
        }));
        out
    }

    /// What else differs: the kernels, as a rule just what is to be compared.
    pub fn subject(&self, other: &Self) -> Vec<String> {
        let subject = |means| match means {
            Means::Subject(what) => Some(what),
            Means::Obstacle(_) => None,
        };
        self.means(other).filter_map(subject).collect()
    }

    fn means(&self, other: &Self) -> impl Iterator<Item = Means> {
        let differing = self.parts.differing(&other.parts);
        let means: Vec<_> = differing.iter().filter_map(means).collect();
        means.into_iter()
    }
}

fn means(differs: &Difference<'_>) -> Option<Means> {
    use Means::{Obstacle, Subject};
    let both = differs.both();
    let (was, is) = both.unwrap_or_default();
    Some(match differs.part {
        Part::Qemu => Obstacle(format!("QEMU {was} against {is}")),
        Part::Command => Obstacle("QEMU's command line has another form".into()),
        Part::Accelerator => Obstacle(format!("{was} against {is}")),
        Part::Init => Obstacle("PID 1 is another".into()),
        Part::UserSpace(name) => Obstacle(match both {
            Some(_) => format!("user space {name} is another: its packages, or how it is made"),
            None => format!("user space {name} was recorded on one side only"),
        }),
        // It is compared with nothing.
        Part::Kernel(_) => return None,
        Part::Compiler(name) => Obstacle(match both {
            Some(_) => format!("kernel {name} built by {was} against {is}"),
            None => {
                format!("kernel {name} was built otherwise, and its compiler was not recorded")
            }
        }),
        Part::Modules(name) => Obstacle(format!("the guest modules for kernel {name} differ")),
        Part::Source(name) => Subject(format!("kernel {name} is {is} instead of {was}")),
        Part::Build(name) => Subject(format!(
            "kernel {name} was built from other patches or with another configuration"
        )),
        Part::Image(name) => Subject(format!(
            "kernel {name} has other bytes, although it was built alike"
        )),
    })
}
