// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a search goes over: what differs from one place to the next.

use std::path::Path;

use anyhow::{Context, Result};

use super::Booted;
use crate::{
    core::{fault::Fault, plan::KernelSpec, scenario::Scenario},
    edge::{
        cache::Cache,
        history::{self, History},
        kernel::{BuildTree, Kept},
    },
};

/// What differs from one place to the next.
pub trait Subject {
    /// A name for `place`'s folder: letters, digits, `-`, `_` and `.`.
    fn label(&self, place: &str) -> String;
    /// What `place` is, for people.
    fn text(&self, place: &str) -> String;
    /// What is booted there.
    ///
    /// # Errors
    /// Usage: what differs cannot be.
    fn scenario(&self, place: &str, base: &Scenario) -> Result<Scenario> {
        let _ = place;
        Ok(base.clone())
    }
    /// With which kernel.
    fn spec(&self, place: &str, spec: KernelSpec) -> KernelSpec {
        let _ = place;
        spec
    }
    /// Provides that kernel.
    ///
    /// # Errors
    /// As [`Booted::provide`].
    fn kernel(&self, place: &str, spec: &KernelSpec) -> Result<Booted>;
}

/// Commits of a repository. Places are their names.
pub struct Commits<'a> {
    /// The checkout of bootrig.
    pub root: &'a Path,
    /// The cache.
    pub cache: &'a Cache,
    /// The repository, and a worktree of it.
    pub history: &'a History,
    /// The user's folder.
    pub tree: &'a Path,
    /// Whose patches and configuration they are built with.
    pub like: &'a str,
    /// Given one line a step.
    pub say: &'a dyn Fn(&str),
}

impl Subject for Commits<'_> {
    fn label(&self, place: &str) -> String {
        history::short(place).to_owned()
    }

    fn text(&self, place: &str) -> String {
        let subject = history::describe(self.tree, place).map(|c| c.subject);
        format!("{} {}", history::short(place), subject.unwrap_or_default())
    }

    fn kernel(&self, place: &str, spec: &KernelSpec) -> Result<Booted> {
        let (root, cache, say) = (self.root, self.cache, self.say);
        let kept = Kept {
            top: self.history.folder(),
            like: self.like,
            note: &self.history.note(),
        };
        let check_out = || self.history.check_out(place);
        let kernel = kept.provide(root, cache, spec, place, &check_out, say)?;
        let kbuild = || kept.kbuild(root, cache, spec, place, &check_out, say);
        Booted::with_modules(root, cache, spec, &kernel, &kbuild, say)
    }
}

/// The number at the end of `place`: `patch-3` is 3.
fn number(place: &str) -> Option<usize> {
    place.rsplit('-').next()?.parse().ok()
}

/// Prefixes of a series. Places are `patch-N`: the first N are in; `without-N`: all but that.
pub struct Patches<'a> {
    /// The checkout of bootrig.
    pub root: &'a Path,
    /// The cache.
    pub cache: &'a Cache,
    /// Their names, in order.
    pub names: Vec<String>,
    /// Given one line a step.
    pub say: &'a dyn Fn(&str),
}

impl Subject for Patches<'_> {
    fn label(&self, place: &str) -> String {
        place.to_owned()
    }

    fn text(&self, place: &str) -> String {
        let name = |n: usize| self.names.get(n.checked_sub(1)?);
        match number(place).map(|n| (n, name(n))) {
            Some((n, Some(name))) => format!("{place} of {} ({name})", self.names.len().max(n)),
            _ => format!("{place} (no patch)"),
        }
    }

    fn spec(&self, place: &str, spec: KernelSpec) -> KernelSpec {
        let n = number(place).and_then(|n| u32::try_from(n).ok());
        match place.starts_with("without-") {
            true => KernelSpec { without: n, ..spec },
            false => KernelSpec { patches: n, ..spec },
        }
    }

    fn kernel(&self, _: &str, spec: &KernelSpec) -> Result<Booted> {
        Booted::provide(self.root, self.cache, spec, BuildTree::Needed, self.say)
    }
}

/// Sources. Places are keys of images/kernels/sources.yaml.
pub struct Sources<'a> {
    /// The checkout of bootrig.
    pub root: &'a Path,
    /// The cache.
    pub cache: &'a Cache,
    /// Given one line a step.
    pub say: &'a dyn Fn(&str),
}

impl Subject for Sources<'_> {
    fn label(&self, place: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name: String = place
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        format!("kernel-{name}")
    }

    fn text(&self, place: &str) -> String {
        format!("kernel {place}")
    }

    fn spec(&self, place: &str, spec: KernelSpec) -> KernelSpec {
        KernelSpec {
            source: place.to_owned(),
            ..spec
        }
    }

    fn kernel(&self, _: &str, spec: &KernelSpec) -> Result<Booted> {
        Booted::provide(self.root, self.cache, spec, BuildTree::Needed, self.say)
    }
}

/// Those of `all` that `place` has: the first N of `NAME-N`, or, of `without-N`, all but that.
fn some(all: &[String], place: &str) -> Vec<String> {
    let n = number(place).unwrap_or(0);
    match place.starts_with("without-") {
        true => {
            let others = all.iter().enumerate().filter(|(at, _)| at + 1 != n);
            others.map(|(_, one)| one.clone()).collect()
        }
        false => all[..n.min(all.len())].to_vec(),
    }
}

fn one_of(all: &[String], place: &str) -> String {
    let last = number(place).and_then(|n| all.get(n.checked_sub(1)?));
    match last {
        Some(last) if place.starts_with("without-") => format!("all but {last}"),
        Some(last) => format!("{place} (with {last})"),
        None => format!("{place} (none)"),
    }
}

/// Configuration options, one more at each place: `option-N`.
pub struct Options<'a> {
    /// The checkout of bootrig.
    pub root: &'a Path,
    /// The cache.
    pub cache: &'a Cache,
    /// `CONFIG_X=y`, in order.
    pub all: Vec<String>,
    /// Given one line a step.
    pub say: &'a dyn Fn(&str),
}

impl Subject for Options<'_> {
    fn label(&self, place: &str) -> String {
        place.to_owned()
    }

    fn text(&self, place: &str) -> String {
        one_of(&self.all, place)
    }

    fn spec(&self, place: &str, spec: KernelSpec) -> KernelSpec {
        KernelSpec {
            options: some(&self.all, place),
            ..spec
        }
    }

    fn kernel(&self, _: &str, spec: &KernelSpec) -> Result<Booted> {
        Booted::provide(self.root, self.cache, spec, BuildTree::Needed, self.say)
    }
}

/// Words of the kernel's command line, one more at each place: `word-N`.
pub struct Words<'a> {
    /// The checkout of bootrig.
    pub root: &'a Path,
    /// The cache.
    pub cache: &'a Cache,
    /// In order.
    pub all: Vec<String>,
    /// Given one line a step.
    pub say: &'a dyn Fn(&str),
}

impl Subject for Words<'_> {
    fn label(&self, place: &str) -> String {
        place.to_owned()
    }

    fn text(&self, place: &str) -> String {
        one_of(&self.all, place)
    }

    fn scenario(&self, place: &str, base: &Scenario) -> Result<Scenario> {
        let words = some(&self.all, place);
        let with = base.with_words(&words).map_err(Fault::usage);
        with.context("--words")
    }

    fn kernel(&self, _: &str, spec: &KernelSpec) -> Result<Booted> {
        Booted::provide(self.root, self.cache, spec, BuildTree::Needed, self.say)
    }
}
