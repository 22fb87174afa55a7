// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run's record says about the machine it ran on: enough to judge whether two runs
//! can be compared, nothing that names its owner.

use std::fs;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{
    distro::Distro,
    needs::{first_line, qemu_version},
    resources::Resources,
};
use crate::core::units::Bytes;

/// A machine, for run.yaml.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The same for all runs on one installation, and on no other: a keyed hash of
    /// machine-id(5), 16 hex digits. `unknown` where there is none.
    pub machine: String,
    /// The processor's name.
    pub cpu: String,
    /// CPUs that we may use.
    pub cpus: usize,
    /// All memory, as `24152 MiB`.
    pub memory: Bytes,
    /// Load average over one minute when the run began.
    pub load: f64,
    /// The distribution, for people.
    pub distribution: String,
    /// The running kernel's release.
    pub kernel: String,
    /// QEMU's version, if there is one.
    pub qemu: Option<String>,
    /// First line of `rustc --version`, if there is one.
    pub rustc: Option<String>,
    /// First line of `gcc --version`, if there is one.
    pub gcc: Option<String>,
}

impl Fingerprint {
    /// This machine's, now.
    ///
    /// # Errors
    /// [`Stopped`](crate::core::fault::Stopped) when interrupted; what cannot be found out is left out.
    pub fn take() -> Result<Self> {
        let resources = Resources::here();
        let uname = rustix::system::uname();
        Ok(Self {
            machine: machine(&fs::read_to_string("/etc/machine-id").unwrap_or_default()),
            cpu: resources.cpu,
            cpus: resources.cpus,
            // Whole MiB: the last digits differ from boot to boot.
            memory: Bytes(resources.memory.0 >> 20 << 20),
            load: resources.load,
            distribution: Distro::here().name,
            kernel: uname.release().to_string_lossy().into_owned(),
            qemu: qemu_version("qemu-system-x86_64")?.map(|v| v.to_string()),
            rustc: first_line("rustc")?,
            gcc: first_line("gcc")?,
        })
    }
}

/// The manual of machine-id asks to show only a keyed hash of it.
fn machine(id: &str) -> String {
    let id = id.trim();
    if id.is_empty() || id == "uninitialized" {
        return "unknown".into();
    }
    let hash = blake3::derive_key("bootrig host fingerprint 1", id.as_bytes());
    hash[..8].iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_apart_but_not_told() {
        let id = "0123456789abcdef0123456789abcdef";
        let hash = machine(&format!("{id}\n"));
        assert_eq!(hash, machine(id));
        assert!(hash.len() == 16 && !id.contains(&hash[..8]), "{hash}");
        assert_ne!(hash, machine("1123456789abcdef0123456789abcdef"));
        assert_eq!(
            [machine(""), machine("uninitialized\n")],
            ["unknown", "unknown"]
        );
    }

    #[test]
    fn reads_back_from_yaml() {
        let here = Fingerprint::take().unwrap();
        assert!(here.rustc.is_some() && !here.kernel.is_empty());
        let text = serde_yaml::to_string(&here).unwrap();
        assert_eq!(serde_yaml::from_str::<Fingerprint>(&text).unwrap(), here);
    }
}
