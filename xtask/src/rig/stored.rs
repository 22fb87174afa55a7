// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that was kept, put together again.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Result;

use super::checkout::known;
use crate::{
    core::{
        boot::TrialResult,
        fault::Fault,
        plan::Trial,
        scenario::Scenario,
        shard,
        summary::{Summary, summarise},
    },
    edge::{
        scenarios,
        store::{Header, Run},
    },
};

/// A run as it was kept.
pub struct Stored {
    /// What was asked for, by whom it was made, and out of what.
    pub header: Header,
    /// As they were when the run began.
    pub scenarios: Vec<Scenario>,
    /// What was planned.
    pub plan: Vec<Trial>,
    /// What came of it, by trial; those that were not made are not there.
    pub results: BTreeMap<String, TrialResult>,
}

impl Stored {
    /// Reads run `id` of `results`; `root` is the checkout, for runs that did not keep their
    /// scenarios.
    ///
    /// # Errors
    /// Usage: there is no such run, it is of another version or damaged, or its scenarios are
    /// no more what they were.
    pub fn read(root: &Path, results: &Path, id: &str) -> Result<Self> {
        let header = Header::read(results, id)?;
        let kept = Run::kept_scenarios(results, id);
        let mut scenarios = Vec::new();
        for was in &header.scenarios {
            let scenario = match kept.get(&was.hash) {
                Some(kept) => kept.clone(),
                None => as_it_was(root, &header, &was.given, &was.hash)?,
            };
            scenarios.push(scenario);
        }
        let plan = planned(&header, &scenarios)?;
        let results = Run::results(results, id, &plan)?;
        Ok(Self {
            header,
            scenarios,
            plan,
            results,
        })
    }

    /// Sums it up, as the bench did that made it.
    pub fn summary(&self) -> Summary {
        let (id, host) = (&self.header.id, self.header.host.clone());
        let notes = self.header.machine.notes.clone();
        summarise(id, host, notes, &self.plan, &self.results).with_growth(&self.scenarios)
    }
}

/// The boots of the run `header` over `scenarios`: of a shard those that were dealt to it.
///
/// # Errors
/// Usage: a shard's boots are not planned.
pub fn planned(header: &Header, scenarios: &[Scenario]) -> Result<Vec<Trial>> {
    let plan = whole_plan(header, scenarios);
    let Some(cut) = &header.shard else {
        return Ok(plan);
    };
    let own = shard::only(&plan, cut);
    Ok(own.map_err(|why| Fault::usage(format!("run {}: {why}", header.id)))?)
}

/// As [`planned`], with what went to other shards.
pub fn whole_plan(header: &Header, scenarios: &[Scenario]) -> Vec<Trial> {
    let members = scenarios.iter().flat_map(Scenario::members);
    let members: Vec<_> = members.cloned().map(Arc::new).collect();
    header.plan(&members)
}

/// The scenario `given` of the checkout, if it still is what the run booted.
fn as_it_was(root: &Path, header: &Header, given: &str, hash: &str) -> Result<Scenario> {
    let written = scenarios::load(root, given, &known(root)?)?;
    let scenario = written
        .put_under_test(&header.under_test)
        .map_err(Fault::usage)?;
    if scenario.hash == hash {
        return Ok(scenario);
    }
    let why = format!(
        "scenario {} has changed since run {}, which did not keep it; check out the version that made the run",
        scenario.name, header.id
    );
    Err(Fault::usage(why).into())
}
