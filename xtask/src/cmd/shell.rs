// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask shell`: boots one variant of a scenario with an interactive console.

use std::{
    io::IsTerminal,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    core::{
        fault::{Exit, Fault, Stopped},
        plan::{Overrides, Trial, plan},
        program::Finish,
        scenario::{Clock, UnderTest},
    },
    edge::{
        cache::Cache,
        host::install::{Wishes, ensure},
        process,
        qemu::AccelChoice,
        scenarios, terminal,
    },
    rig::{Artifacts, Rig, checkout, known},
};

/// A console left open is closed in the end.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Options of `shell`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario: a name in scenarios/, or a file.
    scenario: String,
    /// Which variant. Default: the scenario's first.
    #[arg(long)]
    variant: Option<String>,
    /// The clock. In virtual time an idle guest's clock runs ahead of yours.
    #[arg(long, value_enum, default_value = "wall")]
    clock: Clock,
    /// What runs the guest in wall time.
    #[arg(long, value_enum, default_value = "auto")]
    accel: AccelChoice,
    /// Wait for a debugger before the first instruction, and print its command.
    #[arg(long)]
    gdb: bool,
    /// Boot a kernel with lockdep, KASAN and the like.
    #[arg(long)]
    debug: bool,
    /// Boot this bzImage instead of building a kernel.
    #[arg(
        long,
        value_name = "BZIMAGE",
        requires = "kbuild",
        conflicts_with = "debug"
    )]
    kernel: Option<PathBuf>,
    /// What modules for --kernel are built against.
    #[arg(long, value_name = "DIR", requires = "kernel")]
    kbuild: Option<PathBuf>,
    /// Consent to installing missing packages.
    #[arg(long)]
    yes: bool,
}

/// Boots the variant on this terminal; Ctrl-A X ends it.
pub fn run(args: &Args) -> Result<Exit> {
    if !std::io::stdin().is_terminal() {
        return Err(
            Fault::usage("shell needs a terminal to read from; bench boots without one").into(),
        );
    }
    let root = checkout()?;
    let trial = trial(args, &root)?;
    ensure(Wishes {
        yes: args.yes,
        backports: false,
        ..Wishes::default()
    })?;
    let say = |line: &str| terminal::say(line);
    let ready = args.kernel.clone().zip(args.kbuild.clone());
    let plan = [trial];
    let artifacts = Artifacts::provide(&root, Cache::open(&say)?, &plan, &ready, &say)?;
    let rig = Rig::new(artifacts, &plan, args.accel, Finish::Shell, &say)?;
    let (command, hint) = rig.interactive(&plan[0], args.gdb)?;
    if let Some(hint) = hint {
        terminal::say(&format!(
            "waiting for a debugger; in another terminal:\n{hint}"
        ));
    }
    terminal::say(&format!("console of {}; Ctrl-A X ends it", plan[0].id));
    // Watched by the guardian: the guest's machine does not outlive us.
    let mut guest = process::Child::spawn_attached(command).context("starting QEMU")?;
    let start = Instant::now();
    while guest.try_wait()?.is_none() {
        if process::interrupted() || start.elapsed() > LIMIT {
            return Err(Stopped.into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Exit::Done)
}

fn trial(args: &Args, root: &std::path::Path) -> Result<Trial> {
    let under_test = UnderTest {
        ready: args.kernel.is_some(),
        only: args.variant.iter().cloned().collect(),
        ..UnderTest::default()
    };
    let scenario = scenarios::load_with(root, &args.scenario, &known(root)?)?
        .put_under_test(&under_test)
        .map_err(Fault::usage)?;
    let scenario = Arc::new(scenario);
    let overrides = Overrides {
        clock: Some(args.clock),
        repeats: Some(1),
        debug: args.debug,
    };
    let mut trials = plan(std::slice::from_ref(&scenario), overrides);
    Ok(trials.swap_remove(0))
}
