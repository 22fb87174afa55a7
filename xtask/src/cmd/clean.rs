// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask clean`: prunes the cache.

use std::time::Duration;

use anyhow::Result;

use crate::{
    core::fault::Exit,
    edge::{cache::Cache, terminal},
};

/// Options of `clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep what was used within this many days (0: remove everything).
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    older_than: u64,
}

/// Removes what of the cache was not used for a while: artifacts, downloads, logs, and what
/// dry runs left.
///
/// # Errors
/// Usage when a run is using the cache; it names the process.
pub fn run(args: &Args) -> Result<Exit> {
    let cache = Cache::open(&terminal::say)?;
    let age = Duration::from_secs(args.older_than.saturating_mul(24 * 3600));
    let freed = cache.prune(age, &terminal::say)?;
    terminal::out_line(&format!(
        "freed {} MiB in {}",
        freed >> 20,
        cache.root().display()
    ))?;
    Ok(Exit::Done)
}
