// SPDX-License-Identifier: MIT OR Apache-2.0
//! Installing packages: never without consent, and exactly what was shown. The package
//! manager, the tools and sudo are stand-ins on a PATH of their own.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::{Command, Output},
};

/// A machine on which nothing is installed but a package manager.
struct Bare {
    dir: tempfile::TempDir,
}

impl Bare {
    /// `apt_get` is the body of its package manager, a shell script.
    fn new(apt_get: &str) -> Self {
        let bare = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(bare.bin()).unwrap();
        symlink("/usr/bin/env", bare.bin().join("env")).unwrap();
        // Not needed, and not called, by a root.
        bare.program("sudo", "exec \"$@\"");
        bare.program(
            "apt-get",
            &format!("echo \"apt-get $*\" >> {}\n{apt_get}", bare.log().display()),
        );
        bare
    }
    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }
    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }
    fn program(&self, name: &str, body: &str) {
        let path = self.bin().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    /// Runs xtask with standard streams that are no terminal.
    fn xtask(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(args)
            .env("PATH", self.bin())
            .env("BOOTRIG_CACHE", self.dir.path().join("cache"))
            .output()
            .unwrap()
    }
    /// What the package manager was called with.
    fn called(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes all tools into the PATH that the script itself is on: what installing does.
const INSTALLS: &str = r#"
here=${0%/*}
for tool in gcc make ld flex bison bc gzip perl git patch tar xz dpkg-deb; do
    printf '#!/bin/sh\nexit 0\n' > "$here/$tool"
done
printf '#!/bin/sh\necho QEMU emulator version 10.0.2\n' > "$here/qemu-system-x86_64"
/bin/chmod 755 "$here"/*
echo setting up things
"#;

#[test]
fn without_a_terminal_it_stops_and_shows_the_command() {
    let bare = Bare::new("");
    let output = bare.xtask(&["test"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{error}");
    let shown = error.rsplit("error: ").next().unwrap();
    assert!(
        shown.contains("apt-get install --yes --no-remove --no-install-recommends"),
        "{error}"
    );
    assert!(
        shown.contains("qemu-system-x86") && shown.contains("--yes"),
        "{error}"
    );
    assert_eq!(bare.called(), "", "nothing is run");
}

#[test]
fn doctor_only_looks() {
    let bare = Bare::new("");
    let output = bare.xtask(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["ready"], false);
    let commands = json["commands"].as_array().unwrap();
    assert!(
        commands
            .iter()
            .any(|c| c.as_str().unwrap().contains("apt-get install")),
        "{json:#}"
    );
    assert_eq!(bare.called(), "");
}

#[test]
fn with_consent_it_runs_what_it_showed() {
    let bare = Bare::new(INSTALLS);
    let output = bare.xtask(&["doctor", "--yes", "--json"]);
    let error = text(&output.stderr);
    let install = bare
        .called()
        .lines()
        .find(|l| l.starts_with("apt-get install"))
        .map(str::to_owned);
    let install = install.unwrap_or_else(|| panic!("not installed: {error}"));
    assert!(
        error.contains(&format!("{install}\n")),
        "shown as run: {error}"
    );
    assert!(
        error.contains("setting up things"),
        "what packages say is progress: {error}"
    );
    assert!(!text(&output.stdout).contains("setting up things"));
    // Where Debian's keys are not here a stand-in cannot bring them.
    if output.status.success() {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&json["ready"], &json["host"]["qemu"]),
            (&true.into(), &"10.0.2".into())
        );
    } else {
        assert!(
            error.contains("still missing: Debian's archive keys"),
            "{error}"
        );
    }
}

#[test]
fn a_failed_installation_is_told() {
    let bare = Bare::new("echo E: no such package >&2; exit 100");
    let output = bare.xtask(&["doctor", "--yes"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert!(
        error.contains("E: no such package") && error.contains("exit status: 100"),
        "{error}"
    );
}

#[test]
fn an_installation_that_brings_nothing_is_told() {
    let bare = Bare::new("exit 0");
    let output = bare.xtask(&["doctor", "--yes"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert!(
        error.contains("still missing: gcc, static libc, make"),
        "{error}"
    );
}
