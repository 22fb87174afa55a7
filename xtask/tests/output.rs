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
