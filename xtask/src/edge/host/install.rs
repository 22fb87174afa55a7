// SPDX-License-Identifier: MIT OR Apache-2.0
//! Installing what is missing, with consent.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
    os::fd::AsFd,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    distro::Distro,
    needs::{Need, missing, missing_for_tests},
    packages::{Rights, Situation, Step, plan},
};
use crate::{
    core::fault::{Exit, Fault},
    edge::{
        process::{self, Stopped, interrupted},
        terminal,
    },
};

/// A slow mirror and a slow disk may take this long.
const LIMIT: Duration = Duration::from_secs(3600);

/// What the user wants of an installation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Install without asking (`--yes`).
    pub yes: bool,
    /// Take QEMU from backports where the distribution's own is old.
    pub backports: bool,
    /// What bootrig's own tests need as well.
    pub tests: bool,
    /// What its nightly tests need beside that.
    pub nightly: bool,
}

/// Sees to it that everything a bench needs is here: at once if it is; else after showing
/// the commands and with the user's consent, by [`Wishes::yes`] or at the terminal.
///
/// # Errors
/// [`Exit::Infrastructure`] with the commands to run when there is no consent, no known
/// package manager, or when something is still missing afterwards; [`Stopped`] when
/// interrupted.
pub fn ensure(wishes: Wishes) -> Result<()> {
    let distro = Distro::here();
    let lacking = lacking(&distro, wishes)?;
    if lacking.is_empty() && !wishes.backports {
        return Ok(());
    }
    let situation = Situation::here(&distro, wishes.backports)?;
    let steps = plan(&lacking, &situation);
    if steps.is_empty() {
        if lacking.is_empty() {
            return Ok(());
        }
        return Err(no_manager(&distro, &lacking));
    }
    if situation.rights == Rights::Neither {
        return Err(refused(
            "we are not root and there is no sudo; run as root",
            &lacking,
            &steps,
        ));
    }
    if !wishes.yes && !can_ask() {
        return Err(refused(
            "not installed without consent; pass --yes, or run",
            &lacking,
            &steps,
        ));
    }
    announce(&lacking, &steps, situation.rights);
    if !wishes.yes && !agreed()? {
        return Err(refused(
            "not installed, as you wish; to do it by hand",
            &lacking,
            &steps,
        ));
    }
    carry_out(&steps)?;
    let still = self::lacking(&distro, wishes)?;
    if !still.is_empty() {
        bail!(
            "installed, but still missing: {}; see the package manager's messages above",
            names(&still)
        );
    }
    Ok(())
}

fn lacking(distro: &Distro, wishes: Wishes) -> Result<Vec<Need>> {
    let mut all = missing(distro.manager())?;
    if wishes.tests {
        all.extend(missing_for_tests(distro, wishes.nightly)?);
    }
    Ok(all)
}

/// Names of needs, for messages.
pub fn names(needs: &[Need]) -> String {
    needs
        .iter()
        .map(|n| n.what().0)
        .collect::<Vec<_>>()
        .join(", ")
}

fn no_manager(distro: &Distro, lacking: &[Need]) -> anyhow::Error {
    let message = format!(
        "missing: {}; {} has no package manager that bootrig knows (apt, dnf, pacman, zypper): install them by hand",
        names(lacking),
        distro.name
    );
    Fault {
        exit: Exit::Infrastructure,
        message,
    }
    .into()
}

fn refused(why: &str, lacking: &[Need], steps: &[Step]) -> anyhow::Error {
    let missing = if lacking.is_empty() {
        "a newer QEMU".into()
    } else {
        names(lacking)
    };
    let message = format!("missing: {missing}: {why}:\n{}", indented(steps));
    Fault {
        exit: Exit::Infrastructure,
        message,
    }
    .into()
}

fn indented(steps: &[Step]) -> String {
    // A here-document ends only at the start of a line, so files are not indented.
    let line = |s: &Step| {
        if matches!(s, Step::Run(_)) {
            format!("  {s}")
        } else {
            s.to_string()
        }
    };
    steps.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn announce(lacking: &[Need], steps: &[Step], rights: Rights) {
    for need in lacking {
        let (name, purpose) = need.what();
        terminal::say(&format!("missing: {name} ({purpose})"));
    }
    let with = if rights == Rights::Sudo {
        " (with sudo, as we are not root)"
    } else {
        ""
    };
    terminal::say(&format!("to install{with}:\n{}", indented(steps)));
}

/// Whether there is somebody to ask.
fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks at the terminal.
fn agreed() -> Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = io::stdin();
    io::stderr().write_all(b"install now? [y/N] ")?;
    // The terminal gives whole lines; until one is there, Ctrl-C must be heard.
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    loop {
        if interrupted() {
            return Err(Stopped.into());
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error).context("waiting for an answer at the terminal"),
        }
    }
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn carry_out(steps: &[Step]) -> Result<()> {
    for step in steps {
        let what = "installing packages";
        match step {
            Step::Run(argv) => {
                terminal::say(&format!("+ {step}"));
                run(what, Step::command(argv))?;
            }
            Step::Write { path, text, rights } => {
                terminal::say(&format!("+ writing {path}"));
                write(what, Path::new(path), text, *rights)?;
            }
        }
    }
    Ok(())
}

fn run(what: &str, mut command: Command) -> Result<()> {
    // Standard output is for results (`--json`): what packages say is progress.
    command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
    process::attached(what, command, LIMIT)
}

fn write(what: &str, path: &Path, text: &str, rights: Rights) -> Result<()> {
    let dir = process::scratch("bootrig-install-")?;
    let file = dir.path().join("file");
    fs::write(&file, text)?;
    let sudo = (rights == Rights::Sudo).then_some("sudo");
    let argv = sudo
        .into_iter()
        .chain(["install", "-m", "644"])
        .map(str::to_owned);
    let argv: Vec<_> = argv
        .chain([file.display().to_string(), path.display().to_string()])
        .collect();
    run(what, Step::command(&argv))
}
