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

/// Names what may have been meant by `wrong`: `; did you mean ...?`, else all `valid`
/// names where they are few enough to read.
pub fn hint<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let wrong: String = wrong.chars().take(64).collect::<String>().to_lowercase();
    let mut all: Vec<&str> = Vec::new();
    let mut best: Option<(f64, &str)> = None;
    for name in valid {
        let score = likeness(&wrong, name);
        if score >= LIKE && best.is_none_or(|b| score > b.0) {
            best = Some((score, name));
        }
        if all.len() <= 16 {
            all.push(name);
        }
    }
    match best {
        Some((_, name)) => format!("; did you mean `{name}`?"),
        None if all.is_empty() => "; none is defined".into(),
        None if all.len() <= 16 => format!("; valid: {}", all.join(", ")),
        None => String::new(),
    }
}

/// From this on a name is worth suggesting.
const LIKE: f64 = 0.8;

/// How likely it is that `name` was meant by `wrong`, up to 1.
fn likeness(wrong: &str, name: &str) -> f64 {
    let score = strsim::jaro_winkler(wrong, name);
    // `shutdown` for `device_shutdown`: half of a name that has parts.
    let part =
        wrong.len() >= 3 && name.len() >= 3 && (name.contains(wrong) || wrong.contains(name));
    // `cnt` for `count`: letters left out.
    let mut letters = name.chars();
    let short = wrong.len() >= 3 && wrong.chars().all(|c| letters.any(|l| l == c));
    // `q53` for `q35`: a slip in a name too short for the measure above.
    let slip = 3 * strsim::osa_distance(wrong, name) <= wrong.chars().count() + 1;
    if part || short || slip {
        score.max(LIKE)
    } else {
        score
    }
}
