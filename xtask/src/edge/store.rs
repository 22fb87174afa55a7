// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run folders: `<results>/<run-id>/{run.yaml, scenarios/, trials/, samples.csv,
//! took.csv, summary.json, report.html, trace.json, console/}`.
//!
//! Each trial's result is stored whole as soon as it is known. samples.csv holds them in
//! plan order, so it is the same however many trials ran side by side, and it is written
//! anew from the trials on resume, so a cut last line never survives.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

mod begun;
mod header;
mod hold;
pub mod kept;
mod read;
mod took;

pub use self::{
    begun::Begun,
    header::{Header, ImageRecord, KernelRecord, MachineRecord, SCHEMA, ScenarioRef},
    hold::Held,
    read::Finished,
};
use super::files::{self, free_space, list, read_file, write_whole};
use crate::core::{
    boot::{Outcome, TrialResult},
    fault::Fault,
    machine::RawBoot,
    nearest::nearest,
    plan::{Role, Trial, file_stem},
    samples,
    scenario::{self, Scenario},
    summary::Summary,
};

/// The longest file of a run that is read back: a trial with a hundred thousand devices has
/// some 100 MB.
const MOST_BYTES: u64 = 1 << 30;

/// The longest summary.json: a hundred thousand devices have some 20 MB a variant.
const MOST_SUMMARY_BYTES: u64 = 256 << 20;

/// The longest scenario that a run keeps: ten thousand devices have some 1 MB.
const MOST_SCENARIO_BYTES: u64 = 64 << 20;
/// The folder of a run's scenarios.
const SCENARIOS: &str = "scenarios";

/// An open run folder; locked against a second process.
pub struct Run {
    dir: PathBuf,
    /// Results by trial id.
    pub results: BTreeMap<String, TrialResult>,
    rows: BTreeMap<usize, String>,
    next: usize,
    csv: File,
    _held: Held,
}

impl Run {
    /// Makes the folder of a new run.
    pub fn create(results: &Path, header: &Header) -> Result<Self> {
        Self::make(results, header).map_err(|e| explain(e, results))
    }

    fn make(results: &Path, header: &Header) -> Result<Self> {
        let dir = results.join(&header.id);
        fs::create_dir_all(results).with_context(|| format!("creating {}", results.display()))?;
        fs::create_dir(&dir).with_context(|| format!("creating run folder {}", dir.display()))?;
        let made = Self::fill(dir.clone(), header);
        if made.is_err() {
            // A folder without its header is no run, and nothing could resume it.
            let _ = fs::remove_dir_all(&dir);
        }
        made
    }

    fn fill(dir: PathBuf, header: &Header) -> Result<Self> {
        fs::create_dir(dir.join("trials"))
            .and_then(|()| fs::create_dir(dir.join("console")))
            .with_context(|| format!("creating folders in {}", dir.display()))?;
        write_whole(
            &dir.join("run.yaml"),
            serde_yaml::to_string(header)?.as_bytes(),
        )?;
        Self::open(dir, BTreeMap::new(), &[])
    }

    /// Whether there is a run `id`. What was left of one that ended before it had begun is
    /// removed.
    pub fn is_begun(results: &Path, id: &str) -> bool {
        let dir = results.join(id);
        if dir.join("run.yaml").exists() {
            return true;
        }
        // Folders with anything in them stay.
        for empty in [dir.join("trials"), dir.join("console"), dir] {
            let _ = fs::remove_dir(empty);
        }
        false
    }

    /// The results folder and the id of a run that the user names: by its id in `results`,
    /// as `list --runs` has it there, or by its folder's path, as it is printed.
    pub fn locate(results: &Path, named: &str) -> (PathBuf, String) {
        let path = Path::new(named);
        let named = named.trim_end_matches('/');
        match (path.parent(), path.file_name().and_then(|n| n.to_str())) {
            (Some(parent), Some(id)) if parent.components().next().is_some() => {
                let below = results.join(parent);
                match !path.exists() && below.join(id).is_dir() {
                    true => (below, id.to_owned()),
                    false => (parent.to_owned(), id.to_owned()),
                }
            }
            _ => (results.to_owned(), named.to_owned()),
        }
    }

    /// That there is no run `id` in `results`, with the one of the nearest name.
    pub fn missing(results: &Path, id: &str) -> Fault {
        let runs: Vec<String> = list(results)
            .into_iter()
            .filter(|(_, path)| path.is_dir())
            .map(|(name, _)| name)
            .collect();
        let near = nearest(id, runs.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| {
            format!("; did you mean `{}`?", near.escape_debug())
        });
        Fault::usage(format!(
            "there is no run `{}` in {}; its folders are the runs{near}",
            id.escape_debug(),
            results.display()
        ))
    }

