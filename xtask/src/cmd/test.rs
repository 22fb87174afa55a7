// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test`: all tests of bootrig itself, those that boot machines included.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    core::fault::{Exit, Fault},
    edge::{
        host::{self, Wishes},
        process::{self, Stopped},
        terminal,
    },
    rig,
};

/// Compares the initramfs with what the program cpio reads.
const CPIO_TEST: &str = "edge::initramfs::tests::cpio_finds_exactly_what_went_in";

/// Reads exports with the readers of other projects.
const READERS_TEST: &str = "exports_are_read_by_their_readers";

/// Options of `test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Consent to installing packages.
    #[arg(long)]
    yes: bool,
    /// Leave out the tests that build kernels, boot machines and open a browser.
    #[arg(long)]
    no_boot: bool,
    /// The nightly set as well: a real Slurm, a real S3 store, the workflow's linter, and
    /// whatever else takes minutes (xtask/tests/nightly_*.rs).
    #[arg(long, conflicts_with = "no_boot")]
    nightly: bool,
    /// Give up after this many minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 180)]
    limit: u64,
    /// Only tests whose name contains this; leaves out formatting and lints.
    filter: Option<String>,
}

/// Tests, and what is counted as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
}

/// Runs them, prints totals as the last line.
///
/// Exits with [`Exit::Failed`] when a test failed.
///
/// # Errors
/// When packages are missing and may not be installed, when the time is up, when
/// interrupted.
pub fn run(args: &Args) -> Result<Exit> {
    if !args.no_boot {
        host::ensure(Wishes {
            yes: args.yes,
            tests: true,
            nightly: args.nightly,
            ..Wishes::default()
        })?;
    }
    let root = rig::checkout()?;
    let mut session = Session {
        root: &root,
        end: Instant::now() + Duration::from_secs(args.limit.saturating_mul(60)),
        totals: Totals::default(),
    };
    let filter = args.filter.as_deref();
    if filter.is_none() {
        session.component("fmt", &["fmt", "--check"])?;
        session.component(
            "clippy",
            &[
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        )?;
    }
    let mut plain = vec!["test", "--workspace", "--no-fail-fast"];
    plain.extend(filter);
    session.tests("unit and replay tests", &plain)?;
    // A workspace of its own; without a plugin API only what needs no QEMU is built.
    let mut tracer = vec![
        "test",
        "--manifest-path",
        "tracer/Cargo.toml",
        "--target-dir",
        "target/tracer",
        "--locked",
    ];
    tracer.extend(filter);
    session.tests("tests of the tracer", &tracer)?;
    if filter.is_none_or(|f| CPIO_TEST.contains(f)) {
        session.cpio()?;
    }
    if filter.is_none_or(|f| READERS_TEST.contains(f)) {
        session.readers()?;
    }
    if args.no_boot {
        terminal::say("left out: real boots and a real browser (--no-boot)");
    } else {
        session.browser(filter)?;
        session.files("boot_", "real boots", filter)?;
    }
    match args.nightly {
        true => session.files("nightly_", "the nightly set", filter)?,
        false => terminal::say("left out: the nightly set (--nightly)"),
    }
    let Totals { passed, failed } = session.totals;
    if let Some(filter) = filter.filter(|_| passed + failed == 0) {
        return Err(Fault::usage(format!("no test has `{filter}` in its name")).into());
    }
    terminal::out_line(&format!("{passed} passed, {failed} failed"))?;
    Ok(if failed == 0 {
        Exit::Done
    } else {
        Exit::Failed
    })
}

struct Session<'a> {
    root: &'a Path,
    end: Instant,
    totals: Totals,
}

