// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask list`: what can be run, and what was.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use crate::{
    core::{
        fault::{self, Exit},
        grid,
        scenario::Scenario,
        summary::{self, Summary, VariantSummary},
        units::Bytes,
    },
    edge::{
        files::human,
        scenarios,
        store::kept::{self, Folder},
        terminal,
    },
    rig,
};

/// Options of `list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// List the runs that are kept instead, those of searches and judgements among them: in
    /// results/, or in DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    runs: Option<Option<PathBuf>>,
}

/// Lists the scenarios of the checkout. A broken file does not hide the others:
/// its errors go to stderr and the exit code says that there were some.
///
/// # Errors
/// Where the folder or profiles.yaml cannot be read.
pub fn run(args: &Args) -> Result<Exit> {
    match &args.runs {
        None => {}
        Some(Some(dir)) => return runs(dir, args.json),
        Some(None) => return runs(&rig::results(None)?, args.json),
    }
    let root = &rig::checkout()?;
    let known = rig::known(root)?;
    let (mut good, mut exit) = (Vec::new(), Exit::Done);
    for name in scenarios::names(root)? {
        match scenarios::load(root, &name, &known) {
            Ok(scenario) => good.push(scenario),
            Err(error) => {
                exit = exit.max(fault::exit_of(&error));
                terminal::say(&format!("{error:#}"));
            }
        }
    }
    if args.json {
        let list: Vec<_> = good.iter().map(entry).collect();
        terminal::out_line(&format!("{:#}", json!({"scenarios": list})))?;
    } else {
        terminal::out(&table(&good))?;
    }
    Ok(exit)
}

fn entry(s: &Scenario) -> serde_json::Value {
    let variants: Vec<_> = s.variants.iter().map(|v| &v.name).collect();
    json!({
        "name": s.name, "about": s.about, "kernel": s.kernel, "clock": s.clock,
        "devices": s.devices.len(), "variants": variants, "metrics": s.metrics,
        "repeats": s.repeats_by(s.clock), "hash": s.hash,
    })
}

fn table(list: &[Scenario]) -> String {
    let width = list.iter().map(|s| s.name.len()).max().unwrap_or(0);
    list.iter()
        .map(|s| {
            let about = first_sentence(&s.about);
            let (devices, variants) = (s.devices.len(), s.variants.len());
            format!(
                "{:width$}  {devices:5} devices  {variants:2} variants  {about}\n",
                s.name
            )
        })
        .collect()
}

/// `about` up to a full stop or colon that ends something: `kernel.threads-max` has none.
fn first_sentence(about: &str) -> String {
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let ends = [". ", ": "].iter().filter_map(|e| about.find(e));
    let end = ends.min().unwrap_or(about.len());
    about[..end].trim_end_matches(['.', ':']).to_owned()
}

/// Lists the runs in `results`, the oldest first.
fn runs(results: &Path, as_json: bool) -> Result<Exit> {
    let folders = kept::folders(results)?;
    if as_json {
        let all: Vec<_> = folders.iter().map(run_entry).collect();
        terminal::out_line(&format!("{:#}", json!({"runs": all})))?;
        return Ok(Exit::Done);
    }
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Array(all) => {
            let all: Vec<_> = all.iter().filter_map(|v| v.as_str()).collect();
            all.join(", ")
        }
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    let row = |folder: &Folder| {
        let entry = run_entry(folder);
        let mut row = ["run", "begun", "scenarios", "kernels", "state"].map(|k| text(&entry[k]));
        row[2] = shortened(&row[2]);
        let mut row = row.to_vec();
        row.push(human(Bytes(folder.bytes)));
        row
    };
    let rows = folders.iter().map(row).collect();
    let header = ["run", "begun", "scenarios", "kernels", "state", "on disk"];
    terminal::out_line(&grid::table(&header, rows).to_string())?;
    Ok(Exit::Done)
}

fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

fn run_entry(folder: &Folder) -> serde_json::Value {
    let name = &folder.name;
    let Ok(header) = &folder.header else {
        return json!({"run": name, "state": "cannot be read", "bytes": folder.bytes});
    };
    let given = header.scenarios.iter();
    let scenarios: Vec<_> = match &folder.summary {
        Some(Ok(summary)) => summary.scenarios.iter().map(|s| s.name.as_str()).collect(),
        _ => given.map(|s| s.given.as_str()).collect(),
    };
    let kernels: Vec<_> = header.kernels.iter().map(|k| k.spec.to_string()).collect();
    json!({
        "run": name, "begun": header.begun, "scenarios": scenarios, "kernels": kernels,
        "shard": header.shard.as_ref().map(|c| c.shard().to_string()),
        "state": state(folder), "bytes": folder.bytes,
    })
}

/// How a run that can be read ended, in a few words.
fn state(folder: &Folder) -> String {
    let summary = match &folder.summary {
        None => return "not finished".into(),
        Some(Err(_)) => return "summary.json cannot be read".into(),
        Some(Ok(summary)) => summary,
    };
    let shard = folder.header.as_ref().ok().and_then(|h| h.shard.as_ref());
    let how = |exit| match exit {
        Exit::Done => "good",
        Exit::Failed => "expectations failed",
        Exit::Guest if not_made(summary) => "not all boots made",
        Exit::Guest => "boots failed",
        Exit::Inconclusive => "inconclusive",
        _ => "infrastructure failed",
    };
    match shard {
        Some(cut) => format!("shard {}", cut.shard()),
        None => how(summary::exit(summary)).into(),
    }
}

/// Whether boots are missing, and none failed: the run was stopped.
fn not_made(summary: &Summary) -> bool {
    let variants = || summary.scenarios.iter().flat_map(|s| &s.variants);
    let made_and_failed = |v: &VariantSummary| v.failed() && v.outcome.is_some();
    variants().any(|v| v.outcome.is_none()) && !variants().any(made_and_failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_where_something_ends() {
        for (about, first) in [
            (
                "Threads stop at kernel.threads-max. Then more.",
                "Threads stop at kernel.threads-max",
            ),
            ("Two cards: and how.\nMore", "Two cards"),
            ("One\nline.\nTwo", "One line"),
            ("No end", "No end"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(about), first);
        }
    }
}
