// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian packages, through apt with a state of its own below the cache: the system's
//! lists stay as they are, no root is needed, and any suite can be asked.
//!
//! apt checks the archive's signature against the installed archive keyring and the
//! package's hash against the signed lists; nothing here weakens that.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{mirrors::Mirrors, run, unpack};
use crate::{
    core::apt_sources::DEBIAN_KEYRINGS,
    edge::{
        cache::{Cache, Check},
        files, process,
    },
};

const UPDATE_LIMIT: Duration = Duration::from_secs(900);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(2 * 3600);
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
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        ensure!(
            process::which(program).is_some(),
            "this system has no {program}, which Debian packages need: give a tarball, tree or git source in {}",
            super::super::sources::FILE
        );
    }
    let keyring = DEBIAN_KEYRINGS.into_iter().find(|k| Path::new(k).is_file());
    let keyring = keyring.ok_or_else(|| {
        anyhow!("Debian's archive keys are missing: install the package debian-archive-keyring")
    })?;
    let lock = cache.lock(
        "apt",
        wanted.package,
        &format!("the download of {}", wanted.package),
        say,
    )?;
    let mut tried = Vec::new();
    let mut failed = Vec::new();
    for mirrors in [
        Mirrors::configured(Path::new("/etc/apt")),
        Mirrors::public(),
    ] {
        if tried.contains(&mirrors) {
            continue;
        }
        let apt = Apt::new(cache, wanted, keyring, &mirrors)?;
        match apt.get(cache, wanted, dir, say) {
            Ok(version) => {
                drop(lock);
                return Ok(version);
            }
            Err(e) if e.is::<process::Stopped>() => return Err(e),
            Err(e) => failed.push(format!("{e:#}")),
        }
        tried.push(mirrors);
    }
    bail!("{}", failed.join("\nand from Debian's own mirror: "))
}

/// A private apt.
struct Apt {
    dir: PathBuf,
    log: PathBuf,
}

impl Apt {
    fn new(cache: &Cache, wanted: &Wanted, keyring: &str, mirrors: &Mirrors) -> Result<Self> {
        let dir = cache.root().join("apt").join(wanted.package);
        for sub in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        // An empty list of installed packages: what is installed here does not matter.
        fs::write(dir.join("state/status"), "")?;
        files::write_whole(
            &dir.join("sources.list"),
            source_lines(wanted.suites, keyring, mirrors).as_bytes(),
        )?;
        let apt = Self {
            log: cache.log(&format!("fetch-{}", wanted.package))?,
            dir,
        };
        let system = process::read(
            "reading apt's proxy settings",
            apt.system_command("apt-config", &["dump"]),
            Duration::from_secs(30),
        )
        .unwrap_or_default();
        files::write_whole(
            &apt.dir.join("apt.conf"),
            configuration(&apt.dir, &system)?.as_bytes(),
        )?;
        Ok(apt)
    }

    fn system_command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = process::tool(program);
        command.args(args).current_dir(&self.dir);
        command
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.system_command(program, args);
        command.env("APT_CONFIG", self.dir.join("apt.conf"));
        command
    }

    fn get(
        &self,
        cache: &Cache,
        wanted: &Wanted,
        dir: &Path,
        say: &dyn Fn(&str),
    ) -> Result<String> {
        say(&format!(
            "asking the archive for {} {}",
            wanted.package, wanted.version
        ));
        let updated = run(
            "fetching package lists",
            self.command("apt-get", &["-q", "update"]),
            &self.log,
            UPDATE_LIMIT,
        );
        if updated.as_ref().is_err_and(|e| e.is::<process::Stopped>()) {
            updated?;
            unreachable!("it was an error");
        }
        let table = process::read(
            "listing versions",
            self.command("apt-cache", &["madison", wanted.package]),
            UPDATE_LIMIT,
        )?;
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
        fs::create_dir(&into).or_else(|e| if into.is_dir() { Ok(()) } else { Err(e) })?;
        let mut download = self.command("apt-get", &["-q", "download"]);
        download
            .arg(format!("{}={version}", wanted.package))
            .current_dir(&into);
        run(
            &format!("downloading {}", wanted.package),
            download,
            &self.log,
            DOWNLOAD_LIMIT,
        )?;
        self.unpack(wanted.package, &into, dir, say)?;
        Ok(version)
    }

    fn unpack(&self, package: &str, into: &Path, dir: &Path, say: &dyn Fn(&str)) -> Result<()> {
        let deb = fs::read_dir(into)?
            .flatten()
            .map(|e| e.path())
            .find(|p| p.extension().is_some_and(|e| e == "deb"));
        let deb =
            deb.with_context(|| format!("apt-get download left no package in {}", into.display()))?;
        say(&format!("unpacking {package}"));
        let files = into.join("files");
        let mut extract = process::tool("dpkg-deb");
        extract.arg("--extract").arg(&deb).arg(&files);
        run(
            &format!("unpacking {}", deb.display()),
            extract,
            &self.log,
            super::UNPACK_LIMIT,
        )?;
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
        unpack(&archive, &dir.join("tree"), 1, &self.log)?;
        files::remove(into);
        // apt keeps the package here if it had to resume; nobody needs it any more.
        files::remove(&self.dir.join("cache"));
        Ok(())
    }
}

