// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask clean` beside a run that uses the cache.

use std::{path::Path, process::Command};

use bootrig::edge::cache::Cache;

fn clean(root: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["clean", "--older-than", "0"])
        .env("BOOTRIG_CACHE", root)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}

#[test]
fn it_names_the_run_and_removes_nothing_until_that_ends() {
    let dir = tempfile::tempdir().unwrap();
    let run = Cache::at(dir.path()).unwrap();
    let lock = run.lock("kernel", "key", "a kernel", &|_| {}).unwrap();
    let place = run.put(&lock, run.stage(&lock).unwrap()).unwrap();
    drop(lock);
    let (code, error) = clean(dir.path());
    let us = format!("process {}", std::process::id());
    // Where the system does not tell whose lock it is, nobody can be named.
    let named = [us.as_str(), "another run"]
        .iter()
        .any(|w| error.contains(&format!("in use by {w}:")));
    assert!(code == Some(2) && named, "{error}");
    assert!(place.exists());
    drop(run);
    let (code, error) = clean(dir.path());
    assert_eq!(code, Some(0), "{error}");
    assert!(!place.exists());
}
