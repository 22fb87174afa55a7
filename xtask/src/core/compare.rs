// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares what was measured before with what was measured after: per scenario, variant
//! and metric the ratio, where it surely lies, and a verdict; the most important first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use self::{
    basis::Basis,
    devices::{Spans, Ticks},
    exact::{Difference, Identity, differences},
    growth::GrowthRow,
};
use super::{
    fault::Exit,
    growth::Growth,
    metric::Kind,
    scenario::Clock,
    stats::{
        rank,
        verdict::{self, Judgement, Limits, Verdict},
    },
};

mod basis;
mod devices;
mod exact;
mod growth;
mod text;

/// Version of the document that `--json` prints.
pub const SCHEMA: u32 = 1;

/// One side of a comparison: a baseline, a run, or several runs of the same.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// What the user calls it.
    pub label: String,
    /// By scenario.
    pub scenarios: BTreeMap<String, Measured>,
    /// How its sweeps grow.
    pub growth: Vec<Growth>,
}

/// What was measured of one scenario.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What it was measured with.
    pub basis: Basis,
    /// By variant.
    pub variants: BTreeMap<String, Values>,
}

/// What was measured of one variant.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// How a boot of it failed, if one did: then nothing of it is compared.
    pub failed: Option<String>,
    /// Samples in ns by metric, part or device, in the order of their repeats.
    pub metrics: BTreeMap<String, Vec<u64>>,
    /// The A/A noise by metric, as a part of the median, where it was measured.
    pub noise: BTreeMap<String, f64>,
    /// Callbacks of the first repeat; empty where they are not known.
    pub spans: Spans,
}

/// One metric of one variant, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its scenario.
    pub scenario: String,
    /// Its variant.
    pub variant: String,
    /// The clock of its samples.
    pub clock: Clock,
    /// Metric, part or device.
    pub metric: String,
    /// Which of these.
    pub kind: Kind,
    /// Samples before and after.
    pub samples: [usize; 2],
    /// What the samples say.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// From where on a change mattered: ns.
    pub least: u64,
    /// What else there is to say, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A variant with a failed boot on a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Its scenario.
    pub scenario: String,
    /// Its variant.
    pub variant: String,
    /// How it failed before; `None`: it did not.
    pub before: Option<String>,
    /// How it failed after.
    pub after: Option<String>,
}

/// A whole comparison; also the document of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What is compared with.
    pub before: String,
    /// What is compared.
    pub after: String,
    /// Why this should not have been compared; empty unless forced.
    pub forced: Vec<String>,
    /// What else differs: as a rule just what is to be compared.
    pub notes: Vec<String>,
    /// What only one side has.
    pub missing: Vec<String>,
    /// What has no numbers, because boots failed.
    pub failed: Vec<Failed>,
    /// How sweeps grow; what changed first.
    pub growth: Vec<GrowthRow>,
    /// The most important first.
    pub rows: Vec<Row>,
}

/// What the user may set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Instead of the clock's own [`Limits::alpha`].
    pub alpha: Option<f64>,
    /// Instead of [`Limits::absolute`], in ns.
    pub absolute: Option<u64>,
    /// Instead of [`Limits::relative`].
    pub relative: Option<f64>,
    /// Compare what should not be.
    pub force: bool,
}

impl Wishes {
    fn limits(&self, clock: Clock) -> Limits {
        let default = Limits::by(clock);
        Limits {
            alpha: self.alpha.unwrap_or(default.alpha),
            absolute: self.absolute.unwrap_or(default.absolute),
            relative: self.relative.unwrap_or(default.relative),
        }
    }
}

