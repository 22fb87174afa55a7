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

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use self::{
    build::Toolchain, config::Wishes, copy::How, fetch::Identity, patch::Patch, sources::Source,
};
use super::cache::{Cache, Check, Lock, Staged};
use crate::core::{fault::Fault, plan::KernelSpec, units::Bytes};

pub mod build;
mod config;
mod copy;
mod fetch;
mod patch;
pub mod sources;
#[cfg(test)]
mod tests;

const BUILD: &str = "build";
const KERNEL: &str = "kernel";
const REQUEST: &str = "request";
/// What a build may write, with room to spare.
const BUILD_NEED: Bytes = Bytes(1 << 30);

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

/// What `kernel/<key>/meta.json` says of a kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Meta {
    release: String,
    source: String,
    compiler: String,
    linker: String,
    config_hash: String,
    /// Path in the checkout and blake3 of each patch, in order.
    patches: Vec<(String, String)>,
    build_seconds: f64,
}

impl Kernel {
    /// A kernel built elsewhere (`--kernel image --kbuild kbuild`).
    ///
    /// # Errors
    /// Usage errors: a file that is no bzImage, a directory that modules cannot be built
    /// in, or one of another kernel.
    pub fn ready(image: &Path, kbuild: &Path) -> Result<Self> {
        let usage = |m: String| anyhow::Error::from(Fault::usage(m));
        let bytes =
            fs::read(image).map_err(|e| usage(format!("kernel {}: {e}", image.display())))?;
        let release = build::release_of_image(&bytes)
            .map_err(|e| usage(format!("kernel {}: {e:#}", image.display())))?;
        let of_kbuild = build::release_of_kbuild(kbuild)
            .map_err(|e| usage(format!("{} is no directory that modules can be built in (a kernel's build tree or headers package): {e:#}", kbuild.display())))?;
        if release != of_kbuild {
            return Err(usage(format!(
                "kernel {} is {release}, but {} is of {of_kbuild}: its modules would not load",
                image.display(),
                kbuild.display()
            )));
        }
        let optional = |name: &str| fs::read(kbuild.join(name)).unwrap_or_default();
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
            config_hash: blake3::hash(&config).to_hex().to_string(),
            build: None,
        })
    }
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
    say: &dyn Fn(&str),
) -> Result<Kernel> {
    Work::new(root, cache, spec, say)?.provide()
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
    Ok(provide(root, cache, spec, say)?.kbuild)
}

/// The names of images/kernels/sources.yaml, in order.
///
/// # Errors
/// A usage error with file and line.
pub fn names(root: &Path) -> Result<Vec<String>> {
    Ok(sources::read(root)?.into_iter().map(|s| s.name).collect())
}

/// A command with an environment of its own: nothing of the caller's but what finds
/// programs, the network and the compiler cache, since `CC`, `KCFLAGS`, `MAKEFLAGS` or
/// `TAR_OPTIONS` would change what comes out.
fn tool(program: &str) -> Command {
    const PASSED: [&str; 11] = [
        "PATH",
        "HOME",
        "TMPDIR",
        "http_proxy",
        "https_proxy",
        "ftp_proxy",
        "all_proxy",
        "no_proxy",
        "HTTPS_PROXY",
        "NO_PROXY",
        "SSH_AUTH_SOCK",
    ];
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(k, _)| {
            let name = k.to_string_lossy();
            PASSED.contains(&name.as_ref()) || name.starts_with("CCACHE_")
        }));
    command.env("LC_ALL", "C");
    command
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

/// One request being answered.
struct Work<'a> {
    root: &'a Path,
    cache: &'a Cache,
    spec: &'a KernelSpec,
    say: &'a dyn Fn(&str),
    source: Source,
    patches: Vec<Patch>,
    wishes: Wishes,
    fragments: Vec<u8>,
    tools: Toolchain,
    what: String,
}

