// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots that the tracer watches. They are boots of their own: what it sees is kept apart from
//! the samples.

use std::{
    cell::Cell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::{Context, Result};

use super::{
    Rig,
    wish::{Wish, symbols},
};
use crate::{
    core::{
        fault::{Fault, Stopped},
        machine::{Machine, RawBoot},
        plan::{KernelSpec, Trial},
        scenario::Clock,
        trace::{
            modules::{self, Module},
            names::{self, Names},
            parse::{Trace, parse},
            record::{Record, record},
            spec::{Mode, Spec, spec},
            symbols::Symbols,
        },
    },
    edge::{
        files::{read_file, write_whole},
        process, qemu,
        tracer::{self, Tracer},
    },
};

/// The longest trace or module that is read.
const MOST_BYTES: u64 = 2 << 30;

/// What was seen of one boot.
pub struct Seen {
    /// To be kept.
    pub record: Record,
    /// Window and folded stacks.
    pub folded: Vec<(String, String)>,
    /// What is not as asked.
    pub notes: Vec<String>,
}

struct Known {
    symbols: Symbols,
    spec: Spec,
    file: PathBuf,
}

/// A machine that boots trials with the tracer.
pub struct Tracing<'a> {
    rig: &'a Rig,
    library: PathBuf,
    wish: Wish,
    kernels: BTreeMap<KernelSpec, Known>,
    seen: Mutex<BTreeMap<String, Result<Seen, String>>>,
}

impl<'a> Tracing<'a> {
    /// Ready to boot the trials of `plan`; the reason, where they cannot be traced.
    ///
    /// # Errors
    /// Usage: symbols that are none, an unknown function to mark. Anything else: the tracer's
    /// build.
    pub fn new(
        root: &Path,
        rig: &'a Rig,
        plan: &[Trial],
        wish: Wish,
        say: &dyn Fn(&str),
    ) -> Result<Result<Self, String>> {
        if let Some(why) = refused(rig, plan, &wish) {
            return Ok(Err(why));
        }
        let mut kernels = BTreeMap::new();
        for trial in plan {
            if kernels.contains_key(&trial.kernel) {
                continue;
            }
            let file = rig.scratch.path().join(format!("spec-{}", kernels.len()));
            let known = known(rig, trial, &wish, file)?;
            kernels.insert(trial.kernel.clone(), known);
        }
        let qemu = &rig.host.qemu;
        let cache = &rig.artifacts.cache;
        let library = match tracer::provide(root, cache, &qemu.program, qemu.version, say)? {
            Tracer::Ready { library, .. } => library,
            Tracer::Missing(why) => return Ok(Err(why)),
        };
        Ok(Ok(Self {
            rig,
            library,
            wish,
            kernels,
            seen: Mutex::default(),
        }))
    }

    /// What was seen of `trial`, once.
    ///
    /// # Errors
    /// Why nothing can be said of it.
    pub fn take(&self, trial: &Trial) -> Option<Result<Seen, String>> {
        self.seen
            .lock()
            .expect("no holder panics")
            .remove(&trial.id)
    }

    /// What QEMU is told beside, for `trial` in the folder `dir`.
    ///
    /// # Errors
    /// A path that is no text.
    pub fn arguments(&self, trial: &Trial, dir: &Path) -> Result<Vec<String>> {
        let known = self
            .kernels
            .get(&trial.kernel)
            .context("a kernel that was prepared")?;
        let text = |path: &Path| {
            path.to_str()
                .map(str::to_owned)
                .with_context(|| format!("{} is no text", path.display()))
        };
        let (spec, out) = (text(&known.file)?, text(&dir.join("trace"))?);
        let counting = if trial.clock == Clock::Virtual {
            "on"
        } else {
            "off"
        };
        let arguments = [
            ("spec", spec.as_str()),
            ("out", &out),
            ("counting", counting),
        ];
        Ok(vec![
            "-plugin".into(),
            tracer::argument(&self.library, &arguments)?,
        ])
    }

    fn trace(&self, trial: &Trial, dir: &Path) -> Result<Trace, String> {
        let bytes = read_file(&dir.join("trace"), MOST_BYTES)
            .map_err(|e| format!("the tracer wrote nothing that can be read: {e}"))?;
        let text = String::from_utf8(bytes).map_err(|_| "the tracer's file is no text")?;
        let trace = parse(&text).map_err(|e| e.to_string())?;
        names::check(&self.kernels[&trial.kernel].symbols, &trace)?;
        Ok(trace)
    }

