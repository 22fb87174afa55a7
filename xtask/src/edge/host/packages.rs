// SPDX-License-Identifier: MIT OR Apache-2.0
//! What distributions call the tools, and the commands that install them.
//!
//! The flow is one, however it is started. What is missing is installed from the suites
//! that are configured, and nothing is ever removed for it. Debian bookworm's own QEMU, 7.2,
//! boots one CPU in virtual time; its backports have a newer one, which is taken if backports
//! are configured already, if the user asks for it with `--backports`, or if QEMU's disk
//! tools already come from there; otherwise it is only mentioned. All of QEMU comes from one
//! suite, because Debian's halves of different suites conflict.

use std::{fmt, path::Path, process::Command, time::SystemTime};

use anyhow::Result;
use serde::{Serialize, Serializer};

use super::{
    apt,
    distro::{Distro, Manager},
    needs::{Need, qemu_version},
};
use crate::{
    core::{
        apt_sources::{DEBIAN_KEYRINGS, DEBIAN_MIRROR, debian_keyring},
        qemu_version::QemuVersion,
    },
    edge::process::which,
};

/// What `manager` calls the package with `need`.
pub fn package(manager: Manager, need: Need) -> &'static str {
    use Need::*;
    let [apt, dnf, pacman, zypper] = match need {
        Compiler => ["gcc", "gcc", "gcc", "gcc"],
        StaticLibc => ["libc6-dev", "glibc-static", "glibc", "glibc-devel-static"],
        Make => ["make", "make", "make", "make"],
        Linker => ["binutils", "binutils", "binutils", "binutils"],
        Flex => ["flex", "flex", "flex", "flex"],
        Bison => ["bison", "bison", "bison", "bison"],
        Bc => ["bc", "bc", "bc", "bc"],
        Gzip => ["gzip", "gzip", "gzip", "gzip"],
        Perl => ["perl", "perl-interpreter", "perl", "perl"],
        Elf => [
            "libelf-dev",
            "elfutils-libelf-devel",
            "libelf",
            "libelf-devel",
        ],
        Git => ["git", "git", "git", "git"],
        Patch => ["patch", "patch", "patch", "patch"],
        Tar => ["tar", "tar", "tar", "tar"],
        Xz => ["xz-utils", "xz", "xz", "xz"],
        DpkgDeb => ["dpkg", "dpkg", "dpkg", "dpkg"],
        DebianKeys => [
            "debian-archive-keyring",
            "debian-keyring",
            "debian-archive-keyring",
            "debian-keyring",
        ],
        Qemu => [
            "qemu-system-x86",
            "qemu-system-x86-core",
            "qemu-system-x86",
            "qemu-x86",
        ],
        Browser => [
            "chromium-headless-shell",
            "chromium-headless",
            "chromium",
            "chromium",
        ],
        PythonVenv => ["python3-venv", "python3-pip", "python", "python3-pip"],
        Slurm => ["slurm-wlm", "slurm-slurmctld", "slurm-llnl", "slurm"],
        Npm => ["npm", "nodejs-npm", "npm", "npm-default"],
    };
    match manager {
        Manager::Apt => apt,
        Manager::Dnf => dnf,
        Manager::Pacman => pacman,
        Manager::Zypper => zypper,
    }
}

/// Whose rights commands run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// We are root.
    Root,
    /// We are not, but there is sudo.
    Sudo,
    /// Neither: commands can only be shown.
    Neither,
}

impl Rights {
    /// Ours.
    pub fn here() -> Self {
        match () {
            () if rustix::process::geteuid().is_root() => Self::Root,
            () if which("sudo").is_some() => Self::Sudo,
            () => Self::Neither,
        }
    }
}

/// The backports of a distribution whose own QEMU is old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backports {
    /// `bookworm-backports`.
    pub suite: String,
    /// Whether apt is configured for it.
    pub configured: bool,
    /// The mirror in use.
    pub uri: String,
    /// The key that signs it.
    pub signed_by: String,
}

/// Where the source of backports is written.
const BACKPORTS_FILE: &str = "/etc/apt/sources.list.d/bootrig-backports.sources";

