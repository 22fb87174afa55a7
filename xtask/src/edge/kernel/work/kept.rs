// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building in a checkout that stays: what was compiled for the commit before is compiled
//! again only where it differs. What comes out has the key, and so the bytes, that it would
//! have anywhere else; only image, symbols and configuration go into the cache.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use anyhow::{Context, Result};

use super::{
    super::Kept, BUILD_NEED, KERNEL, Kernel, REQUEST, Work, build, built_in, config,
    fetch::Identity, patch,
};
use crate::edge::{
    cache::{Check, Lock},
    files::{self, write_whole},
};

impl Work<'_> {
    pub fn provide_in(
        &self,
        kept: &Kept,
        commit: &str,
        check_out: &dyn Fn() -> Result<()>,
    ) -> Result<Kernel> {
        let (identity, request) = self.request_of(commit);
        if let Some(kernel) = self.kept(&request, kept.top)? {
            return Ok(kernel);
        }
        let lock = self.cache.lock(REQUEST, &request, &self.what, self.say)?;
        if let Some(kernel) = self.kept(&request, kept.top)? {
            return Ok(kernel);
        }
        self.build_in(&lock, &identity, kept, check_out)
            .with_context(|| format!("building {} of commit {commit}", self.what))
    }

    pub fn kbuild_in(
        &self,
        kept: &Kept,
        commit: &str,
        check_out: &dyn Fn() -> Result<()>,
    ) -> Result<PathBuf> {
        let (identity, request) = self.request_of(commit);
        let built = fs::read_to_string(kept.note).unwrap_or_default();
        if built != request {
            let lock = self.cache.lock(REQUEST, &request, &self.what, self.say)?;
            self.build_in(&lock, &identity, kept, check_out)?;
        }
        Ok(kept.top.join(build::OUT))
    }

    /// As any other request for this commit would be.
    fn request_of(&self, commit: &str) -> (Identity, String) {
        let identity = Identity {
            text: format!("git commit {commit}"),
        };
        let asked = [b"request ", self.fragments.as_slice()].concat();
        let request = self.key(&identity, &asked);
        (identity, request)
    }

    /// The kernel that a request came out as, built here or elsewhere.
    fn kept(&self, request: &str, top: &Path) -> Result<Option<Kernel>> {
        let found = self.answered(request)?;
        let found = found.map(|(key, kernel)| self.describe_in(key, &kernel, top));
        found.transpose()
    }

    fn describe_in(&self, key: String, kernel: &Path, top: &Path) -> Result<Kernel> {
        Ok(Kernel {
            kbuild: top.join(build::OUT),
            ..self.describe(key, kernel, top)?
        })
    }

    fn build_in(
        &self,
        request: &Lock,
        identity: &Identity,
        kept: &Kept,
        check_out: &dyn Fn() -> Result<()>,
    ) -> Result<Kernel> {
        let (begin, top) = (Instant::now(), kept.top);
        self.cache
            .require_space(BUILD_NEED, &format!("building {}", self.what))?;
        files::remove(kept.note);
        check_out()?;
        if !top.join(build::OUT).join(".config").exists() {
            files::remove(&top.join(build::OUT));
            self.seed(top)?;
        }
        let log = self.cache.log(&format!("kept-{}", &request.key()[..16]))?;
        (self.say)(&format!(
            "building {} ({}); log: {}",
            self.what,
            identity.text,
            log.display()
        ));
        let tree = build::Tree::new(self.cache, top.to_owned(), log, self.what.clone());
        let (effective, release) = self.make_in(&tree, top)?;
        let key = self.key(identity, effective.as_bytes());
        let lock = self.cache.lock(KERNEL, &key, &self.what, self.say)?;
        let there = self.cache.get(KERNEL, &key, Check::Full, self.say)?;
        let entry = match there {
            Some(entry) => entry,
            None => {
                let meta = self.meta(identity, release, &effective, begin.elapsed());
                let small = self.collect(&lock, &tree, &meta, &effective)?;
                self.cache
                    .put(&lock, small)
                    .map_err(|e| self.cache.explain(e))?
            }
        };
        self.answer(request, &key)?;
        write_whole(kept.note, request.key().as_bytes())?;
        (self.say)(&format!(
            "built {} in {:.0} s",
            identity.text,
            begin.elapsed().as_secs_f64()
        ));
        self.describe_in(key, &entry, top)
    }

    /// Patches, configures and compiles; the effective configuration and the release.
    fn make_in(&self, tree: &build::Tree, top: &Path) -> Result<(String, String)> {
        if !self.patches.is_empty() {
            patch::apply(self.cache, &self.patches, top, self.say)?;
        }
        if let Some(sources) = &self.parts {
            built_in::place(sources, top)?;
        }
        let effective = self.configure_in(tree)?;
        config::contract(&effective, &self.wishes, top)?;
        let release = tree.build()?;
        Ok((effective, release))
    }

    /// Configures from nothing, as anywhere else: what was set for the commit before must not
    /// live on. Where the same comes out, kbuild is not to see that it was made anew.
    fn configure_in(&self, tree: &build::Tree) -> Result<String> {
        let config = tree.out().join(".config");
        let before = fs::read(&config).ok();
        let when: Option<SystemTime> = fs::metadata(&config).and_then(|m| m.modified()).ok();
        files::remove(&config);
        let effective = tree.configure(false, &|base| config::merge(base, &self.wishes))?;
        if let Some(when) = when
            && fs::read(&config).ok() == before
        {
            fs::File::open(&config)
                .and_then(|file| file.set_modified(when))
                .with_context(|| format!("keeping the time of {}", config.display()))?;
        }
        Ok(effective)
    }
}
