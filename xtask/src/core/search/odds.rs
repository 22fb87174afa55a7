// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a search may err and boot in all, dealt out to its steps.
//!
//! A search is right where each of its answers is; by Boole's inequality it errs no more
//! often than its answers do together. So what it may err is dealt out in equal parts to the
//! answers that are still to come, one of them for the ends.

use super::Question;
use crate::core::scenario::Clock;

/// Answers beyond what halving takes: git's histories do not halve evenly.
const SPARE: u32 = 2;

/// What is left of what a search may err and boot.
#[derive(Clone, Debug)]
pub(super) struct Odds {
    /// What it may still err; `None`: nothing of it is by chance.
    left: Option<f64>,
    /// Answers still to come.
    answers: u32,
    /// What was given to answers that were made.
    spent: f64,
    /// Boots that are left.
    boots: u32,
}

impl Odds {
    pub fn new(question: &Question, candidates: usize) -> Self {
        let left = match question.clock {
            Clock::Virtual => None,
            Clock::Wall => Some(1.0 - question.patience.confidence),
        };
        let halvings = usize::BITS - candidates.saturating_sub(1).leading_zeros();
        Self {
            left,
            answers: 1 + halvings + SPARE,
            spent: 0.0,
            boots: question.patience.most_boots,
        }
    }

    /// What the next answer may err.
    pub fn per_answer(&self) -> f64 {
        // Never the whole rest: however many answers come, there is something for each.
        let share = |left: f64| left / f64::from(self.answers.max(1) + 1);
        self.left.map_or(0.0, share)
    }

    /// What each of `looks` at the next answer's boots may err.
    pub fn per_look(&self, looks: usize) -> f64 {
        self.per_answer() / looks.max(1) as f64
    }

    /// An answer was made.
    pub fn spend(&mut self) {
        let share = self.per_answer();
        self.spent += share;
        self.left = self.left.map(|left| left - share);
        self.answers = self.answers.saturating_sub(1);
    }

    /// Takes `boots` from the bound, if it has as many.
    pub fn take(&mut self, boots: u32) -> bool {
        let left = self.boots.checked_sub(boots);
        self.boots = left.unwrap_or(self.boots);
        left.is_some()
    }

    /// How probable it is, at least, that no answer was wrong.
    pub fn confidence(&self) -> Option<f64> {
        self.left.map(|_| 1.0 - self.spent)
    }
}
