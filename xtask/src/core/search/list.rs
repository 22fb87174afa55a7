// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plain ordered list as a [`Line`]: halved at each step, around what was skipped.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::{Answer, Line, Next};

/// Places in order, the old end first.
#[derive(Clone, Debug)]
pub struct List {
    places: Vec<String>,
    /// The last place known to be as the old end is.
    old: usize,
    /// The first known to be as the new end is.
    new: usize,
    skipped: BTreeSet<usize>,
}

impl List {
    /// A list of two places or more, each named once.
    ///
    /// # Errors
    /// Says, for people, what is wrong with them.
    pub fn new(places: Vec<String>) -> Result<Self, String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = places.iter().find(|p| !seen.insert(p.as_str())) {
            return Err(format!("`{}` is named twice", twice.escape_debug()));
        }
        match places.len() {
            0 | 1 => Err("there is nothing between two ends: name two places or more".into()),
            n => Ok(Self {
                places,
                old: 0,
                new: n - 1,
                skipped: BTreeSet::new(),
            }),
        }
    }
}

impl Line for List {
    fn ends(&self) -> [String; 2] {
        [0, self.places.len() - 1].map(|at| self.places[at].clone())
    }

    fn candidates(&self) -> usize {
        self.new - self.old
    }

    fn next(&mut self) -> Result<Next> {
        if self.new - self.old == 1 {
            return Ok(Next::Found(self.places[self.new].clone()));
        }
        let middle = self.old.midpoint(self.new);
        let open = (self.old + 1..self.new).filter(|at| !self.skipped.contains(at));
        Ok(match open.min_by_key(|at| at.abs_diff(middle)) {
            Some(at) => Next::Test(self.places[at].clone()),
            None => Next::OneOf(self.places[self.old + 1..=self.new].to_vec()),
        })
    }

    fn answer(&mut self, place: &str, answer: &Answer) -> Result<()> {
        let at = self.places.iter().position(|p| p == place);
        let at = at.with_context(|| format!("{place} is no place of the list"))?;
        match answer {
            Answer::Old => self.old = self.old.max(at),
            Answer::New => self.new = self.new.min(at),
            Answer::Skip(_) => {
                self.skipped.insert(at);
            }
        }
        Ok(())
    }
}
