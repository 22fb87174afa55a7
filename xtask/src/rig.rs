// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ties the edges together for commands: builds every artifact that a plan needs, and is
//! the [`Machine`] that boots its trials.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};

use crate::{
    core::{
        fault::Fault,
        layout::{Layout, lay_out},
        machine::{End, Interrupted, Machine, RawBoot},
        plan::{KernelSpec, Trial},
        program::{self, Finish},
        scenario::{Clock, Known, Restart},
    },
    edge::{
        cache::{Cache, write_whole},
        initramfs,
        kernel::{self, Kernel},
        module, process, qemu, scenarios,
        store::{Header, KernelRecord},
    },
};

/// The checkout's folder.
///
/// # Errors
/// When this program was not started through cargo and the checkout it was built from is
/// gone.
pub fn checkout() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = manifest
        .parent()
        .map(Path::to_path_buf)
        .filter(|r| r.join("scenarios").is_dir());
    root.with_context(|| {
        format!(
            "{} is not in a checkout of bootrig; start this program as `cargo xtask`",
            manifest.display()
        )
    })
}

/// What scenario files of the checkout may name: profiles, series and kernels.
pub fn known(root: &Path) -> Result<Known> {
    let kernels = kernel::names(root)?.into_iter().collect();
    Ok(Known {
        kernels: Some(kernels),
        ..scenarios::known(root)?
    })
}

/// A kernel and the guest modules built against it.
pub struct Booted {
    /// The kernel.
    pub kernel: Kernel,
    /// The folder with `marks.ko` and `dummy_pci.ko`.
    pub modules: PathBuf,
}

/// Everything that is built before anything boots.
pub struct Artifacts {
    cache: Cache,
    init: PathBuf,
    kernels: BTreeMap<KernelSpec, Booted>,
}

/// `--kernel BZIMAGE --kbuild DIR`: a kernel that was built elsewhere.
pub type ReadyKernel = Option<(PathBuf, PathBuf)>;

impl Artifacts {
    /// Builds, or takes from the cache, PID 1 and every kernel of `plan` with its modules.
    /// `ready` stands in for all kernels. `say` is given one line a step.
    pub fn provide(
        root: &Path,
        cache: Cache,
        plan: &[Trial],
        ready: &ReadyKernel,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let init = initramfs::init_binary(root, &cache, say)?;
        let mut kernels = BTreeMap::new();
        for trial in plan {
            let spec = &trial.kernel;
            if kernels.contains_key(spec) {
                continue;
            }
            let kernel = match ready {
                Some((image, kbuild)) => Kernel::ready(image, kbuild)?,
                None => kernel::provide(root, &cache, spec, say)?,
            };
            let kbuild = || match ready {
                Some(_) => Ok(kernel.kbuild.clone()),
                None => kernel::checked_kbuild(root, &cache, spec, &kernel, say),
            };
            let modules = module::provide(root, &cache, &kernel.key, &kbuild, say)?;
            kernels.insert(spec.clone(), Booted { kernel, modules });
        }
        Ok(Self {
            cache,
            init,
            kernels,
        })
    }

    /// The kernel of `spec`, and its modules.
    pub fn kernel(&self, spec: &KernelSpec) -> Result<&Booted> {
        self.kernels
            .get(spec)
            .with_context(|| format!("kernel {spec} was not provided"))
    }

