// SPDX-License-Identifier: MIT OR Apache-2.0
//! What apt is configured for, read from its own files.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
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

/// One configured archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub signed_by: Option<String>,
}

/// Everything that is configured under `etc` (`/etc/apt`).
pub(super) fn sources(etc: &Path) -> Vec<Source> {
    let mut files: Vec<PathBuf> = fs::read_dir(etc.join("sources.list.d"))
        .into_iter()
        .flatten()
        .filter_map(|e| Some(e.ok()?.path()))
        .collect();
    files.push(etc.join("sources.list"));
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => found.extend(text.lines().filter_map(one_line)),
            Some("sources") => found.extend(stanzas(&text)),
            _ => {}
        }
    }
    found
}

/// `deb [option=value ...] URI suite component...`
fn one_line(line: &str) -> Option<Source> {
    let mut rest = line
        .trim()
        .strip_prefix("deb")?
        .strip_prefix(char::is_whitespace)?
        .trim_start();
    let mut signed_by = None;
    if let Some(options) = rest.strip_prefix('[') {
        let (inside, after) = options.split_once(']')?;
        signed_by = inside
            .split_whitespace()
            .find_map(|o| o.strip_prefix("signed-by="))
            .map(str::to_owned);
        rest = after;
    }
    let mut words = rest.split_whitespace();
    Some(Source {
        uris: vec![words.next()?.into()],
        suites: vec![words.next()?.into()],
        signed_by,
    })
}

/// Paragraphs of `Field: value`, continued by lines that begin with a space.
fn stanzas(text: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let plain: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    for stanza in plain.split(|l| l.trim().is_empty()) {
        let field = |name: &str| -> Option<String> {
            let at = stanza.iter().position(|l| {
                l.split_once(':')
                    .is_some_and(|(k, _)| k.eq_ignore_ascii_case(name))
            })?;
            let first = stanza[at].split_once(':')?.1;
            let more = stanza[at + 1..]
                .iter()
                .take_while(|l| l.starts_with([' ', '\t']));
            Some(
                [first]
                    .into_iter()
                    .chain(more.copied())
                    .collect::<Vec<_>>()
                    .join(" ")
                    .trim()
                    .to_owned(),
            )
        };
        let words = |name| {
            field(name)
                .map(|v| v.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        let off = field("Enabled")
            .is_some_and(|e| ["no", "false", "0"].contains(&e.to_lowercase().as_str()));
        if off || !words("Types").iter().any(|t| t == "deb") {
            continue;
        }
        // An embedded key would span lines; a path is one word.
        let signed_by = field("Signed-By").filter(|s| s.starts_with('/') && !s.contains(' '));
        found.push(Source {
            uris: words("URIs"),
            suites: words("Suites"),
            signed_by,
        });
    }
    found
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
        fs::write(etc.path().join("sources.list"), "# deb http://no.example/ no main\ndeb [arch=amd64 signed-by=/k.gpg] http://a.example/debian bookworm main\ndeb-src http://a.example/debian src main\n").unwrap();
        fs::write(parts.join("b.sources"), "Types: deb deb-src\n# why\nURIs: http://b.example/debian\nSuites: one\n two\nComponents: main\nSigned-By: /b.gpg\n\nTypes: deb\nEnabled: no\nURIs: http://c.example\nSuites: off\n").unwrap();
        fs::write(
            parts.join("c.list.disabled"),
            "deb http://no.example/ disabled main\n",
        )
        .unwrap();
        let found = sources(etc.path());
        let suites: Vec<_> = found
            .iter()
            .flat_map(|s| &s.suites)
            .map(String::as_str)
            .collect();
        assert_eq!(suites, ["bookworm", "one", "two"]);
        assert_eq!(found[0].signed_by.as_deref(), Some("/k.gpg"));
        assert_eq!(found[1].signed_by.as_deref(), Some("/b.gpg"));
    }
}
