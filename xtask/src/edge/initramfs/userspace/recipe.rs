// SPDX-License-Identifier: MIT OR Apache-2.0
//! images/userspace/images.yaml: which images of user space there are, and out of what.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::core::{fault::Fault, nearest::hint};

/// Where the file is in a checkout.
pub const FILE: &str = "images/userspace/images.yaml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    images: BTreeMap<String, BTreeMap<String, Recipe>>,
}

/// What an image is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Suites that have the packages.
    pub archives: Vec<String>,
    /// Packages taken whole, but for what no guest reads.
    pub packages: Vec<String>,
    /// Packages of which only these files are taken.
    #[serde(default)]
    pub parts: BTreeMap<String, Vec<String>>,
    /// Users beside root, each with a group of its own.
    #[serde(default)]
    pub users: BTreeMap<String, u32>,
    /// Groups beside root's.
    #[serde(default)]
    pub groups: BTreeMap<String, u32>,
    /// What the installation of the packages would have left, and its contents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The same for links, and where they lead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
}

impl Recipe {
    /// All packages, sorted.
    pub fn all(&self) -> Vec<&str> {
        let parts = self.parts.keys().map(String::as_str);
        let mut all: Vec<_> = self
            .packages
            .iter()
            .map(String::as_str)
            .chain(parts)
            .collect();
        all.sort_unstable();
        all
    }
}

/// The recipe of `image` out of `suite`.
///
/// # Errors
/// Usage errors: a file that says what it should not, with its line; a suite that it does not
/// have, with those that it has.
pub fn find(root: &Path, image: &str, suite: &str) -> Result<Recipe> {
    let path = root.join(FILE);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut images = parse(&text)?;
    let mut suites = images.remove(image).unwrap_or_default();
    suites.remove(suite).ok_or_else(|| {
        let known: Vec<_> = suites.keys().map(String::as_str).collect();
        let near = hint(suite, known.iter().copied());
        let known = known.join(", ");
        Fault::usage(format!(
            "no image {image} of suite {suite} in {FILE}{near} (it has: {known})"
        ))
        .into()
    })
}

fn parse(text: &str) -> Result<BTreeMap<String, BTreeMap<String, Recipe>>, Fault> {
    let file: File = serde_yaml::from_str(text).map_err(|e| {
        let line = e.location().map_or(1, |l| l.line());
        let full = e.to_string();
        let what = full.rsplit_once(" at line ").map_or(&*full, |(m, _)| m);
        Fault::usage(format!("{FILE}:{line}: {what}"))
    })?;
    for (image, suites) in &file.images {
        for (suite, recipe) in suites {
            check(recipe).map_err(|what| {
                Fault::usage(format!("{FILE}: image {image}, suite {suite}: {what}"))
            })?;
        }
    }
    Ok(file.images)
}

fn check(recipe: &Recipe) -> Result<(), String> {
    let all = recipe.all();
    if recipe.archives.is_empty() || all.is_empty() {
        return Err("it needs archives and packages".into());
    }
    // They become words of apt's command line and names of files.
    let sound = |name: &&str| {
        !name.is_empty()
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-._".contains(&b))
    };
    let named = recipe.archives.iter().map(String::as_str);
    let accounts = recipe.users.keys().chain(recipe.groups.keys());
    let names = named.chain(all.iter().copied());
    let mut names = names.chain(accounts.map(String::as_str));
    if let Some(bad) = names.find(|n| !sound(n)) {
        return Err(format!("`{}` is no name", bad.escape_debug()));
    }
    if let Some(twice) = all.windows(2).find(|p| p[0] == p[1]) {
        return Err(format!("package {} is in it twice", twice[0]));
    }
    let path = |path: &&String| {
        path.starts_with('/') || path.split('/').any(|p| p.is_empty() || p == "..")
    };
    let left = recipe.files.keys().chain(recipe.links.keys());
    let mut paths = recipe.parts.values().flatten().chain(left);
    if let Some(bad) = paths.find(path) {
        return Err(format!(
            "`{}` is no path below the root",
            bad.escape_debug()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "images:\n  udev:\n    bookworm:\n      archives: [bookworm]\n      packages: [udev, libc6]\n      parts: {coreutils: [usr/bin/uname]}\n";

    fn said(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        parse(&GOOD.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn the_checkouts_own_is_sound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let recipe = find(root, "udev", "bookworm").unwrap();
        assert!(recipe.all().contains(&"udev"));
        let error = find(root, "udev", "bookwurm").unwrap_err().to_string();
        assert!(
            error.contains("suite bookwurm") && error.contains("did you mean `bookworm`"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(
            parse(GOOD).unwrap()["udev"]["bookworm"].all(),
            ["coreutils", "libc6", "udev"]
        );
        let check = |from, to, expect: &str| {
            let said = said(from, to);
            assert!(said.contains(expect), "{said}");
        };
        check(
            "packages:",
            "package:",
            "images.yaml:5: images.udev.bookworm: unknown field `package`",
        );
        check(
            "[udev, libc6]",
            "[udev, udev]",
            "image udev, suite bookworm: package udev is in it twice",
        );
        check(
            "[udev, libc6]",
            "[--allow-unauthenticated]",
            "`--allow-unauthenticated` is no name",
        );
        check("usr/bin/uname", "../x", "`../x` is no path below the root");
        check(
            "archives: [bookworm]",
            "archives: []",
            "it needs archives and packages",
        );
    }
}
