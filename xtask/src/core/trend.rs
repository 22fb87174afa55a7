// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many runs in the order in which they were made: where a metric changed for good, by how
//! much, and what else changed just there.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::{
    fault::Exit,
    grid::{Grid, table},
    parts::{Part, Parts},
    scenario::Clock,
    stats::{
        change::{self, SHORTEST},
        median,
        verdict::{Limits, Verdict},
    },
    units::Nanos,
};

/// Version of the document that `--json` prints.
pub const SCHEMA: u32 = 1;

/// What tells a series from all others; numbers of different ones never meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Scenario.
    pub scenario: String,
    /// Its hash.
    pub hash: String,
    /// Wall time: host and accelerator; empty in virtual time.
    pub host: String,
    /// Variant.
    pub variant: String,
    /// Metric.
    pub metric: String,
}

/// One run's value of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The run.
    pub run: RunInfo,
    /// Its median, in ns.
    pub value: u64,
}

/// A run, as far as a trend is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// When it was begun: RFC 3339.
    pub begun: String,
    /// The source of the variant's kernel with its exact version or commit.
    pub source: String,
    /// What its boots of this variant were made of.
    #[serde(skip)]
    pub parts: Parts,
}

/// Values of a run and of others of the same, and what changed in them.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of their runs.
    pub series: Series,
    /// Their changes.
    pub trend: Trend,
}

/// Points by what they are of.
pub type Series = BTreeMap<(Key, Clock), Vec<Point>>;

/// A change of a metric that stayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Scenario.
    pub scenario: String,
    /// Variant.
    pub variant: String,
    /// Metric.
    pub metric: String,
    /// The clock.
    pub clock: Clock,
    /// Median of the runs since the change before, in ns.
    pub before: u64,
    /// Median of the runs up to the next change, in ns.
    pub after: u64,
    /// Slower or faster.
    pub verdict: Verdict,
    /// The last run before it.
    pub last_before: RunInfo,
    /// The first run after it.
    pub first_after: RunInfo,
    /// Which parts of the two differ.
    pub also_changed: Vec<String>,
    /// Whether no later change of this metric was found.
    pub latest: bool,
}

/// The trend of many runs; also the document of `--json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trend {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Runs looked at.
    pub runs: usize,
    /// Series looked at.
    pub series: usize,
    /// Series with too few runs for any change to be significant.
    pub too_short: usize,
    /// What was left out, and why.
    pub left_out: Vec<String>,
    /// The latest first.
    pub changes: Vec<Change>,
}

/// Looks for changes. The points of each series are in the order of their runs.
pub fn trend(
    series: &Series,
    runs: usize,
    left_out: Vec<String>,
    limits: &dyn Fn(Clock) -> Limits,
) -> Trend {
    let mut changes = Vec::new();
    for ((key, clock), points) in series {
        changes.extend(of_series(key, *clock, points, &limits(*clock)));
    }
    changes.sort_by(|a, b| {
        let place = |c: &Change| (c.first_after.begun.clone(), c.before.abs_diff(c.after));
        place(b).cmp(&place(a))
    });
    Trend {
        schema: SCHEMA,
        runs,
        series: series.len(),
        too_short: series.values().filter(|p| p.len() < SHORTEST).count(),
        left_out,
        changes,
    }
}

fn of_series(key: &Key, clock: Clock, points: &[Point], limits: &Limits) -> Vec<Change> {
    let values: Vec<u64> = points.iter().map(|p| p.value).collect();
    // Changes too small to matter are none, and leave one part where they were.
    let mut places = change::changes(&values);
    loop {
        let level = |i: usize| {
            let begin = if i == 0 { 0 } else { places[i - 1] };
            median(&values[begin..places.get(i).copied().unwrap_or(values.len())])
        };
        let small = (0..places.len()).find(|i| {
            let (before, after) = (level(*i), level(i + 1));
            (before.abs_diff(after) as f64) < limits.least(before)
        });
        match small {
            Some(i) => places.remove(i),
            None => break,
        };
    }
    let mut out = Vec::new();
    for (i, &at) in places.iter().enumerate() {
        let begin = if i == 0 { 0 } else { places[i - 1] };
        let end = places.get(i + 1).copied().unwrap_or(values.len());
        let (before, after) = (median(&values[begin..at]), median(&values[at..end]));
        let (last_before, first_after) = (&points[at - 1].run, &points[at].run);
        out.push(Change {
            scenario: key.scenario.clone(),
            variant: key.variant.clone(),
            metric: key.metric.clone(),
            clock,
            before,
            after,
            verdict: match after > before {
                true => Verdict::Slower,
                false => Verdict::Faster,
            },
            last_before: last_before.clone(),
            first_after: first_after.clone(),
            also_changed: differing(last_before, first_after),
            latest: i + 1 == places.len(),
        });
    }
    out
}

fn differing(a: &RunInfo, b: &RunInfo) -> Vec<String> {
    let differing = a.parts.differing(&b.parts);
    let name = |part: Part<'_>| match part {
        // Which sources these are stands beside it.
        Part::Source(kernel) | Part::Build(kernel) => Part::Kernel(kernel).to_string(),
        part => part.to_string(),
    };
    differing.iter().map(|d| name(d.part)).collect()
}

