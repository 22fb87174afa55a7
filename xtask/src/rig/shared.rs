// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels and modules that several machines need, each built by one of them.
//!
//! Kernels that are built upon the same one are a family: whoever builds one of them has the
//! tree that the others take little more than. So a family has one lease, and its holder
//! builds all of its kernels that any shard needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;

use super::Booted;
use crate::{
    core::plan::{KernelSpec, Trial},
    edge::{
        cache::{Cache, Check, share::Share},
        kernel::{self, BuildTree},
        module,
        process::Stopped,
    },
};

/// What the pack of a kernel may hold.
const KINDS: [&str; 3] = [kernel::REQUEST, kernel::KERNEL, module::KIND];

/// A shared cache, and what it is to hold.
pub struct Shared<'a> {
    share: &'a Share,
    /// The kernels of all shards.
    all: BTreeSet<&'a KernelSpec>,
}

/// A kernel's name there.
struct Named<'a> {
    spec: &'a KernelSpec,
    pack: String,
}

impl<'a> Shared<'a> {
    /// `share`, for the kernels of `whole`, the plan of all shards together.
    pub fn new(share: &'a Share, whole: &'a [Trial]) -> Self {
        let all = whole.iter().map(|t| &t.kernel).collect();
        Self { share, all }
    }

    /// Sees to it that the `wanted` kernels are in `cache`, each taken from the others or
    /// built for all. A store that does not answer is no reason to stop: what it would have
    /// given is built here.
    ///
    /// # Errors
    /// Of building; when interrupted.
    pub(super) fn exchange(
        &self,
        root: &Path,
        cache: &Cache,
        wanted: &BTreeSet<&KernelSpec>,
        say: &dyn Fn(&str),
    ) -> Result<()> {
        let mut families: BTreeMap<String, Vec<Named<'_>>> = BTreeMap::new();
        // In their order a kernel comes before those that are built upon it.
        for &spec in self.all.union(wanted) {
            let requested = kernel::requested(root, cache, spec, say)?;
            let pack = module::key_for(root, &requested.request)?;
            let family = families.entry(requested.family).or_default();
            family.push(Named { spec, pack });
        }
        for (name, family) in families {
            let ours = |n: &&Named<'_>| wanted.contains(n.spec);
            let mut missing: Vec<&Named<'_>> = family.iter().filter(ours).collect();
            if missing.is_empty() {
                continue;
            }
            match self.family(root, cache, &name, &family, &mut missing, say) {
                Ok(()) => {}
                Err(error) if error.is::<Unanswered>() => say(&format!(
                    "warning: {error:#}; going on without the shared cache"
                )),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn family(
        &self,
        root: &Path,
        cache: &Cache,
        name: &str,
        family: &[Named<'_>],
        missing: &mut Vec<&Named<'_>>,
        say: &dyn Fn(&str),
    ) -> Result<()> {
        let what = format!("kernel {} and what is built upon it", family[0].spec);
        loop {
            let mut left = Vec::new();
            for &named in missing.iter() {
                let here = is_here(root, cache, named.spec, say)?;
                if here && answered(self.share.has(&named.pack))? {
                    continue;
                }
                // What is here and not there is given in a moment.
                let pulled = !here && answered(self.share.pull(cache, &named.pack, &KINDS, say))?;
                match pulled {
                    true => say(&format!("took kernel {} from {}", named.spec, self.share)),
                    false => left.push(named),
                }
            }
            *missing = left;
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(_lease) = answered(self.share.lease(name, &what, say))? {
                // Whoever had it before may have put there what was not there a moment ago.
                return self.build(root, cache, family, say);
            }
        }
    }

    fn build(
        &self,
        root: &Path,
        cache: &Cache,
        family: &[Named<'_>],
        say: &dyn Fn(&str),
    ) -> Result<()> {
        for named in family {
            let spec = named.spec;
            let here = is_here(root, cache, spec, say)?;
            let there = match here {
                true => answered(self.share.has(&named.pack))?,
                false => answered(self.share.pull(cache, &named.pack, &KINDS, say))?,
            };
            if there {
                continue;
            }
            let Booted { kernel, modules } =
                Booted::provide(root, cache, spec, BuildTree::IfThere, say)?;
            let request = kernel::requested(root, cache, spec, say)?.request;
            let mut entries = vec![
                (kernel::REQUEST, request.as_str()),
                (kernel::KERNEL, kernel.key.as_str()),
            ];
            let modules = modules.as_ref().and_then(|m| m.file_name()?.to_str());
            entries.extend(modules.map(|key| (module::KIND, key)));
            answered(self.share.push(cache, &named.pack, &entries, say))?;
            say(&format!("gave kernel {spec} to {}", self.share));
        }
        Ok(())
    }
}

/// Whether the kernel and its modules are in `cache`.
fn is_here(root: &Path, cache: &Cache, spec: &KernelSpec, say: &dyn Fn(&str)) -> Result<bool> {
    let Some(kernel) = kernel::cached(root, cache, spec, say)? else {
        return Ok(false);
    };
    if spec.built_in {
        return Ok(true);
    }
    let modules = module::key_for(root, &kernel.key)?;
    let there = cache.get(module::KIND, &modules, Check::Presence, say)?;
    Ok(there.is_some())
}

/// The shared cache did not answer.
#[derive(Debug)]
struct Unanswered(anyhow::Error);

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the shared cache does not answer: {:#}", self.0)
    }
}
impl std::error::Error for Unanswered {}

fn answered<T>(answer: Result<T>) -> Result<T> {
    answer.map_err(|error| match error.is::<Stopped>() {
        true => error,
        false => Unanswered(error).into(),
    })
}