impl<'a> Work<'a> {
    fn new(
        root: &'a Path,
        cache: &'a Cache,
        spec: &'a KernelSpec,
        say: &'a dyn Fn(&str),
    ) -> Result<Self> {
        let source = sources::find(root, &spec.source)?;
        let patches = spec
            .series
            .as_deref()
            .map_or(Ok(Vec::new()), |s| patch::read(root, s, &source.patches))?;
        let (wishes, fragments) = config::read(root, &source.config)?;
        let series = spec
            .series
            .as_deref()
            .map_or(String::new(), |s| format!(" (series {s})"));
        let what = format!("kernel {}{series}", spec.source);
        Ok(Self {
            root,
            cache,
            spec,
            say,
            source,
            patches,
            wishes,
            fragments,
            tools: Toolchain::find()?,
            what,
        })
    }

    /// All that a kernel is made of, with `config` asked for or effective.
    fn key(&self, identity: &Identity, config: &[u8]) -> String {
        let recipe = format!("{} {}", build::RECIPE, build::VARIABLES.join(" "));
        let mut parts = vec![
            identity.text.as_bytes(),
            config,
            self.tools.compiler.as_bytes(),
            self.tools.linker.as_bytes(),
            recipe.as_bytes(),
        ];
        parts.extend(self.patches.iter().map(|p| p.bytes.as_slice()));
        key_of(&parts)
    }

    fn request(&self) -> Result<(Identity, String)> {
        let identity = fetch::identify(self.cache, &self.source, self.say)?;
        let key = self.key(
            &identity,
            &[b"request ", self.fragments.as_slice()].concat(),
        );
        Ok((identity, key))
    }

    fn provide(&self) -> Result<Kernel> {
        let (identity, request) = self.request()?;
        if let Some(kernel) = self.cached(&request)? {
            return Ok(kernel);
        }
        // Finding what to build upon may show that another version of the source is to be
        // had than was thought, so the request is made anew after it.
        let base = self.base(&identity)?;
        let (identity, request) = self.request()?;
        let lock = self.cache.lock(REQUEST, &request, &self.what, self.say)?;
        if let Some(kernel) = self.cached(&request)? {
            return Ok(kernel);
        }
        self.cache
            .require_space(BUILD_NEED, &format!("building {}", self.what))?;
        self.build(&lock, &identity, &base)
            .with_context(|| format!("building {}", self.what))
    }

    /// The kernel that this request came out as, if all of it is there.
    fn cached(&self, request: &str) -> Result<Option<Kernel>> {
        let Some(dir) = self.cache.get(REQUEST, request, Check::Full, self.say)? else {
            return Ok(None);
        };
        let key = fs::read_to_string(dir.join("kernel"))?;
        let Some(kernel) = self.cache.get(KERNEL, &key, Check::Full, self.say)? else {
            return Ok(None);
        };
        let Some(tree) = self.cache.get(BUILD, &key, Check::Touch, self.say)? else {
            return Ok(None);
        };
        self.describe(key, &kernel, &tree).map(Some)
    }

    fn describe(&self, key: String, kernel: &Path, tree: &Path) -> Result<Kernel> {
        let meta: Meta = serde_json::from_slice(&fs::read(kernel.join("meta.json"))?)
            .with_context(|| format!("reading {}/meta.json", kernel.display()))?;
        Ok(Kernel {
            key,
            image: kernel.join("bzImage"),
            system_map: Some(kernel.join("System.map")),
            kbuild: tree.join("tree").join(build::OUT),
            release: meta.release,
            source: meta.source,
            compiler: meta.compiler,
            config_hash: meta.config_hash,
            build: None,
        })
    }

    /// The entry to build upon, verified: the source, or the unpatched kernel's build.
    fn base(&self, identity: &Identity) -> Result<PathBuf> {
        if self.patches.is_empty() {
            if !fetch::present(self.cache, identity) {
                (self.say)(&format!(
                    "getting the source of {}: {}",
                    self.what, identity.text
                ));
            }
            return Ok(fetch::provide(self.cache, &self.source, identity, self.say)?.1);
        }
        let spec = KernelSpec {
            source: self.spec.source.clone(),
            series: None,
        };
        loop {
            let base = provide(self.root, self.cache, &spec, self.say)?;
            if let Some(dir) = self.cache.get(BUILD, &base.key, Check::Full, self.say)? {
                return Ok(dir);
            }
        }
    }

