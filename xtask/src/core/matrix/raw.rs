// SPDX-License-Identifier: MIT OR Apache-2.0
//! matrix.yaml as written. The editors' JSON schema is made from these types, and files are
//! held to it; doc comments here are what editors show.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Tag;
use crate::core::{
    scenario::{Clock, strict::Name},
    shard::MOST_SHARDS,
};

/// What is run again and again: kernels x scenarios x variants x clocks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "bootrig matrix")]
pub struct Matrix {
    /// Into how many shards each run is cut, by tag; one where a tag is left out.
    #[serde(default)]
    pub shards: Shards,
    /// The parts: the matrix is all of their cells, each once.
    #[schemars(length(min = 1))]
    pub parts: Vec<Part>,
}

/// How many shards, by tag.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// Of what has the tag `quick`.
    #[schemars(range(min = 1, max = MOST_SHARDS))]
    pub quick: Option<u32>,
    /// Of what has the tag `nightly`.
    #[schemars(range(min = 1, max = MOST_SHARDS))]
    pub nightly: Option<u32>,
    /// Of what has the tag `weekly`.
    #[schemars(range(min = 1, max = MOST_SHARDS))]
    pub weekly: Option<u32>,
}

/// Everything that its lists have together, without what is excluded, with what is included.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// When its cells are run.
    #[schemars(length(min = 1))]
    pub tags: Vec<Tag>,
    /// Keys of images/kernels/sources.yaml, in quotes; `own`: each scenario's own, as where
    /// this is left out.
    pub kernels: Option<Vec<Name>>,
    /// Names of scenarios; all that there are where this is left out.
    pub scenarios: Option<Vec<Name>>,
    /// Names of variants: of each scenario those that it has; all where this is left out.
    pub variants: Option<Vec<Name>>,
    /// The clocks; each scenario's own where this is left out.
    pub clocks: Option<Vec<Clock>>,
    /// What is left out of the product.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
    /// What is added to it.
    #[serde(default)]
    pub include: Vec<Include>,
}

/// Cells that have all that is named here.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// Of this kernel.
    pub kernel: Option<Name>,
    /// Of this scenario.
    pub scenario: Option<Name>,
    /// Of this variant.
    pub variant: Option<Name>,
    /// Of this clock.
    pub clock: Option<Clock>,
}

/// More cells: of one scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Include {
    /// The scenario.
    pub scenario: Name,
    /// Its kernel; the scenario's own where this is left out.
    pub kernel: Option<Name>,
    /// The variant; all where this is left out.
    pub variant: Option<Name>,
    /// The clock; the scenario's own where this is left out.
    pub clock: Option<Clock>,
}
