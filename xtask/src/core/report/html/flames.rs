// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel did in a traced boot's windows: a flame graph, callers above what they
//! called, whose places are parts of its width, and its tables.

use maud::{Markup, html};

use super::{bars::percent, table};
use crate::core::{
    event,
    report::view::{Profiled, View},
    summary::ScenarioSummary,
    trace::{
        flame::{Frame, frames},
        table::{MOST_ROWS, duration, functions, parts, share, waits},
    },
};

/// A frame's height, in pixels.
const HIGH: usize = 18;
/// Colours of frames, as style.css has them.
const COLORS: u32 = 5;

/// The section; empty where nothing of `part` was profiled.
pub fn section(view: &View, part: &ScenarioSummary) -> Markup {
    let own = |p: &&Profiled| {
        p.boot
            .strip_prefix(&*part.name)
            .is_some_and(|v| v.starts_with('/'))
    };
    let profiled: Vec<_> = view.profiled.iter().filter(own).collect();
    html! {
        @if !profiled.is_empty() {
            h3 { "The kernel's profile" }
            p.quiet { "Of a boot of its own of each variant, which the tracer watched; none of its numbers is a sample. Widths are instructions of the kernel." }
            @for profiled in profiled { (one(profiled)) }
        }
    }
}

fn one(profiled: &Profiled) -> Markup {
    let profile = &profiled.profile;
    let what = format!("{}: {}", profiled.boot, profile.window);
    html! {
        h4 { (what) ", " (duration(profile.length)) }
        @if let Ok((frames, whole)) = frames(&profiled.folded) {
            @if whole > 0 { (graph(&what, &frames, whole)) }
        }
        details { summary { "Tables" }
            (table(&format!("{what}: what the time went into"), &parts(profile)))
            (table(&format!("{what}: functions"), &functions(profile, MOST_ROWS)))
            @if !profile.waits.is_empty() {
                (table(&format!("{what}: waits"), &waits(profile, MOST_ROWS)))
            }
        }
    }
}

fn graph(what: &str, frames: &[Frame], whole: u64) -> Markup {
    let deep = frames.iter().map(|f| f.depth + 1).max().unwrap_or(0);
    html! {
        figure.flames {
            svg role="img" aria-label=(said(what, frames, whole)) height=(deep * HIGH) {
                @for frame in frames { (drawn(frame, whole)) }
            }
        }
    }
}

fn drawn(frame: &Frame, whole: u64) -> Markup {
    let class = format!("frame-{}", color(&frame.name));
    html! {
        svg x=(percent(frame.from, whole)) y=(frame.depth * HIGH) width=(percent(frame.count, whole)) height=(HIGH) {
            title { (frame.name) ": " (frame.count) " instructions, " (part(frame.count, whole)) }
            rect class=(class) width="100%" height="100%" {}
            // What is narrower has no room for a letter.
            @if frame.count.saturating_mul(100) >= whole { text x="4" y="13" { (frame.name) } }
        }
    }
}

/// One colour for one function, the same each time.
fn color(name: &str) -> u32 {
    event::check(name.as_bytes()) % COLORS
}

fn part(count: u64, whole: u64) -> String {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    share(number(count), number(whole))
}

/// Down the widest way, as far as most of the whole goes.
fn said(what: &str, frames: &[Frame], whole: u64) -> String {
    let mut said = format!("Flame graph of {what}, {whole} instructions");
    let mut at: Option<&Frame> = None;
    loop {
        let depth = at.map_or(0, |f| f.depth + 1);
        let (from, to) = at.map_or((0, whole), |f| (f.from, f.from + f.count));
        let below = frames.iter().filter(|f| f.depth == depth);
        let below = below.filter(|f| f.from >= from && f.from < to);
        match below
            .max_by_key(|f| f.count)
            .filter(|f| f.count >= whole / 3)
        {
            Some(widest) => {
                said += &format!("; {} {}", widest.name, part(widest.count, whole));
                at = Some(widest);
            }
            None => return said,
        }
    }
}