impl Session<'_> {
    fn cargo(&self, args: &[&str]) -> Command {
        // The cargo that started us, if one did.
        let mut cargo =
            Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        cargo.args(args).current_dir(self.root);
        cargo
    }

    fn left(&self) -> Result<Duration> {
        match self.end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => bail!("the time for all tests is up; raise --limit"),
        }
    }

    /// A check by a component of the toolchain that not every machine has. Counts as one.
    fn component(&mut self, name: &str, args: &[&str]) -> Result<()> {
        match process::read(
            "looking for a component of the toolchain",
            self.cargo(&[name, "--version"]),
            self.left()?,
        ) {
            Ok(_) => {}
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(_) => {
                terminal::say(&format!(
                    "left out: cargo {name} is not installed (rustup component add {})",
                    if name == "fmt" { "rustfmt" } else { name }
                ));
                return Ok(());
            }
        }
        terminal::say(&format!("== cargo {}", args.join(" ")));
        let status = process::stream(
            name,
            self.cargo(args),
            Stdio::null(),
            self.left()?,
            |line| {
                let _ = terminal::out_line(line);
            },
        )?;
        match status.success() {
            true => self.totals.passed += 1,
            false => self.totals.failed += 1,
        }
        Ok(())
    }

    fn tests(&mut self, what: &str, args: &[&str]) -> Result<()> {
        terminal::say(&format!("== cargo {}", args.join(" ")));
        let cargo = self.cargo(args);
        let mut seen = Totals::default();
        let status = process::stream(what, cargo, Stdio::null(), self.left()?, |line| {
            let _ = terminal::out_line(line);
            if let Some(more) = counts(line) {
                seen.passed += more.passed;
                seen.failed += more.failed;
            }
        })?;
        if !status.success() && seen.failed == 0 {
            // It did not compile, or a test brought its whole process down.
            terminal::say(&format!("{what}: cargo ended with {status}"));
            seen.failed = 1;
        }
        self.totals.passed += seen.passed;
        self.totals.failed += seen.failed;
        Ok(())
    }

    /// The test that needs cpio, which not every machine has.
    fn cpio(&mut self) -> Result<()> {
        if process::which("cpio").is_none() {
            terminal::say(&format!("left out: {CPIO_TEST}: cpio is not installed"));
            return Ok(());
        }
        let args = ["test", "--package", "xtask", "--lib", "--"];
        let only = ["--ignored", "--exact", CPIO_TEST];
        self.tests(
            "the initramfs as cpio reads it",
            &[&args[..], &only].concat(),
        )
    }

    /// The tests that need a browser: xtask/tests/browser.rs.
    fn browser(&mut self, filter: Option<&str>) -> Result<()> {
        if host::browser().is_none() {
            terminal::say("left out: reports in a browser: install Chromium or Google Chrome");
            return Ok(());
        }
        let mut args = vec!["test", "--package", "xtask", "--test", "browser"];
        args.extend(["--", "--ignored", "--test-threads=1"]);
        args.extend(filter);
        self.tests("reports in a browser", &args)
    }

    /// The test that needs Python, and PyPI the first time.
    fn readers(&mut self) -> Result<()> {
        if !host::Need::PythonVenv.is_met()? {
            terminal::say(&format!(
                "left out: {READERS_TEST}: python3 with venv is not installed (cargo xtask test --yes installs it)"
            ));
            return Ok(());
        }
        let args = ["test", "--package", "xtask", "--test", "export"];
        let only = ["--", "--ignored", "--exact", READERS_TEST];
        self.tests(
            "exports as their readers see them",
            &[&args[..], &only].concat(),
        )
    }

    /// The tests in the files of xtask/tests whose name begins with `prefix`, one after
    /// another, because they share the machine: they need kernels, QEMU, servers.
    fn files(&mut self, prefix: &str, what: &str, filter: Option<&str>) -> Result<()> {
        let dir = self.root.join("xtask/tests");
        let entries = fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))?;
        let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let mut files: Vec<String> = names
            .filter_map(|n| Some(n.strip_suffix(".rs")?.to_owned()))
            .filter(|n| n.starts_with(prefix))
            .collect();
        files.sort();
        if files.is_empty() {
            bail!("no {}/{prefix}*.rs: nothing would be tested", dir.display());
        }
        let mut args = vec!["test", "--package", "xtask", "--no-fail-fast"];
        for file in &files {
            args.extend(["--test", file]);
        }
        args.extend(["--", "--ignored", "--test-threads=1"]);
        args.extend(filter);
        self.tests(what, &args)
    }
}

/// What a line `test result: ok. 3 passed; 0 failed; ...` counts.
fn counts(line: &str) -> Option<Totals> {
    let (_, numbers) = line
        .trim()
        .strip_prefix("test result: ")?
        .split_once(". ")?;
    let number = |unit: &str| {
        numbers
            .split("; ")
            .find_map(|p| p.trim().strip_suffix(unit)?.trim().parse().ok())
    };
    Some(Totals {
        passed: number("passed")?,
        failed: number("failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_cargo_prints() {
        let count = |line| counts(line).map(|t| (t.passed, t.failed));
        assert_eq!(
            count(
                "test result: ok. 43 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.66s"
            ),
            Some((43, 0))
        );
        assert_eq!(
            count(
                "test result: FAILED. 1 passed; 12 failed; 0 ignored; 0 measured; 9 filtered out; finished in 30.33s"
            ),
            Some((1, 12))
        );
        assert_eq!(count("test a::b ... ok"), None);
        assert_eq!(count("test result: unheard of"), None);
    }
}
