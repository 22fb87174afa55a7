// SPDX-License-Identifier: MIT OR Apache-2.0
//! What apt is configured for, read from its own files.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use crate::{
    core::apt_sources::{Entry, entries},
    edge::files::list,
};

/// Package lists older than this are fetched anew before an installation: mirrors drop
/// packages that lists of that age still name.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// Whether the package lists in `dir` (`/var/lib/apt/lists`) can be installed from.
pub(super) fn lists_are_fresh(dir: &Path, now: SystemTime) -> bool {
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    let mut names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    if !names.any(|n| n.contains("_Packages")) {
        return false;
    }
    // Files carry the archive's times; the folders were touched by the last update.
    let touched = [dir.to_owned(), dir.join("partial")]
        .into_iter()
        .filter_map(|d| d.metadata().ok()?.modified().ok());
    touched
        .max()
        .is_some_and(|t| now.duration_since(t).is_ok_and(|age| age < FRESH))
}

/// Everything that is configured under `etc` (`/etc/apt`) to install packages from.
pub(super) fn sources(etc: &Path) -> Vec<Entry> {
    let main = ("sources.list".to_owned(), etc.join("sources.list"));
    std::iter::once(main)
        .chain(list(&etc.join("sources.list.d")))
        .filter_map(|(name, path)| Some(entries(&name, &fs::read_to_string(path).ok()?)))
        .flatten()
        .filter(|e| e.packages)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_age_by_their_folder() {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        assert!(!lists_are_fresh(&dir.path().join("none"), now));
        assert!(!lists_are_fresh(dir.path(), now), "no list at all");
        fs::write(
            dir.path()
                .join("deb.example_dists_stable_main_binary-amd64_Packages.lz4"),
            "",
        )
        .unwrap();
        let now = now + Duration::from_secs(60);
        assert!(lists_are_fresh(dir.path(), now));
        assert!(!lists_are_fresh(dir.path(), now + FRESH));
    }

    #[test]
    fn reads_both_kinds_of_source_files() {
        let etc = tempfile::tempdir().unwrap();
        let parts = etc.path().join("sources.list.d");
        fs::create_dir(&parts).unwrap();
        let line =
            "deb http://a.example/debian bookworm main\ndeb-src http://a.example/debian src main\n";
        let stanza = "Types: deb\nURIs: http://b.example/debian\nSuites: one two\n";
        fs::write(etc.path().join("sources.list"), line).unwrap();
        fs::write(parts.join("b.sources"), stanza).unwrap();
        fs::write(parts.join("c.list.disabled"), line).unwrap();
        let found = sources(etc.path());
        let suites: Vec<_> = found.iter().flat_map(|s| &s.suites).collect();
        assert_eq!(suites, ["bookworm", "one", "two"]);
    }
}
