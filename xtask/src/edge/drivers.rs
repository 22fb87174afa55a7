// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of what runs in the guest's kernel, which are built as modules (`module`) or
//! as a part of a kernel (`kernel`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Where they are in a checkout.
pub const DIR: &str = "guest-drivers";

/// Files by their path below the folder, with their bytes.
pub type Sources = Vec<(PathBuf, Vec<u8>)>;

/// Writes `sources` below `dir`.
///
/// # Errors
/// When one cannot be written.
pub fn write(sources: &Sources, dir: &Path) -> Result<()> {
    for (path, bytes) in sources {
        let to = dir.join(path);
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        fs::write(&to, bytes).with_context(|| format!("copying {}", path.display()))?;
    }
    Ok(())
}

/// The sources of the checkout `root` with their bytes, in order; not what a build in place
/// left there.
///
/// # Errors
/// When one cannot be read, or there is nothing to build them with.
pub fn sources(root: &Path) -> Result<Sources> {
    let dir = &root.join(DIR);
    let source = |p: &PathBuf| {
        let name = p
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let known = ["c", "h", "S"]
            .iter()
            .any(|e| p.extension().is_some_and(|x| x == *e));
        !name.starts_with('.')
            && !name.ends_with(".mod.c")
            && (known || ["Kbuild", "Makefile"].contains(&name.as_str()))
    };
    let found: Vec<_> = files(dir)?.into_iter().filter(source).collect();
    if !found
        .iter()
        .any(|p| p == Path::new("Kbuild") || p == Path::new("Makefile"))
    {
        bail!("{} has no Kbuild", dir.display());
    }
    found
        .into_iter()
        .map(|p| {
            Ok((
                p.clone(),
                fs::read(dir.join(&p)).with_context(|| format!("reading {}", p.display()))?,
            ))
        })
        .collect()
}

/// All files below `dir`, relative, sorted.
///
/// # Errors
/// When a directory cannot be read.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    fn below(dir: &Path, at: &Path, out: &mut Vec<PathBuf>) -> Result<()> {
        let entries = fs::read_dir(dir.join(at))
            .with_context(|| format!("listing {}", dir.join(at).display()))?;
        for entry in entries {
            let entry = entry?;
            let path = at.join(entry.file_name());
            match entry.file_type()? {
                t if t.is_dir() => below(dir, &path, out)?,
                t if t.is_file() => out.push(path),
                _ => {}
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    below(dir, Path::new(""), &mut out)?;
    out.sort();
    Ok(out)
}
