// SPDX-License-Identifier: MIT OR Apache-2.0
//! images/kernels/sources.yaml: which kernels there are and where their sources come from.
//!
//! Read strictly into [`Source`], which cannot be wrong: one kind, checked fields. Errors
//! carry `file:line`.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, de};

use crate::core::{fault::Fault, nearest::nearest};

/// Where the file is in a checkout.
pub const FILE: &str = "images/kernels/sources.yaml";

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its key in the file, which scenarios use.
    pub name: String,
    /// Where the source comes from.
    pub origin: Origin,
    /// Which directory of a patch series fits it.
    pub patches: String,
    /// File names below images/kernels/fragments/, later ones win.
    pub config: Vec<String>,
}

/// Where a kernel's source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A Debian binary package that holds /usr/src/<package>.tar.xz.
    Debian {
        /// `linux-source-6.1`.
        package: String,
        /// The pinned Debian version.
        version: String,
        /// Suites that may have it; those ending in `-security` are on the security archive.
        suites: Vec<String>,
    },
    /// A tar file, packed in any way that tar knows.
    Tarball {
        /// Where it is.
        from: Place,
        /// Of the file, lower-case hex.
        sha256: String,
    },
    /// A directory on this machine.
    Tree(PathBuf),
    /// A commit of a repository.
    Git {
        /// Where it is.
        from: Place,
        /// Commit, tag or branch.
        reference: String,
    },
}

/// Near or far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// https, http, ftp; for git also ssh and git.
    Url(String),
    /// On this machine, absolute.
    Path(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(u) => f.write_str(u),
            Self::Path(p) => p.display().fmt(f),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    sources: Entries,
}

