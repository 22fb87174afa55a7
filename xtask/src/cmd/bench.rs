// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench`: build, boot, judge, print, keep.

mod job;
mod jobs;
mod kept;
mod progress;
mod told;
mod traced;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use job::Job;

use crate::{
    core::{
        export::Format,
        fault::{Exit, Fault},
        measure::Ended,
        plan::Trial,
        program::Finish,
        report,
        scenario::{Clock, MOST_CPUS, Scenario, Switched},
        shard::{self, Shard},
        summary::{self, summarise},
    },
    edge::{
        cache::{Cache, share::Share},
        files::to_be_written,
        host::{
            fingerprint::Fingerprint,
            install::{Wishes, ensure},
            resources::Resources,
        },
        process::Stopped,
        qemu::{AccelChoice, shell_quote},
        store::{Header, Run},
        terminal,
    },
    rig::{self, Artifacts, Rig, Shared, checkout, draw, history::history, wish::TraceArgs},
};

/// What is booted when nothing is named.
const DEFAULT_SUITE: &[&str] = &["shutdown-2018"];

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenarios: names in scenarios/, or files. Default: shutdown-2018.
    scenarios: Vec<String>,
    /// The clock, instead of each scenario's own.
    #[arg(long, value_enum)]
    clock: Option<Clock>,
    /// What runs the guest in wall time.
    #[arg(long, value_enum, default_value = "auto")]
    accel: AccelChoice,
    /// Boots per variant, instead of each scenario's own number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: Option<u32>,
    /// Boots side by side (virtual time only). Default: one a host CPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Write the run in this form too: junit, hyperfine, kcidb, csv, github-action-benchmark,
    /// bencher or prometheus. May be given again.
    #[arg(long, value_name = "FORMAT=FILE", value_parser = format_and_file)]
    export: Vec<(Format, PathBuf)>,
    /// Append the report as Markdown to this file, as CI step summaries are written.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Wall time: leave out the boots of the same thing (A/A) that show what this host can
    /// see.
    #[arg(long)]
    no_aa: bool,
    /// Print one JSON document (summary.json) on stdout.
    #[arg(long)]
    json: bool,
    /// Go on after a boot that failed.
    #[arg(long)]
    keep_going: bool,
    /// Test this series instead of the scenario's: mailboxes, patches or folders of them.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    series: Vec<PathBuf>,
    /// Of each series only its first N patches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    series_prefix: Option<u32>,
    /// Boot this kernel (a key of images/kernels/sources.yaml) instead of the scenario's.
    #[arg(long, value_name = "KERNEL")]
    on: Option<String>,
    /// Guest CPUs, instead of the scenario's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CPUS)))]
    cpus: Option<u32>,
    /// A further variant of --series: its name and words for its kernel's command line.
    #[arg(long, value_name = "NAME:WORDS", requires = "series")]
    variant: Vec<Switched>,
    /// Boot this variant alone, and not what it is compared with. May be given again.
    #[arg(long, value_name = "VARIANT")]
    only: Vec<String>,
    /// Boot kernels with lockdep, KASAN and the like: the oracle judges, no time does.
    #[arg(long)]
    debug: bool,
    /// Make what is missing of a stopped run (its folder, or its name in results/).
    #[arg(long, value_name = "RUN", conflicts_with_all = ["scenarios", "clock", "repeats", "debug", "series", "series_prefix", "on", "cpus", "variant", "only", "kernel", "kbuild", "run", "shard", "balance"])]
    resume: Option<String>,
    /// What the run is called. Where there is one of this name, make what is missing of it.
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Make only this part of the boots, one of N; `merge` joins the parts.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Cut shards by what boots took in this run. Default: in the earlier whole runs of these
    /// scenarios in results/.
    #[arg(long, value_name = "RUN", requires = "shard")]
    balance: Option<String>,
    /// Build everything, then print the plan and every QEMU command line.
    #[arg(long, conflicts_with_all = ["json", "resume", "profile", "mark"])]
    dry_run: bool,
    /// Boot this bzImage instead of building kernels.
    #[arg(
        long,
        value_name = "BZIMAGE",
        requires = "kbuild",
        conflicts_with_all = ["debug", "series", "series_prefix", "on"]
    )]
    kernel: Option<PathBuf>,
    /// What modules for --kernel are built against.
    #[arg(long, value_name = "DIR", requires = "kernel")]
    kbuild: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceArgs,
    /// Where runs are kept.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Share kernels and modules with other machines: a folder that all see, or
    /// s3://BUCKET/PREFIX. Default: $BOOTRIG_CACHE_REMOTE.
    #[arg(long, value_name = "PLACE")]
    cache_remote: Option<String>,
    /// Consent to installing missing packages.
    #[arg(long)]
    yes: bool,
    /// Take QEMU from the distribution's backports where its own is older than 8.1.
    #[arg(long)]
    backports: bool,
}

fn format_and_file(text: &str) -> Result<(Format, PathBuf), String> {
    let (format, path) = text
        .split_once('=')
        .filter(|(_, path)| !path.is_empty())
        .ok_or("it is FORMAT=FILE")?;
    Ok((Format::from_str(format, false)?, path.into()))
}

