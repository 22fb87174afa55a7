// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels: source -> patched -> configured -> built.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;

pub mod sources;

use super::cache::Cache;
use crate::core::plan::KernelSpec;

/// A kernel that can be booted, and modules built against.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Content address, 64 hex digits: equal keys are the same kernel.
    pub key: String,
    /// The bzImage.
    pub image: PathBuf,
    /// Its System.map, where there is one.
    pub system_map: Option<PathBuf>,
    /// What `make -C` is given to build modules; [`checked_kbuild`] before building.
    pub kbuild: PathBuf,
    /// What `uname -r` says in the guest.
    pub release: String,
    /// Where the source came from, with its exact version, for the record.
    pub source: String,
    /// First line of the compiler's version.
    pub compiler: String,
    /// blake3 of the effective configuration, hex.
    pub config_hash: String,
    /// How long the build took if this run built it.
    pub build: Option<Duration>,
}

impl Kernel {
    /// A kernel built elsewhere (`--kernel image --kbuild kbuild`).
    pub fn ready(image: &Path, kbuild: &Path) -> Result<Self> {
        let _ = (image, kbuild);
        todo!()
    }
}

/// Provides the kernel of `spec` from the cache, or fetches, patches, configures and
/// builds it; `root` is the checkout, `say` is given one line a step.
pub fn provide(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    say: &dyn Fn(&str),
) -> Result<Kernel> {
    let _ = (root, cache, spec, say);
    todo!()
}

/// The build tree of `kernel`, every byte verified and rebuilt if damaged. Slow (seconds);
/// meant as the `kbuild` argument of `module::provide`, which asks only when it must build.
pub fn checked_kbuild(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    kernel: &Kernel,
    say: &dyn Fn(&str),
) -> Result<PathBuf> {
    let _ = (root, cache, spec, kernel, say);
    todo!()
}

/// The names of images/kernels/sources.yaml, in order.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let _ = root;
    todo!()
}
