// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searching an ordered history for the first place that is as its new end is.
//!
//! The history is a [`Line`]: commits, of which git says what to look at next, or a plain
//! [`List`]. A [`Tester`] builds and boots. [`search`] drives both: it tests the two ends
//! first and stops where they do not differ as they should, then asks for one place after
//! another and judges each. A place that cannot be judged is skipped, never guessed.

mod ends;
mod list;
mod odds;
mod picture;
mod report;
mod ruler;
mod symptom;
#[cfg(test)]
mod tests;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use self::{ends::Ends, ruler::Ruler};
pub use self::{
    list::List,
    picture::{gantt, window},
    report::{Blamed, Proof, Report, SCHEMA as REPORT_SCHEMA},
    ruler::Patience,
    symptom::{Seen, Symptom, Threshold},
};
use super::scenario::Clock;

/// What a place was found to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", content = "why", rename_all = "snake_case")]
pub enum Answer {
    /// As the old end is.
    Old,
    /// As the new end is.
    New,
    /// It cannot be told: why.
    Skip(String),
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sought {
    /// The first place with the symptom; the old end has none.
    Symptom,
    /// The first place without it; the old end has it.
    Fix,
}

impl Sought {
    /// What a place with the symptom, or without it, is as.
    fn answer(self, symptom: bool) -> Answer {
        match (self, symptom) {
            (Self::Symptom, true) | (Self::Fix, false) => Answer::New,
            (Self::Symptom, false) | (Self::Fix, true) => Answer::Old,
        }
    }
}

/// What comes next in a [`Line`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This place is to be tested.
    Test(String),
    /// This is the first one that is as the new end is.
    Found(String),
    /// It is one of these, of which all but the last were skipped.
    OneOf(Vec<String>),
}

/// A history between two ends.
pub trait Line {
    /// Its old and its new end.
    fn ends(&self) -> [String; 2];
    /// How many places may be the first, as far as is known.
    fn candidates(&self) -> usize;
    /// What comes next.
    ///
    /// # Errors
    /// Whatever keeps it from being known.
    fn next(&mut self) -> Result<Next>;
    /// Notes what the place given last was found to be.
    ///
    /// # Errors
    /// Whatever keeps it from being noted.
    fn answer(&mut self, place: &str, answer: &Answer) -> Result<()>;
}

/// What came of building and booting a place.
#[derive(Clone, Debug, PartialEq)]
pub enum Tested {
    /// It does not build: why.
    NotBuilt(String),
    /// What its boots showed, as many as were asked for, the oldest first.
    Booted(Vec<Seen>),
}

/// Builds and boots places.
pub trait Tester {
    /// Has `place` booted `boots` times in all; what was booted before counts.
    ///
    /// # Errors
    /// What says nothing of the place: the search is given up, and may be gone on with.
    fn boot(&mut self, place: &str, boots: u32) -> Result<Tested>;
    /// A place was judged.
    ///
    /// # Errors
    /// What could not be noted.
    fn judged(&mut self, step: &Step) -> Result<()>;
}

/// A place that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which place.
    pub place: String,
    /// What it is.
    pub answer: Answer,
    /// Of how many boots.
    pub boots: u32,
    /// What they showed, for people.
    pub shows: String,
}

/// What is searched for, and how surely.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What a place with it shows.
    pub symptom: Symptom,
    /// Which place is looked for.
    pub sought: Sought,
    /// The clock of the boots.
    pub clock: Clock,
    /// How sure, and for how many boots.
    pub patience: Patience,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The first place that is as the new end is, and how probable it is that no answer on the
    /// way was wrong; `None`: boots in virtual time have no noise.
    Found(String, Option<f64>),
    /// It is one of these: those between could not be judged.
    OneOf(Vec<String>),
    /// The ends do not differ: what they show.
    Alike(String),
    /// The ends are each other's: what they show.
    Swapped(String),
    /// An end cannot be judged: which, and why.
    NoEnd(String, String),
    /// The bound on boots was reached.
    OutOfBoots(String),
}

/// Searches `line` for the first place that is as its new end is.
///
/// # Errors
/// Only what `line` and `tester` return.
pub fn search(line: &mut dyn Line, tester: &mut dyn Tester, question: &Question) -> Result<Ended> {
    let mut odds = odds::Odds::new(question, line.candidates());
    let ends = line.ends();
    let ruler = match ends::test(&ends, tester, question, &mut odds)? {
        Ends::Differ(ruler) => ruler,
        Ends::Over(ended) => return Ok(ended),
    };
    loop {
        let place = match line.next()? {
            Next::Found(place) => return Ok(Ended::Found(place, odds.confidence())),
            Next::OneOf(places) => return Ok(Ended::OneOf(places)),
            Next::Test(place) => place,
        };
        let Some(step) = judge(&place, tester, question, &ruler, &mut odds)? else {
            return Ok(Ended::OutOfBoots(place));
        };
        tester.judged(&step)?;
        line.answer(&place, &step.answer)?;
    }
}

/// Judges one place by itself: an absolute limit, or something that shows itself.
///
/// # Errors
/// What `tester` returns; a threshold that takes two ends.
pub fn alone(place: &str, tester: &mut dyn Tester, question: &Question) -> Result<Step> {
    let ruler = match question.symptom {
        Symptom::Slow(_, Threshold::Time(limit)) => Ruler::Limit(limit.0),
        Symptom::Slow(..) => bail!("without ends a threshold is a time"),
        _ => Ruler::Shown(question.patience.repeats),
    };
    let mut odds = odds::Odds::new(question, 1);
    let step = judge(place, tester, question, &ruler, &mut odds)?;
    Ok(step.unwrap_or_else(|| Step {
        place: place.to_owned(),
        answer: Answer::Skip("the bound on boots is too low to tell".into()),
        boots: 0,
        shows: String::new(),
    }))
}

/// Boots a place until it is known what it is; `None`: the bound on boots does not allow it.
fn judge(
    place: &str,
    tester: &mut dyn Tester,
    question: &Question,
    ruler: &Ruler,
    odds: &mut odds::Odds,
) -> Result<Option<Step>> {
    let step = |answer, boots, shows: String| Step {
        place: place.to_owned(),
        answer,
        boots,
        shows,
    };
    let looks = ruler.looks(question);
    let (mut before, mut shows) = (0, String::new());
    for &boots in &looks {
        if !odds.take(boots - before) {
            return Ok(None);
        }
        before = boots;
        let seen = match tester.boot(place, boots)? {
            Tested::NotBuilt(why) => {
                return Ok(Some(step(
                    Answer::Skip(format!("does not build: {why}")),
                    0,
                    "not built".into(),
                )));
            }
            Tested::Booted(seen) => seen,
        };
        shows = symptom::summary(&seen);
        if let Some(why) = symptom::unusable(&seen, question.clock) {
            return Ok(Some(step(Answer::Skip(why), boots, shows)));
        }
        if let Some(answer) = ruler.judge(&seen, question.sought, odds.per_look(looks.len())) {
            odds.spend();
            return Ok(Some(step(answer, boots, shows)));
        }
    }
    let why = format!("{before} boots cannot tell which end it is like");
    Ok(Some(step(Answer::Skip(why), before, shows)))
}
