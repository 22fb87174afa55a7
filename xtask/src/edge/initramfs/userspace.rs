// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images of user space: a distribution's packages as an initramfs, unpacked by us and
//! without running anything of theirs, so that it takes no root.
//!
//! Two kinds of cache entries: `image/<key>`, the archive, whose key holds the recipe and each
//! package's version and bytes; and `image_request/<key>`, which image a recipe came out as,
//! so that a cached one is found without asking the network.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use self::recipe::Recipe;
use crate::{
    core::{fault::Fault, scenario::ImageSpec, units::Bytes},
    edge::{
        apt::{self, Apt},
        cache::{Cache, Check, Lock},
        files,
    },
};

mod elf;
mod recipe;
mod tree;

const KIND: &str = "image";
const REQUEST: &str = "image_request";
/// Changes whenever the same packages would come out otherwise than before.
const RECIPE: &str = "1";
/// Packages, what is unpacked of them, and the archive.
const NEED: Bytes = Bytes(1 << 30);
/// The archive's file in its entry, and the list of what went in: `name version`.
const ARCHIVE: &str = "image.cpio";
const PACKAGES: &str = "packages";

/// An image of user space.
#[derive(Clone, Debug)]
pub struct Image {
    /// Equal keys are the same bytes.
    pub key: String,
    /// Where it is.
    pub archive: PathBuf,
    /// What went in, `name version` each.
    pub packages: Vec<String>,
}

/// The image of `spec`, from the cache or made of packages; `root` is the checkout.
///
/// # Errors
/// Usage errors for what images.yaml says wrongly, and for a suite that it does not have.
/// A package that cannot be had is named with its suite.
pub fn provide(root: &Path, cache: &Cache, spec: &ImageSpec, say: &dyn Fn(&str)) -> Result<Image> {
    let recipe = recipe::find(root, spec.image, &spec.suite)?;
    let recipe_text = serde_json::to_string(&recipe)?;
    let request = blake3::hash(format!("{RECIPE} {recipe_text}").as_bytes());
    let request = request.to_hex()[..32].to_owned();
    if let Some(image) = cached(cache, &request, say)? {
        return Ok(image);
    }
    let what = format!("image {spec}");
    let lock = cache.lock(REQUEST, &request, &what, say)?;
    if let Some(image) = cached(cache, &request, say)? {
        return Ok(image);
    }
    cache.require_space(NEED, &format!("making {what}"))?;
    let key = make(cache, &lock, &recipe, &recipe_text, spec, say)
        .map_err(|e| cache.explain(e))
        .with_context(|| format!("making {what}"))?;
    let answer = cache.stage(&lock)?;
    fs::write(answer.dir().join(KIND), &key)?;
    cache.put(&lock, answer)?;
    cached(cache, &request, say)?.with_context(|| format!("{what} was made and is gone again"))
}

fn cached(cache: &Cache, request: &str, say: &dyn Fn(&str)) -> Result<Option<Image>> {
    let Some(dir) = cache.get(REQUEST, request, Check::Full, say)? else {
        return Ok(None);
    };
    let key = fs::read_to_string(dir.join(KIND))?;
    let Some(dir) = cache.get(KIND, &key, Check::Full, say)? else {
        return Ok(None);
    };
    let packages = fs::read_to_string(dir.join(PACKAGES))?;
    Ok(Some(Image {
        key,
        archive: dir.join(ARCHIVE),
        packages: packages.lines().map(str::to_owned).collect(),
    }))
}

