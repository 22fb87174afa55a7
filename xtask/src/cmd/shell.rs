// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask shell`: boots one variant of a scenario with an interactive console.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
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
        trace::table::MOST_ROWS,
    },
    edge::{
        cache::Cache,
        host::install::{Wishes, ensure},
        process,
        qemu::AccelChoice,
        scenarios, terminal,
    },
    rig::{
        Artifacts, Rig, checkout, known, traces,
        tracing::Tracing,
        wish::{TraceArgs, Wish},
    },
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
    /// The clock. In virtual time an idle guest's clock runs ahead of yours. Default: wall, and
    /// virtual for --profile.
    #[arg(long, value_enum)]
    clock: Option<Clock>,
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
    #[command(flatten)]
    trace: TraceArgs,
    /// Keep what was traced in this folder, which `profile show` can be given.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
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
    args.trace.check(std::slice::from_ref(&args.scenario))?;
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
    let artifacts = Artifacts::provide(&root, Cache::open(&say)?, &plan, &ready, None, &say)?;
    let rig = Rig::new(artifacts, &plan, args.accel, Finish::Shell, &say)?;
    let (mut command, hint) = rig.interactive(&plan[0], args.gdb)?;
    let tracing = match args.trace.wish() {
        None => None,
        Some(wish) => match Tracing::new(&root, &rig, &plan, wish.clone(), &say)? {
            Ok(tracing) => Some((tracing, wish)),
            Err(why) => {
                say(&format!("note: not traced: {why}"));
                None
            }
        },
    };
    if let Some((tracing, _)) = &tracing {
        command.args(tracing.arguments(&plan[0], rig.folder())?);
    }
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
    if let Some((tracing, wish)) = &tracing {
        seen(tracing, wish, &plan[0], &rig, args.keep.as_deref())?;
    }
    Ok(Exit::Done)
}

/// Shows what the tracer saw, and keeps it in the folder `keep`.
fn seen(
    tracing: &Tracing,
    wish: &Wish,
    trial: &Trial,
    rig: &Rig,
    keep: Option<&Path>,
) -> Result<()> {
    let usage = |why: String| Fault::usage(format!("trace of {}: {why}", trial.id));
    let seen = tracing.look(trial, rig.folder())?.map_err(usage)?;
    terminal::out(&traces::told(&seen, keep, wish, MOST_ROWS, &terminal::say)?)
}

fn trial(args: &Args, root: &Path) -> Result<Trial> {
    let under_test = UnderTest {
        ready: args.kernel.is_some(),
        only: args.variant.iter().cloned().collect(),
        ..UnderTest::default()
    };
    let scenario = scenarios::load(root, &args.scenario, &known(root)?)?
        .put_under_test(&under_test)
        .map_err(Fault::usage)?;
    let scenario = Arc::new(scenario);
    let overrides = Overrides {
        clock: Some(args.clock.unwrap_or(match args.trace.wish() {
            Some(wish) if wish.profile => Clock::Virtual,
            _ => Clock::Wall,
        })),
        repeats: Some(1),
        debug: args.debug,
    };
    let mut trials = plan(std::slice::from_ref(&scenario), overrides);
    Ok(trials.swap_remove(0))
}