/// Runs a bench.
pub fn run(args: &Args) -> Result<Exit> {
    args.trace.check(&args.scenarios)?;
    if args.clock == Some(Clock::Wall) && args.trace.wish().is_some_and(|w| w.profile) {
        let why = "--profile counts instructions, which only virtual time does: leave --clock wall out, or trace a run of its own";
        return Err(Fault::usage(why).into());
    }
    let root = checkout()?;
    let mut results = rig::results(args.results.as_deref())?;
    if let Some(run) = &args.resume {
        results = Run::locate(&results, run).0;
    }
    let say = |line: &str| terminal::say(line);
    let cache = Cache::open(&say)?;
    let job = job::job(args, &root, &results, &cache, &say)?;
    let available = Resources::here().available;
    let jobs = jobs::side_by_side(args.jobs, args.accel, &job.plan, available, &say)?;
    let rig = ready(args, &root, &results, cache, &job)?;
    let host = serde_json::to_value(Fingerprint::take()?)?;
    if args.dry_run {
        return dry_run(&rig, &job.plan);
    }
    let tracing = traced::prepare(&args.trace, &root, &rig, &job.plan)?;
    let (header, run) = begin(args, &results, &job, &rig, &host)?;
    let (mut run, ended) = kept::boot_missing(run, &rig, &job.plan, jobs, args.keep_going)?;
    let id = &header.id;
    let summary =
        summarise(id, host, rig.notes(), &job.plan, &run.results).with_growth(&job.scenarios);
    run.finish(&summary)?;
    let pictures = || {
        let history = history(&results, &header, &summary, &[])?;
        draw(
            run.dir(),
            &header,
            &summary,
            &job.plan,
            &run.results,
            history,
        )
    };
    pictures()?;
    let named: Vec<&Scenario> = job.scenarios.iter().flat_map(|s| s.members()).collect();
    let mut text = report::text(&summary, &named);
    if matches!(ended, Ended::Complete) && !header.debug && header.shard.is_none() {
        text.push_str(&told::series_against_stock(&results, &header, &named)?);
    }
    told::tell(args, &header, &summary, &text)?;
    let exit = match &header.shard {
        None => summary::exit(&summary),
        Some(cut) => {
            let shard = cut.shard();
            say(&format!(
                "shard {shard}: what is expected of all boots together is judged by `cargo xtask merge`"
            ));
            shard::exit(cut, &run.results)
        }
    };
    let traced = match (&ended, &tracing) {
        (Ended::Complete, Some(tracing)) => {
            let traced = traced::run(tracing, jobs, run.dir(), args.json);
            pictures()?;
            traced
        }
        _ => Ok(Exit::Done),
    };
    say(&format!(
        "run {id} kept in {}; its pictures: report.html, trace.json",
        run.dir().display()
    ));
    match (ended, exit) {
        (Ended::Stopped, _) => {
            say(&format!(
                "stopped; go on with: cargo xtask bench --resume {}",
                shell_quote(&run.dir().to_string_lossy())
            ));
            Err(Stopped.into())
        }
        (Ended::GaveUp, exit) => {
            say(&format!(
                "gave up at the first failed boot (--keep-going goes on); consoles are in {}",
                run.dir().join("console").display()
            ));
            Ok(exit)
        }
        (Ended::Complete, Exit::Done) => traced,
        (Ended::Complete, worse) => traced.map(|_| worse),
    }
}

/// Checks that what is asked for can be had, installs and builds what it needs.
fn ready(args: &Args, root: &Path, results: &Path, cache: Cache, job: &Job) -> Result<Rig> {
    let say = |line: &str| terminal::say(line);
    // Better known now than after kernels were built.
    let exports = args.export.iter().map(|(_, path)| path);
    // What is appended to may be a device, as /dev/stdout is.
    let appended = args.markdown.iter().filter(|p| p.is_dir() || !p.exists());
    exports.chain(appended).try_for_each(|p| to_be_written(p))?;
    Artifacts::check(root, &cache, &job.plan, &job.ready, &say)?;
    std::fs::create_dir_all(results).map_err(|e| Fault {
        exit: Exit::Infrastructure,
        message: format!(
            "{} cannot hold runs: {e}; name another folder with --results",
            results.display()
        ),
    })?;
    ensure(Wishes {
        yes: args.yes,
        backports: args.backports,
        ..Wishes::default()
    })?;
    let share = Share::wanted(args.cache_remote.as_deref())?;
    let shared = share.as_ref().map(|share| Shared::new(share, &job.whole));
    let artifacts = Artifacts::provide(root, cache, &job.plan, &job.ready, shared.as_ref(), &say)?;
    Rig::new(artifacts, &job.plan, args.accel, Finish::Restart, &say)
}

/// The run that is gone on with, or a new one.
fn begin(
    args: &Args,
    results: &Path,
    job: &Job,
    rig: &Rig,
    host: &serde_json::Value,
) -> Result<(Header, Run)> {
    if let Some(header) = &job.header {
        rig.same_as(header)?;
        let run = Run::resume(results, &header.id, &job.plan)?;
        return Ok((header.clone(), run));
    }
    let header = job::header(args, job, rig, host);
    let run = Run::create(results, &header)?;
    run.keep_scenarios(&job.scenarios)?;
    Ok((header, run))
}

fn dry_run(rig: &Rig, plan: &[Trial]) -> Result<Exit> {
    for trial in plan {
        let (line, dir) = rig.by_hand(trial)?;
        terminal::out(&format!(
            "# {}: {} time, kernel {}; console and events go to {}\n{line}\n",
            trial.id,
            trial.clock,
            trial.kernel,
            dir.display()
        ))?;
    }
    Ok(Exit::Done)
}
