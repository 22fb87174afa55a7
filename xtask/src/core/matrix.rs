// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix: what is run again and again, as cells, and the runs that they make.
//! docs/nightly.md describes matrix.yaml.

mod parse;
mod raw;
#[cfg(test)]
mod tests;
pub mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::OnceLock,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::parse::parse;
use super::scenario::{Clock, strict};

/// The schema of matrix.yaml.
pub fn matrix_schema() -> &'static serde_json::Value {
    static SCHEMA: OnceLock<serde_json::Value> = OnceLock::new();
    SCHEMA.get_or_init(|| strict::generate::<raw::Matrix>("core/matrix/raw.rs"))
}

/// When cells are run.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// With each change.
    Quick,
    /// Every night.
    Nightly,
    /// Every week.
    Weekly,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Nightly => "nightly",
            Self::Weekly => "weekly",
        })
    }
}

/// One kernel, scenario, variant and clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// A key of images/kernels/sources.yaml.
    pub kernel: String,
    /// The scenario's name.
    pub scenario: String,
    /// One of its variants.
    pub variant: String,
    /// The clock in force.
    pub clock: Clock,
    /// When it is run.
    pub tags: BTreeSet<Tag>,
}

impl Cell {
    fn is_of(&self, other: &Self) -> bool {
        let key = |c: &Self| {
            (
                c.kernel.clone(),
                c.scenario.clone(),
                c.variant.clone(),
                c.clock,
            )
        };
        key(self) == key(other)
    }
}

/// A matrix that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Each once, in the file's order.
    pub cells: Vec<Cell>,
    /// Into how many shards runs are cut; one where a tag is not there.
    pub shards: BTreeMap<Tag, u32>,
    /// How many variants each scenario has.
    variants: BTreeMap<String, usize>,
}

/// One run: what a single `bench` makes of the matrix, in shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Names it: `nightly.6.1.virtual`.
    pub run: String,
    /// A key of images/kernels/sources.yaml.
    pub kernel: String,
    /// The clock.
    pub clock: Clock,
    /// What it boots.
    pub scenarios: Vec<String>,
    /// The variants that it boots of each; empty: all.
    pub only: Vec<String>,
    /// Into how many shards it is cut.
    pub shards: u32,
}

impl Job {
    /// What `bench` is given, beside the name of the run and the shard.
    pub fn words(&self) -> Vec<String> {
        let mut words = self.scenarios.clone();
        words.extend(["--on".into(), self.kernel.clone()]);
        words.extend(["--clock".into(), self.clock.to_string()]);
        for variant in &self.only {
            words.extend(["--only".into(), variant.clone()]);
        }
        words.push("--keep-going".into());
        words
    }
}

impl Matrix {
    /// The cells that `tag` has; all where it is `None`.
    pub fn tagged(&self, tag: Option<Tag>) -> Vec<&Cell> {
        let has = |c: &&Cell| tag.is_none_or(|tag| c.tags.contains(&tag));
        self.cells.iter().filter(has).collect()
    }

    /// The runs of the cells that `tag` has. What one `bench` can boot is one run: the same
    /// kernel, the same clock, and of each scenario all variants or those of the same names.
    /// `shards` stands in for the file's number.
    pub fn jobs(&self, tag: Option<Tag>, shards: Option<u32>) -> Vec<Job> {
        let shards = shards
            .or_else(|| self.shards.get(&tag?).copied())
            .unwrap_or(1);
        let mut experiments: Vec<(&Cell, Vec<String>)> = Vec::new();
        for cell in self.tagged(tag) {
            let same = |(c, _): &&mut (&Cell, _)| {
                (&c.kernel, &c.scenario, c.clock) == (&cell.kernel, &cell.scenario, cell.clock)
            };
            match experiments.iter_mut().find(same) {
                Some((_, variants)) => variants.push(cell.variant.clone()),
                None => experiments.push((cell, vec![cell.variant.clone()])),
            }
        }
        let mut jobs: Vec<Job> = Vec::new();
        for (cell, variants) in experiments {
            let all = self.variants.get(&cell.scenario) == Some(&variants.len());
            let only = if all { vec![] } else { variants };
            let same =
                |j: &&mut Job| (&j.kernel, j.clock, &j.only) == (&cell.kernel, cell.clock, &only);
            if let Some(job) = jobs.iter_mut().find(same) {
                job.scenarios.push(cell.scenario.clone());
                continue;
            }
            let tag = tag.map_or("matrix".into(), |t| t.to_string());
            let mut run = format!("{tag}.{}.{}", cell.kernel, cell.clock);
            if !only.is_empty() {
                run += &format!(".{}", only.join("-"));
            }
            jobs.push(Job {
                run,
                kernel: cell.kernel.clone(),
                clock: cell.clock,
                scenarios: vec![cell.scenario.clone()],
                only,
                shards,
            });
        }
        jobs
    }
}