impl Backports {
    /// Those that help on `distro`, by the configuration under `etc` (`/etc/apt`).
    pub fn find(distro: &Distro, etc: &Path) -> Option<Self> {
        if (distro.id.as_str(), distro.codename.as_str()) != ("debian", "bookworm") {
            return None;
        }
        let suite = format!("{}-backports", distro.codename);
        let sources = apt::sources(etc);
        let configured = sources.iter().any(|s| s.suites.contains(&suite));
        // The mirror that serves the release itself serves its backports too.
        let own = sources
            .into_iter()
            .find(|s| s.suites.contains(&distro.codename));
        let (uri, signed_by) =
            own.map_or((None, None), |s| (s.uris.into_iter().next(), s.signed_by));
        Some(Self {
            suite,
            configured,
            uri: uri.unwrap_or_else(|| DEBIAN_MIRROR.into()),
            signed_by: signed_by.unwrap_or_else(|| key(|k| Path::new(k).is_file()).into()),
        })
    }

    fn file(&self) -> String {
        let Self {
            suite,
            uri,
            signed_by,
            ..
        } = self;
        format!(
            "Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nSigned-By: {signed_by}\n"
        )
    }
}

/// The key that signs backports where no source names one. Where it is still to be installed
/// it comes under the name that each release knows.
fn key(is_there: impl Fn(&str) -> bool) -> &'static str {
    debian_keyring(is_there).unwrap_or(DEBIAN_KEYRINGS[1])
}

/// What a plan of installation depends on.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The package manager, if we know it.
    pub manager: Option<Manager>,
    /// Whose rights commands would run with.
    pub rights: Rights,
    /// Whether the package lists can be installed from as they are.
    pub fresh_lists: bool,
    /// Backports with a newer QEMU, where there are such.
    pub backports: Option<Backports>,
    /// The QEMU that is installed.
    pub qemu: Option<QemuVersion>,
    /// The version of QEMU's disk tools, if they are installed: they must come from the same
    /// suite.
    pub qemu_utils: Option<QemuVersion>,
    /// Whether the user asked for backports.
    pub ask_backports: bool,
}

impl Situation {
    /// This machine's.
    ///
    /// # Errors
    /// Only when interrupted.
    pub fn here(distro: &Distro, ask_backports: bool) -> Result<Self> {
        Ok(Self {
            manager: distro.manager(),
            rights: Rights::here(),
            fresh_lists: apt::lists_are_fresh(Path::new("/var/lib/apt/lists"), SystemTime::now()),
            backports: Backports::find(distro, Path::new("/etc/apt")),
            qemu: qemu_version("qemu-system-x86_64")?,
            qemu_utils: qemu_version("qemu-img")?,
            ask_backports,
        })
    }
}

/// One step of an installation. Displayed, it is a command for the user's shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command: program and arguments.
    Run(Vec<String>),
    /// A file to write, and the command in front of the writer (`sudo` or nothing).
    Write {
        /// Which file.
        path: &'static str,
        /// What it holds then.
        text: String,
        /// Whose rights it takes.
        rights: Rights,
    },
}

