// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which mirrors of the Debian archives this system is configured with.

use std::{fs, path::Path};

use crate::{
    core::apt_sources::{DEBIAN_MIRROR, entries},
    edge::files::list,
};

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
            archive: vec![DEBIAN_MIRROR.into()],
            security: vec![format!("{DEBIAN_MIRROR}-security")],
        }
    }

    /// Those in the apt configuration at `etc` (/etc/apt), Debian's own where it has none.
    pub fn configured(etc: &Path) -> Self {
        let mut found = Self::default();
        let main = ("sources.list".to_owned(), etc.join("sources.list"));
        for (name, path) in std::iter::once(main).chain(list(&etc.join("sources.list.d"))) {
            let text = fs::read_to_string(path).unwrap_or_default();
            for entry in entries(&name, &text) {
                entry.uris.iter().for_each(|u| found.add(u));
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
                "Types: deb\n# a comment\nURIs: http://two.example/debian\n  http://three.example/debian\nSuites: bookworm\n\nTypes: deb\nURIs: https://two.example/debian-security\nSuites: bookworm-security\n\n\
                 Types: deb\nEnabled: no\nURIs: http://off.example/debian\nSuites: off\n",
            ),
            (
                "sources.list.d/other.list",
                "deb https://vendor.example/apt stable main\n",
            ),
            (
                "sources.list.d/debian.sources.bak",
                "Types: deb\nSuites: x\nURIs: http://bak.example/debian\n",
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
