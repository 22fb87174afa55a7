// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of samples.csv: one line a number, `scenario,variant,repeat,clock,metric,unit,
//! value`. No field holds a comma, a quote or a line break: scenarios, variants and devices
//! have plain names.

use std::collections::BTreeMap;

use super::{plan::Trial, scenario::Clock, summary::Sample};

/// The first line.
pub const HEADER: &str = "scenario,variant,repeat,clock,metric,unit,value\n";

/// A line without its value and line break: what tells a sample from all others.
pub fn key(
    scenario: &str,
    variant: &str,
    repeat: usize,
    clock: Clock,
    metric: &str,
    unit: &str,
) -> String {
    format!("{scenario},{variant},{repeat},{clock},{metric},{unit}")
}

/// The lines of one trial.
pub fn lines(trial: &Trial, samples: &[Sample]) -> String {
    let (scenario, variant) = (&trial.scenario.name, &trial.variant().name);
    let line = |s: &Sample| {
        let unit = s.unit.name();
        let key = key(
            scenario,
            variant,
            trial.repeat as usize,
            trial.clock,
            &s.metric,
            unit,
        );
        format!("{key},{}\n", s.value)
    };
    samples.iter().map(line).collect()
}

/// One sample that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// [`key`]: all but the value.
    pub key: &'a str,
    /// Its scenario.
    pub scenario: &'a str,
    /// Its variant.
    pub variant: &'a str,
    /// Which boot of it, from 0.
    pub repeat: u32,
    /// `virtual` or `wall`.
    pub clock: Clock,
    /// Metric, part or device.
    pub metric: &'a str,
    /// Unit of `value`: `ns`, `count` or `bytes`.
    pub unit: &'a str,
    /// How much.
    pub value: u64,
}

/// Reads a whole samples.csv.
///
/// # Errors
/// Names the first line that is no sample, is there twice, or was cut.
pub fn read(csv: &str) -> Result<Vec<Row<'_>>, String> {
    if !csv.starts_with(HEADER) {
        let first = csv.lines().next().unwrap_or_default().escape_debug();
        return Err(format!("line 1: `{first}` is not the header of samples"));
    }
    if !csv.ends_with('\n') {
        return Err("its last line is cut".into());
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut rows = Vec::new();
    for (number, line) in csv.lines().enumerate().skip(1) {
        let row = row(line).ok_or_else(|| {
            format!(
                "line {}: `{}` is no sample",
                number + 1,
                line.escape_debug()
            )
        })?;
        if !seen.insert(row.key) {
            return Err(format!("line {}: {} is there twice", number + 1, row.key));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: &str) -> Option<Row<'_>> {
    let (key, value) = line.rsplit_once(',')?;
    let fields: Vec<&str> = key.split(',').collect();
    let [scenario, variant, repeat, clock, metric, unit] = fields[..] else {
        return None;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let clock = match clock {
        "virtual" => Clock::Virtual,
        "wall" => Clock::Wall,
        _ => return None,
    };
    (digits(repeat) && digits(value) && matches!(unit, "ns" | "count" | "bytes")).then_some(())?;
    Some(Row {
        key,
        scenario,
        variant,
        repeat: repeat.parse().ok()?,
        clock,
        metric,
        unit,
        value: value.parse().ok()?,
    })
}

/// Splits a samples.csv by scenario; each part keeps the header line.
pub fn by_scenario(csv: &str) -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    for line in csv.split_inclusive('\n').skip(1) {
        let name = line.split(',').next().unwrap_or_default();
        parts
            .entry(name.to_owned())
            .or_insert_with(|| HEADER.to_owned())
            .push_str(line);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is written is read, whatever its numbers.
        #[test]
        fn reads_what_it_writes(rows in proptest::collection::btree_map(("[a-z0-9.-]{1,8}", 0..9usize), any::<u64>(), 0..20)) {
            let mut csv = HEADER.to_owned();
            for ((name, repeat), value) in &rows {
                csv += &key(name, "v", *repeat, Clock::Wall, "probe/x.1", "ns");
                csv += &format!(",{value}\n");
            }
            let read = read(&csv).unwrap();
            prop_assert_eq!(read.len(), rows.len());
            for (row, ((name, repeat), value)) in read.iter().zip(&rows) {
                prop_assert_eq!((row.scenario, row.repeat as usize, row.value), (name.as_str(), *repeat, *value));
                prop_assert_eq!((row.variant, row.metric, row.clock), ("v", "probe/x.1", Clock::Wall));
            }
            let total: usize = by_scenario(&csv).values().map(|p| p.lines().count() - 1).sum();
            prop_assert_eq!(total, rows.len());
        }

        /// No text makes it panic.
        #[test]
        fn reads_anything(text in "\\PC{0,60}") {
            let _ = read(&text);
            let _ = read(&format!("{HEADER}{text}\n"));
        }
    }

    #[test]
    fn refuses_what_is_no_sample() {
        for bad in [
            "x",
            "a,b",
            "s,v,0,virtual,boot,ns,-1",
            "s,v,0,virtual,boot,ns,+1",
            "s,v,0,virtual,boot,ms,1",
            "s,v,0,real,boot,ns,1",
            "s,v,0,virtual,boot,more,ns,1",
            "s,v,0,virtual,boot,ns,1\ns,v,0,virtual,boot,ns,1",
        ] {
            assert!(read(&format!("{HEADER}{bad}\n")).is_err(), "{bad}");
        }
        assert!(read("").is_err() && read("value\n").is_err());
        assert!(read(&format!("{HEADER}s,v,0,virtual,boot,ns,1")).is_err());
    }
}