impl Step {
    /// The command of [`Step::Run`].
    pub fn command(argv: &[String]) -> Command {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        command
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // No word of ours needs quotes.
            Self::Run(argv) => f.write_str(&argv.join(" ")),
            Self::Write { path, text, rights } => {
                let sudo = if *rights == Rights::Sudo { "sudo " } else { "" };
                write!(f, "{sudo}tee {path} <<'END'\n{text}END")
            }
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// The steps that install `missing`, and newer QEMU where the module's rule says so. None
/// when nothing is to be done, or nothing can be: an unknown package manager.
pub fn plan(missing: &[Need], situation: &Situation) -> Vec<Step> {
    let Some(manager) = situation.manager else {
        return Vec::new();
    };
    let run = |argv: &[&str], packages: &[&str]| {
        let sudo = (situation.rights == Rights::Sudo).then_some("sudo");
        Step::Run(
            sudo.iter()
                .chain(argv)
                .chain(packages)
                .map(|w| (*w).to_owned())
                .collect(),
        )
    };
    let mut packages: Vec<&str> = missing.iter().map(|n| package(manager, *n)).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut steps = Vec::new();
    match manager {
        Manager::Apt => apt_steps(packages, situation, run, &mut steps),
        _ if packages.is_empty() => {}
        Manager::Dnf => steps.push(run(&["dnf", "install", "-y"], &packages)),
        // A package list newer than the system breaks Arch; as it is, it may name packages
        // that mirrors have dropped, and then pacman says so.
        Manager::Pacman => steps.push(run(&["pacman", "-S", "--needed", "--noconfirm"], &packages)),
        Manager::Zypper => steps.push(run(&["zypper", "--non-interactive", "install"], &packages)),
    }
    steps
}

fn apt_steps(
    mut packages: Vec<&str>,
    situation: &Situation,
    run: impl Fn(&[&str], &[&str]) -> Step,
    steps: &mut Vec<Step>,
) {
    const INSTALL: [&str; 6] = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "--yes",
        // What would take another package away is the user's to do.
        "--no-remove",
    ];
    let qemu = package(Manager::Apt, Need::Qemu);
    let old = situation.qemu.is_some_and(|v| v < QemuVersion::MANY_CPUS);
    let wanted = packages.contains(&qemu) || (old && situation.ask_backports);
    let half_there = situation
        .qemu_utils
        .is_some_and(|v| v >= QemuVersion::MANY_CPUS);
    let backports = situation
        .backports
        .as_ref()
        .filter(|b| wanted && (b.configured || situation.ask_backports || half_there));
    if backports.is_some() {
        packages.retain(|p| *p != qemu);
    }
    if packages.is_empty() && backports.is_none() {
        return;
    }
    let enable = backports.filter(|b| !b.configured);
    if let Some(enable) = enable {
        steps.push(Step::Write {
            path: BACKPORTS_FILE,
            text: enable.file(),
            rights: situation.rights,
        });
    }
    if !situation.fresh_lists || enable.is_some() {
        steps.push(run(&["apt-get", "update"], &[]));
    }
    let plain = ["--no-install-recommends"];
    if !packages.is_empty() {
        steps.push(run(&[&INSTALL[..], &plain].concat(), &packages));
    }
    if let Some(backports) = backports {
        let suite = ["-t", &backports.suite];
        let halves: &[&str] = if situation.qemu_utils.is_some() {
            &[qemu, "qemu-utils"]
        } else {
            &[qemu]
        };
        steps.push(run(&[&INSTALL[..], &plain, &suite].concat(), halves));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(missing: &[Need], change: impl FnOnce(&mut Situation), expect: Expect) {
        let backports = Backports {
            suite: "bookworm-backports".into(),
            configured: false,
            uri: "http://mirror.example/debian".into(),
            signed_by: key(|_| false).into(),
        };
        let mut situation = Situation {
            manager: Some(Manager::Apt),
            rights: Rights::Root,
            fresh_lists: true,
            backports: Some(backports),
            qemu: None,
            qemu_utils: None,
            ask_backports: false,
        };
        change(&mut situation);
        let lines: Vec<_> = plan(missing, &situation)
            .iter()
            .map(Step::to_string)
            .collect();
        expect.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn apt_installs_everything() {
        check(
            &Need::ALL,
            |s| s.backports = None,
            expect![
                "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends bc binutils bison debian-archive-keyring dpkg flex gcc git gzip libc6-dev libelf-dev make patch perl qemu-system-x86 tar xz-utils"
            ],
        );
    }

    #[test]
    fn dnf_installs_everything() {
        check(
            &Need::ALL,
            |s| (s.manager, s.rights) = (Some(Manager::Dnf), Rights::Sudo),
            expect![[
                r#"sudo dnf install -y bc binutils bison debian-keyring dpkg elfutils-libelf-devel flex gcc git glibc-static gzip make patch perl-interpreter qemu-system-x86-core tar xz"#
            ]],
        );
    }

    #[test]
    fn pacman_installs_everything() {
        check(
            &Need::ALL,
            |s| (s.manager, s.rights) = (Some(Manager::Pacman), Rights::Sudo),
            expect![[
                r#"sudo pacman -S --needed --noconfirm bc binutils bison debian-archive-keyring dpkg flex gcc git glibc gzip libelf make patch perl qemu-system-x86 tar xz"#
            ]],
        );
    }

    #[test]
    fn zypper_installs_everything() {
        check(
            &Need::ALL,
            |s| s.manager = Some(Manager::Zypper),
            expect![[
                r#"zypper --non-interactive install bc binutils bison debian-keyring dpkg flex gcc git glibc-devel-static gzip libelf-devel make patch perl qemu-x86 tar xz"#
            ]],
        );
    }

    #[test]
    fn old_lists_are_fetched_first() {
        check(
            &[Need::Make],
            |s| (s.fresh_lists, s.rights) = (false, Rights::Sudo),
            expect![[r#"
                sudo apt-get update
                sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends make"#]],
        );
    }

    #[test]
    fn nothing_missing_is_nothing_to_do() {
        check(&[], |s| s.fresh_lists = false, expect![[r#""#]]);
        check(
            &[],
            |s| s.qemu = Some(QemuVersion(7, 2, 22)),
            expect![[r#""#]],
        );
        check(&Need::ALL, |s| s.manager = None, expect![[r#""#]]);
    }

    #[test]
    fn backports_are_not_forced() {
        check(
            &[Need::Qemu],
            |_| {},
            expect![
                "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends qemu-system-x86"
            ],
        );
    }

    #[test]
    fn configured_backports_are_used_for_qemu_only() {
        check(
            &[Need::Qemu, Need::Make],
            |s| s.backports.as_mut().unwrap().configured = true,
            expect![[r#"
                env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends make
                env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends -t bookworm-backports qemu-system-x86"#]],
        );
    }

    #[test]
    fn asked_for_backports_are_enabled_and_replace_an_old_qemu_whole() {
        check(
            &[],
            |s| {
                (s.ask_backports, s.qemu, s.qemu_utils, s.rights) = (
                    true,
                    Some(QemuVersion(7, 2, 22)),
                    Some(QemuVersion(7, 2, 22)),
                    Rights::Sudo,
                )
            },
            expect![[r#"
                sudo tee /etc/apt/sources.list.d/bootrig-backports.sources <<'END'
                Types: deb
                URIs: http://mirror.example/debian
                Suites: bookworm-backports
                Components: main
                Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
                END
                sudo apt-get update
                sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends -t bookworm-backports qemu-system-x86 qemu-utils"#]],
        );
    }

    /// Half of a newer QEMU is installed: the distribution's own would take it away.
    #[test]
    fn the_other_half_of_a_qemu_comes_from_the_same_suite() {
        check(
            &[Need::Qemu],
            |s| s.qemu_utils = Some(QemuVersion(10, 0, 2)),
            expect![[r#"
                tee /etc/apt/sources.list.d/bootrig-backports.sources <<'END'
                Types: deb
                URIs: http://mirror.example/debian
                Suites: bookworm-backports
                Components: main
                Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
                END
                apt-get update
                env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends -t bookworm-backports qemu-system-x86 qemu-utils"#]],
        );
        check(
            &[Need::Qemu],
            |s| s.qemu_utils = Some(QemuVersion(7, 2, 22)),
            expect![
                "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove --no-install-recommends qemu-system-x86"
            ],
        );
    }

    #[test]
    fn a_new_qemu_stays() {
        check(
            &[],
            |s| (s.ask_backports, s.qemu) = (true, Some(QemuVersion(10, 0, 2))),
            expect![[r#""#]],
        );
    }

    #[test]
    fn the_key_is_the_one_that_is_there() {
        for (there, want) in [
            (".pgp", ".pgp"),
            (".gpg", ".gpg"),
            ("", ".pgp"),
            ("no", ".gpg"),
        ] {
            let key = key(|path| path.ends_with(there));
            assert!(key.ends_with(want), "{there}: {key}");
        }
    }

    #[test]
    fn backports_follow_the_mirror_in_use() {
        let etc = tempfile::tempdir().unwrap();
        std::fs::write(
            etc.path().join("sources.list"),
            "deb http://near.example/debian bookworm main\n",
        )
        .unwrap();
        let bookworm = Distro::parse("ID=debian\nVERSION_CODENAME=bookworm\n");
        let found = Backports::find(&bookworm, etc.path()).unwrap();
        assert_eq!(
            (found.uri.as_str(), found.configured),
            ("http://near.example/debian", false)
        );
        std::fs::write(
            etc.path().join("sources.list"),
            "deb http://near.example/debian bookworm-backports main\n",
        )
        .unwrap();
        assert!(Backports::find(&bookworm, etc.path()).unwrap().configured);
        assert_eq!(
            Backports::find(
                &Distro::parse("ID=debian\nVERSION_CODENAME=trixie\n"),
                etc.path()
            ),
            None
        );
    }
}
