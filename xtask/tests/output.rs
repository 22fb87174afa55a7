// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens when nobody reads what the commands print, or it cannot be written.
#![allow(missing_docs)]

use std::{
    fs::File,
    io::Read,
    process::{Command, Stdio},
};

fn xtask(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).stdin(Stdio::null());
    command
}

/// A pipe that nobody reads: its reading end is closed.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// `| head`, or a pager that is closed.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["show", "shutdown-2018"],
        &["show", "--json", "idle-1024"],
    ] {
        let status = xtask(args).stdout(closed()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}");
    }
    // Progress that nobody sees, and an error's exit code all the same.
    let status = xtask(&["show", "no-such"]).stderr(closed()).status();
    assert_eq!(status.unwrap().code(), Some(2));
}

/// A disk that is full loses results, and that is said.
#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = xtask(&["list"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{said}");
    assert!(said.contains("writing to standard output"), "{said}");
}

/// What a run asks for and the checkout lacks is said before anything is installed, fetched or
/// built: no network, no compiler and no cache are needed to learn it.
#[test]
fn what_cannot_be_built_is_told_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let patch = dir.path().join("one.patch");
    std::fs::write(
        &patch,
        "--- a/init/main.c\n+++ b/init/main.c\n@@ -1 +1 @@\n-a\n+b\n",
    )
    .unwrap();
    let patch = patch.to_str().unwrap();
    for (args, say) in [
        (
            &["--series", patch, "--series-prefix", "7"][..],
            "has 1 patch for 6.1, not 7",
        ),
        (&["--on", "6.2"], "6.2"),
    ] {
        let results = dir.path().join("results");
        let out = xtask(&["bench", "sleepers-24"])
            .args(args)
            .arg("--results")
            .arg(&results)
            .env("BOOTRIG_CACHE", dir.path().join("cache"))
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(say), "{args:?}: {said}");
        assert!(!results.exists(), "{args:?}");
    }
}
