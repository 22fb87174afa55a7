// SPDX-License-Identifier: MIT OR Apache-2.0
//! How each function's instructions grow over a sweep's sizes, so that one that grows faster
//! than what there is more of is named while it is still small.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    diff::by_plain_name,
    record::Record,
    table::share,
    tally::{Function, Profile},
};
use crate::core::{
    grid::table,
    growth::{Fit, fit},
    scenario::{Over, Point},
};

/// Above this exponent a function grows faster than what there is more of. What is linear but
/// for a logarithm stays below it.
pub const LINEAR: f64 = 1.1;
/// With fewer instructions at the greatest size nothing is said of a function.
pub const FEWEST: i64 = 1_000;
/// So many times the greatest size is looked ahead.
const AHEAD: u64 = 10;
/// Exponents are of figures that double often enough; a steeper one is one of few instructions.
const STEEPEST: f64 = 9.0;

/// A variant's window over the sizes of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The swept scenario and the variant: `memory-growth/stock`.
    pub boots: String,
    /// The kernel.
    pub kernel: String,
    /// The window.
    pub window: String,
    /// What there is more of.
    pub over: Over,
    /// The sizes, rising.
    pub sizes: Vec<u64>,
    /// A size of 0 was traced too, and left out: nothing grows from nothing by an exponent.
    pub zero_left_out: bool,
    /// All of the kernel's instructions.
    pub whole: Row,
    /// Those of functions; what will be largest comes first.
    pub functions: Vec<Row>,
}

/// A function at each size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name, without what compilers add.
    pub name: String,
    /// Instructions of its own at each size.
    pub own: Vec<i64>,
    /// How they grow; `None`: fewer than two sizes have any.
    pub fit: Option<Fit>,
    /// Its part of the kernel's instructions at the greatest size.
    pub share: f64,
    /// The same at ten times that size, if all go on as between the last two.
    pub share_ahead: f64,
}

impl Row {
    /// Whether it grows faster than what there is more of: over all sizes, or between the last
    /// two, where a fixed cost hides it at first.
    pub fn superlinear(&self) -> bool {
        self.own.last().is_some_and(|own| *own >= FEWEST)
            && self.fit.is_some_and(|f| f.exponent.max(f.last) > LINEAR)
    }
}

/// How the functions in `window` grow, for each variant of each sweep that `records` are of.
///
/// # Errors
/// No sweep, a size without that window or with one that was cut.
pub fn growths(records: &[Record], window: &str) -> Result<Vec<Growth>, String> {
    let mut sweeps: BTreeMap<String, Vec<(&Point, &Record)>> = BTreeMap::new();
    for record in records {
        if let Some(point) = &record.point {
            let variant = record.boot.rsplit_once('/').map_or("", |b| b.1);
            let boots = format!("{}/{variant}", point.of);
            sweeps.entry(boots).or_default().push((point, record));
        }
    }
    if sweeps.is_empty() {
        return Err(
            "no traced boot is of a sweep: bench a scenario with `sweep:` and --profile".into(),
        );
    }
    let one = |(boots, mut parts): (String, Vec<(&Point, &Record)>)| {
        parts.sort_by_key(|(point, _)| point.value);
        let traced = parts.len();
        parts.retain(|(point, _)| point.value > 0);
        let zero_left_out = parts.len() < traced;
        if let Some(same) = parts.windows(2).find(|p| p[0].0.value == p[1].0.value) {
            return Err(format!(
                "{boots}: {} and {} are both of size {}: remove the record of one",
                same[0].1.boot, same[1].1.boot, same[0].0.value
            ));
        }
        let mut profiles = Vec::new();
        for (point, record) in &parts {
            let profile = record
                .window(window)
                .ok_or_else(|| format!("{} has no window `{window}`", record.boot))?;
            if profile.cut {
                return Err(format!("{}: window {window} was cut", record.boot));
            }
            profiles.push((point.value, profile));
        }
        if profiles.len() < 2 {
            return Err(format!("{boots}: growth needs two sizes or more above 0"));
        }
        Ok(Growth {
            kernel: parts[0].1.kernel.clone(),
            window: window.to_owned(),
            over: parts[0].0.over,
            sizes: profiles.iter().map(|p| p.0).collect(),
            zero_left_out,
            whole: whole(&profiles),
            functions: rows(&profiles),
            boots,
        })
    };
    sweeps.into_iter().map(one).collect()
}

fn whole(profiles: &[(u64, &Profile)]) -> Row {
    let own: Vec<i64> = profiles.iter().map(|(_, p)| p.kernel()).collect();
    Row {
        name: "[kernel]".into(),
        fit: exponent(profiles, &own),
        own,
        share: 1.0,
        share_ahead: 1.0,
    }
}