/// Compares `before` with `after`.
///
/// # Errors
/// Why the two cannot be compared, one reason a line: nothing in common, or, unless forced,
/// other clocks, machines, toolchains or scenarios.
pub fn compare(before: &Side, after: &Side, wishes: &Wishes) -> Result<Comparison, Vec<String>> {
    let mut out = Comparison {
        schema: SCHEMA,
        before: before.label.clone(),
        after: after.label.clone(),
        forced: Vec::new(),
        notes: Vec::new(),
        missing: Vec::new(),
        failed: Vec::new(),
        growth: growth::compare(&before.growth, &after.growth),
        rows: Vec::new(),
    };
    let common = common(&before.scenarios, &after.scenarios, "", &mut out.missing);
    if common.is_empty() {
        return Err(vec![format!(
            "{} and {} have no scenario in common",
            before.label, after.label
        )]);
    }
    for name in common {
        let (a, b) = (&before.scenarios[name], &after.scenarios[name]);
        let named = |reason: String| format!("{name}: {reason}");
        out.forced
            .extend(a.basis.obstacles(&b.basis).into_iter().map(named));
        out.notes
            .extend(a.basis.subject(&b.basis).into_iter().map(named));
        scenario(name, a, b, wishes, &mut out);
    }
    if !out.forced.is_empty() && !wishes.force {
        return Err(out.forced);
    }
    out.rows.sort_by(importance);
    Ok(out)
}

/// What both maps have; what only one has is noted.
fn common<'a, T>(
    a: &'a BTreeMap<String, T>,
    b: &'a BTreeMap<String, T>,
    of: &str,
    missing: &mut Vec<String>,
) -> Vec<&'a str> {
    let mut only = |here: &BTreeMap<String, T>, there: &BTreeMap<String, T>, side: &str| {
        let names = here.keys().filter(|k| !there.contains_key(*k));
        missing.extend(names.map(|k| format!("{of}{k} is only in what was {side}")));
    };
    only(a, b, "before");
    only(b, a, "after");
    a.keys()
        .filter(|k| b.contains_key(*k))
        .map(String::as_str)
        .collect()
}

fn scenario(name: &str, a: &Measured, b: &Measured, wishes: &Wishes, out: &mut Comparison) {
    let clock = a.basis.clock;
    let limits = wishes.limits(clock);
    let of = format!("{name}/");
    for variant in common(&a.variants, &b.variants, &of, &mut out.missing) {
        let (before, after) = (&a.variants[variant], &b.variants[variant]);
        if before.failed.is_some() || after.failed.is_some() {
            out.failed.push(Failed {
                scenario: name.into(),
                variant: variant.into(),
                before: before.failed.clone(),
                after: after.failed.clone(),
            });
            continue;
        }
        let of = format!("{name}/{variant}.");
        let metrics = common(&before.metrics, &after.metrics, &of, &mut out.missing);
        let mut rows: Vec<Row> = match clock {
            Clock::Virtual => exactly(before, after, &metrics, &limits),
            Clock::Wall => by_rank(before, after, &metrics, &limits),
        };
        for row in &mut rows {
            row.scenario = name.into();
            row.variant = variant.into();
        }
        if clock == Clock::Virtual {
            devices::attribute(&mut rows, &before.spans, &after.spans, limits.absolute);
        }
        out.rows.extend(rows);
    }
}

fn row(
    metric: &str,
    clock: Clock,
    samples: [usize; 2],
    judgement: Judgement,
    limits: &Limits,
) -> Row {
    Row {
        scenario: String::new(),
        variant: String::new(),
        clock,
        metric: metric.into(),
        kind: Kind::of(metric),
        samples,
        judgement,
        least: limits.least(judgement.before).ceil() as u64,
        note: None,
    }
}

fn exactly(a: &Values, b: &Values, metrics: &[&str], limits: &Limits) -> Vec<Row> {
    let judge = |metric: &&str| {
        let (before, after) = (&a.metrics[*metric], &b.metrics[*metric]);
        let judged = verdict::exact(before, after, limits);
        let samples = [before.len(), after.len()];
        let mut row = row(metric, Clock::Virtual, samples, judged, limits);
        if judged.verdict == Verdict::Inconclusive {
            row.note = Some(if samples.contains(&0) {
                "no sample on one side".into()
            } else {
                "not every phase shows it; more --repeats on both sides show how many do".into()
            });
        }
        row
    };
    metrics.iter().map(judge).collect()
}

