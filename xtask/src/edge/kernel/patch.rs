// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quilt-style series: images/kernels/patches/<series>/<version>/series lists patches,
//! which must apply without fuzz.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use regex::Regex;

use super::copy;
use crate::{
    core::fault::Fault,
    edge::{cache::Cache, process},
};

/// Where the series are in a checkout.
pub const DIR: &str = "images/kernels/patches";
const LIMIT: Duration = Duration::from_secs(300);

/// One patch, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// As the series names it.
    pub name: String,
    /// The file as messages call it: in the checkout, or in the cache.
    pub path: String,
    /// The file.
    pub file: PathBuf,
    /// Its contents.
    pub bytes: Vec<u8>,
    /// The files it touches, relative to the kernel's top.
    pub files: BTreeSet<PathBuf>,
}

/// The patches of `series` for `version`, in order.
///
/// # Errors
/// Usage errors: a series that does not exist or not for this version, a name that leads
/// elsewhere, a patch that touches files outside the kernel.
pub fn read(root: &Path, series: &str, version: &str) -> Result<Vec<Patch>> {
    let usage = |m: String| anyhow::Error::from(Fault::usage(m));
    if !one_name(series) {
        return Err(usage(format!("`{series}` is no name of a patch series")));
    }
    let below = format!("{DIR}/{series}");
    if !root.join(&below).is_dir() {
        return Err(usage(format!(
            "no patch series `{series}` in {DIR}; it has {}",
            names(&root.join(DIR))
        )));
    }
    let dir = format!("{below}/{version}");
    if !root.join(&dir).is_dir() {
        return Err(usage(format!(
            "patch series `{series}` is not made for {version}; it is for {}",
            names(&root.join(&below))
        )));
    }
    read_dir(&root.join(&dir), &dir)
}

/// The patches of the quilt series in `dir`, which messages call `shown`.
///
/// # Errors
/// Usage errors, as [`read`].
pub fn read_dir(dir: &Path, shown: &str) -> Result<Vec<Patch>> {
    let usage = |m: String| anyhow::Error::from(Fault::usage(m));
    let mut patches = Vec::new();
    for name in listed(&dir.join("series"), shown)? {
        let (file, path) = (dir.join(&name), format!("{shown}/{name}"));
        let bytes = fs::read(&file).map_err(|e| usage(format!("{path}: {e}")))?;
        let files = touched(&bytes).map_err(|why| usage(format!("{path}:{why}")))?;
        patches.push(Patch {
            name,
            path,
            file,
            bytes,
            files,
        });
    }
    Ok(patches)
}

/// The patches that a `series` file lists.
///
/// # Errors
/// Usage errors with file and line: it cannot be read, names none, has an option that
/// cannot be kept, or a name that leads out of its folder.
pub fn listed(list: &Path, shown: &str) -> Result<Vec<String>> {
    let usage = |m: String| anyhow::Error::from(Fault::usage(m));
    let shown_list = format!("{shown}/series");
    let text = fs::read_to_string(list).map_err(|e| usage(format!("{shown_list}: {e}")))?;
    let dir = list.parent().unwrap_or(Path::new(""));
    let mut names = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = format!("{shown_list}:{}", number + 1);
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let Some(name) = words.next() else { continue };
        match words.next() {
            None | Some("-p1") => {}
            Some(option) => {
                return Err(usage(format!(
                    "{at}: option `{option}`: patches are applied with -p1"
                )));
            }
        }
        let linked = fs::symlink_metadata(dir.join(name)).map(|m| m.is_symlink());
        match linked {
            Ok(false) if inside(Path::new(name)) => {}
            Err(e) if inside(Path::new(name)) => return Err(usage(format!("{at}: {name}: {e}"))),
            _ => return Err(usage(format!("{at}: `{name}` leads out of {shown}"))),
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        return Err(usage(format!("{shown_list} names no patch")));
    }
    Ok(names)
}

fn one_name(name: &str) -> bool {
    inside(Path::new(name)) && Path::new(name).components().count() == 1
}

/// Whether a relative path stays below where it begins.
fn inside(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.components().all(|c| matches!(c, Component::Normal(_)))
}

/// The names in a directory, for messages.
fn names(dir: &Path) -> String {
    let mut names: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// The files that a unified diff touches; errors begin with the line number.
pub fn touched(bytes: &[u8]) -> Result<BTreeSet<PathBuf>, String> {
    static HUNK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@").expect("a valid pattern")
    });
    let text = String::from_utf8_lossy(bytes);
    let mut found = BTreeSet::new();
    // Lines that the hunk at hand still owes: in it, `--- x` is a removed line.
    let (mut old, mut new) = (0u64, 0u64);
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if old > 0 || new > 0 {
            match line.bytes().next() {
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'+') => new = new.saturating_sub(1),
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            continue;
        }
        if let Some(hunk) = HUNK.captures(line) {
            let count = |i| {
                hunk.get(i)
                    .map_or(Ok(1), |m| m.as_str().parse::<u64>())
                    .map_err(|_| format!("{number}: impossible hunk"))
            };
            (old, new) = (count(1)?, count(2)?);
            continue;
        }
        if line.starts_with("Index:") || line.starts_with("GIT binary patch") {
            return Err(format!("{number}: only plain unified diffs are taken"));
        }
        let renamed = ["rename from ", "rename to ", "copy from ", "copy to "]
            .iter()
            .find_map(|p| line.strip_prefix(p));
        if let Some(name) = renamed {
            found.insert(checked(name, number, false)?);
        }
        if let Some(name) = ["--- ", "+++ "].iter().find_map(|p| line.strip_prefix(p)) {
            let name = name.split('\t').next().unwrap_or_default().trim_end();
            // The line that ends a mail's text looks like the beginning of one of these.
            if name != "/dev/null" && name.contains('/') {
                found.insert(checked(name, number, true)?);
            }
        }
    }
    if found.is_empty() {
        return Err("1: it changes no file".into());
    }
    Ok(found)
}

