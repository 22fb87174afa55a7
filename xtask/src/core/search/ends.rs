// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two ends, tested before anything else: whether there is something to search for.

use anyhow::Result;

use super::{
    Answer, Ended, Question, Seen, Sought, Step, Symptom, Tested, Tester, Threshold,
    odds::Odds,
    ruler::{Ruler, above},
    symptom,
};
use crate::core::{
    scenario::Clock,
    stats::{
        median,
        verdict::{Limits, Verdict, exact, single},
    },
    units::Nanos,
};

/// What the ends come to.
pub(super) enum Ends {
    /// They differ as they should: how to tell places between them.
    Differ(Ruler),
    /// There is nothing to search.
    Over(Ended),
}

/// How often the ends' boots are doubled, by the wall clock, where they cannot tell.
const DOUBLINGS: u32 = 2;

/// Boots both ends and compares them.
pub(super) fn test(
    ends: &[String; 2],
    tester: &mut dyn Tester,
    question: &Question,
    odds: &mut Odds,
) -> Result<Ends> {
    let looks = match question.clock {
        Clock::Virtual => 1,
        Clock::Wall => 1 + DOUBLINGS,
    };
    let alpha = odds.per_look(looks as usize);
    let mut seen: [Vec<Seen>; 2] = [Vec::new(), Vec::new()];
    let mut known = None;
    for look in 0..looks {
        let boots = question.patience.repeats.saturating_mul(1 << look);
        let before = seen[0].len() as u32;
        if !odds.take((boots - before).saturating_mul(2)) {
            break;
        }
        // A B B A, so that a drift of the host falls on both alike.
        let half = match question.clock {
            Clock::Virtual => boots,
            Clock::Wall => before + (boots - before).div_ceil(2),
        };
        for (end, boots) in [(0, half), (1, half), (1, boots), (0, boots)] {
            if seen[end].len() as u32 == boots {
                continue;
            }
            match tester.boot(&ends[end], boots)? {
                Tested::Booted(all) => seen[end] = all,
                Tested::NotBuilt(why) => {
                    let why = format!("it does not build: {why}");
                    return Ok(Ends::Over(Ended::NoEnd(ends[end].clone(), why)));
                }
            }
            if let Some(why) = symptom::unusable(&seen[end], question.clock) {
                return Ok(Ends::Over(Ended::NoEnd(ends[end].clone(), why)));
            }
        }
        let (ends_are, sure) = compare(&seen[0], &seen[1], question, alpha, odds);
        known = Some(ends_are);
        if sure {
            break;
        }
    }
    odds.spend();
    let Some(ends_are) = known else {
        let why = "the ends alone take more".to_owned();
        return Ok(Ends::Over(Ended::OutOfBoots(why)));
    };
    if matches!(ends_are, Ends::Differ(_)) {
        for (end, answer) in [(0, Answer::Old), (1, Answer::New)] {
            tester.judged(&Step {
                place: ends[end].clone(),
                answer,
                boots: seen[end].len() as u32,
                shows: symptom::summary(&seen[end]),
            })?;
        }
    }
    Ok(ends_are)
}

/// What the ends are, and whether more boots could not tell more.
fn compare(
    old: &[Seen],
    new: &[Seen],
    question: &Question,
    alpha: f64,
    odds: &Odds,
) -> (Ends, bool) {
    let shown = || {
        let [old, new] = [old, new].map(symptom::summary);
        format!("the old end: {old}; the new end: {new}")
    };
    let by = |there: [Option<bool>; 2], ruler: Ruler| match there {
        [Some(old), Some(new)] if old == new => (Ends::Over(Ended::Alike(shown())), true),
        [Some(_), Some(new)] if new == (question.sought == Sought::Symptom) => {
            (Ends::Differ(ruler), true)
        }
        [Some(_), Some(_)] => (Ends::Over(Ended::Swapped(shown())), true),
        _ => (Ends::Over(Ended::Alike(shown())), false),
    };
    let Symptom::Slow(_, threshold) = question.symptom else {
        let had = [symptom::had(old), symptom::had(new)];
        let most = had[0].max(had[1]);
        let ruler = Ruler::shown(most, old.len() as u32, question, odds);
        return by(had.map(|had| Some(had > 0)), ruler);
    };
    let (old, new) = (symptom::values(old), symptom::values(new));
    let better = match question.sought {
        Sought::Symptom => median(&old),
        Sought::Fix => median(&new),
    };
    let limit = match threshold {
        Threshold::Time(Nanos(limit)) => limit,
        Threshold::Part(part) => (better as f64 * (1.0 + part.factor())).round() as u64,
        Threshold::Halfway => return halfway(&old, &new, question, alpha, shown),
    };
    // Two ends may each be wrong.
    let alpha = alpha / 2.0;
    by(
        [above(&old, limit, alpha), above(&new, limit, alpha)],
        Ruler::Limit(limit),
    )
}

fn halfway(
    old: &[u64],
    new: &[u64],
    question: &Question,
    alpha: f64,
    shown: impl Fn() -> String,
) -> (Ends, bool) {
    let limits = Limits::by(question.clock);
    let (judged, ruler) = match question.clock {
        Clock::Virtual => (
            exact(old, new, &limits),
            Ruler::Limit(median(old).midpoint(median(new))),
        ),
        Clock::Wall => {
            let limits = Limits { alpha, ..limits };
            let (old_values, new_values) = (old.to_vec(), new.to_vec());
            (
                single(old, new, &limits),
                Ruler::Between {
                    old: old_values,
                    new: new_values,
                },
            )
        }
    };
    let ends = match (judged.verdict, question.sought) {
        (Verdict::Slower, Sought::Symptom) | (Verdict::Faster, Sought::Fix) => Ends::Differ(ruler),
        (Verdict::Slower | Verdict::Faster, _) => Ends::Over(Ended::Swapped(shown())),
        (Verdict::NoChange | Verdict::Inconclusive, _) => Ends::Over(Ended::Alike(format!(
            "{} ({}; a change counts from {} on)",
            shown(),
            judged.verdict.text(),
            Nanos(limits.least(judged.before).ceil() as u64)
        ))),
    };
    (ends, judged.verdict != Verdict::Inconclusive)
}
