// SPDX-License-Identifier: MIT OR Apache-2.0
//! report.html: one file, which asks the network for nothing.
//!
//! Names, consoles' words and notes are the guest's or somebody else's: maud escapes them in
//! the markup, [`embedded`] in the data, and the page's own policy runs no script and loads
//! no style but the two that it names by their hashes.

mod bars;
mod flames;
mod growth;
mod lines;
mod made;
mod scenario;
mod spread;
mod trend;

use base64::{Engine, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    timeline::{Timeline, timelines},
    view::View,
};
use crate::core::{
    fault::Exit,
    grid::Grid,
    summary::{self, ScenarioSummary, Summary},
};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/timeline.js");

/// The whole page.
pub fn html(view: &View) -> String {
    let timelines = timelines(view);
    let summary = view.summary;
    let scenarios: Vec<_> = view.plan.iter().map(|trial| &*trial.scenario).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                // Or a browser would ask for one.
                link rel="icon" href="data:,";
                title { "bootrig: " (names(summary)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "To the results" }
                (head(view))
                main #main {
                    @for part in summary.scenarios.iter().filter(|p| super::growth::is_alone(summary, p)) {
                        (part_of(view, part, &timelines))
                    }
                    @for sweep in super::growth::sweeps(summary) {
                        (growth::section(&sweep, &scenarios))
                        @for part in &sweep.parts {
                            details.size {
                                summary { (part.name) }
                                (part_of(view, part, &timelines))
                            }
                        }
                    }
                    (made::section(view))
                }
                script type="application/json" id="timelines" { (PreEscaped(embedded(&timelines))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn part_of(view: &View, part: &ScenarioSummary, timelines: &[Timeline]) -> Markup {
    html! {
        @if let Some(scenario) = view.scenario(&part.name) {
            (scenario::section(view, scenario, part, place(timelines, &part.name)))
        }
    }
}

/// What the page may do: run its own script, use its own style, and nothing else.
fn policy() -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

/// JSON that nothing in it can leave: no `<` ends the element, no line separator a string.
fn embedded(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).expect("plain data with text keys is JSON");
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

fn place<'a, 'b>(timelines: &'b [Timeline<'a>], name: &str) -> Option<(usize, &'b Timeline<'a>)> {
    let mut all = timelines.iter().enumerate();
    all.find(|(_, t)| t.scenario == name)
}

fn names(summary: &Summary) -> String {
    let names: Vec<_> = summary.scenarios.iter().map(|s| s.name.as_str()).collect();
    names.join(", ")
}

fn head(view: &View) -> Markup {
    let summary = view.summary;
    html! {
        header {
            h1 { "bootrig report" }
            p.verdict { (verdict(summary)) }
            p.quiet { "Of " (names(summary)) ". Run " code { (summary.run) } ", begun " (view.made.begun) }
            @for note in &summary.notes {
                p.note { (note) }
            }
            @for left_out in &view.left_out {
                p.note { "Left out: " (left_out) }
            }
            @if summary.scenarios.len() > 1 { (contents(summary)) }
        }
    }
}

/// Where to find which scenario; the sizes of a sweep are below it.
fn contents(summary: &Summary) -> Markup {
    html! {
        nav aria-label="Scenarios" {
            ul {
                @for part in summary.scenarios.iter().filter(|p| super::growth::is_alone(summary, p)) {
                    li { a href={ "#scenario-" (part.name) } { (part.name) } }
                }
                @for sweep in super::growth::sweeps(summary) {
                    li { a href={ "#growth-" (sweep.name) } { (sweep.name) } }
                }
            }
        }
    }
}

/// What became of the run, in a sentence.
fn verdict(summary: &Summary) -> Markup {
    let judged = || summary.scenarios.iter().flat_map(|s| &s.expectations);
    let met = judged().filter(|e| e.ok == Some(true)).count();
    let all = judged().count();
    let variants = || summary.scenarios.iter().flat_map(|s| &s.variants);
    let failed = variants().filter(|v| v.failed()).count();
    let facts: u64 = variants().map(|v| v.oracle.checked).sum();
    let violations: usize = variants().map(|v| v.oracle.violations.len()).sum();
    let (word, class) = match summary::exit(summary) {
        Exit::Done => ("Passed", "good"),
        Exit::Inconclusive => ("Inconclusive", "open"),
        Exit::Failed => ("Failed", "bad"),
        _ => ("Incomplete", "bad"),
    };
    html! {
        strong class=(class) { (word) } ": "
        @if all == 0 { "nothing was expected" }
        @else { (met) " of " (all) " expectations met" }
        ", " (facts) " facts checked, " (violations) " violated"
        @if failed > 0 { ", " (failed) " of " (variants().count()) " variants failed or incomplete" }
        "."
    }
}

/// A table that scrolls by itself where it is wider than the page.
fn table(caption: &str, grid: &Grid) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr {
                    @for cell in &grid.header {
                        // A column of words that speak for themselves has no name.
                        @if cell.is_empty() { td {} } @else { th scope="col" { (cell) } }
                    }
                } }
                tbody {
                    @for row in &grid.rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 { th scope="row" { (cell) } }
                                @else { td class=[missed(cell)] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn missed(cell: &str) -> Option<&'static str> {
    (cell == "MISSED" || cell == "no value").then_some("bad")
}

#[cfg(test)]
mod tests;