    /// The folders of the runs that fit `pattern`, by name: in `results`, or, where it has a
    /// `/`, anywhere.
    ///
    /// # Errors
    /// Usage: it is no pattern.
    pub fn matching(results: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
        let whole = match pattern.contains('/') {
            true => pattern.to_owned(),
            false => {
                let results = glob::Pattern::escape(&results.to_string_lossy());
                format!("{results}/{pattern}")
            }
        };
        let found = glob::glob(&whole).map_err(|e| {
            Fault::usage(format!("`{}` is no pattern: {e}", pattern.escape_debug()))
        })?;
        let dirs = found.filter_map(Result::ok);
        Ok(dirs.filter(|d| d.join("run.yaml").is_file()).collect())
    }

    /// Checks that a run can be called `id`.
    ///
    /// # Errors
    /// Usage: it is no plain name of a folder.
    pub fn name(id: &str) -> Result<()> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if (1..=200).contains(&id.len()) && id.bytes().all(plain) && !id.starts_with('.') {
            return Ok(());
        }
        let id = id.escape_debug();
        let why = format!("`{id}` is no name for a run: letters, digits, `.`, `_` and `-`");
        Err(Fault::usage(why).into())
    }

    /// Keeps `scenarios` as they are now, so that the run can be read when their files have
    /// changed. Not so a sweep, which has no file of its own: it is read from the checkout.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn keep_scenarios<'s>(
        &self,
        scenarios: impl IntoIterator<Item = &'s Scenario>,
    ) -> Result<()> {
        let dir = self.dir.join(SCENARIOS);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        for scenario in scenarios.into_iter().filter(|s| s.sweep.is_none()) {
            let path = dir.join(format!("{}.yaml", scenario.name));
            write_whole(&path, scenario::to_yaml(scenario).as_bytes())
                .map_err(|e| explain(e, &self.dir))?;
        }
        Ok(())
    }

    /// The scenarios that run `id` kept, of those that can still be read, by their hash.
    pub fn kept_scenarios(results: &Path, id: &str) -> BTreeMap<String, Scenario> {
        let known = scenario::Known::default();
        let read = |(name, path): (String, PathBuf)| {
            let bytes = read_file(&path, MOST_SCENARIO_BYTES).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            let scenario = scenario::parse(&name, &text, &known).ok()?;
            Some((scenario.hash.clone(), scenario))
        };
        let files = files::list(&results.join(id).join(SCENARIOS));
        files.into_iter().filter_map(read).collect()
    }

    /// Writes run.yaml anew: more is asked of the run than when it was begun.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn keep_header(&self, header: &Header) -> Result<()> {
        let text = serde_yaml::to_string(header)?;
        write_whole(&self.dir.join("run.yaml"), text.as_bytes()).map_err(|e| explain(e, &self.dir))
    }

    /// The results of run `id` that there are of `plan`, as they were stored.
    ///
    /// # Errors
    /// Usage: one is damaged; says which.
    pub fn results(
        results: &Path,
        id: &str,
        plan: &[Trial],
    ) -> Result<BTreeMap<String, TrialResult>> {
        let dir = results.join(id);
        let mut known = BTreeMap::new();
        for trial in plan {
            if let Some(result) = stored(&dir, trial)? {
                known.insert(trial.id.clone(), result);
            }
        }
        Ok(known)
    }

    /// Opens an earlier run to make what is missing of `plan`. Trials that failed because
    /// of the machine are forgotten and made again.
    pub fn resume(results: &Path, id: &str, plan: &[Trial]) -> Result<Self> {
        let mut known = Self::results(results, id, plan)?;
        known.retain(|_, result| !matches!(result.outcome, Outcome::Infrastructure(_)));
        let dir = results.join(id);
        Self::open(dir, known, plan).map_err(|e| explain(e, results))
    }

    fn open(dir: PathBuf, results: BTreeMap<String, TrialResult>, plan: &[Trial]) -> Result<Self> {
        for part in ["trials", "console"] {
            if !dir.join(part).is_dir() {
                let why = format!(
                    "{} is no folder; the run is damaged and cannot go on: begin a new one",
                    dir.join(part).display()
                );
                return Err(Fault::usage(why).into());
            }
        }
        let held = Held::take(&dir, "run")?;
        for part in ["", "trials", "console"] {
            files::sweep(&dir.join(part));
        }
        let csv_path = dir.join("samples.csv");
        write_whole(&csv_path, samples::HEADER.as_bytes())?;
        let csv = File::options()
            .append(true)
            .open(&csv_path)
            .with_context(|| format!("opening {}", csv_path.display()))?;
        let mut run = Self {
            dir,
            results: BTreeMap::new(),
            rows: BTreeMap::new(),
            next: 0,
            csv,
            _held: held,
        };
        for trial in plan {
            if let Some(result) = results.get(&trial.id) {
                run.note(trial, result)?;
            }
        }
        run.results = results;
        Ok(run)
    }

    /// The run's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores a trial's result, console and channel. On return they are on disk.
    pub fn store(&mut self, trial: &Trial, raw: &RawBoot, result: &TrialResult) -> Result<()> {
        self.keep(trial, raw, result)
            .map_err(|e| explain(e, &self.dir))
    }

    fn keep(&mut self, trial: &Trial, raw: &RawBoot, result: &TrialResult) -> Result<()> {
        let name = trial.file_stem();
        write_whole(
            &self.dir.join("console").join(format!("{name}.log")),
            &raw.console,
        )?;
        write_whole(
            &self.dir.join("console").join(format!("{name}.events")),
            &raw.channel,
        )?;
        write_whole(&trial_path(&self.dir, trial), &serde_json::to_vec(result)?)?;
        self.note(trial, result)?;
        self.results.insert(trial.id.clone(), result.clone());
        Ok(())
    }

    /// Adds a trial's rows to samples.csv once all trials before it have theirs.
    fn note(&mut self, trial: &Trial, result: &TrialResult) -> Result<()> {
        let rows = match trial.role {
            Role::Measured => samples::of(&trial.scenario, result),
            Role::WarmUp | Role::Same => Vec::new(),
        };
        self.rows.insert(trial.index, samples::lines(trial, &rows));
        while let Some(rows) = self.rows.remove(&self.next) {
            self.append(&rows)?;
            self.next += 1;
        }
        Ok(())
    }

    fn append(&mut self, rows: &str) -> Result<()> {
        self.csv
            .write_all(rows.as_bytes())
            .with_context(|| format!("writing {}", self.dir.join("samples.csv").display()))
    }

    /// Writes what waits behind trials that were never made, and the summary.
    pub fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.end(summary).map_err(|e| explain(e, &self.dir))
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        let waiting: String = std::mem::take(&mut self.rows).into_values().collect();
        self.append(&waiting)?;
        self.csv.sync_all().context("writing samples.csv")?;
        let mut text = serde_json::to_string_pretty(summary)?;
        text.push('\n');
        write_whole(&self.dir.join("summary.json"), text.as_bytes())
    }
}

