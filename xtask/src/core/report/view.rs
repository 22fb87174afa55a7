// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that a run's pictures are drawn from.

use std::collections::BTreeMap;

use crate::core::{
    boot::TrialResult,
    event::BootLog,
    plan::Trial,
    scenario::{Order, Scenario, Variant},
    summary::Summary,
    trace::tally::Profile,
    trend::History,
};

/// A run as it is drawn.
pub struct View<'a> {
    /// Its numbers.
    pub summary: &'a Summary,
    /// What was planned; names the scenarios.
    pub plan: &'a [Trial],
    /// What came of it, by trial.
    pub results: &'a BTreeMap<String, TrialResult>,
    /// Where, when and with what it was made.
    pub made: Made,
    /// Other runs of the same.
    pub history: History,
    /// What the tracer saw.
    pub profiled: Vec<Profiled>,
    /// What is not drawn because it cannot be read, and why.
    pub left_out: Vec<String>,
}

/// A window of a traced boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiled {
    /// Scenario and variant: `shutdown-2018/parallel`.
    pub boot: String,
    /// What its time went into.
    pub profile: Profile,
    /// Its call stacks, as flame graphs are made of.
    pub folded: String,
}

/// Where, when and with what a run was made, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// RFC 3339, UTC.
    pub begun: String,
    /// The command that makes it again, ready for a shell.
    pub command: String,
    /// The machine and its tools: a name, and what it is.
    pub environment: Vec<(String, String)>,
    /// The kernels, a row each: as asked for, source, release, compiler.
    pub kernels: Vec<[String; 4]>,
}

/// A boot that has something to draw.
#[derive(Clone, Copy)]
pub struct Boot<'a> {
    /// Which.
    pub trial: &'a Trial,
    /// Its result.
    pub result: &'a TrialResult,
    /// What its guest reported.
    pub log: &'a BootLog,
}

impl<'a> View<'a> {
    /// The scenario of that name.
    pub fn scenario(&self, name: &str) -> Option<&'a Scenario> {
        let mut trials = self.plan.iter();
        trials
            .find(|t| t.scenario.name == name)
            .map(|t| &*t.scenario)
    }

    /// The first completed boot of each variant of `scenario`, in the variants' order.
    pub fn boots(&self, scenario: &Scenario) -> Vec<Boot<'a>> {
        let mut first: BTreeMap<usize, Boot<'a>> = BTreeMap::new();
        for trial in self
            .plan
            .iter()
            .filter(|t| t.scenario.name == scenario.name)
        {
            let result = self.results.get(&trial.id);
            if let Some((result, log)) = result.and_then(|r| Some((r, r.log.as_ref()?))) {
                let boot = Boot { trial, result, log };
                first.entry(trial.variant).or_insert(boot);
            }
        }
        first.into_values().collect()
    }
}

/// The two variants to look at first: one by one, and side by side, as like one another in
/// all else as the scenario has them; the first two where there are no such.
pub fn pair(variants: &[&Variant]) -> [Option<usize>; 2] {
    let of = |order| move |v: &&Variant| v.order == order;
    let Some(parallel) = variants.iter().position(of(Order::Parallel)) else {
        return [variants.first().map(|_| 0), variants.get(1).map(|_| 1)];
    };
    let like = |v: &Variant| {
        let other = variants[parallel];
        (v.swap == other.swap, v.series == other.series)
    };
    let serial = variants.iter().enumerate().rev();
    let serial = serial
        .filter(|(_, v)| v.order == Order::Serial)
        .max_by_key(|(_, v)| like(v));
    match serial {
        Some((serial, _)) => [Some(serial), Some(parallel)],
        None => [Some(parallel), None],
    }
}
