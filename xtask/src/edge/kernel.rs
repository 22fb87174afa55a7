// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels: source -> patched -> configured -> built.
//!
//! Four kinds of cache entries, each made from the one before:
//!
//! - `source/`: the tree as fetched;
//! - `build/<key>`: a tree with its output. An unpatched one links its sources from
//!   `source/`; a patched one is a copy of the unpatched one, so that only what the patch
//!   touches is compiled;
//! - `kernel/<key>`: the few files that are booted and read, verified each time;
//! - `request/<key>`: which kernel a request came out as. The kernel's key holds the
//!   effective configuration, which takes kbuild to know; a request's only what was asked
//!   for, so that a cached kernel is found without running anything but two `--version`s.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::work::Work;
pub use self::work::{KERNEL, REQUEST, Requested};
use super::{
    cache::{Cache, Check},
    files::read_file,
};
use crate::core::{fault::Fault, plan::KernelSpec};

pub mod build;
mod built_in;
mod config;
mod copy;
mod fetch;
mod old;
mod patch;
pub mod series;
pub mod sources;
#[cfg(test)]
mod tests;
mod work;

const BUILD: &str = "build";
/// The largest bzImage, or file beside it, that is read.
const MOST_IMAGE_BYTES: u64 = 1 << 30;

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
}

impl Kernel {
    /// A kernel built elsewhere (`--kernel image --kbuild kbuild`).
    ///
    /// # Errors
    /// Usage errors: a file that is no bzImage, a directory that modules cannot be built
    /// in, or one of another kernel.
    pub fn ready(image: &Path, kbuild: &Path) -> Result<Self> {
        let usage = |m: String| anyhow::Error::from(Fault::usage(m));
        let (bytes, release) = read_image(image)?;
        let of_kbuild = build::release_of_kbuild(kbuild)
            .map_err(|e| usage(format!("{} is no directory that modules can be built in (a kernel's build tree or headers package): {e:#}", kbuild.display())))?;
        if release != of_kbuild {
            return Err(usage(format!(
                "kernel {} is {release}, but {} is of {of_kbuild}: its modules would not load",
                image.display(),
                kbuild.display()
            )));
        }
        let optional =
            |name: &str| read_file(&kbuild.join(name), MOST_IMAGE_BYTES).unwrap_or_default();
        let config = optional(".config");
        let config = if config.is_empty() {
            optional("include/config/auto.conf")
        } else {
            config
        };
        let compiler = String::from_utf8_lossy(&config)
            .lines()
            .find_map(|l| l.strip_prefix("CONFIG_CC_VERSION_TEXT="))
            .map_or("unknown".into(), |c| c.trim_matches('"').to_owned());
        let absolute = |p: &Path| {
            p.canonicalize()
                .with_context(|| format!("resolving {}", p.display()))
        };
        Ok(Self {
            key: key_of(&[b"ready", &bytes, &config, &optional("Module.symvers")]),
            image: absolute(image)?,
            system_map: Some(kbuild.join("System.map")).filter(|p| p.is_file()),
            kbuild: absolute(kbuild)?,
            release,
            source: format!("ready-made {}", image.display()),
            compiler,
        })
    }

    /// A kernel built elsewhere that no module is built for.
    ///
    /// # Errors
    /// Usage: a file that is no bzImage.
    pub fn bare(image: &Path) -> Result<Self> {
        let (bytes, release) = read_image(image)?;
        let absolute = image.canonicalize();
        Ok(Self {
            key: key_of(&[b"bare", &bytes]),
            image: absolute.with_context(|| format!("resolving {}", image.display()))?,
            system_map: None,
            kbuild: PathBuf::new(),
            release,
            source: format!("ready-made {}", image.display()),
            compiler: "unknown".into(),
        })
    }
}

/// The bytes of a bzImage, and its release.
fn read_image(image: &Path) -> Result<(Vec<u8>, String)> {
    let usage = |m: String| anyhow::Error::from(Fault::usage(m));
    let bytes = read_file(image, MOST_IMAGE_BYTES)
        .map_err(|e| usage(format!("kernel {}: {e}", image.display())))?;
    let release = build::release_of_image(&bytes)
        .map_err(|e| usage(format!("kernel {}: {e:#}", image.display())))?;
    Ok((bytes, release))
}

/// Whether the build tree of a kernel must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildTree {
    /// Something is built in it, or upon it.
    Needed,
    /// A kernel that came from a shared cache has none, and needs none.
    IfThere,
}

/// Provides the kernel of `spec` from the cache, or fetches, patches, configures and
/// builds it; `root` is the checkout, `say` is given one line a step.
///
/// # Errors
/// Usage errors for what sources.yaml, fragments or patches say wrongly; anything else
/// names what was being done, with the last error lines and the place of the log.
pub fn provide(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    tree: BuildTree,
    say: &dyn Fn(&str),
) -> Result<Kernel> {
    Work::new(root, cache, spec, say)?.provide(tree)
}

