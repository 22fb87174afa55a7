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
    process,
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
    let mut version = Command::new(rustc());
    version.arg("--version").current_dir(root);
    let version = process::read(
        "asking rustc for its version",
        version,
        Duration::from_secs(60),
    )?;
    let mut hash = blake3::Hasher::new();
    hash.update(version.as_bytes());
    for flag in flags(root, Path::new("")) {
        hash.update(flag.replace(&*root.to_string_lossy(), "").as_bytes())
            .update(b"\0");
    }
    for source in SOURCES {
        add(&mut hash, root, Path::new(source))?;
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

/// The compiler that cargo will use: the one beside it, which saves going through
/// rustup's stand-in, else the one on the PATH.
fn rustc() -> PathBuf {
    if let Some(named) = std::env::var_os("RUSTC") {
        return named.into();
    }
    let beside = std::env::var_os("CARGO").map(|c| PathBuf::from(c).with_file_name("rustc"));
    let beside = beside.filter(|p| p.is_absolute() && p.is_file());
    beside.unwrap_or_else(|| "rustc".into())
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
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--profile",
            "guest",
            "--locked",
            "--package",
            "init",
            "--target",
            TARGET,
        ])
        .current_dir(root);
    // A directory of its own: the checkout's may be locked by the cargo that runs us.
    cargo.arg("--target-dir").arg(target);
    let flags = flags(root, target);
    cargo
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    for name in [
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET",
        "RUSTC_WRAPPER",
        "MAKEFLAGS",
        "CARGO_MAKEFLAGS",
    ] {
        cargo.env_remove(name);
    }
    cargo
}

/// Adds names and bytes of a file or of all files below a directory to a hash.
fn add(hash: &mut blake3::Hasher, root: &Path, path: &Path) -> Result<()> {
    let full = root.join(path);
    if full.is_dir() {
        let mut names = fs::read_dir(&full)
            .and_then(|d| {
                d.map(|e| Ok(e?.file_name()))
                    .collect::<std::io::Result<Vec<_>>>()
            })
            .with_context(|| format!("listing {}", full.display()))?;
        names.sort();
        return names
            .iter()
            .filter(|n| *n != "target")
            .try_for_each(|n| add(hash, root, &path.join(n)));
    }
    let bytes = match fs::read(&full) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e).with_context(|| format!("reading {}", full.display())),
    };
    hash.update(format!("{} {}\n", path.display(), bytes.len()).as_bytes())
        .update(&bytes);
    Ok(())
}
