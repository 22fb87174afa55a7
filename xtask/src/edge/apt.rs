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

use self::mirrors::Mirrors;
use super::{cache::Cache, files, process};
use crate::core::apt_sources::debian_keyring;

mod mirrors;

const UPDATE_LIMIT: Duration = Duration::from_secs(900);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(2 * 3600);
const UNPACK_LIMIT: Duration = Duration::from_secs(1800);

/// Does `work` with apt asking the configured mirrors for `suites`, and again with Debian's
/// own where that fails. `name` is what is fetched: apt's folder and log are called so, and
/// two runs do not fetch it at once. `otherwise` says how to do without apt.
///
/// # Errors
/// What is missing on this system, or what failed with each mirror;
/// [`process::Stopped`] when interrupted.
pub fn with_mirrors<T>(
    cache: &Cache,
    name: &str,
    suites: &[String],
    otherwise: &str,
    say: &dyn Fn(&str),
    work: &dyn Fn(&Apt) -> Result<T>,
) -> Result<T> {
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        ensure!(
            process::which(program).is_some(),
            "this system has no {program}, which Debian packages need{otherwise}"
        );
    }
    let keyring = debian_keyring(|k| Path::new(k).is_file()).ok_or_else(|| {
        anyhow!("Debian's archive keys are missing: install the package debian-archive-keyring")
    })?;
    let _lock = cache.lock("apt", name, &format!("the download of {name}"), say)?;
    let mut tried = Vec::new();
    let mut failed = Vec::new();
    for mirrors in [
        Mirrors::configured(Path::new("/etc/apt")),
        Mirrors::public(),
    ] {
        if tried.contains(&mirrors) {
            continue;
        }
        let apt = Apt::new(cache, name, suites, keyring, &mirrors)?;
        match work(&apt) {
            Ok(done) => return Ok(done),
            Err(e) if e.is::<process::Stopped>() => return Err(e),
            Err(e) => failed.push(format!("{e:#}")),
        }
        tried.push(mirrors);
    }
    // Where the mirrors were asked in vain for something that is nowhere, once is enough.
    failed.dedup();
    bail!("{}", failed.join("\nand from Debian's own mirror: "))
}

/// A private apt.
pub struct Apt {
    dir: PathBuf,
    /// What its programs print.
    pub log: PathBuf,
}

impl Apt {
    fn new(
        cache: &Cache,
        name: &str,
        suites: &[String],
        keyring: &str,
        mirrors: &Mirrors,
    ) -> Result<Self> {
        let dir = cache.root().join("apt").join(name);
        for sub in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        // An empty list of installed packages: what is installed here does not matter.
        fs::write(dir.join("state/status"), "")?;
        files::write_whole(
            &dir.join("sources.list"),
            source_lines(suites, keyring, mirrors).as_bytes(),
        )?;
        let apt = Self {
            log: cache.log(&format!("fetch-{name}"))?,
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

    /// Fetches the lists of packages. The inner result is whether all could be had; some of
    /// them may do.
    ///
    /// # Errors
    /// [`process::Stopped`] only.
    pub fn update(&self) -> Result<Result<()>> {
        let updated = process::run_logged(
            "fetching package lists",
            self.command("apt-get", &["-q", "update"]),
            &self.log,
            UPDATE_LIMIT,
        );
        match updated {
            Err(e) if e.is::<process::Stopped>() => Err(e),
            updated => Ok(updated),
        }
    }

    /// What `apt-cache madison` prints of these packages: a line for each version, each
    /// package's newest first.
    ///
    /// # Errors
    /// When apt-cache fails.
    pub fn versions<'p>(&self, packages: impl IntoIterator<Item = &'p str>) -> Result<String> {
        let mut command = self.command("apt-cache", &["madison"]);
        command.args(packages);
        process::read("listing versions", command, UPDATE_LIMIT)
    }

    /// Downloads packages, `name=version` each, into the folder `into`, which is made.
    ///
    /// # Errors
    /// Names what could not be had.
    pub fn download(&self, packages: &[String], into: &Path) -> Result<()> {
        fs::create_dir(into).or_else(|e| if into.is_dir() { Ok(()) } else { Err(e) })?;
        let mut download = self.command("apt-get", &["-q", "download"]);
        download.args(packages).current_dir(into);
        let what = match packages {
            [one] => one.split('=').next().unwrap_or(one).to_owned(),
            many => format!("{} packages", many.len()),
        };
        let got = process::run_logged(
            &format!("downloading {what}"),
            download,
            &self.log,
            DOWNLOAD_LIMIT,
        );
        // apt keeps packages here if it had to resume; nobody needs them any more.
        files::remove(&self.dir.join("cache"));
        got
    }

    /// Unpacks the files of a package into the folder `into`. None of its programs is run.
    ///
    /// # Errors
    /// When it is damaged, or the disk full.
    pub fn unpack(&self, deb: &Path, into: &Path) -> Result<()> {
        let mut extract = process::tool("dpkg-deb");
        extract.arg("--extract").arg(deb).arg(into);
        process::run_logged(
            &format!("unpacking {}", deb.display()),
            extract,
            &self.log,
            UNPACK_LIMIT,
        )
    }
}

/// The first two cells of each line of `apt-cache madison`: package and version.
pub fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    table.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        Some((cells.next()?, cells.next()?))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

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