/// The kernel of `spec` if it is in the cache, with or without its build tree.
///
/// # Errors
/// As [`provide`].
pub fn cached(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    say: &dyn Fn(&str),
) -> Result<Option<Kernel>> {
    let work = Work::new(root, cache, spec, say)?;
    work.cached(&work.requested()?.request, BuildTree::IfThere)
}

/// What names the kernel of `spec` before it is known.
///
/// # Errors
/// As [`provide`].
pub fn requested(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    say: &dyn Fn(&str),
) -> Result<Requested> {
    Work::new(root, cache, spec, say)?.requested()
}

/// Whether the source and the patches of `spec` are there, which is better known before
/// anything is installed, fetched or built.
///
/// # Errors
/// Usage errors, as [`provide`].
pub fn check(root: &Path, cache: &Cache, spec: &KernelSpec, say: &dyn Fn(&str)) -> Result<()> {
    let source = sources::find(root, &spec.source)?;
    work::patches_of(root, cache, spec, &source, say).map(drop)
}

/// A checkout that is built again and again, so that only what differs is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Where it is; its output is in `build/` there.
    pub top: &'a Path,
    /// Which of images/kernels/sources.yaml its patches and its configuration are of.
    pub like: &'a str,
    /// A file that says which request its output is of; whoever moves the checkout removes it.
    pub note: &'a Path,
}

impl Kept<'_> {
    /// The kernel of `spec` on `commit`, from the cache, or built in the checkout once
    /// `check_out` has put the commit there.
    ///
    /// # Errors
    /// [`NotBuilt`](crate::core::fault::NotBuilt) when the commit is at fault; whatever
    /// `check_out` returns; as [`provide`].
    pub fn provide(
        &self,
        root: &Path,
        cache: &Cache,
        spec: &KernelSpec,
        commit: &str,
        check_out: &dyn Fn() -> Result<()>,
        say: &dyn Fn(&str),
    ) -> Result<Kernel> {
        let source = sources::find(root, self.like)?;
        Work::of(root, cache, spec, source, say)?.provide_in(self, commit, check_out)
    }

    /// The output of what [`Kept::provide`] gave, to build modules in: built again if something
    /// else was built there since.
    ///
    /// # Errors
    /// As [`Kept::provide`].
    pub fn kbuild(
        &self,
        root: &Path,
        cache: &Cache,
        spec: &KernelSpec,
        commit: &str,
        check_out: &dyn Fn() -> Result<()>,
        say: &dyn Fn(&str),
    ) -> Result<PathBuf> {
        let source = sources::find(root, self.like)?;
        Work::of(root, cache, spec, source, say)?.kbuild_in(self, commit, check_out)
    }
}

/// Checks that `options` are some.
///
/// # Errors
/// Usage: names the first that is none.
pub fn check_options(options: &[String]) -> Result<()> {
    config::add(options, &mut config::Wishes::new(), &mut Vec::new())
}

/// The names of the patches that `spec` has of its series, in order.
///
/// # Errors
/// Usage: there is no such series, or none for this source.
pub fn patch_names(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    say: &dyn Fn(&str),
) -> Result<Vec<String>> {
    Ok(Work::new(root, cache, spec, say)?.patch_names())
}

/// Whether the patches of `spec` fit its source, which is better known before the kernel that
/// it is built upon has been built. Fetches the source if the kernel is not there.
///
/// # Errors
/// As [`provide`]: the patch, and the file and line that it does not fit.
pub fn fits(root: &Path, cache: &Cache, spec: &KernelSpec, say: &dyn Fn(&str)) -> Result<()> {
    Work::new(root, cache, spec, say)?.fits()
}

/// The build tree of `kernel`, every byte verified and rebuilt if damaged. Slow (seconds);
/// meant as the `kbuild` argument of `module::provide`, which asks only when it must build.
///
/// # Errors
/// As [`provide`].
pub fn checked_kbuild(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    kernel: &Kernel,
    say: &dyn Fn(&str),
) -> Result<PathBuf> {
    if !kernel.kbuild.starts_with(cache.root())
        || cache.get(BUILD, &kernel.key, Check::Full, say)?.is_some()
    {
        return Ok(kernel.kbuild.clone());
    }
    Ok(provide(root, cache, spec, BuildTree::Needed, say)?.kbuild)
}

/// The tree of kernel `name`'s source in the cache, fetched if need be; not to be written to.
///
/// # Errors
/// As [`provide`].
pub fn source_tree(root: &Path, cache: &Cache, name: &str, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let source = sources::find(root, name)?;
    let identity = fetch::identify(cache, &source, say)?;
    Ok(fetch::provide(cache, &source, &identity, say)?
        .1
        .join("tree"))
}

/// The names of images/kernels/sources.yaml, in order.
///
/// # Errors
/// A usage error with file and line.
pub fn names(root: &Path) -> Result<Vec<String>> {
    Ok(sources::read(root)?.into_iter().map(|s| s.name).collect())
}

/// blake3 over parts, each preceded by its length.
fn key_of(parts: &[&[u8]]) -> String {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().to_hex().to_string()
}