    /// What was seen of `trial`, whose boot left its files in `dir`; or why nothing can be said
    /// of it.
    ///
    /// # Errors
    /// The user asked to stop while it was added up.
    pub fn look(&self, trial: &Trial, dir: &Path) -> Result<Result<Seen, String>, Stopped> {
        let trace = match self.trace(trial, dir) {
            Ok(trace) => trace,
            Err(why) => return Ok(Err(why)),
        };
        let known = &self.kernels[&trial.kernel];
        let (modules, mut notes) = self.modules(trial, &trace);
        let names = Names {
            known: &known.spec.names,
            modules: &modules,
            symbols: Some(&known.symbols),
        };
        let boot = format!("{}/{}", trial.scenario.name, trial.variant().name);
        let qemu = self.rig.host.qemu.version.to_string();
        let what = [boot, trial.kernel.to_string(), qemu];
        let (record, folded) = record(
            what,
            trial.scenario.point.clone(),
            &trace,
            &names,
            &self.wish.windows,
            &process::interrupted,
        )?;
        if !record.complete {
            notes.push(
                "the machine was ended before the tracer was done: what is cut says so".into(),
            );
        }
        if self.wish.profile && !record.stacks {
            notes.push(format!(
                "calls were not followed: QEMU {} does not let a plugin read the guest's stack (9.2 and newer do)",
                self.rig.host.qemu.version
            ));
        }
        Ok(Ok(Seen {
            record,
            folded,
            notes,
        }))
    }

    fn modules(&self, trial: &Trial, trace: &Trace) -> (Vec<Module>, Vec<String>) {
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        let Ok(booted) = self.rig.artifacts.kernel(&trial.kernel) else {
            return (found, notes);
        };
        for copy in &trace.modules {
            let Some(name) = modules::name(copy) else {
                continue;
            };
            let placed = booted
                .module(&format!("{name}.ko"))
                .and_then(|path| {
                    read_file(&path, MOST_BYTES).with_context(|| path.display().to_string())
                })
                .map_err(|e| format!("module {name}: {e:#}"))
                .and_then(|file| modules::place(&file, copy));
            match placed {
                Ok(module) => found.push(module),
                Err(why) => notes.push(format!("{why}; its functions have no names")),
            }
        }
        notes.dedup();
        (found, notes)
    }
}

impl Machine for Tracing<'_> {
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Stopped> {
        let stopped = Cell::new(None);
        let arguments = |dir: &Path| self.arguments(trial, dir);
        let raw = self
            .rig
            .boot_with(trial, &arguments, &|dir| match self.look(trial, dir) {
                Ok(seen) => {
                    let mut all = self.seen.lock().expect("no holder panics");
                    all.insert(trial.id.clone(), seen);
                }
                Err(why) => stopped.set(Some(why)),
            })?;
        stopped.take().map_or(Ok(raw), Err)
    }
}

/// Why trials of `plan` cannot be traced as wished.
fn refused(rig: &Rig, plan: &[Trial], wish: &Wish) -> Option<String> {
    let wall = plan.iter().any(|t| t.clock == Clock::Wall);
    if wall && rig.host.accelerator == qemu::Accelerator::Kvm {
        return Some("KVM runs the guest's instructions, which QEMU then does not see (--accel tcg, or virtual time)".into());
    }
    if wall && wish.profile {
        return Some(
            "a profile counts instructions, which only virtual time does (--clock virtual)".into(),
        );
    }
    None
}

fn known(rig: &Rig, trial: &Trial, wish: &Wish, file: PathBuf) -> Result<Known> {
    let kernel = &rig.artifacts.kernel(&trial.kernel)?.kernel;
    let vmlinux = kernel.kbuild.join("vmlinux");
    let path = match (&wish.symbols, &kernel.system_map) {
        (Some(given), _) => given,
        (None, Some(map)) => map,
        (None, None) if vmlinux.is_file() => &vmlinux,
        (None, None) => {
            let why = format!(
                "kernel {} has neither System.map nor vmlinux in {}: name one of them with --symbols",
                trial.kernel,
                kernel.kbuild.display()
            );
            return Err(Fault::usage(why).into());
        }
    };
    let symbols = symbols(path)?;
    let mode = if wish.profile {
        Mode::Profile
    } else {
        Mode::Marks
    };
    // As on QEMU's command line.
    let shift = if trial.clock == Clock::Virtual {
        qemu::SHIFT
    } else {
        0
    };
    let spec = spec(&symbols, mode, shift, &wish.marks)
        .map_err(|why| Fault::usage(format!("--mark: {why}")))?;
    write_whole(&file, spec.text.as_bytes())?;
    Ok(Known {
        symbols,
        spec,
        file,
    })
}
