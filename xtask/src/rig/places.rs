// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places of a search, built and booted: each has a run folder of its own, like any
//! bench's, so that no boot that is over is made again, whatever ends us.

mod asked;
mod over;

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use serde_json::Value;

pub use self::{
    asked::Asked,
    over::{Commits, Options, Patches, Sources, Subject, Words},
};
use super::{Artifacts, Booted, Rig, draw};
use crate::{
    core::{
        boot::TrialResult,
        fault::{Exit, Fault, NotBuilt, Stopped, refused},
        machine::RawBoot,
        measure::{Ended, Options as Measuring, RETRIES, Sink, measure},
        plan::{Overrides, Trial, plan},
        program::Finish,
        scenario::{Clock, Scenario},
        search::{Answer, Step, Symptom, Tested, Tester},
        summary::summarise,
        trend::History,
    },
    edge::{
        cache::Cache,
        files::{self, read_file, write_whole},
        qemu::AccelChoice,
        store::{Begun, Header, Run, SCHEMA, ScenarioRef},
    },
};

/// What says, in a place's folder, why it does not build.
const NOT_BUILT: &str = "not-built.txt";
/// What says there how many boots its summary and its pictures are of.
const FINISHED: &str = "finished";
/// The longest such text that is read.
const MOST_BYTES: u64 = 1 << 20;

/// What all places of a search share.
pub struct Booth<'a> {
    /// The checkout.
    pub root: &'a Path,
    /// The cache.
    pub cache: &'a Cache,
    /// What is booted: its one variant.
    pub scenario: Scenario,
    /// What the user calls it.
    pub given: String,
    /// The clock.
    pub clock: Clock,
    /// What runs the guest in wall time.
    pub accel: AccelChoice,
    /// What each boot is looked at for.
    pub symptom: Symptom,
    /// What the places are.
    pub subject: &'a dyn Subject,
    /// Where their runs are kept.
    pub runs: PathBuf,
    /// The host's fingerprint.
    pub host: Value,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Given one line a step.
    pub say: &'a dyn Fn(&str),
    /// Kernels that were made by this process.
    pub kernels: BTreeMap<String, Booted>,
    /// What was judged, in order.
    pub steps: Vec<Step>,
    /// Whether boots that places were judged by do not count: by the wall clock a place that was
    /// chosen for its boots looks more different than it is.
    pub anew: bool,
}

/// A place's boots, or why it does not build.
pub type Boots = Result<Vec<TrialResult>, String>;

