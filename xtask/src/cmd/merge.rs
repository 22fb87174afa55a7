// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask merge`: one run out of its shards.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::{
        fault::{Exit, Fault},
        report, summary,
    },
    edge::{export, store::Run, terminal},
    rig::{
        self,
        history::dirs,
        merge::{self, Shards},
    },
};

/// Options of `merge`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shards' runs: folders, names in results/, or globs.
    #[arg(required = true)]
    runs: Vec<String>,
    /// What the merged run is called. Default: what its shards were called with
    /// `bench --run`.
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Merge what there is although boots are missing; they count as not run.
    #[arg(long)]
    partial: bool,
    /// Append the report as Markdown to this file.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON document (summary.json) on stdout.
    #[arg(long)]
    json: bool,
    /// Where runs are kept, and the merged one is put.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Merges; exits as the `bench` would that made all its boots. Where boots are missing it
/// exits with 3 and writes nothing, unless `--partial`.
///
/// # Errors
/// Usage: the runs are not the shards of one experiment, or hold a boot twice.
pub fn run(args: &Args) -> Result<Exit> {
    let root = rig::checkout()?;
    let results = rig::results(args.results.as_deref())?;
    let named = dirs(&results, &args.runs)?;
    let dirs: Vec<PathBuf> = named
        .iter()
        .map(std::path::absolute)
        .collect::<Result<_, _>>()?;
    if dirs.is_empty() {
        let why = format!("no run fits {}", args.runs.join(" "));
        return Err(Fault::usage(why).into());
    }
    let shards = merge::read(&root, &dirs)?;
    terminal::say(shards.account.to_string().trim_end());
    let account = &shards.account;
    if !account.is_whole() && (!args.partial || !account.doubled.is_empty()) {
        let next = match account.doubled.is_empty() {
            true => "make what is missing, or merge what there is with --partial",
            false => "name each shard once",
        };
        terminal::say(&format!("not merged: {next}"));
        return Ok(merge::exit(account));
    }
    let id = id(args, &shards)?;
    let (dir, summary) = shards.write(&results, &id)?;
    let text = report::text(&summary, &shards.scenarios());
    if args.json {
        terminal::out_line(&serde_json::to_string_pretty(&summary)?)?;
    } else {
        terminal::out_report(&text)?;
    }
    if let Some(path) = &args.markdown {
        export::append(path, &text)?;
    }
    let count = dirs.len();
    terminal::say(&format!("{count} shards merged into {}", dir.display()));
    Ok(summary::exit(&summary))
}

fn id(args: &Args, shards: &Shards) -> Result<String> {
    let given = args.run.clone().or_else(|| shards.name());
    let id =
        given.ok_or_else(|| Fault::usage("the shards have no common name: give one with --run"))?;
    Run::name(&id)?;
    Ok(id)
}
