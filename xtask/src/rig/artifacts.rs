// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that is built before anything boots.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::shared::Shared;
use crate::{
    core::{
        layout::Layout,
        plan::{KernelSpec, Trial},
        probing,
        program::{self, Finish},
        scenario::Restart,
    },
    edge::{
        cache::Cache,
        files::{touch, write_whole},
        initramfs::{self, userspace::Image},
        kernel::{self, BuildTree, Kernel},
        module,
        store::KernelRecord,
    },
};

/// A kernel and the guest modules built against it.
#[derive(Clone)]
pub struct Booted {
    /// The kernel.
    pub kernel: Kernel,
    /// The folder with their `*.ko` files; `None`: they are a part of the kernel.
    pub modules: Option<PathBuf>,
}

impl Booted {
    /// The kernel of `spec` with its modules, from the cache, or built.
    ///
    /// # Errors
    /// As [`kernel::provide`] and [`module::provide`].
    pub fn provide(
        root: &Path,
        cache: &Cache,
        spec: &KernelSpec,
        tree: BuildTree,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let kernel = kernel::provide(root, cache, spec, tree, say)?;
        let kbuild = || kernel::checked_kbuild(root, cache, spec, &kernel, say);
        Self::with_modules(root, cache, spec, &kernel, &kbuild, say)
    }

    /// `kernel` of `spec` with its modules, which are built in what `kbuild` gives.
    ///
    /// # Errors
    /// As [`module::provide`].
    pub fn with_modules(
        root: &Path,
        cache: &Cache,
        spec: &KernelSpec,
        kernel: &Kernel,
        kbuild: &dyn Fn() -> Result<PathBuf>,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let modules = match spec.built_in {
            true => None,
            false => Some(module::provide(root, cache, &kernel.key, kbuild, say)?),
        };
        Ok(Self {
            kernel: kernel.clone(),
            modules,
        })
    }

    /// The file of a module.
    ///
    /// # Errors
    /// When this kernel has none.
    pub fn module(&self, file: &str) -> Result<PathBuf> {
        let folder = self.modules.as_ref();
        let folder = folder.with_context(|| format!("{file} is a part of this kernel"))?;
        Ok(folder.join(file))
    }

