// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools that bootrig uses, and whether they are here: each is looked for itself (a
//! program on the PATH, a library by linking with it), so it does not matter who
//! installed it or how.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

pub use crate::core::need::Need;

use super::distro::{Distro, Manager};
use crate::{
    core::{apt_sources::debian_keyring, qemu_version::QemuVersion, units::Bytes},
    edge::{files::free_space, process},
};

/// What a test program, linked statically, needs at most while it is made.
const ROOM: Bytes = Bytes(16 << 20);
/// How long a test program may compile.
const COMPILE_LIMIT: Duration = Duration::from_secs(60);
/// How long a program may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

impl Need {
    /// Whether a machine with this package manager needs it: Debian's kernel sources can
    /// be fetched where apt is at home; elsewhere they come as tarballs.
    pub fn concerns(self, manager: Option<Manager>) -> bool {
        !matches!(self, Self::DpkgDeb | Self::DebianKeys) || manager == Some(Manager::Apt)
    }

    /// Whether it is here.
    ///
    /// # Errors
    /// Only when interrupted or when no test program can be written.
    pub fn is_met(self) -> Result<bool> {
        match self {
            Self::Browser => Ok(browser().is_some()),
            Self::PythonVenv => python_venv(),
            Self::Slurm => Ok(["slurmctld", "slurmd", "sbatch", "scontrol", "squeue"]
                .iter()
                .all(|name| process::which(name).is_some())),
            Self::DebianKeys => Ok(debian_keyring(|k| Path::new(k).is_file()).is_some()),
            Self::StaticLibc => links(
                "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n",
                "-static",
            ),
            Self::Elf => links(
                "#include <gelf.h>\nint main(void) { return elf_version(EV_CURRENT) == EV_NONE; }\n",
                "-lelf",
            ),
            _ => Ok(self.program().is_some_and(|p| process::which(p).is_some())),
        }
    }
}

/// A Chromium that runs without a window, if one is here.
pub fn browser() -> Option<PathBuf> {
    const NAMES: [&str; 5] = [
        "chromium-headless-shell",
        "chromium",
        "google-chrome-stable",
        "google-chrome",
        "headless_shell",
    ];
    NAMES.into_iter().find_map(process::which)
}

/// What is missing here for bootrig's own tests, beside what a bench needs. Where no package
/// has a browser that can read what tests write (Ubuntu's is a snap), none is missing.
///
/// # Errors
/// Only when interrupted.
pub fn missing_for_tests(distro: &Distro, nightly: bool) -> Result<Vec<Need>> {
    let packaged = match distro.manager() {
        Some(Manager::Apt) => distro.id == "debian",
        manager => manager.is_some(),
    };
    let mut missing = Vec::new();
    if packaged && !Need::Browser.is_met()? {
        missing.push(Need::Browser);
    }
    if !Need::PythonVenv.is_met()? {
        missing.push(Need::PythonVenv);
    }
    for need in [Need::Slurm, Need::Npm] {
        if nightly && !need.is_met()? {
            missing.push(need);
        }
    }
    Ok(missing)
}

/// Debian packs what venv needs to bring pip along by itself.
fn python_venv() -> Result<bool> {
    let mut python = Command::new("python3");
    python.args(["-c", "import venv, ensurepip"]);
    match process::read("looking for Python's venv", python, VERSION_LIMIT) {
        Ok(_) => Ok(true),
        Err(error) if error.is::<process::Stopped>() => Err(error),
        Err(_) => Ok(false),
    }
}

/// Whether gcc makes a program of `source` with `flag`.
fn links(source: &str, flag: &str) -> Result<bool> {
    if process::which("gcc").is_none() {
        return Ok(false);
    }
    let dir = process::scratch("bootrig-probe-")?;
    let file = dir.path().join("probe.c");
    let unwritable = || {
        format!(
            "writing a test program in {}; free some space there or set TMPDIR",
            std::env::temp_dir().display()
        )
    };
    fs::write(&file, source).with_context(unwritable)?;
    let mut gcc = Command::new("gcc");
    // What it leaves when it is stopped goes with the folder.
    gcc.env("TMPDIR", dir.path());
    gcc.arg("-o")
        .arg(dir.path().join("probe"))
        .arg(&file)
        .arg(flag);
    match process::read("compiling a test program", gcc, COMPILE_LIMIT) {
        Ok(_) => Ok(true),
        Err(error) if error.is::<process::Stopped>() => Err(error),
        // Where there is no room, not even gcc's complaint may have been written.
        Err(error) if free_space(dir.path()).is_ok_and(|free| free < ROOM) => {
            Err(error.context(unwritable()))
        }
        Err(_) => Ok(false),
    }
}

/// What is missing here, in the order of [`Need::ALL`].
///
/// # Errors
/// Only when interrupted or when no test program can be written.
pub fn missing(manager: Option<Manager>) -> Result<Vec<Need>> {
    let mut missing = Vec::new();
    for need in Need::ALL {
        if need.concerns(manager) && !need.is_met()? {
            missing.push(need);
        }
    }
    Ok(missing)
}

/// The version of QEMU's `program`, if it is installed and says.
///
/// # Errors
/// Only when interrupted.
pub(super) fn qemu_version(program: &str) -> Result<Option<QemuVersion>> {
    Ok(first_line(program)?.and_then(|l| QemuVersion::parse(&l)))
}

/// The first line of `program --version`, if there is such a program.
///
/// # Errors
/// Only when interrupted.
pub(super) fn first_line(program: &str) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command.arg("--version");
    match process::read("asking a version", command, VERSION_LIMIT) {
        Ok(text) => Ok(text.lines().next().map(str::to_owned)),
        Err(error) if error.is::<process::Stopped>() => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_looked_for_by_linking() {
        // Whoever runs this has a linker for Rust, hence a C compiler under this or
        // another name; only with gcc is there anything to see.
        if process::which("gcc").is_some() {
            assert!(links("int main(void) { return 0; }\n", "-lc").unwrap());
        }
        assert!(!links("int main(void) { return 0; }\n", "-lno-such-library").unwrap());
        assert!(!links("#include <no-such-header.h>\n", "-lc").unwrap());
    }

    #[test]
    fn only_apt_systems_need_debian_tools() {
        assert!(Need::DebianKeys.concerns(Some(Manager::Apt)));
        assert!(!Need::DebianKeys.concerns(Some(Manager::Dnf)) && !Need::DpkgDeb.concerns(None));
        assert!(Need::Qemu.concerns(None));
    }

    #[test]
    fn a_browser_is_missing_only_where_a_package_has_one() {
        let missing = |release: &str| missing_for_tests(&Distro::parse(release), false).unwrap();
        assert_eq!(missing("ID=ubuntu\nID_LIKE=debian\n"), []);
        assert_eq!(missing("ID=unheard-of\n"), []);
        let want: &[Need] = if browser().is_some() {
            &[]
        } else {
            &[Need::Browser]
        };
        assert_eq!(missing("ID=debian\n"), want);
    }
}
