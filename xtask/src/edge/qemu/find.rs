// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds QEMU and asks it what it is.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::edge::process;

/// The program looked for.
const PROGRAM: &str = "qemu-system-x86_64";
/// How long it may take to say its version: it starts in tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a QEMU that only emulates a machine never does.
pub(super) const SANDBOX: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// QEMU's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The 10 of 10.0.2.
    pub major: u32,
    /// The 0.
    pub minor: u32,
    /// The 2.
    pub micro: u32,
}

impl Version {
    /// The oldest that this has been tried with.
    pub const OLDEST: Self = Self {
        major: 7,
        minor: 2,
        micro: 0,
    };
    /// From here on several CPUs can count instructions together. Before, the second CPU
    /// never comes up.
    pub const SMP_ICOUNT: Self = Self {
        major: 8,
        minor: 1,
        micro: 0,
    };

    /// From the first line of `--version`: `QEMU emulator version 10.0.2 (Debian ...)`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = text
            .lines()
            .next()?
            .strip_prefix("QEMU emulator version ")?;
        let number = number
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .next()?;
        let mut parts = number.split('.').map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            micro: next().unwrap_or(0),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

/// A QEMU that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// Where it is.
    pub program: PathBuf,
    /// Its version.
    pub version: Version,
    /// Its own words: version and packager.
    pub banner: String,
    /// Whether it can fence itself in (seccomp) on this host.
    pub sandbox: bool,
}

/// The QEMU on the PATH, or `program`.
///
/// # Errors
/// When there is none, it does not start, is older than [`Version::OLDEST`], or does not
/// say its version.
pub fn find(program: Option<&Path>) -> Result<Qemu> {
    let program = match program {
        Some(given) => given.to_owned(),
        None => process::which(PROGRAM).with_context(|| {
            format!("{PROGRAM} is not on the PATH; `cargo xtask doctor` says how to install it")
        })?,
    };
    let mut ask = Command::new(&program);
    ask.arg("--version");
    let text = process::read("asking QEMU for its version", ask, PATIENCE)?;
    let banner = text.lines().next().unwrap_or_default().trim().to_owned();
    let Some(version) = Version::parse(&text) else {
        bail!(
            "{} does not say its version: `{}`",
            program.display(),
            banner.chars().take(200).collect::<String>()
        );
    };
    if version < Version::OLDEST {
        bail!(
            "{} is QEMU {version}; {} or newer is needed (`cargo xtask doctor` says how to get it)",
            program.display(),
            Version::OLDEST
        );
    }
    let sandbox = has_sandbox(&program)?;
    Ok(Qemu {
        program,
        version,
        banner,
        sandbox,
    })
}

/// Tries the sandbox for real: QEMU may be built without it, and a container may forbid
/// it. `-cpu help` makes QEMU put the fence up, list its CPU models, and end.
fn has_sandbox(program: &Path) -> Result<bool> {
    let mut attempt = Command::new(program);
    attempt.args(["-sandbox", SANDBOX, "-M", "none", "-cpu", "help"]);
    match process::read("trying QEMU's sandbox", attempt, PATIENCE) {
        Ok(_) => Ok(true),
        Err(error) if error.is::<process::Stopped>() => Err(error),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let v = |major, minor, micro| {
            Some(Version {
                major,
                minor,
                micro,
            })
        };
        assert_eq!(
            Version::parse("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"),
            v(10, 0, 2)
        );
        assert_eq!(Version::parse("QEMU emulator version 7.2.22"), v(7, 2, 22));
        assert_eq!(Version::parse("QEMU emulator version 9.1"), v(9, 1, 0));
        assert_eq!(
            Version::parse("QEMU emulator version 9.1.0-rc2"),
            v(9, 1, 0)
        );
        for junk in [
            "",
            "QEMU emulator version",
            "QEMU emulator version x.y",
            "qemu 9.1.0",
            "QEMU emulator version 99999999999.1",
        ] {
            assert_eq!(Version::parse(junk), None, "{junk}");
        }
        assert!(v(7, 2, 22) < v(8, 1, 0) && v(8, 1, 0) < v(10, 0, 2));
    }
}