fn rows(profiles: &[(u64, &Profile)]) -> Vec<Row> {
    let by_name: Vec<BTreeMap<String, Function>> =
        profiles.iter().map(|(_, p)| by_plain_name(p)).collect();
    let names: BTreeSet<&String> = by_name.iter().flat_map(BTreeMap::keys).collect();
    let kernel = profiles.last().map_or(0, |(_, p)| p.kernel()).max(1) as f64;
    let mut found: Vec<(f64, Row)> = Vec::new();
    for name in names {
        let own: Vec<i64> = by_name
            .iter()
            .map(|f| f.get(name).map_or(0, |f| f.own))
            .collect();
        let now = own.last().copied().unwrap_or(0).max(0) as f64;
        let fit = exponent(profiles, &own);
        let by = fit.map_or(0.0, |f| f.last).clamp(-STEEPEST, STEEPEST);
        let ahead = now * (AHEAD as f64).powf(by);
        let row = Row {
            name: name.clone(),
            own,
            fit,
            share: now / kernel,
            share_ahead: 0.0,
        };
        found.push((ahead, row));
    }
    let all: f64 = found.iter().map(|(ahead, _)| ahead).sum();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    let row = |(ahead, row): (f64, Row)| Row {
        share_ahead: if all > 0.0 { ahead / all } else { 0.0 },
        ..row
    };
    found.into_iter().map(row).collect()
}

fn exponent(profiles: &[(u64, &Profile)], own: &[i64]) -> Option<Fit> {
    let points = profiles.iter().zip(own).filter_map(|((size, _), own)| {
        let own = u64::try_from(*own).ok().filter(|own| *own > 0)?;
        Some((*size, own))
    });
    fit(&points.collect::<Vec<_>>())
}

/// A part of the kernel's instructions that is not worth a name.
const TRIFLE: f64 = 0.001;

/// What to know first: who grows faster than what there is more of.
pub fn summary(growth: &Growth) -> String {
    let Growth {
        boots,
        window,
        over,
        kernel,
        sizes,
        ..
    } = growth;
    let largest = sizes.last().copied().unwrap_or(0);
    let mut out = format!("{boots}, {window}, kernel {kernel}: growth of functions over {over}\n");
    if growth.zero_left_out {
        out += "left out: size 0, from which nothing grows by an exponent\n";
    }
    let named: Vec<&Row> = growth
        .functions
        .iter()
        .filter(|r| r.superlinear())
        .collect();
    if named.is_empty() {
        out += &format!(
            "no function with {FEWEST} instructions or more grows faster than {over}^{LINEAR}\n"
        );
    }
    // The tick and the like, which follow time and not what there is more of, are hardly anything
    // at any size.
    let (named, trifles): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|r| r.share_ahead >= TRIFLE);
    if !trifles.is_empty() {
        out += &format!(
            "{} more grow faster than {over}^{LINEAR}, and would be less than {} each\n",
            trifles.len(),
            percent(TRIFLE)
        );
    }
    for row in named {
        let Some(fit) = row.fit else { continue };
        out += &format!(
            "superlinear: {} grows as {over}^{:.2} (at the end ^{:.2}): {} of the kernel's instructions at {largest}, {} at {}\n",
            row.name,
            fit.exponent,
            fit.last,
            percent(row.share),
            percent(row.share_ahead),
            largest.saturating_mul(AHEAD),
        );
    }
    out
}

/// The summary, and a table of the `most` functions that will be largest, and of all that are
/// superlinear and no trifle.
pub fn text(growth: &Growth, most: usize) -> String {
    let mut header = vec!["function".to_owned()];
    header.extend(growth.sizes.iter().map(|size| format!("at {size}")));
    let more = [
        "exponent",
        "95 % interval",
        "at the end",
        "of the kernel's",
        "at ten times",
        "",
    ];
    header.extend(more.map(str::to_owned));
    let shown = growth.functions.iter().enumerate();
    let named = |row: &Row| row.superlinear() && row.share_ahead >= TRIFLE;
    let shown = shown.filter(|(n, row)| *n < most || named(row));
    let rows = std::iter::once(&growth.whole).chain(shown.map(|(_, row)| row));
    let rows = rows.map(line).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    format!("{}\n{}\n", summary(growth), table(&header, rows))
}

fn line(row: &Row) -> Vec<String> {
    let dash = || "-".to_owned();
    let mut line = vec![row.name.clone()];
    line.extend(row.own.iter().map(i64::to_string));
    let interval = row.fit.and_then(|f| f.interval);
    line.extend([
        row.fit.map_or_else(dash, |f| format!("{:.2}", f.exponent)),
        interval.map_or_else(dash, |(low, high)| format!("{low:.2} to {high:.2}")),
        row.fit.map_or_else(dash, |f| format!("{:.2}", f.last)),
        percent(row.share),
        percent(row.share_ahead),
        if row.superlinear() { "superlinear" } else { "" }.into(),
    ]);
    line
}