    /// What identifies its modules; a kernel that holds them is identified with them.
    fn modules_key(&self) -> String {
        let Some(folder) = &self.modules else {
            return self.kernel.key.clone();
        };
        let name = folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// The series that change nothing that is built, in words: to measure such a kernel is to
/// measure the unpatched one.
pub fn without_effect(kernels: &[KernelRecord]) -> Vec<String> {
    let unchanged = |kernel: &KernelRecord| {
        let base = KernelSpec {
            series: None,
            patches: None,
            ..kernel.spec.clone()
        };
        let series = kernel.spec.series.as_ref()?;
        let stock = kernels.iter().find(|k| k.spec == base)?;
        (!kernel.image.is_empty() && kernel.image == stock.image).then(|| {
            format!(
                "kernel image unchanged by this series: {series} on {base} touches nothing that is built"
            )
        })
    };
    kernels.iter().filter_map(unchanged).collect()
}

/// The kernels of `plan`, each once.
fn specs(plan: &[Trial]) -> BTreeSet<&KernelSpec> {
    plan.iter().map(|t| &t.kernel).collect()
}

/// Everything that is built before anything boots.
pub struct Artifacts {
    pub(super) cache: Cache,
    init: PathBuf,
    kernels: BTreeMap<KernelSpec, Booted>,
    /// Whether they were built elsewhere.
    ready: bool,
    /// Whether there are no modules at all, and guests only restart.
    bare: bool,
}

/// `--kernel BZIMAGE --kbuild DIR`: a kernel that was built elsewhere.
pub type ReadyKernel = Option<(PathBuf, PathBuf)>;

impl Artifacts {
    /// Builds, or takes from the cache, PID 1 and every kernel of `plan` with its modules.
    /// `ready` stands in for all kernels. With `shared` what others built is taken first.
    /// `say` is given one line a step.
    pub fn provide(
        root: &Path,
        cache: Cache,
        plan: &[Trial],
        ready: &ReadyKernel,
        shared: Option<&Shared<'_>>,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        if let (Some(shared), None) = (shared, ready) {
            shared.exchange(root, &cache, &specs(plan), say)?;
        }
        if ready.is_none() && shared.is_none() {
            specs(plan)
                .into_iter()
                .try_for_each(|spec| kernel::fits(root, &cache, spec, say))?;
        }
        let init = initramfs::init_binary(root, &cache, say)?;
        let tree = match shared {
            Some(_) => BuildTree::IfThere,
            None => BuildTree::Needed,
        };
        let mut kernels = BTreeMap::new();
        for trial in plan {
            let spec = &trial.kernel;
            if kernels.contains_key(spec) {
                continue;
            }
            let booted = match ready {
                Some((image, kbuild)) => {
                    let kernel = Kernel::ready(image, kbuild)?;
                    let kbuild = || Ok(kernel.kbuild.clone());
                    let loaded = KernelSpec {
                        built_in: false,
                        ..spec.clone()
                    };
                    Booted::with_modules(root, &cache, &loaded, &kernel, &kbuild, say)?
                }
                None => Booted::provide(root, &cache, spec, tree, say)?,
            };
            kernels.insert(spec.clone(), booted);
        }
        Ok(Self {
            cache,
            init,
            kernels,
            ready: ready.is_some(),
            bare: false,
        })
    }

    /// PID 1, and `image` as it is for the kernel `spec`: guests only restart.
    ///
    /// # Errors
    /// Usage: no bzImage.
    pub fn bare(
        root: &Path,
        cache: Cache,
        image: &Path,
        spec: &KernelSpec,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let kernel = Kernel::bare(image)?;
        let init = initramfs::init_binary(root, &cache, say)?;
        let modules = None;
        Ok(Self {
            cache,
            init,
            kernels: BTreeMap::from([(spec.clone(), Booted { kernel, modules })]),
            ready: true,
            bare: true,
        })
    }

    /// Whether the kernels of `plan` can be asked for at all.
    ///
    /// # Errors
    /// Usage errors: a source, a series or a patch that is not there.
    pub fn check(
        root: &Path,
        cache: &Cache,
        plan: &[Trial],
        ready: &ReadyKernel,
        say: &dyn Fn(&str),
    ) -> Result<()> {
        if ready.is_some() {
            return Ok(());
        }
        specs(plan)
            .into_iter()
            .try_for_each(|spec| kernel::check(root, cache, spec, say))
    }

    /// PID 1, from the cache or built, and kernels that are there.
    ///
    /// # Errors
    /// As [`initramfs::init_binary`].
    pub fn with(
        root: &Path,
        cache: Cache,
        kernels: BTreeMap<KernelSpec, Booted>,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        Ok(Self {
            init: initramfs::init_binary(root, &cache, say)?,
            cache,
            kernels,
            ready: false,
            bare: false,
        })
    }

    /// The kernel of `spec`, and its modules.
    pub fn kernel(&self, spec: &KernelSpec) -> Result<&Booted> {
        self.kernels
            .get(spec)
            .with_context(|| format!("kernel {spec} was not provided"))
    }

    /// What `trial` is about and its kernel lacks.
    pub(super) fn lack(&self, trial: &Trial) -> Result<Option<String>> {
        let kernel = &self.kernel(&trial.kernel)?.kernel;
        Ok(probing::lacks(trial, &kernel.release, self.ready))
    }

    /// The key of PID 1.
    pub fn init_key(&self) -> String {
        let entry = self.init.parent().and_then(Path::file_name);
        entry.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What run.yaml says about the kernels.
    ///
    /// # Errors
    /// When an image cannot be read.
    pub fn records(&self) -> Result<Vec<KernelRecord>> {
        let record = |(spec, booted): (&KernelSpec, &Booted)| {
            let image = &booted.kernel.image;
            let bytes = fs::read(image).with_context(|| format!("reading {}", image.display()))?;
            Ok(KernelRecord {
                spec: spec.clone(),
                key: booted.kernel.key.clone(),
                source: booted.kernel.source.clone(),
                release: booted.kernel.release.clone(),
                compiler: booted.kernel.compiler.clone(),
                modules: booted.modules_key(),
                image: blake3::hash(&bytes).to_hex().to_string(),
            })
        };
        self.kernels.iter().map(record).collect()
    }

    /// The initramfs of `trial`, on top of an image of user space if it has one.
    pub(super) fn initramfs(
        &self,
        trial: &Trial,
        layout: &Layout,
        finish: Finish,
        image: Option<&Image>,
    ) -> Result<PathBuf> {
        if self.bare {
            return self.probe_initramfs();
        }
        let booted = self.kernel(&trial.kernel)?;
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
        let mut archive = initramfs::Archive::new();
        archive.file("init", 0o755, read(&self.init)?)?;
        for module in program::modules(&trial.scenario, &trial.variant().probing) {
            let file = format!("{module}.ko");
            archive.file(
                &format!("bootrig/{file}"),
                0o644,
                read(&booted.module(&file)?)?,
            )?;
        }
        if trial.variant().restart == Restart::Kexec {
            archive.file(program::KEXEC_KERNEL, 0o644, read(&booted.kernel.image)?)?;
        }
        for (path, bytes) in program::files(trial, layout, finish) {
            archive.file(&path, 0o644, bytes)?;
        }
        // The kernel unpacks one archive after the other.
        let below = image.map_or(Ok(Vec::new()), |image| read(&image.archive))?;
        self.keep(below, &archive)
    }

    /// The initramfs of a guest that only reboots and reports.
    pub(super) fn probe_initramfs(&self) -> Result<PathBuf> {
        let mut archive = initramfs::Archive::new();
        let init =
            fs::read(&self.init).with_context(|| format!("reading {}", self.init.display()))?;
        archive.file("init", 0o755, init)?;
        archive.file("bootrig/plan", 0o644, program::PROBE_PLAN)?;
        self.keep(Vec::new(), &archive)
    }

    /// Writes an initramfs into the cache, named by its contents: `archive` on top of what
    /// is in `bytes`.
    fn keep(&self, mut bytes: Vec<u8>, archive: &initramfs::Archive) -> Result<PathBuf> {
        bytes.extend(archive.to_bytes());
        let folder = self.cache.root().join("initramfs");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join(format!("{}.cpio", blake3::hash(&bytes).to_hex()));
        // Named by its contents, but the disk may have lost them: compare, do not trust.
        if fs::read(&path).ok().as_ref() == Some(&bytes) {
            touch(&path);
        } else {
            write_whole(&path, &bytes).map_err(|e| self.cache.explain(e))?;
        }
        Ok(path)
    }
}
