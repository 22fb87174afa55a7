// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is told of a run: on the terminal, and in the files that were asked for.

use std::{collections::BTreeSet, path::Path};

use anyhow::Result;

use super::Args;
use crate::{
    core::{
        chart,
        compare::{self, compare},
        scenario::Scenario,
        summary::Summary,
    },
    edge::{export, files::write_whole, store::Header, terminal},
    rig::{exported, sides},
};

/// Prints `text`, the report of `summary`, or its JSON, and writes what was asked for beside the
/// run's own folder.
pub(super) fn tell(args: &Args, header: &Header, summary: &Summary, text: &str) -> Result<()> {
    if args.json {
        terminal::out_line(&serde_json::to_string_pretty(summary)?)?;
    } else {
        let look = terminal::look();
        terminal::out_report(text)?;
        if let Some(width) = look.width {
            terminal::out_drawn(&chart::bars(summary, width, look.colour))?;
        }
    }
    if let Some(path) = &args.markdown {
        export::append(path, text)?;
    }
    for (format, path) in &args.export {
        let text = exported(header, summary, *format, "bootrig")?;
        write_whole(path, text.as_bytes())?;
    }
    Ok(())
}

/// What a series from the command line changes: each variant with it against the one without,
/// as `compare` judges them. Empty where there is no such series, or nothing to compare.
pub(super) fn series_against_stock(
    results: &Path,
    header: &Header,
    named: &[&Scenario],
) -> Result<String> {
    let mut out = String::new();
    if header.under_test.series.is_none() {
        return Ok(out);
    }
    let mut pairs = BTreeSet::new();
    for scenario in named {
        let (with, without): (Vec<_>, Vec<_>) =
            scenario.variants.iter().partition(|v| v.series.is_some());
        if let Some(stock) = without.first() {
            pairs.extend(with.iter().map(|v| (&stock.name, &v.name)));
        }
    }
    let run = sides::side(results, &header.id)?;
    for (stock, patched) in pairs {
        // What this kernel has no means for was not measured, and is told elsewhere.
        let one = |variant: &str| sides::of_variant(run.clone(), variant, patched, variant);
        let (Ok(before), Ok(after)) = (one(stock), one(patched)) else {
            continue;
        };
        if let Ok(comparison) = compare(&before, &after, &compare::Wishes::default()) {
            out.push_str(&comparison.text());
            out.push('\n');
        }
    }
    Ok(out)
}
