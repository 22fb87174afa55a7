// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of a trial, and their form in samples.csv: one line a number,
//! `scenario,variant,repeat,clock,metric,unit,value`. No field holds a comma, a quote or a line
//! break: scenarios, variants and devices have plain names.

use std::collections::BTreeMap;

use super::{
    boot::TrialResult,
    event::Callback,
    metric::{
        CHURN_ANSWERS, CHURN_CERTAIN, COLDPLUG_EVENTS, COLDPLUG_SETTLE, COLDPLUG_TRIGGER,
        COLDPLUG_UDEVD, HOTPLUG_BLOCKS, HOTPLUG_THERE, PROBE_TASKS, REBOOT_PARTS, SYSTEMD_SETTLED,
        SYSTEMD_TARGET, SYSTEMD_UNITS, TASKS, Unit, WALK_LONGEST, WALK_P50, WALK_P99,
    },
    plan::Trial,
    probing,
    scenario::{Clock, Metric, Scenario},
    units::Nanos,
};

/// One number that a trial yielded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Metric, part or device, as in [`metric`](super::metric).
    pub metric: String,
    /// Of `value`.
    pub unit: Unit,
    /// How much.
    pub value: u64,
}

/// All samples of a completed trial, in a fixed order: metrics asked for, parts of the
/// reboot, then devices.
pub fn of(scenario: &Scenario, result: &TrialResult) -> Vec<Sample> {
    let (Some(times), Some(log)) = (&result.times, &result.log) else {
        return vec![];
    };
    let mut samples = Vec::new();
    let mut push = |metric: String, value: Nanos| {
        samples.push(Sample {
            metric,
            unit: Unit::Ns,
            value: value.0,
        });
    };
    for metric in &scenario.metrics {
        if let Some((value, _)) = result.metric(*metric) {
            push(metric.name().into(), value);
        }
        if let (Metric::Reboot, Some(r)) = (*metric, times.reboot) {
            for ((part, _), value) in REBOOT_PARTS.into_iter().zip(r.parts()) {
                push(format!("reboot/{part}"), value);
            }
        }
    }
    for metric in &scenario.metrics {
        let callback = match metric {
            Metric::Probe => Callback::Probe,
            Metric::DeviceShutdown => Callback::Shutdown,
            Metric::Boot
            | Metric::Load
            | Metric::Bound
            | Metric::Ready
            | Metric::Reboot
            | Metric::Walk
            | Metric::Churn
            | Metric::Hotplug
            | Metric::Coldplug
            | Metric::Systemd => continue,
        };
        let mut of_metric: Vec<_> = log
            .callbacks
            .iter()
            .filter(|e| e.callback == callback && e.ret == 0)
            .collect();
        of_metric.sort_by_key(|e| e.device);
        for event in of_metric {
            if let (Some(device), Some(end)) = (scenario.devices.get(event.device), event.end) {
                push(
                    format!("{}/{}", metric.name(), device.name),
                    end - event.begin,
                );
            }
        }
    }
    if let Some(walk) = log.walk.as_ref().filter(|_| scenario.walk.is_some()) {
        for (part, value) in [
            (WALK_P50, walk.p50),
            (WALK_P99, walk.p99),
            (WALK_LONGEST, walk.longest),
        ] {
            samples.push(Sample {
                metric: part.into(),
                unit: Unit::Ns,
                value: value.0,
            });
        }
    }
    if let Some(done) = log.churn.as_ref() {
        for (metric, value) in [(CHURN_ANSWERS, done.answers), (CHURN_CERTAIN, done.certain)] {
            samples.push(Sample {
                metric: metric.into(),
                unit: Unit::Count,
                value,
            });
        }
    }
    let hotplug = log.hotplug.as_ref();
    if let Some(done) = hotplug.filter(|_| scenario.metrics.contains(&Metric::Hotplug)) {
        for (metric, unit, value) in [
            (HOTPLUG_THERE, Unit::Ns, (done.there - done.begin).0),
            (HOTPLUG_BLOCKS, Unit::Count, done.blocks),
        ] {
            let metric = metric.into();
            samples.push(Sample {
                metric,
                unit,
                value,
            });
        }
    }
    if let Some(done) = log.coldplug.as_ref() {
        for (metric, unit, value) in [
            (COLDPLUG_UDEVD, Unit::Ns, (done.begin - done.start).0),
            (COLDPLUG_TRIGGER, Unit::Ns, (done.triggered - done.begin).0),
            (COLDPLUG_SETTLE, Unit::Ns, (done.end - done.triggered).0),
            (COLDPLUG_EVENTS, Unit::Count, done.events),
        ] {
            let metric = metric.into();
            samples.push(Sample {
                metric,
                unit,
                value,
            });
        }
    }
    if let Some(boot) = log.systemd.as_ref() {
        for (metric, unit, value) in [
            (SYSTEMD_TARGET, Unit::Ns, (boot.target - boot.start).0),
            (SYSTEMD_SETTLED, Unit::Ns, (boot.settled - boot.start).0),
            (SYSTEMD_UNITS, Unit::Count, boot.units),
        ] {
            let metric = metric.into();
            samples.push(Sample {
                metric,
                unit,
                value,
            });
        }
    }
    if scenario.metrics.contains(&Metric::Bound) {
        samples.push(Sample {
            metric: PROBE_TASKS.into(),
            unit: Unit::Count,
            value: probing::tasks(log) as u64,
        });
    }
    if scenario.metrics.contains(&Metric::DeviceShutdown) {
        samples.push(Sample {
            metric: TASKS.into(),
            unit: Unit::Count,
            value: times.tasks,
        });
    }
    samples
}

/// Why a file is refused that went through a program of another system.
pub(super) const CR_LF: &str = "its lines end as on another system (CR LF)";

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
    /// Unit of `value`: `ns` or `count`.
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
        let first: String = csv.lines().next().unwrap_or_default().into();
        let why = match HEADER.trim_end() == first {
            true => CR_LF.into(),
            false => format!("`{}` is not the header of samples", first.escape_debug()),
        };
        return Err(format!("line 1: {why}"));
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
    (digits(repeat) && digits(value) && [Unit::Ns, Unit::Count].iter().any(|u| u.name() == unit))
        .then_some(())?;
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
