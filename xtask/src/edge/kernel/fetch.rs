// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a [`Source`] to its tree in the cache: `source/<key>/tree/`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::sources::{Origin, Source};
use crate::{
    core::units::Bytes,
    edge::{
        cache::{Cache, Check, Lock, Staged},
        process,
    },
};

mod apt;
mod git;
mod tarball;
mod tree;

const KIND: &str = "source";
/// A kernel tree, its archive, and what they need while one is unpacked from the other.
const NEED: Bytes = Bytes(2 << 30);
const UNPACK_LIMIT: Duration = Duration::from_secs(1800);

/// Exactly which source it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// One line, for people and for the key: kind, where it is from, exact version.
    pub text: String,
}

impl Identity {
    /// Name of its entry: readable, and unique by its hash.
    fn key(&self) -> String {
        let hash = blake3::hash(self.text.as_bytes()).to_hex();
        let readable: String = self
            .text
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '_'
                }
            })
            .take(60)
            .collect();
        format!("{readable}_{}", &hash[..16])
    }
}

/// The identity, without the network where the source allows (all but branches and tags of
/// a far repository do).
pub fn identify(cache: &Cache, source: &Source, say: &dyn Fn(&str)) -> Result<Identity> {
    let text = match &source.origin {
        Origin::Debian {
            package, version, ..
        } => apt::identity(package, &apt::in_force(cache, package, version, say)?),
        Origin::Tarball { sha256, .. } => format!("tarball sha256:{sha256}"),
        Origin::Tree(path) => return tree::identify(cache, path, say),
        Origin::Git { from, reference } => git::identity(cache, from, reference, say)?,
    };
    Ok(Identity { text })
}

/// Whether the tree is already there.
pub fn present(cache: &Cache, identity: &Identity) -> bool {
    cache.root().join(KIND).join(identity.key()).exists()
}

/// The entry that holds the tree, fetched if need be. It is another than `identity` when a
/// Debian archive no longer has the pinned version.
pub fn provide(
    cache: &Cache,
    source: &Source,
    identity: &Identity,
    say: &dyn Fn(&str),
) -> Result<(Identity, PathBuf)> {
    let lock = match find(cache, source, identity, say)? {
        Found::Whole(dir) => return Ok((identity.clone(), dir)),
        Found::Nothing(lock) => lock,
    };
    cache.require_space(
        NEED,
        &format!("fetching the source of kernel {}", source.name),
    )?;
    let staged = cache.stage(&lock)?;
    let context = || {
        format!(
            "fetching the source of kernel {} ({})",
            source.name, identity.text
        )
    };
    match fetch(cache, source, identity, &staged, say)
        .map_err(|e| cache.explain(e))
        .with_context(context)?
    {
        None => Ok((identity.clone(), store(cache, &lock, staged)?)),
        Some(other) => {
            // The other version may be there already, or be in the making by another run.
            let lock = match find(cache, source, &other, say)? {
                Found::Whole(dir) => return Ok((other, dir)),
                Found::Nothing(lock) => lock,
            };
            let staged_other = cache.stage(&lock)?;
            fs::rename(staged.dir().join("tree"), staged_other.dir().join("tree"))?;
            Ok((other, store(cache, &lock, staged_other)?))
        }
    }
}

/// What the cache has of a source.
enum Found {
    /// Its entry.
    Whole(PathBuf),
    /// Nothing, and the right to make it.
    Nothing(Lock),
}

/// Looks for a source, once nobody else is making it.
fn find(cache: &Cache, source: &Source, identity: &Identity, say: &dyn Fn(&str)) -> Result<Found> {
    let key = identity.key();
    let what = format!("the source of kernel {}", source.name);
    let lock = cache.lock(KIND, &key, &what, say)?;
    let there = cache.get(KIND, &key, Check::Full, say)?;
    Ok(there.map_or(Found::Nothing(lock), Found::Whole))
}

fn store(cache: &Cache, lock: &Lock, staged: Staged) -> Result<PathBuf> {
    let tree = staged.dir().join("tree");
    if !tree.join("Makefile").is_file() || !tree.join("Kconfig").is_file() {
        bail!("what was fetched is no kernel source: Makefile or Kconfig is missing at its top");
    }
    cache.put(lock, staged)
}

/// Puts the tree into `staged`/tree; the identity if it is not the one asked for.
fn fetch(
    cache: &Cache,
    source: &Source,
    identity: &Identity,
    staged: &Staged,
    say: &dyn Fn(&str),
) -> Result<Option<Identity>> {
    match &source.origin {
        Origin::Debian {
            package,
            version,
            suites,
        } => {
            let got = apt::fetch(
                cache,
                &apt::Wanted {
                    package,
                    version,
                    suites,
                },
                staged.dir(),
                say,
            )?;
            let got = Identity {
                text: apt::identity(package, &got),
            };
            Ok((got != *identity).then_some(got))
        }
        Origin::Tarball { from, sha256 } => {
            tarball::fetch(cache, from, sha256, staged.dir(), say).map(|()| None)
        }
        Origin::Tree(path) => bail!(
            "the copy of {} was removed from the cache meanwhile: run the command again",
            path.display()
        ),
        Origin::Git { from, .. } => {
            git::fetch(cache, from, identity, staged.dir(), say).map(|()| None)
        }
    }
}

/// Unpacks an archive into the new directory `to`. All files are as new as the unpacking:
/// an archive from the future would have make build forever.
fn unpack(archive: &Path, to: &Path, strip: u8, log: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut tar = process::tool("tar");
    tar.args([
        "--extract",
        "--no-same-owner",
        "--no-same-permissions",
        "--touch",
    ])
    .arg(format!("--strip-components={strip}"));
    tar.arg("--file").arg(archive).arg("--directory").arg(to);
    run(
        &format!("unpacking {}", archive.display()),
        tar,
        log,
        UNPACK_LIMIT,
    )
}

fn run(what: &str, command: Command, log: &Path, limit: Duration) -> Result<()> {
    process::run_logged(what, command, log, limit)
}

#[cfg(test)]
mod tests;
