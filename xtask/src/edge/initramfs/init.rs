// SPDX-License-Identifier: MIT OR Apache-2.0
//! PID 1 of the guest: images/init, built static.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::edge::{
    cache::{Cache, Check},
    files::hash_below,
    process::{self, rust},
};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const KIND: &str = "init";
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// What PID 1 is built from, besides the compiler.
const SOURCES: [&str; 4] = [
    "images/init",
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/config.toml",
];

/// PID 1, built static and the same from any checkout; cached.
///
/// # Errors
/// Names cargo's last error lines and the log.
pub fn init_binary(root: &Path, cache: &Cache, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let root = root
        .canonicalize()
        .with_context(|| format!("resolving {}", root.display()))?;
    let root = root.as_path();
    let version = rust::version(root)?;
    let mut hash = blake3::Hasher::new();
    hash.update(version.as_bytes());
    for flag in flags(root, Path::new("")) {
        hash.update(flag.replace(&*root.to_string_lossy(), "").as_bytes())
            .update(b"\0");
    }
    for source in SOURCES {
        hash_below(&mut hash, root, Path::new(source))?;
    }
    let key = hash.finalize().to_hex().to_string();
    let binary = |dir: PathBuf| dir.join("init");
    if let Some(dir) = cache.get(KIND, &key, Check::Full, say)? {
        return Ok(binary(dir));
    }
    let lock = cache.lock(KIND, &key, "the guest's PID 1", say)?;
    if let Some(dir) = cache.get(KIND, &key, Check::Full, say)? {
        return Ok(binary(dir));
    }
    let (target, staged) = (cache.stage(&lock)?, cache.stage(&lock)?);
    let log = cache.log("init")?;
    say(&format!("building PID 1; log: {}", log.display()));
    process::run_logged(
        "building PID 1",
        cargo(root, target.dir()),
        &log,
        BUILD_LIMIT,
    )
    .map_err(|e| cache.explain(e))?;
    fs::copy(
        target.dir().join(TARGET).join("guest/init"),
        staged.dir().join("init"),
    )
    .context("keeping PID 1")?;
    cache.put(&lock, staged).map(binary)
}

fn flags(root: &Path, target: &Path) -> Vec<String> {
    vec![
        "-Ctarget-feature=+crt-static".into(),
        // The kernel loads PID 1 where it was linked for: nothing to relocate at start.
        "-Crelocation-model=static".into(),
        // The linker would otherwise number the build by what it was given.
        "-Clink-arg=-Wl,--build-id=none".into(),
        format!("--remap-path-prefix={}=/bootrig", root.display()),
        format!("--remap-path-prefix={}=/target", target.display()),
    ]
}

fn cargo(root: &Path, target: &Path) -> Command {
    let mut cargo = rust::cargo(root);
    cargo.args([
        "build",
        "--profile",
        "guest",
        "--locked",
        "--package",
        "init",
        "--target",
        TARGET,
    ]);
    // A directory of its own: the checkout's may be locked by the cargo that runs us.
    cargo.arg("--target-dir").arg(target);
    let flags = flags(root, target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    cargo
}
