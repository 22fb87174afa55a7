// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask`: dispatch only.

use std::process::ExitCode;

use anyhow::Context;
use bootrig::{
    cli::{Cli, Command},
    cmd,
    core::fault::{self, Exit},
    edge::{process, terminal},
};
use clap::Parser;

fn main() -> ExitCode {
    process::serve_if_asked();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            let judge = std::env::args_os().nth(1).is_some_and(|a| a == "judge");
            // 2 would tell git that the commit is bad.
            return ExitCode::from(match error.use_stderr() {
                false => Exit::Done as u8,
                true if judge => cmd::judge::stop(Exit::Usage),
                true => Exit::Usage as u8,
            });
        }
    };
    let handled = process::install_handlers().context("handling signals");
    if let Command::Judge(args) = &cli.command {
        return ExitCode::from(match handled {
            Ok(()) => cmd::judge::run(args),
            Err(error) => {
                terminal::say(&format!("error: {}", fault::text(&error)));
                cmd::judge::status_of(&error)
            }
        });
    }
    let result = handled.and_then(|()| match &cli.command {
        Command::Bench(args) => cmd::bench::run(args),
        Command::Bisect(args) => cmd::bisect::run(args),
        Command::Judge(_) => unreachable!("judged above"),
        Command::Report(args) => cmd::report::run(args),
        Command::Profile(args) => cmd::profile::run(args),
        Command::Test(args) => cmd::test::run(args),
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Matrix(args) => cmd::matrix::run(args),
        Command::Merge(args) => cmd::merge::run(args),
        Command::List(args) => cmd::list::run(args),
        Command::Show(args) => cmd::show::run(args),
        Command::Shell(args) => cmd::shell::run(args),
        Command::Baseline(args) => cmd::baseline::run(args),
        Command::Compare(args) => cmd::compare::run(args),
        Command::Export(args) => cmd::export::run(args),
        Command::Trend(args) => cmd::trend::run(args),
        Command::Clean(args) => cmd::clean::run(args),
    });
    match result {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            terminal::say(&format!("error: {}", fault::text(&error)));
            ExitCode::from(fault::exit_of(&error) as u8)
        }
    }
}
