// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shards put together: one run out of theirs, as one `bench` would have left it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    artifacts::without_effect,
    draw,
    history::history,
    stored::{Stored, whole_plan},
};
use crate::{
    core::{
        fault::{Exit, Fault},
        machine::RawBoot,
        plan::Trial,
        scenario::{Clock, Scenario},
        shard::{Account, Cut, Part, account},
        summary::Summary,
    },
    edge::{
        files::read_file,
        store::{Header, Run},
    },
};

/// A console, or the events of a hundred thousand devices.
const MOST_BYTES: u64 = 1 << 30;

/// A run that was read as a shard.
struct Piece {
    dir: PathBuf,
    stored: Stored,
    cut: Cut,
}

/// Shards that belong together.
pub struct Shards {
    pieces: Vec<Piece>,
    plan: Vec<Trial>,
    /// What is not as it should be.
    pub account: Account,
}

/// Reads the shards in `dirs`.
///
/// # Errors
/// Usage: one is no shard or cannot be read, or they are not of one experiment; all that
/// differs is named.
pub fn read(root: &Path, dirs: &[PathBuf]) -> Result<Shards> {
    let mut pieces = Vec::new();
    for dir in dirs {
        let (results, id) = Run::locate(Path::new("."), &dir.to_string_lossy());
        let stored = Stored::read(root, &results, &id)?;
        let Some(cut) = stored.header.shard.clone() else {
            let why = format!("run {id} is no shard: `bench --shard K/N` makes them");
            return Err(Fault::usage(why).into());
        };
        pieces.push(Piece {
            dir: dir.clone(),
            stored,
            cut,
        });
    }
    pieces.sort_by_key(|p| (p.cut.number, p.stored.header.id.clone()));
    let Some(first) = pieces.first() else {
        return Err(Fault::usage("there is no run to merge").into());
    };
    let plan = whole_plan(&first.stored.header, &first.stored.scenarios);
    let wall = plan.iter().any(|t| t.clock == Clock::Wall);
    for other in &pieces[1..] {
        let differs = differences(first, other, wall);
        if !differs.is_empty() {
            let (a, b) = (&first.stored.header.id, &other.stored.header.id);
            let why = format!(
                "runs {a} and {b} are not of one experiment:\n- {}",
                differs.join("\n- ")
            );
            return Err(Fault::usage(why).into());
        }
    }
    let parts: Vec<Part<'_>> = pieces
        .iter()
        .map(|p| Part {
            run: &p.stored.header.id,
            cut: &p.cut,
            results: &p.stored.results,
        })
        .collect();
    let account = account(&plan, &parts);
    Ok(Shards {
        plan,
        account,
        pieces,
    })
}

/// What makes two shards parts of different experiments.
fn differences(a: &Piece, b: &Piece, wall: bool) -> Vec<String> {
    let (one, other) = (&a.stored.header, &b.stored.header);
    let hashes = |p: &Piece| -> Vec<(String, String)> {
        let all = p.stored.scenarios.iter();
        all.map(|s| (s.name.clone(), s.hash.clone())).collect()
    };
    let mut found = Vec::new();
    for (name, hash) in hashes(a) {
        match hashes(b).iter().find(|(n, _)| *n == name) {
            None => found.push(format!("{} has no scenario {name}", other.id)),
            Some((_, theirs)) if *theirs != hash => {
                found.push(format!(
                    "the hashes of scenario {name} differ: its file was changed"
                ));
            }
            Some(_) => {}
        }
    }
    for (name, _) in hashes(b) {
        if !hashes(a).iter().any(|(n, _)| *n == name) {
            found.push(format!("{} has no scenario {name}", one.id));
        }
    }
    if found.is_empty() && hashes(a) != hashes(b) {
        found.push("the order of the scenarios differs".into());
    }
    let shown =
        |clock: Option<Clock>| clock.map_or("each scenario's own".into(), |c| c.to_string());
    let count = |n: Option<u32>| n.map_or("each scenario's own".into(), |n| n.to_string());
    let machine = |h: &Header| {
        let named = h.host.get("machine").and_then(Value::as_str);
        if wall {
            named.unwrap_or("unknown").to_owned()
        } else {
            String::new()
        }
    };
    for (what, one, other) in [
        ("clock", shown(one.clock), shown(other.clock)),
        (
            "number of repeats",
            count(one.repeats),
            count(other.repeats),
        ),
        ("--debug", one.debug.to_string(), other.debug.to_string()),
        ("--no-aa", one.no_aa.to_string(), other.no_aa.to_string()),
        (
            "number of shards",
            a.cut.of.to_string(),
            b.cut.of.to_string(),
        ),
        (
            "machine (wall time is of one host)",
            machine(one),
            machine(other),
        ),
    ] {
        if one != other {
            found.push(format!("the {what} differs: {one} and {other}"));
        }
    }
    // A shard has the kernels and images that its own boots take.
    for differs in one.parts().differing(&other.parts()) {
        if let Some((one, other)) = differs.both() {
            found.push(format!("the {} differs: {one} and {other}", differs.part));
        }
    }
    found
}

impl Shards {
    /// What the shards' runs are called without their shard: the merged run's name, if they
    /// have one.
    pub fn name(&self) -> Option<String> {
        let names: BTreeSet<_> = self
            .pieces
            .iter()
            .map(|p| {
                let suffix = format!(".{}", p.cut.shard().suffix());
                p.stored.header.id.strip_suffix(&suffix).map(str::to_owned)
            })
            .collect();
        match names.len() {
            1 => names.into_iter().next().flatten(),
            _ => None,
        }
    }

