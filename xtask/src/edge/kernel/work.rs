// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answering one request for a kernel.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    BUILD, BuildTree, Kernel, build, build::Toolchain, built_in, config, config::Wishes, copy,
    copy::How, fetch, fetch::Identity, key_of, patch, patch::Patch, series, sources,
    sources::Source,
};
use crate::{
    core::{
        fault::Fault,
        plan::KernelSpec,
        scenario::is_foreign,
        units::{Bytes, counted},
    },
    edge::{
        cache::{Cache, Check, Lock, Staged},
        drivers::{self, Sources},
        process,
    },
};

mod kept;
mod seed;

/// The kind of the small entries, which are booted.
pub const KERNEL: &str = "kernel";
/// The kind of what requests came out as.
pub const REQUEST: &str = "request";
/// The series of kernels with small sections of memory.
const SMALL_SECTIONS: &str = "small-sections";
/// What a build may write, with room to spare.
const BUILD_NEED: Bytes = Bytes(1 << 30);

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

/// How often a build that is to be built upon is made anew.
const BASES: u32 = 3;

/// The patches that a kernel of `spec` is made with, in order, and how many of them what it is
/// built upon has as well.
///
/// # Errors
/// Usage errors: a series that is not there, not for this source, or has fewer patches than
/// are asked for.
pub fn patches_of(
    root: &Path,
    cache: &Cache,
    spec: &KernelSpec,
    source: &Source,
    say: &dyn Fn(&str),
) -> Result<(Vec<Patch>, usize)> {
    let mut patches = Vec::new();
    if spec.small_sections {
        patches.extend(patch::read(root, SMALL_SECTIONS, &source.patches)?);
    }
    // Those below are in the tree that this one is made from.
    let below = patches.len();
    patches.extend(match spec.series.as_deref() {
        None => Vec::new(),
        Some(foreign) if is_foreign(foreign) => series::read(cache, foreign, say)?,
        Some(own) => patch::read(root, own, &source.patches)?,
    });
    if let Some(most) = spec.patches {
        let there = patches.len() - below;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most > there {
            return Err(Fault::usage(format!(
                "series {} has {} for {}, not {most}",
                spec.series.as_deref().unwrap_or("(none)"),
                counted(there, "patch"),
                spec.source
            ))
            .into());
        }
        patches.truncate(below + most);
    }
    if let Some(without) = spec.without {
        let number = usize::try_from(without).unwrap_or(usize::MAX);
        let at = below.saturating_add(number).saturating_sub(1);
        if at < patches.len() {
            patches.remove(at);
        }
    }
    Ok((patches, below))
}

fn reading(path: &Path) -> String {
    format!("reading {}", path.display())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// What names a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Its key: the cache's entry of the kind [`REQUEST`].
    pub request: String,
    /// The key of the request for the kernel that it is built upon, else its own: who builds
    /// one of a family has the tree that the others take.
    pub family: String,
}

/// One request being answered.
pub struct Work<'a> {
    root: &'a Path,
    cache: &'a Cache,
    spec: &'a KernelSpec,
    say: &'a dyn Fn(&str),
    source: Source,
    patches: Vec<Patch>,
    /// What becomes a part of it.
    parts: Option<Sources>,
    /// How many of them what it is built upon has as well.
    below: usize,
    wishes: Wishes,
    fragments: Vec<u8>,
    tools: Toolchain,
    what: String,
}

impl<'a> Work<'a> {
    pub fn new(
        root: &'a Path,
        cache: &'a Cache,
        spec: &'a KernelSpec,
        say: &'a dyn Fn(&str),
    ) -> Result<Self> {
        Self::of(root, cache, spec, sources::find(root, &spec.source)?, say)
    }

