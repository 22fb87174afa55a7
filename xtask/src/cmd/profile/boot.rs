// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask profile boot`: measures a kernel with no patch and no module of ours, from its
//! boot to the next PID 1.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    core::{
        fault::{Exit, Fault},
        scenario::MOST_CPUS,
    },
    edge::{
        cache::Cache,
        host::install::{Wishes, ensure},
        terminal,
    },
    rig::{
        bare::{self, Given, Outcome},
        checkout, traces,
        wish::TraceArgs,
    },
};

/// Options of `profile boot`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bzImage: a distribution's, or anyone's.
    #[arg(long, value_name = "BZIMAGE")]
    kernel: PathBuf,
    #[command(flatten)]
    trace: TraceArgs,
    /// Guest CPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CPUS)))]
    cpus: u32,
    /// Guest memory.
    #[arg(long, value_name = "SIZE", default_value = "512 MiB")]
    memory: String,
    /// A further word for the kernel's command line. May be given again.
    #[arg(long, value_name = "WORD")]
    append: Vec<String>,
    /// Keep what was traced in this folder, which `profile show` can be given.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Consent to installing missing packages.
    #[arg(long)]
    yes: bool,
}

/// Boots and shows.
pub fn run(args: &Args, most: usize) -> Result<Exit> {
    let wish = args.trace.at_least_marks();
    if wish.symbols.is_none() {
        let why = "--kernel: name its symbols too (--symbols SYSTEM.MAP or VMLINUX)";
        return Err(Fault::usage(why).into());
    }
    wish.check()?;
    let root = checkout()?;
    ensure(Wishes {
        yes: args.yes,
        ..Wishes::default()
    })?;
    let say = |line: &str| terminal::say(line);
    let given = Given {
        cpus: args.cpus,
        memory: args.memory.clone(),
        words: args.append.clone(),
    };
    let cache = Cache::open(&say)?;
    let outcome = bare::boot(&root, cache, &args.kernel, &given, wish.clone(), &say)?;
    let (seen, cut) = match outcome {
        Outcome::NotTraced(why) => {
            say(&format!("note: not traced: {why}"));
            return Ok(Exit::Done);
        }
        Outcome::Traced(seen, cut) => (seen, cut),
    };
    terminal::out(&traces::told(
        &seen,
        args.keep.as_deref(),
        &wish,
        most,
        &say,
    )?)?;
    match cut {
        None => Ok(Exit::Done),
        Some(end) => {
            say(&format!("the machine did not restart to its end: {end}"));
            Ok(Exit::Guest)
        }
    }
}