/// Makes the image and keeps it; its key.
fn make(
    cache: &Cache,
    request: &Lock,
    recipe: &Recipe,
    recipe_text: &str,
    spec: &ImageSpec,
    say: &dyn Fn(&str),
) -> Result<String> {
    let work = cache.stage(request)?;
    let name = format!("{}-{}", spec.image, spec.suite);
    let (key, archive, packages) =
        apt::with_mirrors(cache, &name, &recipe.archives, "", say, &|apt| {
            let versions = resolve(apt, recipe, spec, say)?;
            let debs = work.dir().join("deb");
            files::remove(&debs);
            say(&format!(
                "downloading {} packages for image {spec}",
                versions.len()
            ));
            let wanted: Vec<_> = versions.iter().map(|(n, v)| format!("{n}={v}")).collect();
            apt.download(&wanted, &debs)?;
            let mut hash = blake3::Hasher::new();
            hash.update(format!("{RECIPE} {recipe_text}").as_bytes());
            let mut archive = super::Archive::default();
            for (package, version) in &versions {
                let deb = deb_of(&debs, package)?;
                let bytes = fs::read(&deb)?;
                let digest = blake3::hash(&bytes).to_hex();
                hash.update(format!("\n{package} {version} {digest}").as_bytes());
                let unpacked = work.dir().join("files");
                apt.unpack(&deb, &unpacked)?;
                tree::add(&mut archive, &unpacked, recipe.parts.get(*package))
                    .with_context(|| format!("package {package} {version}"))?;
                files::remove(&unpacked);
            }
            let packages: Vec<_> = versions.iter().map(|(n, v)| format!("{n} {v}")).collect();
            Ok((hash.finalize().to_hex().to_string(), archive, packages))
        })?;
    let mut archive = archive;
    tree::finish(&mut archive, recipe)?;
    if let Some(lack) = elf::lacking(&archive) {
        bail!(Fault::usage(format!(
            "{lack}: add the package of suite {} that has it to {}",
            spec.suite,
            recipe::FILE
        )));
    }
    let lock = cache.lock(KIND, &key, &format!("image {spec}"), say)?;
    if cache.get(KIND, &key, Check::Full, say)?.is_some() {
        return Ok(key);
    }
    let staged = cache.stage(&lock)?;
    fs::write(staged.dir().join(ARCHIVE), archive.to_bytes())?;
    fs::write(staged.dir().join(PACKAGES), packages.join("\n") + "\n")?;
    cache.put(&lock, staged)?;
    Ok(key)
}

/// The newest version of each package of the recipe.
fn resolve<'r>(
    apt: &Apt,
    recipe: &'r Recipe,
    spec: &ImageSpec,
    say: &dyn Fn(&str),
) -> Result<BTreeMap<&'r str, String>> {
    say(&format!(
        "asking the archive for the packages of image {spec}"
    ));
    let updated = apt.update()?;
    let all = recipe.all();
    let table = apt.versions(all.iter().copied())?;
    match newest(&table, &all) {
        Ok(versions) => Ok(versions),
        // A list that could not be fetched may be the one that has it.
        Err(_) if updated.is_err() => Err(updated.unwrap_err()),
        Err(missing) => bail!(
            "no package {} in suite {} ({}); {} asks for it",
            missing.join(", "),
            spec.suite,
            recipe.archives.join(", "),
            recipe::FILE
        ),
    }
}

/// The newest version of each of `packages` in apt-cache's table, or those that it lacks.
fn newest<'p>(
    table: &str,
    packages: &[&'p str],
) -> Result<BTreeMap<&'p str, String>, Vec<&'p str>> {
    let mut versions = BTreeMap::new();
    for (package, version) in apt::rows(table) {
        if let Some(name) = packages.iter().find(|p| **p == package) {
            // The first is the newest.
            versions.entry(*name).or_insert_with(|| version.to_owned());
        }
    }
    let missing: Vec<_> = packages
        .iter()
        .copied()
        .filter(|p| !versions.contains_key(p))
        .collect();
    if missing.is_empty() {
        Ok(versions)
    } else {
        Err(missing)
    }
}

/// The file that was downloaded of `package`: `package_version_architecture.deb`.
fn deb_of(folder: &Path, package: &str) -> Result<PathBuf> {
    let of_package = |(name, path): (String, PathBuf)| {
        let is = name.split('_').next() == Some(package) && name.ends_with(".deb");
        is.then_some(path)
    };
    let mut found = files::list(folder).into_iter().filter_map(of_package);
    found
        .next()
        .with_context(|| format!("apt-get download left no package {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_taken_and_what_is_missing_named() {
        let table = " udev | 252.39-1 | http://x bookworm-security/main amd64 Packages\n udev | 252.38-1 | http://x bookworm/main amd64 Packages\nlibc6 | 2.36-9 | http://x bookworm/main amd64 Packages\n";
        let versions = newest(table, &["libc6", "udev"]).unwrap();
        assert_eq!(versions["udev"], "252.39-1");
        assert_eq!(versions["libc6"], "2.36-9");
        assert_eq!(
            newest(table, &["libc6", "libx", "udevd"]),
            Err(vec!["libx", "udevd"])
        );
    }
}
