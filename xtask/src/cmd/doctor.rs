// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask doctor`: what this machine has, what it lacks and what mends that, and how
//! a bench would run on it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use crate::{
    core::{fault::Exit, qemu_version::QemuVersion, units::Bytes},
    edge::{
        cache::Cache,
        files::free_space,
        host::{
            distro::Distro,
            fingerprint::Fingerprint,
            install::{self, Wishes},
            needs::{self, Need},
            packages::{self, Situation, Step},
            resources::Resources,
        },
        process::{Stopped, which},
        qemu::{self, Accelerator},
        terminal,
    },
};

/// What a first bench takes, as the README has it: a source of 1.5 GB, whose files the trees of
/// stock and patched share, with 0.2 GB of output each; and what a build wants to find free.
const ROOM: Bytes = Bytes(3 << 30);
/// A guest's memory, QEMU's own, and some.
const MEMORY: Bytes = Bytes(1 << 30);

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Install what is missing.
    #[arg(long)]
    yes: bool,
    /// Take QEMU from the distribution's backports where its own is older than 8.1; adds
    /// them to apt's sources. Asks, unless with --yes.
    #[arg(long)]
    backports: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Everything that doctor has to say; `--json` prints it as it is.
#[derive(Debug, Serialize)]
struct Diagnosis {
    schema: u32,
    /// Whether a bench can run as things are.
    ready: bool,
    host: Fingerprint,
    tools: Vec<Tool>,
    /// What installs the missing ones.
    commands: Vec<Step>,
    clocks: Clocks,
    cache: Space,
    memory_available: Bytes,
    /// What is worth knowing, or doing by hand.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Tool {
    need: Need,
    name: &'static str,
    purpose: &'static str,
    here: bool,
}

/// How each clock would run, and why so.
#[derive(Debug, Serialize)]
struct Clocks {
    r#virtual: String,
    wall: String,
}

#[derive(Debug, Serialize)]
struct Space {
    path: PathBuf,
    free: Option<Bytes>,
}

/// Diagnoses, after installing if that was asked for.
///
/// Exits with [`Exit::Infrastructure`] when a bench could not run.
///
/// # Errors
/// When something could not be installed; when interrupted.
pub fn run(args: &Args) -> Result<Exit> {
    if args.yes || args.backports {
        install::ensure(Wishes {
            yes: args.yes,
            backports: args.backports,
            ..Wishes::default()
        })?;
    }
    let diagnosis = diagnose()?;
    if args.json {
        terminal::out_line(&serde_json::to_string_pretty(&diagnosis)?)?;
    } else {
        terminal::out(&text(&diagnosis))?;
    }
    Ok(if diagnosis.ready {
        Exit::Done
    } else {
        Exit::Infrastructure
    })
}

fn diagnose() -> Result<Diagnosis> {
    let distro = Distro::here();
    let manager = distro.manager();
    let missing = needs::missing(manager)?;
    let situation = Situation::here(&distro, false)?;
    let qemu = situation.qemu;
    let cache = Cache::open(&terminal::say)?.root().to_owned();
    let free = free_space(&cache).ok();
    let memory_available = Resources::here().available;
    let tool = |need: Need| {
        let (name, purpose) = need.what();
        Tool {
            need,
            name,
            purpose,
            here: !missing.contains(&need),
        }
    };
    let mut notes = notes(qemu, &situation);
    if free.is_some_and(|f| f < ROOM) {
        notes.push(format!("less than {ROOM} free for the cache: a first bench takes 2 GB there, and 1 GiB more while it builds; `cargo xtask clean`, or set BOOTRIG_CACHE"));
    }
    if memory_available < MEMORY {
        notes.push(format!(
            "less than {MEMORY} of memory free: boot fewer machines side by side (`bench --jobs 1`)"
        ));
    }
    if manager.is_none() && !missing.is_empty() {
        notes.push("no package manager that bootrig knows (apt, dnf, pacman, zypper): install what is missing by hand".into());
    }
    Ok(Diagnosis {
        schema: 1,
        ready: missing.is_empty() && qemu.is_some_and(|v| v >= QemuVersion::OLDEST),
        host: Fingerprint::take()?,
        tools: Need::ALL
            .into_iter()
            .filter(|n| n.concerns(manager))
            .map(tool)
            .collect(),
        commands: packages::plan(&missing, &situation),
        clocks: Clocks {
            r#virtual: virtual_clock(qemu),
            wall: wall_clock(&cache)?,
        },
        cache: Space { path: cache, free },
        memory_available,
        notes,
    })
}

