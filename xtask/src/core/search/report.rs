// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a search found, ready to be mailed: Markdown.

use std::fmt::Write;

use serde::Serialize;

use super::{Answer, Step};
use crate::core::grid::table;

/// Version of the document that `--json` prints.
pub const SCHEMA: u32 = 1;

/// What a search found, and how.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was looked for, in a sentence.
    pub asked: String,
    /// What was found; `None`: nothing that could be named alone.
    pub blamed: Option<Blamed>,
    /// What came out, in a sentence.
    pub found: String,
    /// How probable it is that no answer was wrong; `None`: nothing was by chance.
    pub confidence: Option<f64>,
    /// Why it is believed.
    pub proofs: Vec<Proof>,
    /// The comparison of before and after, as Markdown.
    #[serde(skip)]
    pub numbers: String,
    /// Devices whose callback changed.
    pub devices: Vec<String>,
    /// Before and after over time, as text.
    #[serde(skip)]
    pub pictures: Vec<(String, String)>,
    /// Where the full pictures are.
    pub files: Vec<String>,
    /// Every place that was judged, in order, with what it is called.
    pub steps: Vec<(String, Step)>,
    /// Commands that do it again.
    pub again: Vec<String>,
}

/// The place that is to blame.
#[derive(Clone, Debug, Serialize)]
pub struct Blamed {
    /// A commit's name, a patch's, ...
    pub name: String,
    /// What it says of itself, a line each.
    pub about: Vec<String>,
}

/// A reason to believe it.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// What was tried.
    pub tried: String,
    /// What came out.
    pub result: String,
    /// Whether it confirms; `None`: it could not be tried.
    pub holds: Option<bool>,
}

impl Report {
    /// Whether nothing that was tried speaks against what was found.
    pub fn confirmed(&self) -> bool {
        self.blamed.is_some() && self.proofs.iter().all(|p| p.holds != Some(false))
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = format!("# {}\n\n", self.found);
        if let Some(blamed) = &self.blamed {
            let _ = writeln!(out, "    {}", blamed.name);
            for line in &blamed.about {
                let _ = writeln!(out, "    {line}");
            }
            out.push('\n');
        }
        let _ = writeln!(out, "{}\n", self.asked);
        if let Some(sure) = self.confidence {
            let _ = writeln!(
                out,
                "Boots by the wall clock are noisy: with at least {:.1} % no answer on the way \
                 was wrong.\n",
                sure * 100.0
            );
        }
        if !self.proofs.is_empty() {
            out += "## Proofs\n\n";
        }
        for (number, proof) in self.proofs.iter().enumerate() {
            let holds = match proof.holds {
                Some(true) => "holds",
                Some(false) => "DOES NOT HOLD",
                None => "could not be tried",
            };
            let (tried, result) = (&proof.tried, &proof.result);
            let _ = writeln!(out, "{}. {tried}: {holds}: {result}", number + 1);
        }
        if !self.proofs.is_empty() {
            out.push('\n');
        }
        if !self.devices.is_empty() {
            let _ = writeln!(out, "Devices that moved: {}.\n", self.devices.join(", "));
        }
        if !self.numbers.is_empty() {
            let _ = writeln!(out, "{}", self.numbers);
        }
        for (title, picture) in &self.pictures {
            let _ = writeln!(out, "### {title}\n\n```\n{picture}```\n");
        }
        for file in &self.files {
            let _ = writeln!(out, "- {file}");
        }
        if !self.files.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "## How it was found\n\n{}\n", self.way());
        if !self.again.is_empty() {
            out += "## Again\n\n";
        }
        for command in &self.again {
            let _ = writeln!(out, "    {command}");
        }
        out
    }

    fn way(&self) -> String {
        let cells = |(at, (name, step)): (usize, &(String, Step))| {
            let is = match &step.answer {
                Answer::Old => "as the old end".to_owned(),
                Answer::New => "as the new end".to_owned(),
                Answer::Skip(why) => format!("skipped: {}", why.replace(['\n', '|'], " ")),
            };
            vec![
                at.to_string(),
                name.replace('|', " "),
                step.shows.clone(),
                step.boots.to_string(),
                is,
            ]
        };
        let rows = self.steps.iter().enumerate().map(cells).collect();
        table(&["", "place", "shows", "boots", "is"], rows).to_string()
    }
}
