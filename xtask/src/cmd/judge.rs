// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask judge`: is this kernel good or bad? Answers by its exit status, as
//! `git bisect run` wants it: 0 good, 1 bad, 125 it cannot be told, 128 and above: stop.

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    core::{
        fault::{Exit, Fault, exit_of, text},
        search::{Answer, Sought, Symptom, Threshold, alone},
    },
    edge::{
        cache::Cache,
        history::{self, History},
        host::fingerprint::Fingerprint,
        store::{Begun, Held, kept::JUDGED},
        terminal,
    },
    rig::{
        self, checkout, known,
        places::{Asked, Booth, Commits, Sources, Subject},
    },
};

/// It cannot be told: git skips the commit.
const SKIP: u8 = 125;
/// From here on git stops.
const STOP: u8 = 128;

/// Options of `judge`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Judge what is checked out in this kernel tree, a git repository, changes that are not
    /// committed included. Default: the scenario's own kernel.
    #[arg(long, value_name = "DIR")]
    kernel_tree: Option<PathBuf>,
}

/// Judges; the exit status.
pub fn run(args: &Args) -> u8 {
    // A panic's own status, 101, would tell git that the commit is bad.
    match catch_unwind(AssertUnwindSafe(|| judge(args))) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            terminal::say(&format!("error: {}", text(&error)));
            status_of(&error)
        }
        Err(_) => stop(Exit::Infrastructure),
    }
}

/// The status of an error: git stops.
pub fn status_of(error: &anyhow::Error) -> u8 {
    stop(exit_of(error))
}

/// The status that makes git stop for `exit`.
pub fn stop(exit: Exit) -> u8 {
    match exit {
        Exit::Stopped => Exit::Stopped as u8,
        // 130 is a shell's word for an interrupt.
        Exit::Usage => STOP + Exit::Failed as u8,
        other => STOP + other as u8,
    }
}

fn judge(args: &Args) -> Result<u8> {
    let say = |line: &str| terminal::say(line);
    let root = checkout()?;
    let cache = Cache::open(&say)?;
    let asked = &args.asked;
    let scenario = asked.scenario(&root, &known(&root)?, &cache, &say)?;
    let question = asked.question(&scenario, Sought::Symptom)?;
    if let Symptom::Slow(metric, Threshold::Halfway | Threshold::Part(_)) = question.symptom {
        return Err(Fault::usage(format!(
            "judge has one kernel and nothing to compare it with: give --threshold a time of {}, as `2.95 s`",
            metric.name()
        ))
        .into());
    }
    let like = scenario.kernel.clone();
    let tree = args.kernel_tree.as_deref();
    let tree = tree.map(std::path::absolute).transpose()?;
    tree.iter().try_for_each(|tree| history::check(tree))?;
    asked.ensure()?;
    let (commits, sources);
    let history;
    let (place, subject): (String, &dyn Subject) = match &tree {
        Some(tree) => {
            let commit = history::snapshot(tree)?;
            if commit != history::resolve(tree, "HEAD")? {
                say("note: changes that are not committed are judged with the commit");
            }
            history = History::open(&cache, tree, &commit, &say)?;
            commits = Commits {
                root: &root,
                cache: &cache,
                history: &history,
                tree,
                like: &like,
                say: &say,
            };
            (commit, &commits)
        }
        None => {
            sources = Sources {
                root: &root,
                cache: &cache,
                say: &say,
            };
            (like.clone(), &sources)
        }
    };
    let results = rig::results(asked.results.as_deref())?;
    let (runs, _held) = folder(&results)?;
    let mut booth = Booth {
        root: &root,
        cache: &cache,
        given: asked.given()?.to_owned(),
        clock: question.clock,
        accel: asked.accel,
        symptom: question.symptom,
        subject,
        runs,
        host: serde_json::to_value(Fingerprint::take()?)?,
        command: std::env::args().skip(1).collect(),
        say: &say,
        kernels: BTreeMap::new(),
        steps: Vec::new(),
        anew: false,
        scenario,
    };
    let step = alone(&place, &mut booth, &question)?;
    let what = subject.text(&place);
    Ok(match step.answer {
        Answer::Old => {
            say(&format!(
                "good: {what}: {}, not {}",
                step.shows, question.symptom
            ));
            0
        }
        Answer::New => {
            say(&format!(
                "bad: {what}: {}: {}",
                step.shows, question.symptom
            ));
            1
        }
        Answer::Skip(why) => {
            say(&format!("skipped: {what}: {why}"));
            SKIP
        }
    })
}

/// A folder for this one judgement, which is held: what was judged before may have had other
/// patches.
fn folder(results: &Path) -> Result<(PathBuf, Held)> {
    let dir = results.join(JUDGED).join(Begun::now().id());
    fs::create_dir_all(&dir).with_context(|| {
        let dir = dir.display();
        format!("creating {dir}; name another place with --results")
    })?;
    let held = Held::take(&dir, "judgement")?;
    Ok((dir, held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fault::Stopped;

    /// Whatever is no answer makes git stop, and never looks like one.
    #[test]
    fn errors_are_no_answers() {
        for (error, want) in [
            (anyhow::Error::from(Fault::usage("x")), 129),
            (anyhow::anyhow!("the disk is full"), 133),
            (anyhow::Error::from(Stopped), 130),
        ] {
            assert_eq!(status_of(&error), want);
        }
    }
}
