// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask profile`: shows and compares what the tracer saw.

mod boot;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    core::{
        fault::{Exit, Fault},
        nearest::hint,
        trace::{diff, growth, record::Record, table, tally::Profile},
    },
    edge::{store::Run, terminal},
    rig::{self, traces},
};

/// Options of `profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// The window: boot, device_shutdown, ...; without one, `show` lists them.
    #[arg(long, value_name = "WINDOW", global = true)]
    window: Option<String>,
    /// Functions and waits shown.
    #[arg(long, value_name = "N", default_value_t = 30, global = true)]
    most: usize,
    /// Where runs are kept.
    #[arg(long, value_name = "DIR", global = true)]
    results: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show a traced boot: its windows, or one of them, and its marks.
    Show {
        /// RUN, or RUN:SCENARIO/VARIANT where it traced several boots.
        boot: String,
    },
    /// What grew from one traced boot to another, function by function.
    Diff {
        /// As for `show`.
        a: String,
        /// As for `show`.
        b: String,
    },
    /// Boot a kernel with no patch and no module of ours, and restart it: what its functions'
    /// symbols alone show.
    Boot(Box<boot::Args>),
    /// How functions grow over the sizes of a sweep; those that grow faster than what there is
    /// more of are named.
    Growth {
        /// RUN, or RUN:SCENARIO/VARIANT for one variant of one sweep.
        boots: String,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// Shows or compares.
pub fn run(args: &Args) -> Result<Exit> {
    let results = rig::results(args.results.as_deref())?;
    match &args.action {
        Action::Show { boot } => show(&load(&results, boot)?, args),
        Action::Diff { a, b } => compare([a, b], &results, args),
        Action::Boot(boot) => boot::run(boot, args.most),
        Action::Growth { boots, json } => grow(&results, boots, *json, args),
    }
}

fn compare([of_a, of_b]: [&String; 2], results: &Path, args: &Args) -> Result<Exit> {
    let (a, b) = (load(results, of_a)?, load(results, of_b)?);
    let window = args.window.as_deref().unwrap_or("device_shutdown");
    let (in_a, in_b) = (window_of(&a, window)?, window_of(&b, window)?);
    // As it was named, or with what was left to say.
    let full = |of: &str, record: &Record| match of.ends_with(&record.boot) {
        true => format!("{of}, kernel {}", record.kernel),
        false => format!("{of}:{}, kernel {}", record.boot, record.kernel),
    };
    terminal::out(&format!(
        "{window}\nA is {}\nB is {}\n\n{}",
        full(of_a, &a),
        full(of_b, &b),
        diff::text(in_a, in_b, args.most)
    ))?;
    Ok(Exit::Done)
}

fn grow(results: &Path, named: &str, json: bool, args: &Args) -> Result<Exit> {
    let (run, wanted) = match named.split_once(':') {
        Some((run, boots)) => (run, Some(boots)),
        None => (named, None),
    };
    let records = records(results, run)?;
    let window = args.window.as_deref().unwrap_or("boot");
    let mut all = growth::growths(&records, window).map_err(Fault::usage)?;
    if let Some(wanted) = wanted {
        let names: Vec<String> = all.iter().map(|g| g.boots.clone()).collect();
        all.retain(|g| g.boots == wanted);
        if all.is_empty() {
            let hint = hint(wanted, names.iter().map(String::as_str));
            let wanted = wanted.escape_debug();
            return Err(Fault::usage(format!("no sweep `{wanted}` was traced{hint}")).into());
        }
    }
    if json {
        terminal::out_line(&serde_json::to_string_pretty(&all)?)?;
        return Ok(Exit::Done);
    }
    for growth in &all {
        terminal::out_line(&growth::text(growth, args.most))?;
    }
    Ok(Exit::Done)
}

fn show(record: &Record, args: &Args) -> Result<Exit> {
    match &args.window {
        Some(window) => {
            terminal::out(&table::profile(window_of(record, window)?, args.most))?;
        }
        None => {
            terminal::out_line(&table::windows(record, args.most).to_string())?;
            terminal::out_line("")?;
            terminal::out_line(&table::phases(record).to_string())?;
            terminal::out_line("")?;
            terminal::out_line(&table::marks(record, &[]))?;
        }
    }
    Ok(Exit::Done)
}

fn window_of<'a>(record: &'a Record, name: &str) -> Result<&'a Profile> {
    record.window(name).ok_or_else(|| {
        let hint = match hint(name, record.windows.iter().map(|w| w.window.as_str())) {
            hint if hint.is_empty() => "; without --window, `profile show` lists them".into(),
            hint => hint,
        };
        let name = name.escape_debug();
        Fault::usage(format!("{} has no window `{name}`{hint}", record.boot)).into()
    })
}

/// The record that the user names: by its file, or by its run and, where that traced several,
/// its boot.
fn load(results: &Path, named: &str) -> Result<Record> {
    if named.ends_with(".json") {
        return traces::read(Path::new(named));
    }
    let (run, boot) = match named.split_once(':') {
        Some((run, boot)) => (run, Some(boot)),
        None => (named, None),
    };
    let records = records(results, run)?;
    let names: Vec<String> = records.iter().map(|r| r.boot.clone()).collect();
    let mut found = records
        .into_iter()
        .filter(|r| boot.is_none_or(|b| b == r.boot));
    match (found.next(), found.next()) {
        (Some(record), None) => Ok(record),
        (None, _) => {
            let boot = boot.unwrap_or_default();
            let hint = hint(boot, names.iter().map(String::as_str));
            Err(Fault::usage(format!(
                "no boot `{}` was traced{hint}",
                boot.escape_debug()
            ))
            .into())
        }
        (Some(_), Some(_)) => Err(Fault::usage(format!(
            "several boots were traced; name one: {}",
            names
                .iter()
                .map(|n| format!("{run}:{n}"))
                .collect::<Vec<_>>()
                .join(", ")
        ))
        .into()),
    }
}

/// All records of a run: one at least.
fn records(results: &Path, run: &str) -> Result<Vec<Record>> {
    let (results, id) = Run::locate(results, run);
    let dir = results.join(&id);
    if !dir.is_dir() {
        return Err(Run::missing(&results, &id).into());
    }
    let all = traces::records(&dir);
    if all.is_empty() {
        let why = format!(
            "{} has no traces: make one with bench --profile",
            dir.display()
        );
        return Err(Fault::usage(why).into());
    }
    all.iter().map(|path| traces::read(path)).collect()
}
