// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ties the edges together for commands: the [`Machine`] that boots a plan's trials, out of
//! the [`Artifacts`] that they need.

mod artifacts;
pub mod bare;
mod checkout;
mod exported;
pub mod history;
pub mod merge;
mod pictures;
pub mod places;
mod shared;
pub mod sides;
mod stored;
pub mod traces;
pub mod tracing;
pub mod wish;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};

use self::artifacts::without_effect;
pub use self::{
    artifacts::{Artifacts, Booted, ReadyKernel},
    checkout::{checkout, known, results},
    exported::exported,
    pictures::draw,
    shared::Shared,
    stored::{Stored, planned, whole_plan},
};
use crate::{
    core::{
        fault::{Fault, Stopped},
        layout::{Layout, lay_out},
        machine::{End, Machine, RawBoot},
        plan::Trial,
        program::Finish,
        scenario::{Clock, ImageSpec, guests_that_fit},
    },
    edge::{
        files::{touch, write_whole},
        host::resources::Resources,
        initramfs::userspace::{self, Image},
        process, qemu,
        store::{Header, ImageRecord, KernelRecord, MachineRecord},
    },
};

/// What one trial boots.
struct Ready {
    kernel: PathBuf,
    initrd: PathBuf,
    layout: Layout,
}

/// The real machine: QEMU with everything that the plan's trials need.
pub struct Rig {
    artifacts: Artifacts,
    records: Vec<KernelRecord>,
    images: BTreeMap<ImageSpec, Image>,
    host: qemu::Host,
    ready: BTreeMap<String, Ready>,
    rom: PathBuf,
    /// What is not as a scenario asked.
    notes: BTreeSet<String>,
    scratch: process::Scratch,
    boots: AtomicU64,
}

impl Rig {
    /// Lays out every trial's devices, writes its initramfs, finds QEMU and, for wall
    /// time, what accelerates it. Says what will not be as a scenario asks.
    ///
    /// # Errors
    /// Usage: a tree or a machine that cannot be. Infrastructure: QEMU is missing or too
    /// old, the disk is full.
    pub fn new(
        artifacts: Artifacts,
        plan: &[Trial],
        accel: qemu::AccelChoice,
        finish: Finish,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let images = images(&artifacts, plan, say)?;
        let mut ready = BTreeMap::new();
        for trial in plan {
            let scenario = &trial.scenario;
            let layout = lay_out(&scenario.devices, &scenario.machine)
                .map_err(|e| Fault::usage(format!("scenario {}: {e}", scenario.name)))?;
            let kernel = artifacts.kernel(&trial.kernel)?.kernel.image.clone();
            let image = trial.variant().image();
            let image = image.and_then(|spec| images.get(&spec));
            let initrd = artifacts.initramfs(trial, &layout, finish, image)?;
            ready.insert(
                trial.id.clone(),
                Ready {
                    kernel,
                    initrd,
                    layout,
                },
            );
        }
        let scenarios = plan.iter().map(|t| &*t.scenario);
        guests_that_fit(scenarios, Resources::here().available).map_err(Fault::usage)?;
        let host = Self::host_for(&artifacts, plan, &ready, accel, say)?;
        let rom = artifacts.cache.root().join("sync.rom");
        write_whole(&rom, &qemu::sync_rom())?;
        let mut rig = Self {
            records: artifacts.records()?,
            artifacts,
            images,
            host,
            ready,
            rom,
            notes: BTreeSet::new(),
            scratch: process::scratch("bootrig-")?,
            boots: AtomicU64::new(0),
        };
        for trial in plan {
            let line = rig.command(trial, rig.scratch.path())?;
            rig.notes.extend(line.notes.iter().map(ToString::to_string));
        }
        rig.notes.extend(without_effect(&rig.records));
        for note in &rig.notes {
            say(&format!("note: {note}"));
        }
        Ok(rig)
    }

    fn host_for(
        artifacts: &Artifacts,
        plan: &[Trial],
        ready: &BTreeMap<String, Ready>,
        accel: qemu::AccelChoice,
        say: &dyn Fn(&str),
    ) -> Result<qemu::Host> {
        let qemu = qemu::find(None)?;
        let wall = plan.iter().find(|t| t.clock == Clock::Wall);
        let (accelerator, tsc_khz) = match wall.and_then(|t| Some((t, ready.get(&t.id)?))) {
            None => (
                qemu::Accelerator::Tcg {
                    why: "virtual time counts instructions".into(),
                },
                None,
            ),
            Some((trial, ready)) => {
                let key = artifacts.kernel(&trial.kernel)?.kernel.key.clone();
                let image = qemu::ProbeImage {
                    kernel: ready.kernel.clone(),
                    initrd: artifacts.probe_initramfs()?,
                    key,
                };
                let accelerator =
                    qemu::choose(accel, &qemu, &image, &artifacts.cache.root().join("probe"))?;
                say(&format!("wall time runs on {accelerator}"));
                (accelerator, qemu::host_tsc_khz())
            }
        };
        Ok(qemu::Host {
            qemu,
            accelerator,
            tsc_khz,
        })
    }

    /// `trial` with its console on the terminal; with `gdb` it waits for a debugger, and
    /// the text says how to start one.
    pub fn interactive(
        &self,
        trial: &Trial,
        gdb: bool,
    ) -> Result<(std::process::Command, Option<String>)> {
        let (files, layout) = self.files(trial, self.scratch.path())?;
        let line = qemu::interactive(&self.host, &files.without_qmp(), trial, layout)?;
        let mut command = line.to_command();
        if !gdb {
            return Ok((command, None));
        }
        let socket = self.scratch.path().join("gdb");
        let vmlinux = self
            .artifacts
            .kernel(&trial.kernel)?
            .kernel
            .kbuild
            .join("vmlinux");
        command.args(qemu::gdb_args(&socket)?);
        Ok((command, Some(qemu::gdb_hint(&vmlinux, &socket))))
    }