    fn build(&self, request: &Lock, identity: &Identity, base: &Path) -> Result<Kernel> {
        let begin = Instant::now();
        let staged = self.cache.stage(request)?;
        let log = self.cache.log(&format!(
            "kernel-{}-{}-{}",
            self.spec.source,
            self.spec.series.as_deref().unwrap_or("stock"),
            &request.key()[..8]
        ))?;
        let top = staged.dir().join("tree");
        let how = |p: &Path| {
            if p.starts_with(build::OUT) {
                How::Copy
            } else {
                How::Link
            }
        };
        copy::tree(&base.join("tree"), &top, &how).map_err(|e| self.cache.explain(e))?;
        if !self.patches.is_empty() {
            patch::apply(self.cache, self.root, &self.patches, &top, self.say)?;
        }
        let tree = build::Tree::new(self.cache, top, log.clone(), self.what.clone());
        let effective = tree.configure(&|base| config::merge(base, &self.wishes))?;
        config::contract(&effective, &self.wishes, &staged.dir().join("tree"))?;
        let key = self.key(identity, effective.as_bytes());
        let build_lock = self.cache.lock(BUILD, &key, &self.what, self.say)?;
        let kernel_lock = self.cache.lock(KERNEL, &key, &self.what, self.say)?;
        let there = (
            self.cache.get(KERNEL, &key, Check::Full, self.say)?,
            self.cache.get(BUILD, &key, Check::Touch, self.say)?,
        );
        let kernel = if let (Some(kernel), Some(tree)) = there {
            // Another request, the same kernel: a comment in a fragment changed.
            self.describe(key, &kernel, &tree)?
        } else {
            (self.say)(&format!(
                "building {} ({}); log: {}",
                self.what,
                identity.text,
                log.display()
            ));
            let release = tree.build()?;
            let meta = self.meta(identity, release, &effective, begin.elapsed());
            let small = self.collect(&kernel_lock, &tree, &meta, &effective)?;
            let tree = self
                .cache
                .put_sharing(&build_lock, staged, Some(base))
                .map_err(|e| self.cache.explain(e))?;
            let kernel = self
                .cache
                .put(&kernel_lock, small)
                .map_err(|e| self.cache.explain(e))?;
            (self.say)(&format!(
                "built {}: {} in {:.0} s",
                self.what,
                meta.release,
                begin.elapsed().as_secs_f64()
            ));
            Kernel {
                build: Some(begin.elapsed()),
                ..self.describe(key, &kernel, &tree)?
            }
        };
        let answer = self.cache.stage(request)?;
        fs::write(answer.dir().join("kernel"), &kernel.key)?;
        self.cache.put(request, answer)?;
        Ok(kernel)
    }

    fn meta(&self, identity: &Identity, release: String, effective: &str, took: Duration) -> Meta {
        Meta {
            release,
            source: identity.text.clone(),
            compiler: self.tools.compiler.clone(),
            linker: self.tools.linker.clone(),
            config_hash: blake3::hash(effective.as_bytes()).to_hex().to_string(),
            patches: self
                .patches
                .iter()
                .map(|p| (p.path.clone(), blake3::hash(&p.bytes).to_hex().to_string()))
                .collect(),
            build_seconds: took.as_secs_f64(),
        }
    }

    /// The kernel's small entry.
    fn collect(
        &self,
        lock: &Lock,
        tree: &build::Tree,
        meta: &Meta,
        effective: &str,
    ) -> Result<Staged> {
        let small = self.cache.stage(lock)?;
        fs::copy(tree.image(), small.dir().join("bzImage")).context("keeping the bzImage")?;
        fs::copy(
            tree.out().join("System.map"),
            small.dir().join("System.map"),
        )
        .context("keeping System.map")?;
        fs::write(small.dir().join("config"), effective)?;
        fs::write(
            small.dir().join("meta.json"),
            serde_json::to_vec_pretty(meta)?,
        )?;
        Ok(small)
    }
}
