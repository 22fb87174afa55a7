// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a measurement stands on, and when two of them may be compared.

use std::collections::BTreeMap;

use crate::core::scenario::Clock;

/// What one scenario was measured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The scenario's hash.
    pub scenario: String,
    /// The clock of its numbers.
    pub clock: Clock,
    /// QEMU's version.
    pub qemu: String,
    /// The form of its command line.
    pub command: u32,
    /// The key of PID 1.
    pub init: String,
    /// Wall time: what runs the guest (`KVM`, `TCG (...)`), and the host. Virtual time is
    /// the same on every host.
    pub host: Option<[String; 2]>,
    /// Whether its kernels checked themselves.
    pub debug: bool,
    /// By name as asked for (`6.1+parallel-shutdown`).
    pub kernels: BTreeMap<String, Kernel>,
}

/// A kernel that was booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The source with its exact version.
    pub source: String,
    /// The artifact's key.
    pub key: String,
    /// The guest modules' key.
    pub modules: String,
    /// Its compiler; `None`: not recorded.
    pub compiler: Option<String>,
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
        if self.qemu != other.qemu {
            out.push(format!("QEMU {} against {}", self.qemu, other.qemu));
        }
        if self.command != other.command {
            out.push("QEMU's command line has another form".into());
        }
        if self.init != other.init {
            out.push("PID 1 is another".into());
        }
        if let (Some([how, host]), Some([other_how, other_host])) = (&self.host, &other.host) {
            if how != other_how {
                out.push(format!("{how} against {other_how}"));
            }
            if host != other_host {
                out.push(format!("another machine: {host} against {other_host}"));
            }
        }
        for (name, kernel, now) in self.common(other) {
            match (&kernel.compiler, &now.compiler) {
                _ if kernel.key == now.key && kernel.modules != now.modules => {
                    out.push(format!("the guest modules for kernel {name} differ"));
                }
                _ if kernel.key == now.key => {}
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => {
                    out.push(format!("kernel {name} built by {a} against {b}"));
                }
                _ => out.push(format!(
                    "kernel {name} was built otherwise, and its compiler was not recorded"
                )),
            }
        }
        out
    }

    /// What else differs: the kernels, as a rule just what is to be compared.
    pub fn subject(&self, other: &Self) -> Vec<String> {
        let mut out = Vec::new();
        for (name, kernel, now) in self.common(other) {
            if kernel.source != now.source {
                out.push(format!(
                    "kernel {name} is {} instead of {}",
                    now.source, kernel.source
                ));
            } else if kernel.key != now.key {
                out.push(format!(
                    "kernel {name} was built from other patches or with another configuration"
                ));
            }
        }
        out
    }

    fn common<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a str, &'a Kernel, &'a Kernel)> {
        let both = |(name, kernel): (&'a String, &'a Kernel)| {
            Some((name.as_str(), kernel, other.kernels.get(name)?))
        };
        self.kernels.iter().filter_map(both)
    }
}
