// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kept checkout begins with: the output of the kernel that it is like, where the cache
//! has it, so that the first step compiles only what differs as well.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{BUILD, BuildTree, Work, build, copy, copy::How};
use crate::{
    core::plan::KernelSpec,
    edge::{cache::Check, process},
};

impl Work<'_> {
    /// Gives the checkout in `top`, which has no output yet, that of the unpatched kernel of
    /// its source, if that was built here before.
    pub(super) fn seed(&self, top: &Path) -> Result<()> {
        let spec = KernelSpec {
            source: self.source.name.clone(),
            series: None,
            patches: None,
            without: None,
            options: Vec::new(),
            small_sections: false,
            firmware_fallback: false,
            memory_hotplug: false,
            systemd: false,
            built_in: false,
            ..self.spec.clone()
        };
        let base = Work::new(self.root, self.cache, &spec, self.say)?;
        let (_, request) = base.request()?;
        let Some(kernel) = base.cached(&request, BuildTree::Needed)? else {
            return Ok(());
        };
        let Some(entry) = self.cache.get(BUILD, &kernel.key, Check::Full, self.say)? else {
            return Ok(());
        };
        let from = entry.join("tree");
        (self.say)(&format!(
            "beginning with what was built of {}",
            kernel.source
        ));
        let out = top.join(build::OUT);
        copy::tree(&from.join(build::OUT), &out, &|_| How::Copy)
            .map_err(|e| self.cache.explain(e))?;
        let log = self.cache.log("seed")?;
        build::Tree::new(self.cache, top.to_owned(), log, self.what.clone()).settle()?;
        as_old(&from, top, Path::new(""))
    }
}

/// Gives each file of `top` that is the same in `from` the time that it has there: what was
/// made of it is newer. Others stay newer than anything that was made.
fn as_old(from: &Path, top: &Path, at: &Path) -> Result<()> {
    if process::interrupted() {
        return Err(process::Stopped.into());
    }
    let dir = top.join(at);
    for entry in fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))? {
        let entry = entry?;
        let path = at.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if path != Path::new(build::OUT) && from.join(&path).is_dir() {
                as_old(from, top, &path)?;
            }
        } else if kind.is_file() {
            let (was, is) = (from.join(&path), entry.path());
            let size = |p: &Path| p.symlink_metadata().map(|m| (m.is_file(), m.len())).ok();
            if size(&was) == size(&is) && fs::read(&was)? == fs::read(&is)? {
                let when = fs::metadata(&was)?.modified()?;
                fs::File::open(&is)?.set_modified(when)?;
            }
        }
    }
    Ok(())
}