    /// One for a kernel whose patches and configuration are those of `source`.
    pub fn of(
        root: &'a Path,
        cache: &'a Cache,
        spec: &'a KernelSpec,
        source: Source,
        say: &'a dyn Fn(&str),
    ) -> Result<Self> {
        let (patches, below) = patches_of(root, cache, spec, &source, say)?;
        let hz = spec.hz.map(config::tick_rate);
        let fallback = spec
            .firmware_fallback
            .then(|| config::FIRMWARE_FALLBACK.to_owned());
        let systemd = spec.systemd.then(|| config::SYSTEMD.to_owned());
        let debug = spec.debug.then(|| config::DEBUG.to_owned());
        let hotplug = spec
            .memory_hotplug
            .then(|| config::MEMORY_HOTPLUG.to_owned());
        let on_top = hz
            .into_iter()
            .chain(fallback)
            .chain(hotplug)
            .chain(systemd)
            .chain(debug);
        let names: Vec<_> = source.config.iter().cloned().chain(on_top).collect();
        let (mut wishes, mut fragments) = config::read(root, &names)?;
        config::add(&spec.options, &mut wishes, &mut fragments)?;
        let series = spec.series.iter().map(|s| match spec.patches {
            None => format!("series {s}"),
            Some(most) => format!("the first {most} of series {s}"),
        });
        let how: Vec<_> = spec
            .small_sections
            .then(|| "4 MiB sections".to_owned())
            .into_iter()
            .chain(series)
            .chain(spec.without.map(|patch| format!("without patch {patch}")))
            .chain((!spec.options.is_empty()).then(|| spec.options.join(", ")))
            .chain(spec.hz.map(|hz| format!("{hz} Hz")))
            .chain(
                spec.firmware_fallback
                    .then(|| "firmware fallback".to_owned()),
            )
            .chain(spec.memory_hotplug.then(|| "memory hotplug".to_owned()))
            .chain(spec.systemd.then(|| "systemd".to_owned()))
            .chain(spec.built_in.then(|| "drivers built in".to_owned()))
            .chain(spec.debug.then(|| "debug".to_owned()))
            .collect();
        let parts = match spec.built_in {
            true => Some(drivers::sources(root)?),
            false => None,
        };
        let what = match how[..] {
            [] => format!("kernel {}", spec.source),
            _ => format!("kernel {} ({})", spec.source, how.join(", ")),
        };
        Ok(Self {
            root,
            cache,
            spec,
            say,
            source,
            patches,
            parts,
            below,
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
        for (path, bytes) in self.parts.iter().flatten() {
            parts.extend([path.as_os_str().as_bytes(), bytes]);
        }
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

    /// The names of the series' patches.
    pub fn patch_names(&self) -> Vec<String> {
        let own = &self.patches[self.below..];
        own.iter().map(|p| p.name.clone()).collect()
    }

    /// The keys of this request, and of that for the kernel that it is built upon.
    pub fn requested(&self) -> Result<Requested> {
        let (_, request) = self.request()?;
        let mut family = request.clone();
        if let Some(less) = self.built_upon() {
            family = Work::new(self.root, self.cache, &less, self.say)?
                .request()?
                .1;
        }
        Ok(Requested { request, family })
    }

    /// The kernel, from the cache or built.
    pub fn provide(&self, tree: BuildTree) -> Result<Kernel> {
        let (identity, request) = self.request()?;
        if let Some(kernel) = self.cached(&request, tree)? {
            return Ok(kernel);
        }
        // Finding what to build upon may show that another version of the source is to be
        // had than was thought, so the request is made anew after it.
        let base = self.base(&identity)?;
        let (identity, request) = self.request()?;
        let lock = self.cache.lock(REQUEST, &request, &self.what, self.say)?;
        if let Some(kernel) = self.cached(&request, tree)? {
            return Ok(kernel);
        }
        self.cache
            .require_space(BUILD_NEED, &format!("building {}", self.what))?;
        self.build(&lock, &identity, &base)
            .with_context(|| format!("building {}", self.what))
    }

    /// Tries the patches on copies of the files that they touch.
    pub fn fits(&self) -> Result<()> {
        if self.patches.is_empty() {
            return Ok(());
        }
        let (identity, request) = self.request()?;
        if self.cached(&request, BuildTree::IfThere)?.is_some() {
            return Ok(());
        }
        let source = self.source(&identity)?.join("tree");
        let scratch = process::scratch("bootrig-patches-")?;
        for file in self.patches.iter().flat_map(|p| &p.files) {
            let (from, to) = (source.join(file), scratch.path().join(file));
            if !from.is_file() || to.exists() {
                continue;
            }
            let folder = to.parent().unwrap_or(scratch.path());
            fs::create_dir_all(folder)
                .and_then(|()| fs::copy(&from, &to))
                .with_context(|| format!("copying {} to try patches on", from.display()))?;
        }
        patch::apply(self.cache, &self.patches, scratch.path(), self.say)
            .with_context(|| self.what.clone())
    }

    /// The entry of the source, fetched if need be.
    fn source(&self, identity: &Identity) -> Result<PathBuf> {
        if !fetch::present(self.cache, identity) {
            (self.say)(&format!(
                "getting the source of {}: {}",
                self.what, identity.text
            ));
        }
        Ok(fetch::provide(self.cache, &self.source, identity, self.say)?.1)
    }

    /// The key of the kernel that a request came out as, and its small entry, if both are
    /// there.
    fn answered(&self, request: &str) -> Result<Option<(String, PathBuf)>> {
        let get = |kind: &str, key: &str| self.cache.get(kind, key, Check::Full, self.say);
        let Some(dir) = get(REQUEST, request)? else {
            return Ok(None);
        };
        let file = dir.join("kernel");
        let key = fs::read_to_string(&file).with_context(|| reading(&file))?;
        Ok(get(KERNEL, &key)?.map(|kernel| (key, kernel)))
    }

    /// Notes which kernel a request came out as.
    fn answer(&self, request: &Lock, key: &str) -> Result<()> {
        let answer = self.cache.stage(request)?;
        write(&answer.dir().join("kernel"), key.as_bytes())?;
        self.cache.put(request, answer).map(drop)
    }

    /// The kernel that this request came out as, if all of it is there.
    pub fn cached(&self, request: &str, tree: BuildTree) -> Result<Option<Kernel>> {
        let Some((key, kernel)) = self.answered(request)? else {
            return Ok(None);
        };
        let tree = match self.cache.get(BUILD, &key, Check::Touch, self.say)? {
            Some(tree) => tree,
            None if tree == BuildTree::Needed => return Ok(None),
            // Where it would be.
            None => self.cache.root().join(BUILD).join(&key),
        };
        self.describe(key, &kernel, &tree).map(Some)
    }

    fn describe(&self, key: String, kernel: &Path, tree: &Path) -> Result<Kernel> {
        let file = kernel.join("meta.json");
        let bytes = fs::read(&file).with_context(|| reading(&file))?;
        let meta: Meta = serde_json::from_slice(&bytes).with_context(|| reading(&file))?;
        Ok(Kernel {
            key,
            image: kernel.join("bzImage"),
            system_map: Some(kernel.join("System.map")),
            kbuild: tree.join("tree").join(build::OUT),
            release: meta.release,
            source: meta.source,
            compiler: meta.compiler,
        })
    }

    /// The kernel to build upon, of which only a little is compiled again; `None`: nothing but
    /// the source.
    fn built_upon(&self) -> Option<KernelSpec> {
        let less = KernelSpec {
            series: None,
            patches: None,
            without: None,
            options: Vec::new(),
            firmware_fallback: false,
            systemd: false,
            built_in: false,
            ..self.spec.clone()
        };
        if less != *self.spec {
            return Some(less);
        }
        // What all kernels of a scenario have in common comes first, so that it is built once.
        less.memory_hotplug.then_some(KernelSpec {
            memory_hotplug: false,
            ..less
        })
    }

    /// The entry to build upon, verified: the source, or another kernel's build.
    fn base(&self, identity: &Identity) -> Result<PathBuf> {
        let Some(spec) = self.built_upon() else {
            return self.source(identity);
        };
        // Another run may clean up between the two.
        for _ in 0..BASES {
            let base =
                Work::new(self.root, self.cache, &spec, self.say)?.provide(BuildTree::Needed)?;
            if let Some(dir) = self.cache.get(BUILD, &base.key, Check::Full, self.say)? {
                return Ok(dir);
            }
        }
        bail!(
            "the build of {spec} was damaged {BASES} times as soon as it was made: does the disk of {} keep what is written to it?",
            self.cache.root().display()
        )
    }

    fn build(&self, request: &Lock, identity: &Identity, base: &Path) -> Result<Kernel> {
        let begin = Instant::now();
        let staged = self.cache.stage(request)?;
        let log = self
            .cache
            .log(&format!("kernel-{}-{}", self.spec, &request.key()[..8]))?;
        let top = staged.dir().join("tree");
        let how = |p: &Path| {
            if p.starts_with(build::OUT) {
                How::Copy
            } else {
                How::Link
            }
        };
        copy::tree(&base.join("tree"), &top, &how).map_err(|e| self.cache.explain(e))?;
        let new = match self.built_upon() {
            Some(_) => &self.patches[self.below..],
            None => &self.patches[..],
        };
        if !new.is_empty() {
            patch::apply(self.cache, new, &top, self.say)?;
        }
        if let Some(sources) = &self.parts {
            built_in::place(sources, &top)?;
        }
        let tree = build::Tree::new(self.cache, top, log.clone(), self.what.clone());
        tree.settle()?;
        // A kernel with more options than the one that it is built upon begins with that one's.
        let spec = self.spec;
        let more = spec.firmware_fallback
            || spec.memory_hotplug
            || spec.systemd
            || !spec.options.is_empty();
        let effective = tree.configure(more, &|base| config::merge(base, &self.wishes))?;
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
            self.describe(key, &kernel, &tree)?
        };
        self.answer(request, &kernel.key)?;
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
        for (from, name) in [
            (tree.image(), "bzImage"),
            (tree.out().join("System.map"), "System.map"),
        ] {
            fs::copy(&from, small.dir().join(name))
                .with_context(|| format!("keeping {}", from.display()))?;
        }
        write(&small.dir().join("config"), effective.as_bytes())?;
        let meta = serde_json::to_vec_pretty(meta)?;
        write(&small.dir().join("meta.json"), &meta)?;
        Ok(small)
    }
}