    /// What run.yaml says about the kernels.
    pub fn records(&self) -> Vec<KernelRecord> {
        let record = |(spec, booted): (&KernelSpec, &Booted)| KernelRecord {
            spec: spec.clone(),
            key: booted.kernel.key.clone(),
            source: booted.kernel.source.clone(),
            release: booted.kernel.release.clone(),
            compiler: booted.kernel.compiler.clone(),
            modules: booted
                .modules
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        self.kernels.iter().map(record).collect()
    }

    /// The initramfs of `trial`.
    fn initramfs(&self, trial: &Trial, layout: &Layout, finish: Finish) -> Result<PathBuf> {
        let booted = self.kernel(&trial.kernel)?;
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
        let mut archive = initramfs::Archive::new();
        archive.file("init", 0o755, read(&self.init)?)?;
        for module in ["marks.ko", "dummy_pci.ko"] {
            archive.file(
                &format!("bootrig/{module}"),
                0o644,
                read(&booted.modules.join(module))?,
            )?;
        }
        if trial.variant().restart == Restart::Kexec {
            archive.file(program::KEXEC_KERNEL, 0o644, read(&booted.kernel.image)?)?;
        }
        for (path, bytes) in program::files(trial, &layout.paths, finish) {
            archive.file(&path, 0o644, bytes)?;
        }
        self.keep(&archive)
    }

    /// The initramfs of a guest that only reboots and reports.
    fn probe_initramfs(&self) -> Result<PathBuf> {
        let mut archive = initramfs::Archive::new();
        let init =
            fs::read(&self.init).with_context(|| format!("reading {}", self.init.display()))?;
        archive.file("init", 0o755, init)?;
        archive.file("bootrig/plan", 0o644, program::PROBE_PLAN)?;
        self.keep(&archive)
    }

    /// Writes an initramfs into the cache, named by its contents.
    fn keep(&self, archive: &initramfs::Archive) -> Result<PathBuf> {
        let bytes = archive.to_bytes();
        let folder = self.cache.root().join("initramfs");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join(format!("{}.cpio", blake3::hash(&bytes).to_hex()));
        // Named by its contents, but the disk may have lost them: compare, do not trust.
        if fs::read(&path).ok().as_ref() != Some(&bytes) {
            write_whole(&path, &bytes).map_err(|e| self.cache.explain(e))?;
        }
        Ok(path)
    }
}

/// What one trial boots.
struct Ready {
    kernel: PathBuf,
    initrd: PathBuf,
    layout: Layout,
}

/// The real machine: QEMU with everything that the plan's trials need.
pub struct Rig {
    artifacts: Artifacts,
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
        let mut ready = BTreeMap::new();
        for trial in plan {
            let scenario = &trial.scenario;
            let layout = lay_out(&scenario.devices, scenario.machine.kind)
                .map_err(|e| Fault::usage(format!("scenario {}: {e}", scenario.name)))?;
            let kernel = artifacts.kernel(&trial.kernel)?.kernel.image.clone();
            let initrd = artifacts.initramfs(trial, &layout, finish)?;
            ready.insert(
                trial.id.clone(),
                Ready {
                    kernel,
                    initrd,
                    layout,
                },
            );
        }
        let host = Self::host_for(&artifacts, plan, &ready, accel, say)?;
        let rom = artifacts.cache.root().join("sync.rom");
        write_whole(&rom, &qemu::sync_rom())?;
        let mut rig = Self {
            artifacts,
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
    pub fn by_hand(&self, trial: &Trial) -> Result<String> {
        let dir = self
            .artifacts
            .cache
            .root()
            .join("dry-run")
            .join(trial.id.replace('/', "."));
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let (files, layout) = self.files(trial, &dir)?;
        Ok(qemu::command(&self.host, &files.without_qmp(), trial, layout)?.to_string())
    }

    /// What run.yaml says about the machine: QEMU's version, and what runs wall time.
    pub fn machine(&self) -> serde_json::Value {
        serde_json::json!({
            "qemu": self.host.qemu.version.to_string(),
            "accelerator": self.host.accelerator.to_string(),
            "notes": self.notes,
        })
    }

    /// Checks that this machine would go on with what run `header` began.
    ///
    /// # Errors
    /// Usage: QEMU or a kernel is another than it was.
    pub fn same_as(&self, header: &Header) -> Result<()> {
        let now = (self.machine(), self.artifacts.records());
        if (&now.0, &now.1) != (&header.machine, &header.kernels) {
            let why = format!(
                "run {} was begun with another QEMU, kernel or compiler; its numbers would not belong together: begin a new run",
                header.id
            );
            return Err(Fault::usage(why).into());
        }
        Ok(())
    }
}

impl Machine for Rig {
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Interrupted> {
        let number = self.boots.fetch_add(1, Ordering::Relaxed);
        let dir = self.scratch.path().join(number.to_string());
        let prepared = fs::create_dir(&dir).with_context(|| format!("creating {}", dir.display()));
        let booted = prepared.and_then(|()| {
            let (files, _) = self.files(trial, &dir)?;
            let command = self.command(trial, &dir)?;
            Ok(qemu::boot(
                &command,
                &files,
                &qemu::Limits::within(trial.timeout()),
            ))
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