fn virtual_clock(qemu: Option<QemuVersion>) -> String {
    match qemu {
        None => "not without QEMU".into(),
        Some(v) if v < QemuVersion::OLDEST => format!(
            "QEMU {v} is too old: {} or newer is needed",
            QemuVersion::OLDEST
        ),
        Some(v) if v < QemuVersion::MANY_CPUS => format!(
            "QEMU {v} (TCG) counts instructions, but only with one guest CPU: several need QEMU {}",
            QemuVersion::MANY_CPUS
        ),
        Some(v) => format!("QEMU {v} (TCG) counts instructions, with any number of guest CPUs"),
    }
}

/// A `/dev/kvm` that opens proves nothing, and what proves something is a boot, for which
/// there may be no kernel yet. So without the answer of an earlier probe this only says
/// what the first bench will do.
fn wall_clock(cache: &Path) -> Result<String> {
    if which("qemu-system-x86_64").is_none() {
        return Ok("not without QEMU".into());
    }
    let tcg = |why: String| format!("multi-threaded TCG, because {why}");
    if let Some(why) = qemu::kvm_missing() {
        return Ok(tcg(why));
    }
    let qemu = match qemu::find(None) {
        Ok(qemu) => qemu,
        Err(error) if error.is::<Stopped>() => return Err(error),
        Err(error) => return Ok(format!("not with this QEMU: {error:#}")),
    };
    Ok(match qemu::remembered(&qemu, &cache.join("probe")) {
        Some(Accelerator::Kvm) => "KVM, because a probe boot showed that it works here".into(),
        Some(Accelerator::Tcg { why }) => tcg(why),
        None => "KVM if a probe boot shows that it works here, else multi-threaded TCG; the first bench by the wall clock finds out".into(),
    })
}

fn notes(qemu: Option<QemuVersion>, situation: &Situation) -> Vec<String> {
    let mut notes = Vec::new();
    let old = qemu.is_none_or(|v| v < QemuVersion::MANY_CPUS);
    if let Some(backports) = situation
        .backports
        .as_ref()
        .filter(|b| old && !b.configured)
    {
        let now = qemu.map_or("this distribution's QEMU, 7.2".into(), |v| {
            format!("QEMU {v}")
        });
        notes.push(format!("{now} boots one CPU in virtual time; {} has a newer one: cargo xtask doctor --backports", backports.suite));
    } else if qemu.is_some() && old {
        let configured = situation.backports.is_some();
        let how = if configured {
            "cargo xtask doctor --backports takes it from the configured backports"
        } else {
            "upgrade it when you can"
        };
        notes.push(format!(
            "QEMU {} and newer boot several CPUs in virtual time: {how}",
            QemuVersion::MANY_CPUS
        ));
    }
    if which("ccache").is_none() {
        notes.push("optional: with ccache, kernels that were built before are built faster".into());
    }
    notes
}

fn text(d: &Diagnosis) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let host = &d.host;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{}, Linux {}, {} x {}, {}",
        host.distribution, host.kernel, host.cpus, host.cpu, host.memory
    );
    for tool in &d.tools {
        let mark = if tool.here { "ok     " } else { "MISSING" };
        let _ = writeln!(out, "  {mark}  {:<22} {}", tool.name, tool.purpose);
    }
    let _ = writeln!(out, "virtual time   {} (the default)", d.clocks.r#virtual);
    let _ = writeln!(out, "wall time      {}", d.clocks.wall);
    let mib = |b: Bytes| format!("{} MiB", b.0 >> 20);
    let free = d.cache.free.map_or("unknown".into(), mib);
    let _ = writeln!(
        out,
        "cache          {free} free at {}",
        d.cache.path.display()
    );
    let _ = writeln!(out, "memory         {} available", mib(d.memory_available));
    for note in &d.notes {
        let _ = writeln!(out, "note           {note}");
    }
    if !d.commands.is_empty() {
        let _ = writeln!(
            out,
            "to install what is missing, `cargo xtask doctor --yes`, or:"
        );
        for step in &d.commands {
            let _ = writeln!(out, "{step}");
        }
    }
    let _ = writeln!(
        out,
        "{}",
        if d.ready {
            "a bench can run"
        } else {
            "a bench cannot run yet"
        }
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_old_one_new_one_no_qemu() {
        let text = |v| virtual_clock(v);
        assert!(text(Some(QemuVersion(7, 2, 22))).contains("only with one guest CPU"));
        assert!(text(Some(QemuVersion(10, 0, 2))).contains("any number"));
        assert!(text(Some(QemuVersion(6, 2, 0))).contains("too old"));
        assert!(text(None).contains("not without"));
    }

    #[test]
    fn json_and_text_say_the_same() {
        let diagnosis = diagnose().unwrap();
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["ready"], diagnosis.ready);
        let text = text(&diagnosis);
        let missing = diagnosis.tools.iter().filter(|t| !t.here).count();
        assert_eq!(text.matches("MISSING").count(), missing);
        assert_eq!(text.contains("cannot run yet"), !diagnosis.ready);
        assert!(missing == 0 || !diagnosis.ready);
    }
}
