// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask show`: what a scenario expands to.

use anyhow::Result;

use crate::{
    core::{
        fault::{Exit, Fault},
        show,
    },
    edge::{scenarios, terminal},
    rig,
};

/// Options of `show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A scenario's name, or the path of a scenario file.
    #[arg(value_name = "SCENARIO", required_unless_present = "schema")]
    scenario: Option<String>,
    /// Print one JSON document; durations are texts with units, as in scenario files.
    #[arg(long)]
    json: bool,
    /// Write schema.json, profiles.schema.json and matrix.schema.json in scenarios/ anew.
    #[arg(long, conflicts_with_all = ["scenario", "json"])]
    schema: bool,
}

/// Shows one scenario of the checkout, or of any file.
///
/// # Errors
/// [`Fault::usage`] for a scenario that does not exist or is wrong.
pub fn run(args: &Args) -> Result<Exit> {
    let root = &rig::checkout()?;
    if args.schema {
        for path in scenarios::write_schemas(root)? {
            terminal::say(&format!("wrote {}", path.display()));
        }
    }
    let Some(name) = &args.scenario else {
        return if args.schema {
            Ok(Exit::Done)
        } else {
            Err(Fault::usage("name a scenario").into())
        };
    };
    let scenario = scenarios::load(root, name, &rig::known(root)?)?;
    if args.json {
        terminal::out_line(&format!("{:#}", show::document(&scenario)))?;
    } else {
        terminal::out(&show::text(&scenario))?;
    }
    Ok(Exit::Done)
}