/// A file name out of a patch, without the first component if `strip`.
fn checked(name: &str, line: usize, strip: bool) -> Result<PathBuf, String> {
    let path = if strip {
        name.split_once('/').map_or("", |(_, rest)| rest)
    } else {
        name
    };
    let path = Path::new(path);
    let plain = !name.starts_with(['/', '"'])
        && inside(path)
        && path.components().all(|c| c.as_os_str() != ".git");
    if plain {
        Ok(path.into())
    } else {
        Err(format!("{line}: `{name}` is no file of the kernel"))
    }
}

/// Applies the patches to the kernel in `tree`, whose files may be links: each touched
/// file gets an inode of its own first. Says at which other lines hunks were found.
///
/// # Errors
/// Names the patch, the file and the line of the first hunk that does not apply.
pub fn apply(cache: &Cache, patches: &[Patch], tree: &Path, say: &dyn Fn(&str)) -> Result<()> {
    for patch in patches {
        for file in &patch.files {
            let path = tree.join(file);
            let up = |p: &Path| {
                p.ancestors()
                    .skip(1)
                    .take_while(|a| a.starts_with(tree))
                    .any(Path::is_symlink)
            };
            if path.is_symlink() || up(&path) {
                bail!(
                    "patch {}: {} is behind a symbolic link",
                    patch.path,
                    file.display()
                );
            }
            if path.exists() {
                copy::own(&path).with_context(|| {
                    format!("preparing {} for patch {}", path.display(), patch.name)
                })?;
            }
        }
        let log = cache.log(&format!("patch-{}", std::process::id()))?;
        let mut command = process::tool("patch");
        command.args([
            "-p1",
            "-F0",
            "--forward",
            "--force",
            "--no-backup-if-mismatch",
            "--reject-file=-",
        ]);
        command
            .arg("--directory")
            .arg(tree)
            .arg("--input")
            .arg(std::path::absolute(&patch.file)?);
        let ended = process::run_logged(
            &format!("applying patch {}", patch.path),
            command,
            &log,
            LIMIT,
        );
        let text = fs::read(&log)
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default();
        let _ = fs::remove_file(&log);
        if ended.as_ref().is_err_and(|e| e.is::<process::Stopped>()) {
            return ended;
        }
        if let Err(error) = ended {
            let where_ = failures(&text);
            let reason = if where_.is_empty() {
                format!("{error:#}")
            } else {
                where_.join("; ")
            };
            return Err(
                Fault::usage(format!("patch {} does not apply: {reason}", patch.path)).into(),
            );
        }
        for note in offsets(&text) {
            say(&format!("note: patch {}: {note}", patch.name));
        }
    }
    Ok(())
}

/// What `patch` says went wrong, one text a hunk or file.
fn failures(text: &str) -> Vec<String> {
    each(text, |file, line| {
        let hunk = line.strip_prefix("Hunk #")?;
        let (number, rest) = hunk.split_once(' ')?;
        let at = rest.strip_prefix("FAILED at ").map(|l| {
            l.trim_end_matches('.')
                .split([' ', ','])
                .next()
                .unwrap_or_default()
                .to_owned()
        });
        let at = at.or_else(|| rest.starts_with("ignored").then(|| "?".to_owned()))?;
        Some(format!("{file}:{at}: hunk {number} does not fit"))
    })
    .into_iter()
    .chain(missing(text))
    .chain(
        text.lines()
            .filter(|l| l.contains("previously applied") || l.contains("already exists"))
            .map(str::to_owned),
    )
    .collect()
}

/// The files that a patch changes and the kernel does not have. `patch` says only where in
/// the patch it stumbled, and then quotes the lines that lead there, the name among them.
fn missing(text: &str) -> Vec<String> {
    let mut lines = text.lines().peekable();
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        if !line.starts_with("can't find file") {
            continue;
        }
        let mut name = None;
        while let Some(quoted) = lines.next_if(|l| !l.starts_with("can't find file")) {
            let Some(header) = quoted.strip_prefix("|--- ") else {
                continue;
            };
            let header = header.split('\t').next().unwrap_or_default();
            name = header.split_once('/').map(|(_, name)| name.trim_end());
            break;
        }
        all.push(match name {
            Some(name) => format!("{name}: the kernel has no such file"),
            None => line.to_owned(),
        });
    }
    all
}

fn offsets(text: &str) -> Vec<String> {
    each(text, |file, line| {
        line.contains("(offset")
            .then(|| format!("{file}: {}", line.trim_end_matches('.')))
    })
}

/// Lines that `pick` takes, told with the file that they are about.
fn each(text: &str, pick: impl Fn(&str, &str) -> Option<String>) -> Vec<String> {
    let mut file = "?";
    let mut all = Vec::new();
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("patching file ")
            .or_else(|| line.strip_prefix("checking file "))
        {
            file = name.trim_matches('\'');
        }
        all.extend(pick(file, line));
    }
    all
}

#[cfg(test)]
mod tests;
