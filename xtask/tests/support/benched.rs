// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bench of a scenario of the test's own, with real boots.

use std::{
    fs,
    process::{Command, Stdio},
};

use bootrig::core::summary::Summary;

/// What `bench` makes of the scenario `name` of this text, which is to end with `code`.
pub fn benched(name: &str, text: &str, more: &[&str], code: i32) -> Summary {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(format!("{name}.yaml"));
    fs::write(&file, text).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("bench")
        .arg(&file)
        .args(["--json", "--results"])
        .arg(dir.path())
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{text}{said}");
    serde_json::from_slice(&out.stdout).unwrap()
}
