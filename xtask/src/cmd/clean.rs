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
        store::{
            Begun,
            kept::{self, Kept, Kind},
        },
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
    /// Remove kernels, modules, and programs and images of the guest that no run in results/
    /// was made with, nor a search or a judgement there.
    #[arg(long, conflicts_with = "results")]
    unused: bool,
    /// Clean the runs in this folder (default: results/) instead of the cache, and whole
    /// searches and judgements; never baselines, nor what is being made.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    results: Option<Option<PathBuf>>,
    /// With --results: keep the newest N runs, N searches and N judgements; with --older-than
    /// those too.
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Only say what would be removed.
    #[arg(long)]
    dry_run: bool,
}

/// Removes what the options say; of the cache also what dead runs left.
///
/// # Errors
/// Usage when a run is using the cache; it names the process.
pub fn run(args: &Args) -> Result<Exit> {
    match &args.results {
        // Not clap's `requires`: it is given up where the other conflicts with what is there.
        None if args.keep.is_some() => {
            let why = "--keep keeps runs: add --results (the cache has --max-size)";
            Err(Fault::usage(why).into())
        }
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
        dry_run: args.dry_run,
    };
    let cache = Cache::open(&terminal::say)?;
    let freed = cache.prune(&what, &terminal::say)?;
    let would = if args.dry_run { "would be " } else { "" };
    terminal::out_line(&format!(
        "{} MiB {would}freed in {}",
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
    let (mut removed, mut freed) = (Vec::new(), 0);
    for kept in doomed(args, kept::all(results)?) {
        let (dir, bytes) = (kept.dir.display(), kept.bytes());
        if args.dry_run {
            terminal::say(&format!("would remove {dir}"));
        } else if let Err(error) = kept.remove() {
            terminal::say(&format!("left alone: {error:#}"));
            continue;
        } else {
            terminal::say(&format!("removed {dir}"));
        }
        removed.push(kept.kind);
        freed += bytes;
    }
    let count = |kind: Kind| removed.iter().filter(|k| **k == kind).count();
    let some = Kind::ALL.into_iter().filter(|kind| count(*kind) > 0);
    let some: Vec<_> = some.map(|kind| counted(count(kind), kind.name())).collect();
    let what = match some[..] {
        [] => counted(0, Kind::Run.name()),
        _ => some.join(", "),
    };
    let would = if args.dry_run { "would be " } else { "" };
    terminal::out_line(&format!(
        "{what} {would}removed, {} freed, in {}",
        human(Bytes(freed)),
        results.display()
    ))?;
    Ok(Exit::Done)
}

/// What of `all`, which is sorted by kind and age, the options say. The newest are counted by
/// kind: a `git bisect run` leaves more judgements than there are runs.
fn doomed(args: &Args, all: Vec<Kept>) -> Vec<Kept> {
    let old = |kept: &Kept| match &kept.begun {
        // What it is nobody knows: not ours to remove.
        Err(why) => {
            terminal::say(&format!("left alone: {why}"));
            None
        }
        Ok(begun) => Some(match (args.older_than, begun.parse::<Begun>()) {
            (None, _) => true,
            (Some(days), Ok(begun)) => {
                begun.age() >= Duration::from_secs(days.saturating_mul(24 * 3600))
            }
            (Some(_), Err(_)) => false,
        }),
    };
    let mut known: Vec<_> = all
        .into_iter()
        .filter_map(|k| Some((old(&k)?, k)))
        .collect();
    let mut newest = Vec::new();
    for kind in Kind::ALL {
        let own = known.iter().filter(|(_, k)| k.kind == kind).rev();
        let own = own.take(args.keep.unwrap_or(0));
        newest.extend(own.map(|(_, k)| k.dir.clone()));
    }
    known.retain(|(old, kept)| *old && !newest.contains(&kept.dir));
    known.into_iter().map(|(_, kept)| kept).collect()
}
