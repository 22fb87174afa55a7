// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a boot is looked at for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::core::{
    boot::{Outcome, TrialResult},
    scenario::{Clock, Metric},
    stats::median,
    units::{Fraction, Nanos},
};

/// What is wrong with a place that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Symptom {
    /// A metric is above a limit.
    Slow(Metric, Threshold),
    /// The oracle found something.
    Violation,
    /// The guest's kernel dies.
    Panic,
    /// A deadline passes, or the kernel reports a lockup.
    Hang,
}

/// From where on a metric counts as slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// Half-way between the ends.
    Halfway,
    /// Above so much time.
    Time(Nanos),
    /// So large a part above the end that is not slow.
    Part(Fraction),
}

impl std::str::FromStr for Threshold {
    type Err = String;
    /// `2.95 s`, or `3 %` (above the end that is not slow).
    fn from_str(text: &str) -> Result<Self, String> {
        match text.contains('%') {
            true => text.parse().map(Self::Part),
            false => text.parse().map(Self::Time),
        }
        .map_err(|e| e.to_string())
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(metric, Threshold::Halfway) => {
                write!(f, "{} above half-way between the ends", metric.name())
            }
            Self::Slow(metric, Threshold::Time(time)) => {
                write!(f, "{} above {}", metric.name(), time.exact())
            }
            Self::Slow(metric, Threshold::Part(part)) => {
                write!(f, "{} {part} above the better end", metric.name())
            }
            Self::Violation => f.write_str("a violation that the oracle finds"),
            Self::Panic => f.write_str("a panic"),
            Self::Hang => f.write_str("a hang"),
        }
    }
}

/// What one boot shows of a symptom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The metric, in ns.
    Value(u64),
    /// The symptom.
    Yes,
    /// Not the symptom.
    No,
    /// Nothing: how the boot ended instead.
    Nothing(String),
}

impl Symptom {
    /// What a boot shows of it.
    ///
    /// # Errors
    /// The machine failed, and nothing is known of the guest: why.
    pub fn see(&self, result: &TrialResult) -> Result<Seen, String> {
        let nothing = || Seen::Nothing(result.outcome.to_string());
        Ok(match (&result.outcome, self) {
            (Outcome::Infrastructure(why), _) => return Err(why.clone()),
            (Outcome::Panic(_), Self::Panic) | (Outcome::Hang(_), Self::Hang) => Seen::Yes,
            (Outcome::Completed, Self::Panic | Self::Hang) => Seen::No,
            (Outcome::Completed, Self::Violation) => match result.oracle.violations.is_empty() {
                true => Seen::No,
                false => Seen::Yes,
            },
            (Outcome::Completed, Self::Slow(metric, _)) => match result.metric(*metric) {
                Some((value, _)) => Seen::Value(value.0),
                None => Seen::Nothing(format!("{} was not recorded", metric.name())),
            },
            _ => nothing(),
        })
    }
}

/// The values among what boots showed.
pub(super) fn values(seen: &[Seen]) -> Vec<u64> {
    let value = |s: &Seen| match s {
        Seen::Value(value) => Some(*value),
        _ => None,
    };
    seen.iter().filter_map(value).collect()
}

/// How many boots had the symptom.
pub(super) fn had(seen: &[Seen]) -> u32 {
    seen.iter().filter(|s| **s == Seen::Yes).count() as u32
}

/// Why nothing can be told from these boots, if so: one in virtual time, or half of them by the
/// wall clock, showed nothing of the symptom, one way or the other.
pub(super) fn unusable(seen: &[Seen], clock: Clock) -> Option<String> {
    let mut nothing = seen.iter().filter_map(|s| match s {
        Seen::Nothing(why) => Some(why),
        _ => None,
    });
    let count = nothing.clone().count();
    // A symptom that was seen is one, however the other boots went.
    let enough = match clock {
        Clock::Virtual => count > 0,
        Clock::Wall => 2 * count >= seen.len(),
    };
    match nothing.next_back() {
        Some(why) if enough && had(seen) == 0 => Some(why.clone()),
        _ => None,
    }
}

/// What boots showed, for people.
pub(super) fn summary(seen: &[Seen]) -> String {
    let values = values(seen);
    if let Some(Seen::Nothing(why)) = seen.iter().find(|s| matches!(s, Seen::Nothing(_)))
        && values.is_empty()
    {
        return why.clone();
    }
    match (values.as_slice(), seen.len()) {
        ([], 1) => ["without", "with"][had(seen) as usize].into(),
        ([], n) => format!("{} of {n} boots with", had(seen)),
        ([one], _) => Nanos(*one).to_string(),
        (values, _) => format!("median {} of {}", Nanos(median(values)), values.len()),
    }
}