/// The more metrics are looked at, the likelier one of them stands out by chance. Metrics,
/// and devices with parts, are a family each: a thousand devices take no power from the
/// metrics.
fn by_rank(a: &Values, b: &Values, metrics: &[&str], limits: &Limits) -> Vec<Row> {
    let (main, rest): (Vec<&str>, Vec<&str>) =
        metrics.iter().partition(|m| Kind::of(m) == Kind::Metric);
    let mut rows = Vec::new();
    for family in [main, rest] {
        let sides = |m: &&str| (a.metrics[*m].as_slice(), b.metrics[*m].as_slice());
        let tests: Vec<f64> = family
            .iter()
            .map(|m| rank::test(sides(m).0, sides(m).1))
            .collect();
        for (metric, p) in family.iter().zip(rank::holm(&tests)) {
            let (before, after) = sides(metric);
            let noise = [&a.noise, &b.noise];
            let floor = noise.iter().filter_map(|n| n.get(*metric)).copied();
            let limits = Limits {
                relative: floor.fold(limits.relative, f64::max),
                ..*limits
            };
            let judged = verdict::ranked(before, after, p, &limits);
            let samples = [before.len(), after.len()];
            let mut row = row(metric, Clock::Wall, samples, judged, &limits);
            if judged.verdict == Verdict::Inconclusive {
                let of_family = Limits {
                    alpha: limits.alpha / family.len() as f64,
                    ..limits
                };
                row.note = Some(why_inconclusive(&row, &of_family));
            }
            rows.push(row);
        }
    }
    rows
}

fn why_inconclusive(row: &Row, limits: &Limits) -> String {
    let [before, after] = row.samples;
    if !verdict::enough(before, after, limits) {
        let needed = (1..=1000).find(|n| verdict::enough(*n, *n, limits));
        return needed.map_or_else(
            || "no number of boots is significant at this --alpha".into(),
            |n| format!("too few boots: at least {n} on both sides"),
        );
    }
    "its spread hides it: more --repeats on both sides".into()
}

fn importance(a: &Row, b: &Row) -> std::cmp::Ordering {
    let size = |r: &Row| std::cmp::Reverse(r.judgement.before.abs_diff(r.judgement.after));
    let place = |r: &Row| (r.judgement.verdict, r.kind, size(r));
    place(a).cmp(&place(b)).then_with(|| {
        let name = |r: &Row| (r.scenario.clone(), r.variant.clone(), r.metric.clone());
        name(a).cmp(&name(b))
    })
}

impl Comparison {
    /// The exit code: a regression, or a boot that fails now, weighs more than what could
    /// not be told.
    pub fn exit(&self) -> Exit {
        let any = |v: Verdict| self.rows.iter().any(|r| r.judgement.verdict == v);
        let regressed = |f: &Failed| f.before.is_none() && f.after.is_some();
        let main_inconclusive = self
            .rows
            .iter()
            .any(|r| r.kind == Kind::Metric && r.judgement.verdict == Verdict::Inconclusive);
        let grown = |v: Verdict| self.growth.iter().any(|g| g.verdict == v);
        if any(Verdict::Slower) || grown(Verdict::Slower) || self.failed.iter().any(regressed) {
            Exit::Failed
        } else if main_inconclusive
            || grown(Verdict::Inconclusive)
            || !self.failed.is_empty()
            || self.rows.is_empty()
        {
            Exit::Inconclusive
        } else {
            Exit::Done
        }
    }

    /// Devices whose callback changed.
    pub fn changed_devices(&self) -> BTreeSet<&str> {
        let rows = self.rows.iter().filter(|r| r.kind == Kind::Device);
        let changed =
            rows.filter(|r| matches!(r.judgement.verdict, Verdict::Slower | Verdict::Faster));
        changed
            .filter_map(|r| Some(r.metric.split_once('/')?.1))
            .collect()
    }

    /// The comparison for people, as Markdown.
    pub fn text(&self) -> String {
        text::text(self)
    }
}

#[cfg(test)]
mod tests;