/// In order, with repeated keys kept so that they can be refused.
struct Entries(Vec<(String, Raw)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> de::Visitor<'de> for Visit {
            type Value = Entries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of kernel names to sources")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Entries(all))
            }
        }
        d.deserialize_map(Visit)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    debian: Option<RawDebian>,
    tarball: Option<RawTarball>,
    tree: Option<RawTree>,
    git: Option<RawGit>,
    patches: Option<String>,
    config: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDebian {
    package: String,
    version: String,
    suites: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTarball {
    url: Option<String>,
    path: Option<PathBuf>,
    sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTree {
    path: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGit {
    url: Option<String>,
    path: Option<PathBuf>,
    #[serde(rename = "ref")]
    reference: String,
}

/// Reads the file of the checkout `root`.
///
/// # Errors
/// A usage error with file and line for anything the file should not say.
pub fn read(root: &Path) -> Result<Vec<Source>> {
    let path = root.join(FILE);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text, root)
}

/// The source called `name`.
///
/// # Errors
/// A usage error naming those there are, and the nearest.
pub fn find(root: &Path, name: &str) -> Result<Source> {
    let all = read(root)?;
    if let Some(source) = all.iter().find(|s| s.name == name) {
        return Ok(source.clone());
    }
    let names: Vec<_> = all.iter().map(|s| s.name.as_str()).collect();
    let near = nearest(name, names.iter().copied())
        .map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
    Err(Fault::usage(format!(
        "no kernel `{name}` in {FILE}; it has {}.{near}",
        names.join(", ")
    ))
    .into())
}

/// Relative paths in the file are relative to `root`.
fn parse(text: &str, root: &Path) -> Result<Vec<Source>> {
    let raw: RawFile = serde_yaml::from_str(text).map_err(|e| {
        let line = e.location().map_or(1, |l| l.line());
        let full = e.to_string();
        Fault::usage(format!(
            "{FILE}:{line}: {}",
            full.rsplit_once(" at line ")
                .map_or(full.as_str(), |(m, _)| m)
        ))
    })?;
    let mut all: Vec<Source> = Vec::new();
    for (name, entry) in raw.sources.0 {
        let again = all.iter().any(|s| s.name == name);
        let checked = if again {
            Err("the name is used twice".to_owned())
        } else {
            check(&name, entry, root)
        };
        all.push(checked.map_err(|why| {
            let line = line_of(text, &name, usize::from(again));
            Fault::usage(format!("{FILE}:{line}: kernel `{name}`: {why}"))
        })?);
    }
    Ok(all)
}

/// The line of the (n+1)th key `name`. serde_yaml gives no position once a value is read.
fn line_of(text: &str, name: &str, nth: usize) -> usize {
    let key = |line: &str| {
        let line = line.trim_start();
        let bare = line.trim_start_matches(['"', '\'']);
        line.len() < 400
            && bare.strip_prefix(name).is_some_and(|r| {
                r.trim_start_matches(['"', '\''])
                    .trim_start()
                    .starts_with(':')
            })
    };
    text.lines()
        .enumerate()
        .filter(|(_, l)| key(l))
        .nth(nth)
        .map_or(1, |(i, _)| i + 1)
}

fn check(name: &str, raw: Raw, root: &Path) -> Result<Source, String> {
    plain("name", name)?;
    let kinds = [
        raw.debian.is_some(),
        raw.tarball.is_some(),
        raw.tree.is_some(),
        raw.git.is_some(),
    ];
    if kinds.iter().filter(|k| **k).count() != 1 {
        return Err("give exactly one of debian, tarball, tree, git".into());
    }
    let origin = match raw {
        Raw {
            debian: Some(d), ..
        } => debian(d)?,
        Raw {
            tarball: Some(t), ..
        } => tarball(t, root)?,
        Raw { tree: Some(t), .. } => Origin::Tree(root.join(t.path)),
        Raw { git: Some(g), .. } => git(g, root)?,
        _ => unreachable!("one kind was counted"),
    };
    let patches = raw.patches.unwrap_or_else(|| name.to_owned());
    plain("patches", &patches)?;
    let config = raw.config.unwrap_or_else(|| vec!["base.config".into()]);
    config.iter().try_for_each(|c| plain("config", c))?;
    Ok(Source {
        name: name.into(),
        origin,
        patches,
        config,
    })
}

/// A name that becomes a file name.
fn plain(what: &str, text: &str) -> Result<(), String> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._+-~".contains(&b);
    if text.is_empty()
        || text.len() > 100
        || text.starts_with(['.', '-'])
        || !text.bytes().all(good)
    {
        return Err(format!(
            "{what} `{text}`: only letters, digits and ._+-~ are allowed, and no . or - in front"
        ));
    }
    Ok(())
}

fn debian(raw: RawDebian) -> Result<Origin, String> {
    plain("package", &raw.package)?;
    // An epoch's colon would not do in a file name; no linux-source has one.
    plain("version", &raw.version)?;
    raw.suites.iter().try_for_each(|s| plain("suite", s))?;
    if raw.suites.is_empty() {
        return Err("suites: name at least one".into());
    }
    if !raw.version.contains('.') {
        return Err(format!(
            "version `{}`: expected one like 6.1.176-1",
            raw.version
        ));
    }
    Ok(Origin::Debian {
        package: raw.package,
        version: raw.version,
        suites: raw.suites,
    })
}

fn tarball(raw: RawTarball, root: &Path) -> Result<Origin, String> {
    let sha256 = raw.sha256.to_ascii_lowercase();
    if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!("sha256 `{sha256}`: expected 64 hexadecimal digits"));
    }
    Ok(Origin::Tarball {
        from: place(raw.url, raw.path, root, &["https://", "http://", "ftp://"])?,
        sha256,
    })
}

fn git(raw: RawGit, root: &Path) -> Result<Origin, String> {
    let bad = |b: u8| b.is_ascii_control() || b" ~^:?*[\\".contains(&b);
    let reference = raw.reference;
    if reference.is_empty()
        || reference.starts_with('-')
        || reference.contains("..")
        || reference.bytes().any(bad)
    {
        return Err(format!(
            "ref `{reference}` is no name of a commit, tag or branch"
        ));
    }
    Ok(Origin::Git {
        from: place(
            raw.url,
            raw.path,
            root,
            &["https://", "http://", "git://", "ssh://"],
        )?,
        reference,
    })
}

fn place(
    url: Option<String>,
    path: Option<PathBuf>,
    root: &Path,
    schemes: &[&str],
) -> Result<Place, String> {
    match (url, path) {
        (Some(u), None)
            if schemes.iter().any(|s| u.starts_with(s)) && !u.contains(char::is_whitespace) =>
        {
            Ok(Place::Url(u))
        }
        (Some(u), None) => Err(format!(
            "url `{u}`: expected one that begins with {}",
            schemes.join(", ")
        )),
        (None, Some(p)) => Ok(Place::Path(root.join(p))),
        _ => Err("give either url or path".into()),
    }
}

#[cfg(test)]
mod tests;
