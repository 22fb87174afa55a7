// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether shards are together what was planned: each boot once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Cut, Shard};
use crate::core::{
    boot::{Outcome, TrialResult},
    plan::Trial,
};

/// Boots that are named in a message; of others it says how many there are.
const MOST_NAMED: usize = 5;

/// A run that is one shard.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The run's id.
    pub run: &'a str,
    /// Which shard, and what it was dealt.
    pub cut: &'a Cut,
    /// What came of it, by boot.
    pub results: &'a BTreeMap<String, TrialResult>,
}

/// What is wrong with shards as parts of one run; nothing where all is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Shards of which there is no run, and boots that no shard was dealt.
    pub missing: Vec<String>,
    /// Runs that lack some of their boots.
    pub unfinished: Vec<String>,
    /// Shards, or boots, of which there are several runs.
    pub doubled: Vec<String>,
    /// Runs with boots that did not complete.
    pub failed: Vec<String>,
}

/// Holds `parts` to `plan`.
pub fn account(plan: &[Trial], parts: &[Part<'_>]) -> Account {
    let mut found = Account::default();
    let of = parts.iter().map(|p| p.cut.of).max().unwrap_or(0);
    let mut by_number: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    let mut by_boot: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        by_number.entry(part.cut.number).or_default().push(part.run);
        for boot in part.cut.boots.iter().collect::<BTreeSet<_>>() {
            by_boot.entry(boot).or_default().push(part.run);
        }
    }
    for number in (1..=of).filter(|n| !by_number.contains_key(n)) {
        let shard = Shard { number, of };
        found
            .missing
            .push(format!("shard {shard}: there is no run of it"));
    }
    let nowhere = plan.iter().filter(|t| !by_boot.contains_key(t.id.as_str()));
    let nowhere: Vec<_> = nowhere.map(|t| t.id.as_str()).collect();
    if !nowhere.is_empty() {
        let (count, names) = (nowhere.len(), named(&nowhere));
        found
            .missing
            .push(format!("boots in no run: {count}: {names}"));
    }
    for (number, runs) in by_number.iter().filter(|(_, runs)| runs.len() > 1) {
        let shard = Shard {
            number: *number,
            of,
        };
        found
            .doubled
            .push(format!("shard {shard} is in runs {}", runs.join(", ")));
    }
    let twice: Vec<_> = by_boot.iter().filter(|(_, runs)| runs.len() > 1).collect();
    if let (Some((_, runs)), true) = (twice.first(), found.doubled.is_empty()) {
        let boots: Vec<_> = twice.iter().map(|(boot, _)| **boot).collect();
        found.doubled.push(format!(
            "boots in several runs ({}): {}: {}; the shards were cut by different times: cut all by the same with --balance",
            runs.join(", "),
            boots.len(),
            named(&boots)
        ));
    }
    for part in parts {
        found.of_part(part);
    }
    found
}

impl Account {
    fn of_part(&mut self, part: &Part<'_>) {
        let (run, shard) = (part.run, part.cut.shard());
        let lacks = |b: &&String| !part.results.contains_key(*b);
        let lacking: Vec<_> = part.cut.boots.iter().filter(lacks).collect();
        let lacking: Vec<_> = lacking.iter().map(|b| b.as_str()).collect();
        if !lacking.is_empty() {
            let (count, all) = (lacking.len(), part.cut.boots.len());
            self.unfinished.push(format!(
                "shard {shard} (run {run}) lacks {count} of its {all} boots: {}; `cargo xtask bench --resume` makes them",
                named(&lacking)
            ));
        }
        let bad =
            |r: &&TrialResult| !matches!(r.outcome, Outcome::Completed | Outcome::NotAvailable(_));
        let bad: Vec<_> = part.results.values().filter(bad).collect();
        let texts: Vec<_> = bad
            .iter()
            .map(|r| format!("{}: {}", r.id, r.outcome))
            .collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        if !bad.is_empty() {
            self.failed.push(format!(
                "shard {shard} (run {run}): {} of its boots failed: {}",
                bad.len(),
                named(&texts)
            ));
        }
    }

    /// Whether a run can be made of them that has every boot once.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.unfinished.is_empty() && self.doubled.is_empty()
    }
}

impl fmt::Display for Account {
    /// A line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, lines) in [
            ("missing", &self.missing),
            ("unfinished", &self.unfinished),
            ("doubled", &self.doubled),
            ("failed", &self.failed),
        ] {
            for line in lines {
                writeln!(f, "{what}: {line}")?;
            }
        }
        Ok(())
    }
}

fn named(boots: &[&str]) -> String {
    let shown = boots[..boots.len().min(MOST_NAMED)].join(", ");
    match boots.len() {
        count if count > MOST_NAMED => format!("{shown} and {} more", count - MOST_NAMED),
        _ => shown,
    }
}
