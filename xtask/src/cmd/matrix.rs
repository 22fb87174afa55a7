// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask matrix`: what is run again and again, for people and for CI systems.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::{
        fault::{Exit, Fault},
        matrix::{Tag, write},
        shard::MOST_SHARDS,
    },
    edge::{scenarios, terminal},
    rig::{checkout, known},
};

/// The checkout's matrix.
const FILE: &str = "matrix.yaml";

/// Options of `matrix`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what has this tag.
    #[arg(long, value_enum)]
    tag: Option<Tag>,
    /// How it is written.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Cut each run into so many shards, instead of as many as the file says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    shards: Option<u32>,
    /// Another matrix than the checkout's matrix.yaml.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// How a matrix is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// `strategy.matrix` of GitHub Actions, JSON.
    Github,
    /// A child pipeline of GitLab, YAML.
    Gitlab,
    /// A job array of Slurm, a script for sbatch.
    Slurm,
    /// For scripts: a line a run, its name and its shards.
    Runs,
}

/// Prints the matrix.
///
/// # Errors
/// Usage: anything wrong in the matrix or in a scenario; no cell has the tag.
pub fn run(args: &Args) -> Result<Exit> {
    let root = checkout()?;
    let path = args.file.clone().unwrap_or_else(|| root.join(FILE));
    let matrix = scenarios::load_matrix(&root, &path, &known(&root)?)?;
    let jobs = matrix.jobs(args.tag, args.shards);
    if jobs.is_empty() {
        let what = args
            .tag
            .map_or("cell".into(), |t| format!("cell tagged {t}"));
        let why = format!("{} has no {what}", path.display());
        return Err(Fault::usage(why).into());
    }
    let text = match args.format {
        Format::Table => write::table(&matrix, args.tag, &jobs),
        Format::Github => write::github(&jobs).map_err(Fault::usage)? + "\n",
        Format::Gitlab => write::gitlab(&jobs).map_err(Fault::usage)?,
        Format::Slurm => write::slurm(&jobs, args.tag),
        Format::Runs => write::runs(&jobs),
    };
    terminal::out(&text)?;
    Ok(Exit::Done)
}
