// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting a plan into shards that are run apart, each by its own `bench`.
//!
//! In virtual time each boot stands for itself, so boots are what is dealt out. In wall time
//! a scenario's variants are measured against one another on one host, so whole scenarios
//! are.

mod account;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use self::account::{Account, Part, account};
use super::{boot::TrialResult, fault::Exit, plan::Trial, scenario::Clock};

/// The most shards that a plan is cut into. What hands them out may take fewer, as a matrix of
/// GitHub Actions does, and says so itself.
pub const MOST_SHARDS: u32 = 1024;

/// One of several shards; written `2/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// From 1 on.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl Shard {
    /// What the name of its run ends with: `2-of-4`.
    pub fn suffix(self) -> String {
        format!("{}-of-{}", self.number, self.of)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |s: &str| {
            let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| s.parse().ok()).flatten()
        };
        let parts = text.split_once('/');
        let parts = parts.and_then(|(k, n)| Some((number(k)?, number(n)?)));
        match parts {
            None => Err("it is K/N, such as 2/4".into()),
            Some((_, of)) if !(1..=MOST_SHARDS).contains(&of) => Err(format!(
                "a plan is cut into 1 to {MOST_SHARDS} shards, not {of}"
            )),
            Some((0, of)) => Err(format!("shards are counted from 1: 1/{of} to {of}/{of}")),
            Some((number, of)) if number > of => {
                Err(format!("there are only {of} shards: 1/{of} to {of}/{of}"))
            }
            Some((number, of)) => Ok(Self { number, of }),
        }
    }
}

/// What run.yaml says of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Which of them.
    pub number: u32,
    /// How many there are.
    pub of: u32,
    /// The ids of the boots that were dealt to it.
    pub boots: Vec<String>,
}

impl Cut {
    /// Which shard it is.
    pub fn shard(&self) -> Shard {
        Shard {
            number: self.number,
            of: self.of,
        }
    }
}

/// The boots of `plan` that are `shard`'s. Longest first, each goes to the shard that has
/// least to do so far; `took` says how many ms boots took before, by id. One that nothing is
/// known of counts as the mean of the others. The same plan and the same times always give
/// the same cut.
pub fn cut(plan: &[Trial], shard: Shard, took: &BTreeMap<String, u64>) -> Vec<Trial> {
    let known: Vec<u64> = plan
        .iter()
        .filter_map(|t| took.get(&t.id).copied())
        .collect();
    let mean = known.iter().sum::<u64>() / (known.len() as u64).max(1);
    // What takes no time at all would all go to one shard.
    let weight = |t: &Trial| took.get(&t.id).copied().unwrap_or(mean).max(1);
    let mut units: Vec<(u64, Vec<usize>)> = Vec::new();
    for part in plan.chunk_by(stay_together) {
        let first = units.iter().map(|u| u.1.len()).sum::<usize>();
        let all = (first..first + part.len()).collect();
        units.push((part.iter().map(weight).sum(), all));
    }
    units.sort_by_key(|(weight, trials)| (Reverse(*weight), trials[0]));
    let mut loads = vec![0u64; shard.of as usize];
    let mut own: Vec<usize> = Vec::new();
    for (weight, trials) in units {
        let (least, load) = loads
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, load)| **load)
            .expect("there is a shard");
        *load += weight;
        if least + 1 == shard.number as usize {
            own.extend(trials);
        }
    }
    own.sort_unstable();
    numbered(own.into_iter().map(|index| plan[index].clone()).collect())
}

fn stay_together(a: &Trial, b: &Trial) -> bool {
    a.clock == Clock::Wall && a.scenario.name == b.scenario.name
}

/// The boots of `plan` that `cut` names.
///
/// # Errors
/// A boot that the plan does not have.
pub fn only(plan: &[Trial], cut: &Cut) -> Result<Vec<Trial>, String> {
    let ids: BTreeMap<&str, &Trial> = plan.iter().map(|t| (t.id.as_str(), t)).collect();
    let mut own = Vec::new();
    for id in &cut.boots {
        let trial = ids.get(id.as_str());
        own.push((*trial.ok_or_else(|| format!("its boot {id} is not planned"))?).clone());
    }
    own.sort_by_key(|t| t.index);
    own.dedup_by_key(|t| t.index);
    Ok(numbered(own))
}

/// The exit code of a shard whose boots came to `results`: what is expected of all boots
/// together is not its to judge.
pub fn exit(cut: &Cut, results: &BTreeMap<String, TrialResult>) -> Exit {
    let made = |boot| results.get(boot).map_or(Exit::Guest, |r| r.outcome.exit());
    let worst = cut.boots.iter().map(made).max().unwrap_or(Exit::Done);
    let wrong = |r: &TrialResult| !r.oracle.violations.is_empty();
    match worst {
        Exit::Done if results.values().any(wrong) => Exit::Failed,
        worst => worst,
    }
}

fn numbered(mut plan: Vec<Trial>) -> Vec<Trial> {
    for (index, trial) in plan.iter_mut().enumerate() {
        trial.index = index;
    }
    plan
}
