// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask export RUN`: a run in a form that another tool reads.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::{export::Format, fault::Exit},
    edge::{export, store::Finished, terminal},
    rig::{self, exported},
};

/// Options of `export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run: its folder, or its name in results/.
    run: String,
    /// The form.
    #[arg(long, value_enum)]
    format: Format,
    /// Write it here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// KCIDB: who submits.
    #[arg(long, value_name = "NAME", default_value = "bootrig", value_parser = origin)]
    origin: String,
    /// Where runs are kept.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

fn origin(text: &str) -> Result<String, String> {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if !text.is_empty() && text.bytes().all(good) {
        return Ok(text.into());
    }
    Err("an origin is lower-case letters, digits and `_`".into())
}

/// Exports; the exit code says nothing of what the run came to.
///
/// # Errors
/// Usage: there is no such run, or it cannot be trusted. Infrastructure: the file cannot
/// be written.
pub fn run(args: &Args) -> Result<Exit> {
    let results = rig::results(args.results.as_deref())?;
    let run = Finished::read(&results, &args.run)?;
    let text = exported(&run.header, &run.summary, args.format, &args.origin)?;
    match &args.out {
        None => terminal::out(&text)?,
        Some(path) => export::write_to(path, &text)?,
    }
    for left_out in args.format.leaves_out(&run.summary) {
        terminal::say(&format!(
            "left out, as {} knows only numbers: {left_out}",
            args.format
        ));
    }
    Ok(Exit::Done)
}
