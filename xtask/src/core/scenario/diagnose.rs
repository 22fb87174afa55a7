// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in scenario files: where, what, and what was probably meant.

use std::fmt;

use super::tree::Position;
use crate::core::fault::Fault;

/// More errors than this are only counted: nobody reads them, and looking for the nearest
/// name costs time for each.
const MAX_SHOWN: usize = 20;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub position: Position,
    /// What is wrong and what would be right.
    pub message: String,
}

/// All errors of one file, in line order; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The file's name, as it was given.
    pub file: String,
    /// The first of them.
    pub items: Vec<Diagnostic>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Diagnostics {
    /// One error a line: `scenarios/x.yaml:12:5: unknown ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.items.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            let Position { line, column } = d.position;
            write!(f, "{newline}{}:{line}:{column}: {}", self.file, d.message)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: {} more errors", self.file, self.more)?;
        }
        Ok(())
    }
}
impl std::error::Error for Diagnostics {}

impl From<Diagnostics> for Fault {
    fn from(d: Diagnostics) -> Self {
        Self::usage(d.to_string())
    }
}

/// Gathers errors while a file is read.
#[derive(Debug, Default)]
pub struct Sink {
    items: Vec<Diagnostic>,
    more: usize,
}

impl Sink {
    /// Adds an error.
    pub fn add(&mut self, position: Position, message: String) {
        self.add_with(position, || message);
    }
    /// Adds an error whose message is worth making only if it will be shown.
    pub fn add_with(&mut self, position: Position, message: impl FnOnce() -> String) {
        if self.items.len() < MAX_SHOWN {
            // One line an error, whatever the file put into it.
            let message = message().replace(|c: char| c.is_control(), "\u{fffd}");
            self.items.push(Diagnostic { position, message });
        } else {
            self.more += 1;
        }
    }
    /// Whether there is no error so far.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The errors, if there are any.
    ///
    /// # Errors
    /// What was gathered.
    pub fn finish(mut self, file: &str) -> Result<(), Diagnostics> {
        if self.items.is_empty() {
            return Ok(());
        }
        self.items.sort_by_key(|d| d.position);
        Err(Diagnostics {
            file: file.into(),
            items: self.items,
            more: self.more,
        })
    }
}