impl Booth<'_> {
    fn label(&self, place: &str) -> String {
        let label = self.subject.label(place);
        match self.anew {
            true => format!("proof-{label}"),
            false => label,
        }
    }

    /// The folder of `place`'s run.
    pub fn run_of(&self, place: &str) -> PathBuf {
        self.runs.join(self.label(place))
    }

    /// The trials of `place`.
    pub fn plan(&self, place: &str, boots: u32) -> Result<Vec<Trial>> {
        let scenario = self.subject.scenario(place, &self.scenario)?;
        let overrides = Overrides {
            clock: Some(self.clock),
            repeats: Some(boots),
            debug: false,
        };
        let mut plan = plan(&[Arc::new(scenario)], overrides);
        for trial in &mut plan {
            trial.kernel = self.subject.spec(place, trial.kernel.clone());
        }
        Ok(plan)
    }

    /// Boots `place` until it was booted `boots` times in all.
    ///
    /// # Errors
    /// What says nothing of the place: the machine failed, the disk is full, or the user asked
    /// to stop.
    pub fn boots(&mut self, place: &str, boots: u32) -> Result<Boots> {
        let label = self.label(place);
        let plan = self.plan(place, boots)?;
        let dir = self.runs.join(&label);
        if let Ok(why) = read_file(&dir.join(NOT_BUILT), MOST_BYTES) {
            return Ok(Err(String::from_utf8_lossy(&why).into_owned()));
        }
        if dir.join("run.yaml").is_file() {
            let known = Run::results(&self.runs, &label, &plan)?;
            if let Some(all) = self.all_of(&plan, &known) {
                if finished(&dir) < boots {
                    // We were ended just before.
                    let notes = Header::read(&self.runs, &label)?.machine.notes;
                    let run = Run::resume(&self.runs, &label, &plan)?;
                    self.finish(run, &plan, notes)?;
                }
                return Ok(Ok(all));
            }
        }
        let booted = match self.kernel(place, &plan[0]) {
            Ok(booted) => booted,
            Err(error) if error.chain().any(|e| e.is::<NotBuilt>()) => {
                let why = format!("{error:#}");
                std::fs::create_dir_all(&dir)
                    .with_context(|| format!("creating {}", dir.display()))?;
                write_whole(&dir.join(NOT_BUILT), why.as_bytes())?;
                return Ok(Err(why));
            }
            Err(error) => return Err(error),
        };
        let kernels = [(plan[0].kernel.clone(), booted)].into();
        let artifacts = Artifacts::with(self.root, self.cache.clone(), kernels, self.say)?;
        let rig = Rig::new(artifacts, &plan, self.accel, Finish::Restart, self.say)?;
        let run = self.open(&label, &plan, &rig, boots)?;
        self.measure(&plan, &rig, run)?;
        let known = Run::results(&self.runs, &label, &plan)?;
        let all = self.all_of(&plan, &known);
        Ok(Ok(all.context("a boot that was made has no result")?))
    }

    /// The results of a plan, if all are there and the machine did its part in each.
    fn all_of(
        &self,
        plan: &[Trial],
        known: &BTreeMap<String, TrialResult>,
    ) -> Option<Vec<TrialResult>> {
        let all = plan.iter().map(|t| known.get(&t.id).cloned());
        let all: Option<Vec<_>> = all.collect();
        all.filter(|all| all.iter().all(|r| self.symptom.see(r).is_ok()))
    }

    /// The kernel of `place`, and its modules.
    ///
    /// # Errors
    /// [`NotBuilt`] where the place is at fault.
    pub fn kernel(&mut self, place: &str, trial: &Trial) -> Result<Booted> {
        if let Some(booted) = self.kernels.get(place) {
            return Ok(booted.clone());
        }
        let booted = self.subject.kernel(place, &trial.kernel).map_err(refused)?;
        self.kernels.insert(place.to_owned(), booted.clone());
        Ok(booted)
    }

    fn open(&self, label: &str, plan: &[Trial], rig: &Rig, boots: u32) -> Result<Run> {
        let kernels = rig.artifacts().records()?;
        let header = |begun: String| Header {
            schema: SCHEMA,
            id: label.to_owned(),
            begun,
            command: self.command.clone(),
            clock: Some(self.clock),
            repeats: Some(boots),
            debug: false,
            no_aa: true,
            under_test: Default::default(),
            scenarios: vec![ScenarioRef {
                given: self.given.clone(),
                hash: plan[0].scenario.hash.clone(),
            }],
            ready_kernel: None,
            shard: None,
            host: self.host.clone(),
            machine: rig.machine(),
            kernels: kernels.clone(),
        };
        if !self.runs.join(label).join("run.yaml").is_file() {
            // What a kill left between making the folder and its header.
            files::remove(&self.runs.join(label));
            let run = Run::create(&self.runs, &header(Begun::now().to_string()))?;
            run.keep_scenarios([&*plan[0].scenario])?;
            return Ok(run);
        }
        let was = Header::read(&self.runs, label)?;
        rig.same_as(&was)?;
        let run = Run::resume(&self.runs, label, plan)?;
        run.keep_header(&header(was.begun))?;
        Ok(run)
    }

    /// Makes what is missing, and draws the run.
    fn measure(&self, plan: &[Trial], rig: &Rig, run: Run) -> Result<()> {
        let missing = plan.iter().filter(|t| !run.results.contains_key(&t.id));
        let missing: Vec<_> = missing.cloned().collect();
        let jobs = match self.clock {
            Clock::Wall => NonZeroUsize::MIN,
            Clock::Virtual => std::thread::available_parallelism()?,
        };
        let options = Measuring {
            jobs,
            keep_going: true,
            retries: RETRIES,
        };
        let mut sink = Keep { run, say: self.say };
        let ended = measure(&missing, rig, options, &mut sink)?;
        let id = sink.run.dir().display().to_string();
        let results = self.finish(sink.run, plan, rig.notes())?;
        match ended {
            Ended::Stopped => Err(Stopped.into()),
            _ => match results.values().find_map(|r| self.symptom.see(r).err()) {
                None => Ok(()),
                Some(why) => Err(Fault {
                    exit: Exit::Infrastructure,
                    message: format!("booting for {id}: {why}"),
                }
                .into()),
            },
        }
    }

    /// Sums a run up and draws it.
    fn finish(
        &self,
        mut run: Run,
        plan: &[Trial],
        notes: Vec<String>,
    ) -> Result<BTreeMap<String, TrialResult>> {
        let dir = run.dir().to_owned();
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        let summary = summarise(&id, self.host.clone(), notes, plan, &run.results);
        run.finish(&summary)?;
        let header = Header::read(&self.runs, &id)?;
        let history = History::default();
        draw(&dir, &header, &summary, plan, &run.results, history)?;
        write_whole(&dir.join(FINISHED), plan.len().to_string().as_bytes())?;
        Ok(run.results)
    }
}

/// How many boots the summary in `dir` is of.
fn finished(dir: &Path) -> u32 {
    let text = std::fs::read_to_string(dir.join(FINISHED)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

struct Keep<'a> {
    run: Run,
    say: &'a dyn Fn(&str),
}

impl Sink for Keep<'_> {
    fn started(&mut self, _: &Trial) {}
    fn again(&mut self, trial: &Trial, why: &str) {
        (self.say)(&format!("again {}: {why}", trial.id));
    }
    fn finished(&mut self, trial: &Trial, raw: &RawBoot, result: &TrialResult) -> Result<()> {
        self.run.store(trial, raw, result)
    }
}

impl Tester for Booth<'_> {
    fn boot(&mut self, place: &str, boots: u32) -> Result<Tested> {
        let results = match self.boots(place, boots)? {
            Ok(results) => results,
            Err(why) => return Ok(Tested::NotBuilt(first_line(&why))),
        };
        let seen = results.iter().map(|r| self.symptom.see(r));
        let seen: Result<Vec<_>, String> = seen.collect();
        let seen = seen.map_err(|message| Fault {
            exit: Exit::Infrastructure,
            message,
        })?;
        Ok(Tested::Booted(seen))
    }

    fn judged(&mut self, step: &Step) -> Result<()> {
        let number = self.steps.len();
        let what = self.subject.text(&step.place);
        let is = match &step.answer {
            Answer::Old => "as the old end".to_owned(),
            Answer::New => "as the new end".to_owned(),
            Answer::Skip(why) => format!("skipped: {}", first_line(why)),
        };
        let told = match step.answer {
            Answer::Skip(_) => is,
            _ => format!("{}: {is}", step.shows),
        };
        (self.say)(&format!("{number}: {what}: {told}"));
        self.steps.push(step.clone());
        Ok(())
    }
}

/// The line of an error that says what it was, or the first.
fn first_line(text: &str) -> String {
    let errors = text.lines().filter(|l| l.contains("error:"));
    let line = errors.chain(text.lines()).next().unwrap_or_default();
    line.trim().to_owned()
}
