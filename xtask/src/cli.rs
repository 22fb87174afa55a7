// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `cargo xtask`: subcommands only; each owns its options.

use clap::{Parser, Subcommand};

use crate::cmd;

/// Measures parallel boot and shutdown of Linux kernels in QEMU.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build kernels, boot scenarios, print and keep the results.
    Bench(Box<cmd::bench::Args>),
    /// Keep or check a run's virtual-time samples.
    Baseline(cmd::baseline::Args),
    /// Compare runs, baselines, or several runs of a kind.
    Compare(cmd::compare::Args),
    /// Find which commit, patch, source, option or word made something worse, or better.
    Bisect(Box<cmd::bisect::Args>),
    /// Is this kernel good or bad? For `git bisect run`.
    Judge(Box<cmd::judge::Args>),
    /// Draw a kept run again: its report.html and trace.json.
    Report(cmd::report::Args),
    /// Write a run in a form that another tool reads.
    Export(cmd::export::Args),
    /// Where a metric changed for good over many runs.
    Trend(cmd::trend::Args),
    /// Show and compare what the tracer saw.
    Profile(cmd::profile::Args),
    /// Run all tests of bootrig itself.
    Test(cmd::test::Args),
    /// Say what this machine has, what is missing, and how a bench would run.
    Doctor(cmd::doctor::Args),
    /// Make one run of its shards.
    Merge(cmd::merge::Args),
    /// What is run again and again, as a table or for a CI system.
    Matrix(cmd::matrix::Args),
    /// List the scenarios, or the runs that are kept.
    List(cmd::list::Args),
    /// Show what a scenario expands to.
    Show(cmd::show::Args),
    /// Boot a variant with an interactive console.
    Shell(cmd::shell::Args),
    /// Remove what the cache no longer needs.
    Clean(cmd::clean::Args),
}
