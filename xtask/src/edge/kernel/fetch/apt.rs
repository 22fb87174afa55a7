// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel sources out of Debian packages.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use super::unpack;
use crate::edge::{
    apt::{self, Apt},
    cache::{Cache, Check},
    files,
};

/// Entries that say which version stands in for a pinned one that the archive lost.
const REPLACED: &str = "replaced";

/// The package to get.
pub struct Wanted<'a> {
    pub package: &'a str,
    pub version: &'a str,
    pub suites: &'a [String],
}

pub fn identity(package: &str, version: &str) -> String {
    format!("debian {package} {version}")
}

fn replaced_key(package: &str, version: &str) -> String {
    blake3::hash(identity(package, version).as_bytes()).to_hex()[..32].to_owned()
}

/// The pinned version, or the one that an earlier run had to take in its place.
pub fn in_force(cache: &Cache, package: &str, version: &str, say: &dyn Fn(&str)) -> Result<String> {
    let Some(dir) = cache.get(REPLACED, &replaced_key(package, version), Check::Full, say)? else {
        return Ok(version.to_owned());
    };
    let instead = fs::read_to_string(dir.join("version"))?;
    say(&replaced_warning(package, version, &instead));
    Ok(instead)
}

fn replaced_warning(package: &str, version: &str, instead: &str) -> String {
    format!(
        "warning: the archive no longer has {package} {version}: using {instead}; results name it (pin it in {})",
        super::super::sources::FILE
    )
}

pub fn remember(cache: &Cache, wanted: &Wanted, instead: &str, say: &dyn Fn(&str)) -> Result<()> {
    let key = replaced_key(wanted.package, wanted.version);
    let lock = cache.lock(REPLACED, &key, "a note", say)?;
    let staged = cache.stage(&lock)?;
    fs::write(staged.dir().join("version"), instead)?;
    cache.put(&lock, staged)?;
    Ok(())
}

/// Downloads and unpacks the package's source to `dir`/tree; returns the version it took.
pub fn fetch(cache: &Cache, wanted: &Wanted, dir: &Path, say: &dyn Fn(&str)) -> Result<String> {
    let otherwise = format!(
        ": give a tarball, tree or git source in {}",
        super::super::sources::FILE
    );
    apt::with_mirrors(
        cache,
        wanted.package,
        wanted.suites,
        &otherwise,
        say,
        &|apt| get(apt, cache, wanted, dir, say),
    )
}

fn get(
    apt: &Apt,
    cache: &Cache,
    wanted: &Wanted,
    dir: &Path,
    say: &dyn Fn(&str),
) -> Result<String> {
    say(&format!(
        "asking the archive for {} {}",
        wanted.package, wanted.version
    ));
    let updated = apt.update()?;
    let table = apt.versions([wanted.package])?;
    let version = match choose(&table, wanted.package, wanted.version) {
        Some(version) if version == wanted.version => version,
        // A list that could not be fetched may be the one that has the version.
        Some(_) | None if updated.is_err() => return Err(updated.unwrap_err()),
        Some(version) => {
            say(&replaced_warning(wanted.package, wanted.version, &version));
            remember(cache, wanted, &version, say)?;
            version
        }
        None => bail!(
            "no version of {} like {} in suites {}",
            wanted.package,
            wanted.version,
            wanted.suites.join(", ")
        ),
    };
    say(&format!("downloading {} {version}", wanted.package));
    let into = dir.join("deb");
    apt.download(&[format!("{}={version}", wanted.package)], &into)?;
    unpack_source(apt, wanted.package, &into, dir, say)?;
    Ok(version)
}

fn unpack_source(
    apt: &Apt,
    package: &str,
    into: &Path,
    dir: &Path,
    say: &dyn Fn(&str),
) -> Result<()> {
    let deb = fs::read_dir(into)?
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "deb"));
    let deb =
        deb.with_context(|| format!("apt-get download left no package in {}", into.display()))?;
    say(&format!("unpacking {package}"));
    let files = into.join("files");
    apt.unpack(&deb, &files)?;
    let sources = files.join("usr/src");
    let prefix = format!("{package}.tar");
    let archive = fs::read_dir(&sources)
        .into_iter()
        .flatten()
        .flatten()
        .find(|e| e.file_name().to_string_lossy().starts_with(&prefix));
    let archive = archive
        .with_context(|| format!("package {package} has no /usr/src/{prefix}*"))?
        .path();
    unpack(&archive, &dir.join("tree"), 1, &apt.log)?;
    files::remove(into);
    Ok(())
}

/// The pinned version if apt-cache's `table` has it, else the newest of the same upstream
/// series (`6.1`), if any. apt lists the newest first.
fn choose(table: &str, package: &str, pinned: &str) -> Option<String> {
    let versions: Vec<_> = apt::rows(table)
        .filter_map(|(name, version)| (name == package).then_some(version))
        .collect();
    if versions.contains(&pinned) {
        return Some(pinned.to_owned());
    }
    let series = |version: &str| {
        version
            .splitn(3, ['.', '-', '~', '+'])
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    versions
        .into_iter()
        .find(|v| series(v) == series(pinned))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "linux-source-6.1 |  6.1.192-3 | http://x/debian-security bookworm-security/main amd64 Packages
linux-source-6.1 | 6.1.176-1~deb11u1 | http://x/debian-security bullseye-security/main amd64 Packages
linux-source-6.1 |  6.1.176-1 | http://x/debian bookworm/main amd64 Packages
linux-source-6.12 | 6.12.1-1 | http://x/debian bookworm/main amd64 Packages
";

    #[test]
    fn the_pin_wins_else_the_newest_of_its_series() {
        let choose = |pinned| choose(TABLE, "linux-source-6.1", pinned);
        assert_eq!(choose("6.1.176-1").unwrap(), "6.1.176-1");
        assert_eq!(choose("6.1.150-2").unwrap(), "6.1.192-3");
        assert_eq!(choose("6.12.1-1"), None, "another package's");
        assert_eq!(choose("6.2.1-1"), None);
    }
}