/// That the disk of `place`, where runs are kept, is full, if `error` is of that.
pub fn explain(error: anyhow::Error, place: &Path) -> anyhow::Error {
    const ADVICE: &str = "free some there, or keep runs on another disk with --results DIR";
    files::explain(error, place, free_space(place), ADVICE)
}

/// What is stored of `trial`, if it is.
///
/// # Errors
/// Usage: it is damaged.
fn stored(dir: &Path, trial: &Trial) -> Result<Option<TrialResult>> {
    let path = trial_path(dir, trial);
    let bytes = match read_file(&path, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => {
            let why = format!("{}: {e}; delete it to make the trial again", path.display());
            return Err(Fault::usage(why).into());
        }
    };
    let result: TrialResult = serde_json::from_slice(&bytes).map_err(|e| {
        let path = path.display();
        Fault::usage(format!("{path}: {e}; delete it to make the trial again"))
    })?;
    let devices = trial.scenario.devices.len();
    let mut callbacks = result.log.iter().flat_map(|log| &log.callbacks);
    if let Some(odd) = callbacks.find(|c| c.device >= devices) {
        let why = format!(
            "{}: device {} of {devices}; delete it to make the trial again",
            path.display(),
            odd.device
        );
        return Err(Fault::usage(why).into());
    }
    Ok((result.id == trial.id).then_some(result))
}

fn trial_path(dir: &Path, trial: &Trial) -> PathBuf {
    trial_file(dir, &trial.id)
}

fn trial_file(dir: &Path, id: &str) -> PathBuf {
    dir.join("trials").join(format!("{}.json", file_stem(id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        fault::{Exit, exit_of},
        summary::summarise,
    };

    #[test]
    fn a_full_disk_of_the_results_is_told_with_the_next_step() {
        let results = tempfile::tempdir().unwrap();
        let header = Header {
            schema: SCHEMA,
            id: "run".into(),
            begun: String::new(),
            command: Vec::new(),
            clock: None,
            repeats: None,
            debug: false,
            no_aa: false,
            scenarios: Vec::new(),
            ready_kernel: None,
            shard: None,
            under_test: Default::default(),
            host: serde_json::Value::Null,
            machine: MachineRecord::default(),
            kernels: Vec::new(),
        };
        let mut run = Run::create(results.path(), &header).unwrap();
        run.rows.insert(0, "a row\n".into());
        run.csv = File::options().append(true).open("/dev/full").unwrap();
        let summary = summarise(
            "run",
            serde_json::Value::Null,
            Vec::new(),
            &[],
            &BTreeMap::new(),
        );
        let error = run.finish(&summary).unwrap_err();
        assert_eq!(exit_of(&error), Exit::Infrastructure);
        let error = format!("{error:#}");
        for want in [
            &format!("the disk of {} is full (", run.dir().display()),
            "--results DIR",
            "samples.csv",
        ] {
            assert!(error.contains(want), "{want}: {error}");
        }
    }
}
