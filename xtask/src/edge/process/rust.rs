// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cargo and rustc, to build what a guest or QEMU runs.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;

use super::read;

/// What `rustc --version` says in `root`.
///
/// # Errors
/// When it does not start.
pub fn version(root: &Path) -> Result<String> {
    let mut version = Command::new(rustc());
    version.arg("--version").current_dir(root);
    read(
        "asking rustc for its version",
        version,
        Duration::from_secs(60),
    )
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

/// Cargo in `root`, free of what the cargo that runs us, or a user, set for other builds.
pub fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
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
