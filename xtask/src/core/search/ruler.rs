// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ends showed, as a measure for all places between them.

use super::{Answer, Question, Seen, Sought, odds::Odds, symptom};
use crate::core::{
    scenario::Clock,
    stats::{binomial, median, rank},
};

/// Boots after which a place is looked at, by the wall clock.
const LOOKS: [u32; 4] = [6, 12, 24, 48];
/// Boots of a place after which what rarely shows itself counts as not there.
const MOST_FOR_RARE: u32 = 96;

/// How sure a search is to be, and how long it may try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// How probable it must be that no answer is wrong (wall time).
    pub confidence: f64,
    /// Boots of each end and, in virtual time, of each place.
    pub repeats: u32,
    /// Boots in all.
    pub most_boots: u32,
}

impl Patience {
    /// What a search does where nothing else is asked for.
    pub fn by(clock: Clock) -> Self {
        Self {
            confidence: 0.95,
            repeats: match clock {
                Clock::Virtual => 1,
                Clock::Wall => 20,
            },
            most_boots: 1000,
        }
    }
}

/// How a place is told from the ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ruler {
    /// Above so many ns it has the symptom.
    Limit(u64),
    /// By the wall clock: it is as the end is that it does not differ from.
    Between { old: Vec<u64>, new: Vec<u64> },
    /// It has the symptom where one boot shows it, and has not where so many do not.
    Shown(u32),
}

impl Ruler {
    /// That of a symptom that was there in `had` of `boots` boots of an end: so many boots
    /// without it are so improbable in a place that has it.
    pub fn shown(had: u32, boots: u32, question: &Question, odds: &Odds) -> Self {
        if question.clock == Clock::Virtual {
            return Self::Shown(question.patience.repeats);
        }
        let rate = binomial::at_least(had, boots, 0.05);
        let needed = (odds.per_answer().ln() / (1.0 - rate).ln()).ceil();
        Self::Shown((needed.max(1.0) as u32).min(MOST_FOR_RARE))
    }

    /// After how many boots a place is looked at.
    pub fn looks(&self, question: &Question) -> Vec<u32> {
        match (question.clock, self) {
            (_, Self::Shown(boots)) => vec![*boots],
            (Clock::Virtual, _) => vec![question.patience.repeats],
            (Clock::Wall, _) => LOOKS.to_vec(),
        }
    }

    /// What a place is whose boots showed this, if it can be told with an error of `alpha`; 0:
    /// nothing of it is by chance.
    pub fn judge(&self, seen: &[Seen], sought: Sought, alpha: f64) -> Option<Answer> {
        let values = symptom::values(seen);
        match self {
            Self::Shown(_) => Some(sought.answer(symptom::had(seen) > 0)),
            Self::Limit(limit) => above(&values, *limit, alpha).map(|slow| sought.answer(slow)),
            Self::Between { old, new } => between(&values, old, new, alpha),
        }
    }
}

/// Whether values lie above a limit, if it can be told: by the sign test (Arbuthnot 1710), or,
/// where nothing is by chance, by their median.
pub(super) fn above(values: &[u64], limit: u64, alpha: f64) -> Option<bool> {
    if alpha == 0.0 {
        return (!values.is_empty()).then(|| median(values) > limit);
    }
    let n = values.len() as u32;
    let slow = values.iter().filter(|v| **v > limit).count() as u32;
    if binomial::tail(slow, n, 0.5) <= alpha {
        Some(true)
    } else if binomial::tail(n - slow, n, 0.5) <= alpha {
        Some(false)
    } else {
        None
    }
}

/// Which end values are like: the one that they do not differ from, towards the other; of two
/// that they differ from, the nearer.
fn between(values: &[u64], old: &[u64], new: &[u64], alpha: f64) -> Option<Answer> {
    let [from, to, at] = [old, new, values].map(median);
    let towards = |start: u64, end: u64| (end > start) == (at > start) && at != start;
    // One direction of two counts, so that each test errs half as often as it says.
    let off_old = towards(from, to) && rank::test(values, old) <= 2.0 * alpha;
    let off_new = towards(to, from) && rank::test(values, new) <= 2.0 * alpha;
    match (off_old, off_new) {
        (true, false) => Some(Answer::New),
        (false, true) => Some(Answer::Old),
        (true, true) if at.abs_diff(from) < at.abs_diff(to) => Some(Answer::Old),
        (true, true) => Some(Answer::New),
        (false, false) => None,
    }
}
