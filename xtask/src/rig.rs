// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ties the edges together for commands: builds every artifact that a plan needs, and is
//! the [`Machine`] that boots its trials.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    core::{
        layout::{Layout, lay_out},
        machine::{Interrupted, Machine, RawBoot},
        plan::{KernelSpec, Trial},
        program::{self, Finish},
        scenario::Scenario,
    },
    edge::{
        cache::Cache,
        initramfs,
        kernel::{self, Kernel},
        module,
        store::KernelRecord,
    },
};

/// A kernel and the guest modules built against it.
pub struct Booted {
    /// The kernel.
    pub kernel: Kernel,
    /// The folder with `marks.ko` and `dummy_pci.ko`.
    pub modules: PathBuf,
}

/// Everything that is built, before anything boots.
pub struct Artifacts {
    root: PathBuf,
    cache: Cache,
    init: PathBuf,
    kernels: BTreeMap<KernelSpec, Booted>,
}

/// `--kernel PATH --kbuild DIR`: a kernel that was built elsewhere.
pub type ReadyKernel = Option<(PathBuf, PathBuf)>;

impl Artifacts {
    /// Builds, or takes from the cache, PID 1 and every kernel of `plan` with its modules.
    /// `ready` stands in for all kernels. `say` is given one line a step.
    pub fn provide(root: &Path, cache: Cache, plan: &[Trial], ready: &ReadyKernel, say: &dyn Fn(&str)) -> Result<Self> {
        let init = initramfs::init_binary(root, &cache, say)?;
        let mut kernels = BTreeMap::new();
        for trial in plan {
            if kernels.contains_key(&trial.kernel) {
                continue;
            }
            let kernel = match ready {
                Some((image, kbuild)) => Kernel::ready(image, kbuild)?,
                None => kernel::provide(root, &cache, &trial.kernel, say)?,
            };
            let modules = module::provide(root, &cache, &kernel, say)?;
            kernels.insert(trial.kernel.clone(), Booted { kernel, modules });
        }
        Ok(Self { root: root.into(), cache, init, kernels })
    }

    /// What run.yaml says about the kernels.
    pub fn records(&self) -> Vec<KernelRecord> {
        let record = |(spec, booted): (&KernelSpec, &Booted)| KernelRecord {
            spec: spec.clone(),
            key: booted.kernel.key.clone(),
            source: booted.kernel.source.clone(),
            release: booted.kernel.release.clone(),
            compiler: booted.kernel.compiler.clone(),
            modules: booted.modules.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        self.kernels.iter().map(record).collect()
    }
}
