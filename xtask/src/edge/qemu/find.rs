// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds QEMU and asks it what it is.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{core::qemu_version::QemuVersion, edge::process};

/// The program looked for.
const PROGRAM: &str = "qemu-system-x86_64";
/// How long it may take to say its version: it starts in tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a QEMU that only emulates a machine never does.
pub(super) const SANDBOX: &str =
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// A QEMU that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// Where it is.
    pub program: PathBuf,
    /// Its version.
    pub version: QemuVersion,
    /// Its own words: version and packager.
    pub banner: String,
    /// Whether it can fence itself in (seccomp) on this host.
    pub sandbox: bool,
}

/// The QEMU on the PATH, or `program`.
///
/// # Errors
/// When there is none, it does not start, is older than [`QemuVersion::OLDEST`], or does not
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
    let Some(version) = QemuVersion::parse(&text) else {
        bail!(
            "{} does not say its version: `{}`",
            program.display(),
            banner.chars().take(200).collect::<String>()
        );
    };
    if version < QemuVersion::OLDEST {
        bail!(
            "{} is QEMU {version}; {} or newer is needed (`cargo xtask doctor` says how to get it)",
            program.display(),
            QemuVersion::OLDEST
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
