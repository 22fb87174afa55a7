// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask clean`: prunes the cache, or the runs that are kept.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;

use crate::{
    core::{
        fault::{Exit, Fault},
        units::{Bytes, counted},
    },
    edge::{
        cache::{Cache, Prune},
        files::human,
        store::{Begun, kept},
        terminal,
    },
    rig,
};

/// What is removed where nothing says otherwise.
const DAYS: u64 = 30;

/// Options of `clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Remove what was not used for so many days (0: everything); with --results runs that
    /// began before then. Default for the cache: 30.
    #[arg(long, value_name = "DAYS")]
    older_than: Option<u64>,
    /// Remove what was not used for longest until the cache has no more than this: `20 GiB`.
    #[arg(long, value_name = "SIZE", conflicts_with = "results")]
    max_size: Option<Bytes>,
    /// Remove kernels, modules and programs of the guest that no run in results/ was made
    /// with.
    #[arg(long, conflicts_with = "results")]
    unused: bool,
    /// Clean the runs in this folder (default: results/) instead of the cache; never
    /// baselines.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    results: Option<Option<PathBuf>>,
    /// With --results: keep the newest N runs; with --older-than those too.
    #[arg(long, value_name = "N", requires = "results")]
    keep: Option<usize>,
    /// Only say what would be removed.
    #[arg(long, requires = "results")]
    dry_run: bool,
}

/// Removes what the options say; of the cache also what dead runs left.
///
/// # Errors
/// Usage when a run is using the cache; it names the process.
pub fn run(args: &Args) -> Result<Exit> {
    match &args.results {
        None => cache(args),
        Some(Some(dir)) => runs(args, dir),
        Some(None) => runs(args, &rig::results(None)?),
    }
}

fn cache(args: &Args) -> Result<Exit> {
    let any = args.older_than.is_some() || args.max_size.is_some() || args.unused;
    let days = args.older_than.or((!any).then_some(DAYS));
    let used = match args.unused {
        true => Some(kept::keys_used(&rig::results(None)?)?),
        false => None,
    };
    let what = Prune {
        older_than: days.map(|d| Duration::from_secs(d.saturating_mul(24 * 3600))),
        but_used: used,
        at_most: args.max_size,
    };
    let cache = Cache::open(&terminal::say)?;
    let freed = cache.prune(&what, &terminal::say)?;
    terminal::out_line(&format!(
        "freed {} MiB in {}",
        freed >> 20,
        cache.root().display()
    ))?;
    Ok(Exit::Done)
}

fn runs(args: &Args, results: &Path) -> Result<Exit> {
    if args.keep.is_none() && args.older_than.is_none() {
        let why = "--results: say which runs: --keep N the newest, --older-than DAYS, or both";
        return Err(Fault::usage(why).into());
    }
    let too_young = |begun: &str| {
        let (Some(days), Ok(begun)) = (args.older_than, begun.parse::<Begun>()) else {
            return args.older_than.is_some();
        };
        begun.age() < Duration::from_secs(days.saturating_mul(24 * 3600))
    };
    let mut all = Vec::new();
    for folder in kept::folders(results)? {
        match &folder.header {
            Ok(header) => all.push((header.begun.clone(), folder)),
            // What it is nobody knows: not ours to remove.
            Err(why) => terminal::say(&format!("left alone: {why}")),
        }
    }
    let keep = args.keep.unwrap_or(0).min(all.len());
    all.truncate(all.len() - keep);
    let (mut count, mut freed) = (0, 0);
    for (_, folder) in all.iter().filter(|(begun, _)| !too_young(begun)) {
        let dir = folder.dir.display();
        if args.dry_run {
            terminal::say(&format!("would remove {dir}"));
        } else if let Err(error) = kept::remove_run(&folder.dir) {
            terminal::say(&format!("left alone: {error:#}"));
            continue;
        } else {
            terminal::say(&format!("removed {dir}"));
        }
        count += 1;
        freed += folder.bytes;
    }
    let would = if args.dry_run { "would be " } else { "" };
    terminal::out_line(&format!(
        "{} {would}removed, {} freed, in {}",
        counted(count, "run"),
        human(Bytes(freed)),
        results.display()
    ))?;
    Ok(Exit::Done)
}
