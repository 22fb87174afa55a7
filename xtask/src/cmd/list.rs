// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask list`: what can be run.

use anyhow::Result;
use serde_json::json;

use crate::{
    core::{
        fault::{self, Exit},
        scenario::Scenario,
    },
    edge::{scenarios, terminal},
    rig,
};

/// Options of `list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Lists the scenarios of the checkout. A broken file does not hide the others:
/// its errors go to stderr and the exit code says that there were some.
///
/// # Errors
/// Where the folder or profiles.yaml cannot be read.
pub fn run(args: &Args) -> Result<Exit> {
    let root = &rig::checkout()?;
    let known = rig::known(root)?;
    let (mut good, mut exit) = (Vec::new(), Exit::Done);
    for name in scenarios::names(root)? {
        match scenarios::load_with(root, &name, &known) {
            Ok(scenario) => good.push(scenario),
            Err(error) => {
                exit = exit.max(fault::exit_of(&error));
                terminal::say(&format!("{error:#}"));
            }
        }
    }
    if args.json {
        let list: Vec<_> = good.iter().map(entry).collect();
        terminal::out_line(&format!("{:#}", json!({"scenarios": list})))?;
    } else {
        terminal::out(&table(&good))?;
    }
    Ok(exit)
}

fn entry(s: &Scenario) -> serde_json::Value {
    let variants: Vec<_> = s.variants.iter().map(|v| &v.name).collect();
    json!({
        "name": s.name, "about": s.about, "kernel": s.kernel, "clock": s.clock,
        "devices": s.devices.len(), "variants": variants, "metrics": s.metrics,
        "repeats": s.repeats_by(s.clock), "hash": s.hash,
    })
}

fn table(list: &[Scenario]) -> String {
    let width = list.iter().map(|s| s.name.len()).max().unwrap_or(0);
    list.iter()
        .map(|s| {
            let about = s
                .about
                .split_once(['.', ':'])
                .map_or(s.about.as_str(), |(first, _)| first);
            let (devices, variants) = (s.devices.len(), s.variants.len());
            format!(
                "{:width$}  {devices:5} devices  {variants:2} variants  {about}\n",
                s.name
            )
        })
        .collect()
}
