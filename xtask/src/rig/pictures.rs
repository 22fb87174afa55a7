// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws a run: report.html and trace.json beside its numbers.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use serde_json::Value;

use super::traces;
use crate::{
    core::{
        boot::TrialResult,
        plan::Trial,
        report::{self, Made, View},
        summary::Summary,
        trend::History,
    },
    edge::{
        export,
        qemu::shell_quote,
        store::{Header, KernelRecord},
    },
};

/// Writes the pictures of a run into its folder, with what that has of traced boots.
///
/// # Errors
/// When the disk is full or fails.
pub fn draw(
    dir: &Path,
    header: &Header,
    summary: &Summary,
    plan: &[Trial],
    results: &BTreeMap<String, TrialResult>,
    history: History,
) -> Result<()> {
    let (profiled, left_out) = traces::profiled(dir);
    let view = View {
        summary,
        plan,
        results,
        made: made(header),
        history,
        profiled,
        left_out,
    };
    export::write(dir, "report.html", &report::html(&view))?;
    export::write(dir, "trace.json", &report::trace(&view))
}

fn made(header: &Header) -> Made {
    let words = ["cargo", "xtask"].map(str::to_owned);
    let words: Vec<_> = words.iter().chain(&header.command).collect();
    let command: Vec<_> = words.iter().map(|w| shell_quote(w)).collect();
    Made {
        begun: header.begun.clone(),
        command: command.join(" "),
        environment: environment(header),
        kernels: header.kernels.iter().map(kernel).collect(),
    }
}

fn kernel(kernel: &KernelRecord) -> [String; 4] {
    [
        kernel.spec.to_string(),
        kernel.source.clone(),
        kernel.release.clone(),
        kernel.compiler.clone(),
    ]
}

fn environment(header: &Header) -> Vec<(String, String)> {
    let mut all = vec![
        ("QEMU".to_owned(), header.machine.qemu.clone()),
        ("accelerator".to_owned(), header.machine.accelerator.clone()),
    ];
    for (name, value) in header.host.as_object().into_iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        all.push((format!("host: {name}"), text));
    }
    all.retain(|(_, what)| !what.is_empty());
    all
}