    /// The folder in which [`Self::interactive`] leaves its files.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// What is not as the scenarios ask.
    pub fn notes(&self) -> Vec<String> {
        self.notes.iter().cloned().collect()
    }

    /// What is built.
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// The files and the layout that `trial` boots with, in `dir`.
    fn files(&self, trial: &Trial, dir: &Path) -> Result<(qemu::BootFiles, &Layout)> {
        let ready = self
            .ready
            .get(&trial.id)
            .with_context(|| format!("trial {} was not prepared", trial.id))?;
        let files = qemu::BootFiles::below(dir, &ready.kernel, &ready.initrd);
        Ok((files.with_rom(&self.rom), &ready.layout))
    }

    fn command(&self, trial: &Trial, dir: &Path) -> Result<qemu::CommandLine> {
        let (files, layout) = self.files(trial, dir)?;
        Ok(qemu::command(&self.host, &files, trial, layout)?)
    }

    /// The command line of `trial`, to be run by hand: what the machine writes goes to
    /// `dry-run/<trial>/` in the cache.
    pub fn by_hand(&self, trial: &Trial) -> Result<(String, PathBuf)> {
        let dir = self
            .artifacts
            .cache
            .root()
            .join("dry-run")
            .join(trial.file_stem());
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        touch(&dir);
        let (files, layout) = self.files(trial, &dir)?;
        let with_qmp = qemu::command(&self.host, &files, trial, layout)?;
        if with_qmp.attach.is_empty() {
            let line = qemu::command(&self.host, &files.without_qmp(), trial, layout)?;
            return Ok((line.to_string(), dir));
        }
        // It stops, and goes on when it is told to.
        let socket = files.qmp.as_deref().unwrap_or(Path::new("(none)"));
        let mut text = with_qmp.to_string();
        text += &format!(
            "\n# where it stops, it is told through {}, after qmp_capabilities:",
            socket.display()
        );
        for order in &with_qmp.attach {
            text += &format!("\n# {}", order.line());
        }
        Ok((text + "\n# {\"execute\": \"cont\"}", dir))
    }

    /// What run.yaml says about the machine: QEMU's version, and what runs wall time.
    pub fn machine(&self) -> MachineRecord {
        MachineRecord {
            qemu: self.host.qemu.version.to_string(),
            command: qemu::COMMAND,
            accelerator: self.host.accelerator.to_string(),
            init: self.artifacts.init_key(),
            images: self.image_records(),
            notes: self.notes(),
        }
    }

    /// What run.yaml says about the kernels.
    pub fn records(&self) -> Vec<KernelRecord> {
        self.records.clone()
    }

    fn image_records(&self) -> Vec<ImageRecord> {
        let record = |(spec, image): (&ImageSpec, &Image)| ImageRecord {
            image: spec.to_string(),
            key: image.key.clone(),
            packages: image.packages.clone(),
        };
        self.images.iter().map(record).collect()
    }

    /// Checks that this machine would go on with what run `header` began.
    ///
    /// # Errors
    /// Usage: a part is another than it was; names it.
    pub fn same_as(&self, header: &Header) -> Result<()> {
        header.goes_on_with(&self.machine(), &self.records)
    }
}

/// The images of user space that the trials of `plan` boot with, from the cache or made.
fn images(
    artifacts: &Artifacts,
    plan: &[Trial],
    say: &dyn Fn(&str),
) -> Result<BTreeMap<ImageSpec, Image>> {
    let mut images = BTreeMap::new();
    for spec in plan.iter().filter_map(|t| t.variant().image()) {
        if let Entry::Vacant(place) = images.entry(spec) {
            let root = checkout()?;
            let image = userspace::provide(&root, &artifacts.cache, place.key(), say)?;
            place.insert(image);
        }
    }
    Ok(images)
}

impl Rig {
    /// Boots `trial` with what `more` adds to QEMU's arguments; `after` may look at what the
    /// boot left in its folder. Both are given the folder.
    fn boot_with(
        &self,
        trial: &Trial,
        more: &dyn Fn(&Path) -> Result<Vec<String>>,
        after: &dyn Fn(&Path),
    ) -> Result<RawBoot, Stopped> {
        if let Ok(Some(lack)) = self.artifacts.lack(trial) {
            return Ok(RawBoot {
                end: End::NotAvailable(lack),
                ..RawBoot::default()
            });
        }
        let number = self.boots.fetch_add(1, Ordering::Relaxed);
        let dir = self.scratch.path().join(number.to_string());
        let prepared = fs::create_dir(&dir).with_context(|| format!("creating {}", dir.display()));
        let booted = prepared.and_then(|()| {
            let (files, _) = self.files(trial, &dir)?;
            let mut command = self.command(trial, &dir)?;
            command.args.extend(more(&dir)?);
            let limits = qemu::Limits::within(trial.timeout());
            let booted = qemu::boot(&command, &files, &limits);
            after(&dir);
            Ok(booted)
        });
        let _ = fs::remove_dir_all(&dir);
        booted.unwrap_or_else(|error| {
            Ok(RawBoot {
                end: End::Machine(format!("{error:#}")),
                ..RawBoot::default()
            })
        })
    }
}

impl Machine for Rig {
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Stopped> {
        self.boot_with(trial, &|_| Ok(Vec::new()), &|_| {})
    }
}
