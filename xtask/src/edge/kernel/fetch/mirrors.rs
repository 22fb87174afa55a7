// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which mirrors of the Debian archives this system is configured with.

use std::{fs, path::Path};

/// The mirrors to ask, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Of the main archive.
    pub archive: Vec<String>,
    /// Of the security archive.
    pub security: Vec<String>,
}

impl Mirrors {
    /// Debian's own.
    pub fn public() -> Self {
        Self {
            archive: vec!["http://deb.debian.org/debian".into()],
            security: vec!["http://deb.debian.org/debian-security".into()],
        }
    }

    /// Those in the apt configuration at `etc` (/etc/apt), Debian's own where it has none.
    pub fn configured(etc: &Path) -> Self {
        let mut found = Self::default();
        let mut files = vec![etc.join("sources.list")];
        let mut parts: Vec<_> = fs::read_dir(etc.join("sources.list.d"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        parts.sort();
        files.append(&mut parts);
        for file in files {
            let Ok(text) = fs::read_to_string(&file) else {
                continue;
            };
            match file.extension().and_then(|e| e.to_str()) {
                Some("list") => one_line(&text).for_each(|u| found.add(u)),
                Some("sources") => deb822(&text).iter().for_each(|u| found.add(u)),
                _ => {}
            }
        }
        let public = Self::public();
        if found.archive.is_empty() {
            found.archive = public.archive;
        }
        if found.security.is_empty() {
            found.security = public.security;
        }
        found
    }

    /// Takes a URI if its path says that it is one of Debian's archives.
    fn add(&mut self, uri: &str) {
        let uri = uri.trim_end_matches('/');
        if uri.len() > 500 || !uri.bytes().all(|b| b.is_ascii_graphic()) || !uri.contains(":/") {
            return;
        }
        // Cloud images list their mirrors in a file: mirror+file:/etc/apt/mirrors/debian.list.
        let path = uri.trim_end_matches(".list");
        let list = if path.ends_with("/debian-security") || path.ends_with("/debian/security") {
            &mut self.security
        } else if path.ends_with("/debian") {
            &mut self.archive
        } else {
            return;
        };
        if !list.iter().any(|u| u == uri) {
            list.push(uri.to_owned());
        }
    }
}

/// URIs of `deb [options] uri suite component...` lines.
fn one_line(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.split('#').next()?.trim();
        let rest = line
            .strip_prefix("deb-src")
            .or_else(|| line.strip_prefix("deb"))?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let rest = if rest.starts_with('[') {
            rest.split_once(']')?.1
        } else {
            rest
        };
        rest.split_whitespace().next()
    })
}

/// URIs of the enabled stanzas of a deb822 file.
fn deb822(text: &str) -> Vec<String> {
    let mut uris = Vec::new();
    let text = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| if l.trim().is_empty() { "" } else { l })
        .collect::<Vec<_>>()
        .join("\n");
    for stanza in text.split("\n\n") {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza.lines() {
            match (
                line.starts_with([' ', '\t']),
                line.split_once(':'),
                fields.last_mut(),
            ) {
                (true, _, Some(last)) => last.1 += line,
                (false, Some((name, value)), _) => {
                    fields.push((name.trim().to_ascii_lowercase(), value.to_owned()))
                }
                _ => {}
            }
        }
        let get = |name: &str| {
            fields
                .iter()
                .find(|f| f.0 == name)
                .map_or("", |f| f.1.trim())
        };
        if !["no", "false", "off", "0"].contains(&get("enabled").to_ascii_lowercase().as_str()) {
            uris.extend(get("uris").split_whitespace().map(str::to_owned));
        }
    }
    uris
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(files: &[(&str, &str)]) -> Mirrors {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        Mirrors::configured(dir.path())
    }

    #[test]
    fn both_formats_are_read() {
        let got = configured(&[
            (
                "sources.list",
                "# deb http://old.example/debian x main\ndeb [arch=amd64 signed-by=/k] http://one.example/debian/ bookworm main # x\ndeb cdrom:[Debian]/ x main\n",
            ),
            (
                "sources.list.d/debian.sources",
                "Types: deb\n# a comment\nURIs: http://two.example/debian\n  http://three.example/debian\nSuites: bookworm\n\nTypes: deb\nURIs: https://two.example/debian-security\n\n\
                 Enabled: no\nURIs: http://off.example/debian\n",
            ),
            (
                "sources.list.d/other.list",
                "deb https://vendor.example/apt stable main\n",
            ),
            (
                "sources.list.d/debian.sources.bak",
                "URIs: http://bak.example/debian\n",
            ),
        ]);
        assert_eq!(
            got.archive,
            [
                "http://one.example/debian",
                "http://two.example/debian",
                "http://three.example/debian"
            ]
        );
        assert_eq!(got.security, ["https://two.example/debian-security"]);
    }

    #[test]
    fn another_distribution_gets_debians_own() {
        let ubuntu = "Types: deb\nURIs: http://archive.example/ubuntu/\nSuites: noble\n";
        assert_eq!(
            configured(&[("sources.list.d/ubuntu.sources", ubuntu)]),
            Mirrors::public()
        );
        assert_eq!(configured(&[]), Mirrors::public());
    }

    #[test]
    fn cloud_images_name_a_file() {
        let got = configured(&[(
            "sources.list",
            "deb mirror+file:/etc/apt/mirrors/debian.list trixie main\n",
        )]);
        assert_eq!(got.archive, ["mirror+file:/etc/apt/mirrors/debian.list"]);
    }
}