fn percent(part: f64) -> String {
    // Parts of ten million, which a float holds exactly.
    const WHOLE: i64 = 10_000_000;
    share((part * WHOLE as f64) as i64, WHOLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(size: u64, functions: &[(&str, i64)]) -> Record {
        let functions: BTreeMap<String, Function> = functions
            .iter()
            .map(|(name, own)| {
                let own = *own;
                let function = Function {
                    own,
                    with_callees: own,
                    calls: 1,
                };
                ((*name).to_owned(), function)
            })
            .collect();
        Record {
            schema: super::super::record::SCHEMA,
            boot: format!("many@{size}/stock"),
            point: Some(Point {
                of: "many".into(),
                over: Over::Devices,
                value: size,
            }),
            kernel: "6.1".into(),
            qemu: "10.0.2".into(),
            stacks: true,
            complete: true,
            windows: vec![Profile {
                window: "boot".into(),
                ns_per_instruction: 2,
                tasks: functions.values().map(|f| f.own).sum(),
                functions,
                ..Profile::default()
            }],
            marks: Vec::new(),
        }
    }

    /// A square that is a thousandth of the whole is named; what is large and linear is not.
    #[test]
    fn a_superlinear_function_is_named_while_it_is_small() {
        let at = |n: u64| {
            let x = n as i64;
            record(
                n,
                &[
                    ("linear", 100_000 * x),
                    ("fixed", 5_000_000),
                    ("slot_search.isra.0", x * x),
                    ("hidden", 2_000_000 + x * x),
                    ("few", x * x / 1_000_000),
                ],
            )
        };
        let records = [at(4000), at(1000), at(16_000)];
        let growth = growths(&records, "boot").unwrap().remove(0);
        assert_eq!(growth.sizes, [1000, 4000, 16_000]);
        let named: Vec<&str> = growth
            .functions
            .iter()
            .filter(|r| r.superlinear())
            .map(|r| r.name.as_str())
            .collect();
        assert_eq!(named, ["slot_search", "hidden"]);
        let slots = &growth.functions.iter().find(|r| r.name == "slot_search");
        let slots = slots.unwrap();
        assert!((slots.fit.unwrap().exponent - 2.0).abs() < 1e-6);
        assert!(slots.share > 0.1 && slots.share_ahead > 3.0 * slots.share);
        let text = text(&growth, 2);
        assert!(
            text.contains("superlinear: slot_search grows as devices^2.00 (at the end ^2.00)"),
            "{text}"
        );
        assert!(!text.contains("few") && text.contains("linear"), "{text}");
        let calm = growths(&[record(1, &[("f", 5)]), record(2, &[("f", 10)])], "boot").unwrap();
        assert!(
            summary(&calm[0]).contains("no function"),
            "{}",
            summary(&calm[0])
        );
    }

    #[test]
    fn what_is_no_sweep_is_refused_with_the_reason() {
        let one = record(10, &[("f", 1)]);
        let mut single = one.clone();
        single.point = None;
        let mut cut = record(20, &[("f", 1)]);
        cut.windows[0].cut = true;
        for (records, window, want) in [
            (vec![], "boot", "no traced boot is of a sweep"),
            (vec![single], "boot", "no traced boot is of a sweep"),
            (vec![one.clone()], "boot", "two sizes"),
            (
                vec![one.clone(), record(0, &[("f", 1)])],
                "boot",
                "two sizes",
            ),
            (
                vec![one.clone(), record(20, &[]), one.clone()],
                "boot",
                "are both of size 10: remove",
            ),
            (vec![one.clone(), cut], "boot", "was cut"),
            (
                vec![one.clone(), record(20, &[])],
                "probe",
                "no window `probe`",
            ),
        ] {
            let error = growths(&records, window).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn no_exponent_is_of_sizes_that_have_none() {
        let of = |sizes: &[u64]| {
            let records: Vec<Record> = sizes.iter().map(|s| record(*s, &[("f", 5000)])).collect();
            growths(&records, "boot").unwrap().remove(0)
        };
        let growth = of(&[0, 10, 20]);
        assert_eq!(growth.sizes, [10, 20]);
        assert!(text(&growth, 9).contains("left out: size 0"));
        for sizes in [&[0, 1, 2][..], &[1 << 50, (1 << 50) - 1], &[3, 5]] {
            let text = text(&of(sizes), 9);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    proptest! {
        /// Shares now and ahead are parts of a whole, whatever grows how.
        #[test]
        fn shares_add_up(counts in prop::collection::vec(prop::collection::vec(0i64..1_000_000, 3), 1..8)) {
            let names: Vec<String> = (0..counts.len()).map(|n| format!("f{n}")).collect();
            let at = |index: usize| {
                let all: Vec<(&str, i64)> = names.iter().zip(&counts).map(|(n, c)| (n.as_str(), c[index])).collect();
                record(10u64 << index, &all)
            };
            let growth = growths(&[at(0), at(1), at(2)], "boot").unwrap().remove(0);
            let now: f64 = growth.functions.iter().map(|r| r.share).sum();
            let ahead: f64 = growth.functions.iter().map(|r| r.share_ahead).sum();
            let any = counts.iter().any(|c| c[2] > 0);
            let want = if any { 1.0 } else { 0.0 };
            prop_assert!((now - want).abs() < 1e-9 && (ahead - want).abs() < 1e-9, "{now} {ahead}");
        }
    }
}
