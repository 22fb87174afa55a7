// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which distribution this is, and which package manager installs on it.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::edge::process::which;

/// What os-release(5) says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distro {
    /// `debian`, `ubuntu`, `fedora`, ...; `linux` where nothing says.
    pub id: String,
    /// What it derives from, closest first.
    pub like: Vec<String>,
    /// `12`, `24.04`; empty where releases roll.
    pub version: String,
    /// `bookworm`, `noble`; empty where there is none.
    pub codename: String,
    /// For people.
    pub name: String,
}

/// A package manager that we know the words of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, RHEL.
    Dnf,
    /// Arch.
    Pacman,
    /// openSUSE, SLES.
    Zypper,
}

impl Manager {
    /// All that we know.
    pub const ALL: [Self; 4] = [Self::Apt, Self::Dnf, Self::Pacman, Self::Zypper];

    /// The program that it is called by.
    pub fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
            Self::Zypper => "zypper",
        }
    }

    /// Distributions, and families of them, that it is at home on.
    fn families(self) -> &'static [&'static str] {
        match self {
            Self::Apt => &["debian", "ubuntu"],
            Self::Dnf => &["fedora", "rhel", "centos"],
            Self::Pacman => &["arch"],
            Self::Zypper => &["suse", "opensuse", "sles"],
        }
    }

    /// The manager of `distro`; of an unknown one the first that `installed` says is there.
    /// A Fedora machine may well have an `apt-get`, so the name comes first.
    pub fn of(distro: &Distro, installed: impl Fn(&str) -> bool) -> Option<Self> {
        let named = std::iter::once(&distro.id).chain(&distro.like);
        let by_name = named
            .flat_map(|id| {
                Self::ALL
                    .into_iter()
                    .find(|m| m.families().contains(&id.as_str()))
            })
            .next();
        let there = |m: &Self| installed(m.program());
        by_name
            .filter(there)
            .or_else(|| Self::ALL.into_iter().find(there))
    }
}

impl Distro {
    /// This machine's.
    pub fn here() -> Self {
        let read = |p| fs::read_to_string(Path::new(p));
        let text = read("/etc/os-release").or_else(|_| read("/usr/lib/os-release"));
        Self::parse(&text.unwrap_or_default())
    }

    /// Reads the text of an os-release file. What it does not say stays empty.
    pub fn parse(text: &str) -> Self {
        let pair = |line: &'_ str| {
            let (key, value) = line.trim().split_once('=')?;
            Some((key.to_owned(), value.trim_matches(['"', '\'']).to_owned()))
        };
        let mut fields: BTreeMap<String, String> = text.lines().filter_map(pair).collect();
        let mut take = |key: &str| fields.remove(key).unwrap_or_default();
        let id = Some(take("ID"))
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| "linux".into());
        // openSUSE's identifiers carry the flavour: opensuse-leap, opensuse-tumbleweed.
        let like = take("ID_LIKE")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let name = Some(take("PRETTY_NAME"))
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| id.clone());
        Self {
            like,
            version: take("VERSION_ID"),
            codename: take("VERSION_CODENAME"),
            name,
            id,
        }
    }

    /// The package manager of this machine, if we know it.
    pub fn manager(&self) -> Option<Manager> {
        Manager::of(self, |program| which(program).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_os_release() {
        let distro = Distro::parse(
            "PRETTY_NAME=\"Ubuntu 24.04 LTS\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID='24.04'\nVERSION_CODENAME=noble\n# x\n",
        );
        assert_eq!(
            (
                distro.id.as_str(),
                distro.version.as_str(),
                distro.codename.as_str()
            ),
            ("ubuntu", "24.04", "noble")
        );
        assert_eq!(
            (distro.name.as_str(), distro.like),
            ("Ubuntu 24.04 LTS", vec!["debian".to_owned()])
        );
        assert_eq!(Distro::parse("").id, "linux");
    }

    #[test]
    fn the_name_decides_before_the_path() {
        let manager = |id: &str, like: &str, there: &[&str]| {
            let distro = Distro::parse(&format!("ID={id}\nID_LIKE=\"{like}\"\n"));
            Manager::of(&distro, |p| there.contains(&p))
        };
        assert_eq!(
            manager("fedora", "", &["apt-get", "dnf"]),
            Some(Manager::Dnf)
        );
        assert_eq!(
            manager("linuxmint", "ubuntu debian", &["apt-get"]),
            Some(Manager::Apt)
        );
        assert_eq!(
            manager("opensuse-tumbleweed", "opensuse suse", &["zypper"]),
            Some(Manager::Zypper)
        );
        assert_eq!(
            manager("manjaro", "arch", &["pacman"]),
            Some(Manager::Pacman)
        );
        assert_eq!(manager("homemade", "", &["zypper"]), Some(Manager::Zypper));
        assert_eq!(manager("debian", "", &[]), None);
    }
}