fn source_lines(suites: &[String], keyring: &str, mirrors: &Mirrors) -> String {
    let mut lines = String::new();
    for suite in suites {
        let uris = if suite.ends_with("-security") {
            &mirrors.security
        } else {
            &mirrors.archive
        };
        for uri in uris {
            let _ = writeln!(lines, "deb [signed-by={keyring}] {uri} {suite} main");
        }
    }
    lines
}

/// apt's configuration. Of the system's only how it reaches the network is taken over: its
/// hooks run other programs, its preferences and options are about installing.
fn configuration(dir: &Path, system: &str) -> Result<String> {
    let path = dir.to_str().filter(|p| !p.contains(['"', '\n', '\\']));
    let dir = path.with_context(|| {
        format!(
            "apt cannot work in {}: set BOOTRIG_CACHE to a plain path",
            dir.display()
        )
    })?;
    let mut text = String::new();
    for line in system.lines().filter(|l| {
        [
            "Acquire::http",
            "Acquire::https",
            "Acquire::ftp",
            "Acquire::Force",
        ]
        .iter()
        .any(|p| l.starts_with(p))
    }) {
        let _ = writeln!(text, "{line}");
    }
    let _ = write!(
        text,
        r#"Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "{dir}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "/dev/null";
Dir::State "{dir}/state";
Dir::State::lists "{dir}/state/lists";
Dir::State::status "{dir}/state/status";
Dir::Cache "{dir}/cache";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
"#
    );
    Ok(text)
}

/// The pinned version if apt-cache's `table` has it, else the newest of the same upstream
/// series (`6.1`), if any. apt lists the newest first.
fn choose(table: &str, package: &str, pinned: &str) -> Option<String> {
    let versions: Vec<_> = table
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim);
            (cells.next()? == package).then(|| cells.next()).flatten()
        })
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

    #[test]
    fn security_suites_are_on_their_own_archive() {
        let mirrors = Mirrors {
            archive: vec!["http://a/debian".into()],
            security: vec!["http://s/debian-security".into()],
        };
        let lines = source_lines(
            &["bookworm-security".into(), "bookworm".into()],
            "/k.gpg",
            &mirrors,
        );
        assert_eq!(
            lines,
            "deb [signed-by=/k.gpg] http://s/debian-security bookworm-security main\ndeb [signed-by=/k.gpg] http://a/debian bookworm main\n"
        );
    }

    #[test]
    fn only_the_way_to_the_network_is_taken_from_the_system() {
        let system = "Acquire::http::Proxy \"http://proxy.example:3128\";\nAPT::Update::Post-Invoke:: \"touch /x\";\nAcquire::AllowInsecureRepositories \"1\";\n";
        let text = configuration(Path::new("/c/apt/p"), system).unwrap();
        assert!(
            text.starts_with("Acquire::http::Proxy \"http://proxy.example:3128\";\nDir::Etc::main"),
            "{text}"
        );
        assert!(!text.contains("Insecure") && !text.contains("Post-Invoke"));
        assert!(configuration(Path::new("/c\"/apt"), "").is_err());
    }
}