impl Trend {
    /// 1 where the latest change of a metric made it slower, 3 where no series is long
    /// enough to tell.
    pub fn exit(&self) -> Exit {
        let slower = |c: &Change| c.latest && c.verdict == Verdict::Slower;
        if self.changes.iter().any(slower) {
            Exit::Failed
        } else if self.series == self.too_short {
            Exit::Inconclusive
        } else {
            Exit::Done
        }
    }

    /// The trend for people, as Markdown.
    pub fn text(&self) -> String {
        let mut out = format!("## {} series over {} runs\n\n", self.series, self.runs);
        for line in &self.left_out {
            let _ = writeln!(out, "- left out: {line}");
        }
        if self.too_short > 0 {
            let _ = writeln!(
                out,
                "- {} series have fewer than {SHORTEST} runs of one kind: no change can be told there yet",
                self.too_short
            );
        }
        let _ = match self.changes.is_empty() {
            true if self.series == self.too_short => {
                writeln!(out, "\ninconclusive: there are too few runs to tell")
            }
            true => writeln!(out, "\nno change"),
            false => writeln!(out, "\n{}", grid(self.changes.iter())),
        };
        out
    }
}

/// Changes as a table.
pub fn grid<'a>(changes: impl Iterator<Item = &'a Change>) -> Grid {
    let header = [
        "scenario",
        "variant",
        "metric",
        "before",
        "after",
        "change",
        "verdict",
        "last before",
        "first after",
        "also changed",
    ];
    let run = |r: &RunInfo| format!("{} ({})", r.id, r.source);
    let rows = changes.map(|c| {
        let part = (c.after as f64 / c.before.max(1) as f64 - 1.0) * 100.0;
        vec![
            c.scenario.clone(),
            c.variant.clone(),
            c.metric.clone(),
            Nanos(c.before).to_string(),
            Nanos(c.after).to_string(),
            format!("{part:+.2} %"),
            c.verdict.text().into(),
            run(&c.last_before),
            run(&c.first_after),
            c.also_changed.join(", "),
        ]
    });
    table(&header, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::parts::Kernel;

    fn parts(commit: usize) -> Parts {
        let kernel = Kernel {
            key: commit.to_string(),
            compiler: Some("gcc 12".into()),
            ..Kernel::default()
        };
        Parts {
            kernels: [("6.1".to_owned(), kernel)].into(),
            ..Parts::default()
        }
    }

    fn points(values: &[u64]) -> Vec<Point> {
        let run = |n: usize| RunInfo {
            id: format!("run{n:02}"),
            begun: format!("2026-01-{:02}T00:00:00Z", n + 1),
            source: format!("linux commit {}", n / 6),
            parts: parts(n / 6),
        };
        let all = values.iter().enumerate();
        all.map(|(n, v)| Point {
            run: run(n),
            value: *v,
        })
        .collect()
    }

    fn of(values: &[u64]) -> Trend {
        let key = Key {
            scenario: "s".into(),
            hash: "h".into(),
            host: String::new(),
            variant: "v".into(),
            metric: "boot".into(),
        };
        let series = [((key, Clock::Virtual), points(values))].into();
        trend(&series, values.len(), vec![], &Limits::by)
    }

    #[test]
    fn a_change_is_between_two_runs_and_their_sources() {
        let mut values = vec![1_000_000_000; 6];
        values.extend([1_050_000_000; 7]);
        let found = of(&values);
        assert_eq!(found.exit(), Exit::Failed);
        let [change] = &found.changes[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (change.before, change.after),
            (1_000_000_000, 1_050_000_000)
        );
        assert_eq!(change.last_before.source, "linux commit 0");
        assert_eq!(change.first_after.source, "linux commit 1");
        assert_eq!(change.also_changed, ["kernel 6.1"]);
        assert!(
            found.text().contains("run05 (linux commit 0)"),
            "{}",
            found.text()
        );
        // And faster again: the latest change is no regression.
        let mut values = vec![1_000_000_000; 10];
        values.extend([1_050_000_000; 8]);
        values.extend([1_000_000_000; 8]);
        let found = of(&values);
        assert_eq!((found.changes.len(), found.exit()), (2, Exit::Done));
    }

    #[test]
    fn a_spike_a_trifle_and_a_few_runs_are_no_change() {
        let mut values = vec![1_000_000_000; 12];
        values[7] = 9_000_000_000;
        assert_eq!(of(&values).changes, []);
        let trifle: Vec<u64> = (0..14).map(|n| 1_000_000_000 + n / 7 * 20_000).collect();
        let found = of(&trifle);
        assert_eq!((found.changes.len(), found.exit()), (0, Exit::Done));
        let few = of(&[1, 2, 3]);
        assert_eq!(few.exit(), Exit::Inconclusive);
        assert!(
            few.text()
                .ends_with("\ninconclusive: there are too few runs to tell\n")
        );
    }
}
