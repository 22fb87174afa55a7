// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checkout that this program works in, and what it offers to scenarios.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    core::scenario::{Known, UNDER_TEST},
    edge::{kernel, scenarios},
};

/// The checkout's folder.
///
/// # Errors
/// When this program was not started through cargo and the checkout it was built from is
/// gone.
pub fn checkout() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = manifest
        .parent()
        .map(Path::to_path_buf)
        .filter(|r| r.join("scenarios").is_dir());
    root.with_context(|| {
        format!(
            "{} is not in a checkout of bootrig; start this program as `cargo xtask`",
            manifest.display()
        )
    })
}

/// The folder of runs: the one `named` with `--results`, else `results/` of the checkout.
///
/// # Errors
/// As [`checkout`].
pub fn results(named: Option<&Path>) -> Result<PathBuf> {
    match named {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(checkout()?.join("results")),
    }
}

/// What scenario files of the checkout may name: profiles, series and kernels.
pub fn known(root: &Path) -> Result<Known> {
    let mut known = scenarios::known(root)?;
    known.kernels = Some(kernel::names(root)?.into_iter().collect());
    if let Some(series) = &mut known.series {
        series.insert(UNDER_TEST.into());
    }
    Ok(known)
}