    /// What they booted, each size of a sweep for itself.
    pub fn scenarios(&self) -> Vec<&Scenario> {
        let all = &self.pieces[0].stored.scenarios;
        all.iter().flat_map(|s| s.members()).collect()
    }

    /// Writes the run `id` into `results`; returns its folder and its summary. Until it is
    /// whole it does not have its name.
    ///
    /// # Errors
    /// Usage: there is a run of this name. When the disk is full or fails.
    pub fn write(&self, results: &Path, id: &str) -> Result<(PathBuf, Summary)> {
        let place = results.join(id);
        if place.exists() {
            let why = format!(
                "{} is there already: name another with --run",
                place.display()
            );
            return Err(Fault::usage(why).into());
        }
        fs::create_dir_all(results).with_context(|| format!("creating {}", results.display()))?;
        let stage = tempfile::Builder::new()
            .prefix(".merging-")
            .tempdir_in(results)
            .with_context(|| format!("making a folder in {}", results.display()))?;
        let header = self.header(id);
        let scenarios = &self.pieces[0].stored.scenarios;
        let mut run = Run::create(stage.path(), &header)?;
        run.keep_scenarios(scenarios)?;
        let mut owner: BTreeMap<&str, &Piece> = BTreeMap::new();
        for piece in &self.pieces {
            owner.extend(piece.stored.results.keys().map(|id| (id.as_str(), piece)));
            for (id, ms) in Run::times(&piece.dir) {
                run.took(&id, Duration::from_millis(ms))?;
            }
        }
        for trial in &self.plan {
            if let Some(piece) = owner.get(trial.id.as_str()) {
                let raw = raw(&piece.dir, trial);
                run.store(trial, &raw, &piece.stored.results[&trial.id])?;
            }
        }
        let merged = Stored {
            header: header.clone(),
            scenarios: scenarios.clone(),
            plan: self.plan.clone(),
            results: run.results.clone(),
        };
        let summary = merged.summary();
        run.finish(&summary)?;
        let history = history(results, &header, &summary, &[])?;
        draw(
            run.dir(),
            &header,
            &summary,
            &self.plan,
            &run.results,
            history,
        )?;
        fs::rename(run.dir(), &place)
            .with_context(|| format!("giving {} its name", place.display()))?;
        Ok((place, summary))
    }

    fn header(&self, id: &str) -> Header {
        let headers = || self.pieces.iter().map(|p| &p.stored.header);
        let first = &self.pieces[0].stored.header;
        let kernels: BTreeMap<_, _> = headers()
            .flat_map(|h| &h.kernels)
            .map(|k| (k.spec.clone(), k.clone()))
            .collect();
        let kernels: Vec<_> = kernels.into_values().collect();
        let images: BTreeMap<_, _> = headers()
            .flat_map(|h| &h.machine.images)
            .map(|i| (i.image.clone(), i.clone()))
            .collect();
        let mut notes: BTreeSet<String> = headers()
            .flat_map(|h| h.machine.notes.iter().cloned())
            .collect();
        // Of a series in one shard and its base in another neither could tell.
        notes.extend(without_effect(&kernels));
        let mut header = Header {
            id: id.into(),
            begun: headers().map(|h| h.begun.clone()).min().unwrap_or_default(),
            command: without_shard(&first.command),
            shard: None,
            host: host(&headers().map(|h| &h.host).collect::<Vec<_>>()),
            kernels,
            ..first.clone()
        };
        header.machine.images = images.into_values().collect();
        header.machine.notes = notes.into_iter().collect();
        header
    }
}

/// What a boot left in its shard's folder.
fn raw(dir: &Path, trial: &Trial) -> RawBoot {
    let read = |ending: &str| {
        let name = format!("{}.{ending}", trial.file_stem());
        read_file(&dir.join("console").join(name), MOST_BYTES).unwrap_or_default()
    };
    RawBoot {
        channel: read("events"),
        console: read("log"),
        ..RawBoot::default()
    }
}

/// A command line that would make the whole run.
fn without_shard(command: &[String]) -> Vec<String> {
    const OURS: [&str; 3] = ["--shard", "--run", "--balance"];
    let mut out = Vec::new();
    let mut words = command.iter();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        match OURS.contains(&name) {
            true if name.len() == word.len() => drop(words.next()),
            true => {}
            false => out.push(word.clone()),
        }
    }
    out
}

/// The first shard's host, with the highest load of all; where others ran elsewhere, with
/// what each of them is.
fn host(all: &[&Value]) -> Value {
    let mut host = all[0].clone();
    let load = |v: &&Value| v.get("load").and_then(Value::as_f64);
    let highest = all
        .iter()
        .filter_map(load)
        .fold(None, |max: Option<f64>, load| {
            Some(max.map_or(load, |max| max.max(load)))
        });
    let machine = |v: &Value| v.get("machine").cloned();
    if let Some(fields) = host.as_object_mut() {
        if let Some(load) = highest {
            fields.insert("load".into(), load.into());
        }
        if all.iter().any(|v| machine(v) != machine(all[0])) {
            let shards = all.iter().map(|v| (*v).clone()).collect();
            fields.insert("shards".into(), Value::Array(shards));
        }
    }
    host
}

/// The exit code of shards that are not together a whole run, by what is wrong with them.
pub fn exit(account: &Account) -> Exit {
    match account.doubled.is_empty() {
        true => Exit::Inconclusive,
        false => Exit::Usage,
    }
}
