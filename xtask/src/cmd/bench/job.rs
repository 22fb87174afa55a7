// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bench is to boot: what the command line asks for, or what an earlier run was.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Result;

use super::{Args, DEFAULT_SUITE};
use crate::{
    core::{
        fault::Fault,
        nearest::hint,
        plan::{Overrides, Trial, whole},
        scenario::{Known, Scenario, UnderTest},
        shard::{Cut, Shard, cut},
    },
    edge::{
        cache::Cache,
        kernel::series,
        scenarios,
        store::{Begun, Header, Run, SCHEMA, ScenarioRef},
    },
    rig::{ReadyKernel, Rig, history::took, known, planned, whole_plan},
};

/// What is to be run: new, or what an earlier run was.
pub(super) struct Job {
    pub scenarios: Vec<Scenario>,
    given: Vec<String>,
    under_test: UnderTest,
    pub plan: Vec<Trial>,
    /// The plan of all shards together.
    pub whole: Vec<Trial>,
    /// Of the run that is gone on with.
    pub header: Option<Header>,
    pub ready: ReadyKernel,
    id: String,
    begun: Begun,
    pub shard: Option<Cut>,
}

/// Reads what is to be run.
pub(super) fn job(
    args: &Args,
    root: &Path,
    results: &Path,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<Job> {
    let begun = Begun::now();
    let id = id(args, begun)?;
    let header = match &args.resume {
        Some(run) => Some(Header::read(results, &Run::locate(results, run).1)?),
        None if args.run.is_some() && Run::is_begun(results, &id) => {
            Some(Header::read(results, &id)?)
        }
        None => None,
    };
    let known = known(root)?;
    let of_header = |h: &Header| h.scenarios.iter().map(|s| s.given.clone()).collect();
    let (given, under_test): (Vec<String>, _) = match (&header, &args.resume) {
        (Some(header), Some(_)) => (of_header(header), header.under_test.clone()),
        _ => (asked(args), under_test(args, &known, cache, say)?),
    };
    if let (Some(header), None) = (&header, &args.resume) {
        is_what_was_asked(args, &given, &under_test, header)?;
        say(&format!("going on with run {id}"));
    }
    let loaded = load(root, &given, &known, &under_test, say)?;
    if let Some(header) = &header {
        unchanged(header, &loaded)?;
    }
    let ready = match &header {
        Some(header) => header.ready_kernel.clone(),
        None => ready(args)?,
    };
    let (whole, plan, shard) = match &header {
        Some(header) => {
            let plan = planned(header, &loaded)?;
            (whole_plan(header, &loaded), plan, header.shard.clone())
        }
        None => new_plan(args, results, &loaded)?,
    };
    if let (Some(cut), true) = (&shard, plan.is_empty()) {
        let shard = cut.shard();
        say(&format!(
            "note: shard {shard} has no boot: there are fewer than shards"
        ));
    }
    Ok(Job {
        scenarios: loaded,
        given,
        under_test,
        plan,
        whole,
        header,
        ready,
        id,
        begun,
        shard,
    })
}

/// What a new run is called: `--run` and its shard, or by when it began.
fn id(args: &Args, begun: Begun) -> Result<String> {
    let own = match &args.run {
        Some(name) => name.clone(),
        None => begun.id(),
    };
    Run::name(&own)?;
    Ok(match args.shard {
        Some(shard) => format!("{own}.{}", shard.suffix()),
        None => own,
    })
}

fn asked(args: &Args) -> Vec<String> {
    match args.scenarios[..] {
        [] => DEFAULT_SUITE.iter().map(|s| (*s).to_owned()).collect(),
        _ => args.scenarios.clone(),
    }
}

/// Checks that the run that `--run` names is what the command line asks for.
fn is_what_was_asked(
    args: &Args,
    given: &[String],
    under_test: &UnderTest,
    header: &Header,
) -> Result<()> {
    let given: Vec<_> = given.iter().map(|g| scenarios::absolute(g)).collect();
    let was: Vec<_> = header.scenarios.iter().map(|s| s.given.clone()).collect();
    let differs = [
        ("scenarios", given != was),
        ("clock", args.clock != header.clock),
        ("repeats", args.repeats != header.repeats),
        ("--debug", args.debug != header.debug),
        ("--no-aa", args.no_aa != header.no_aa),
        (
            "kernel, variants or series",
            *under_test != header.under_test,
        ),
        ("ready kernel", ready(args)? != header.ready_kernel),
        ("shard", args.shard != header.shard.as_ref().map(Cut::shard)),
    ];
    header.same(&differs, ": name another with --run")
}

fn load(
    root: &Path,
    given: &[String],
    known: &Known,
    under_test: &UnderTest,
    say: &dyn Fn(&str),
) -> Result<Vec<Scenario>> {
    let mut loaded: Vec<Scenario> = Vec::new();
    for name in given {
        let written = scenarios::load(root, name, known)?;
        let scenario = written.put_under_test(under_test).map_err(Fault::usage)?;
        let left_out = written
            .variants
            .len()
            .saturating_sub(scenario.variants.len());
        if under_test.ready && left_out > 0 {
            say(&format!(
                "note: {left_out} variants of {} have a series and are left out: --kernel boots what is built",
                written.name
            ));
        }
        if loaded.iter().any(|s| s.name == scenario.name) {
            return Err(Fault::usage(format!("scenario {} is named twice", scenario.name)).into());
        }
        loaded.push(scenario);
    }
    Ok(loaded)
}

fn unchanged(header: &Header, loaded: &[Scenario]) -> Result<()> {
    for (scenario, was) in loaded.iter().zip(&header.scenarios) {
        if scenario.hash != was.hash {
            return Err(Fault::usage(format!(
                "scenario {} has changed since run {} began; begin a new run",
                scenario.name, header.id
            ))
            .into());
        }
    }
    Ok(())
}

fn ready(args: &Args) -> Result<ReadyKernel> {
    let Some((image, kbuild)) = args.kernel.as_ref().zip(args.kbuild.as_ref()) else {
        return Ok(None);
    };
    Ok(Some((
        std::path::absolute(image)?,
        std::path::absolute(kbuild)?,
    )))
}

/// The plan of all shards together, that of this one, and which it is.
fn new_plan(
    args: &Args,
    results: &Path,
    loaded: &[Scenario],
) -> Result<(Vec<Trial>, Vec<Trial>, Option<Cut>)> {
    let overrides = Overrides {
        clock: args.clock,
        repeats: args.repeats,
        debug: args.debug,
    };
    let members = loaded.iter().flat_map(|s| s.members());
    let members: Vec<_> = members.cloned().map(Arc::new).collect();
    let plan = whole(&members, overrides, !args.no_aa);
    let Some(shard) = args.shard else {
        return Ok((plan.clone(), plan, None));
    };
    let own = cut(&plan, shard, &times(args, results, loaded)?);
    let Shard { number, of } = shard;
    let boots = own.iter().map(|t| t.id.clone()).collect();
    Ok((plan, own, Some(Cut { number, of, boots })))
}

/// What boots took before: in the run that `--balance` names, else in earlier whole ones.
fn times(args: &Args, results: &Path, loaded: &[Scenario]) -> Result<BTreeMap<String, u64>> {
    let Some(named) = &args.balance else {
        return took(results, loaded);
    };
    let (results, id) = Run::locate(results, named);
    Header::read(&results, &id)?;
    Ok(Run::times(&results.join(id)))
}

/// What the command line puts in place of what scenarios say; the series goes into the
/// cache, so that `--resume` finds it.
fn under_test(args: &Args, known: &Known, cache: &Cache, say: &dyn Fn(&str)) -> Result<UnderTest> {
    if let (Some(kernel), Some(kernels)) = (&args.on, &known.kernels)
        && !kernels.contains(kernel)
    {
        let hint = hint(kernel, kernels.iter().map(String::as_str));
        return Err(Fault::usage(format!("--on: unknown kernel `{kernel}`{hint}")).into());
    }
    let series = match args.series[..] {
        [] => None,
        _ => Some(series::import(cache, &args.series, say)?),
    };
    Ok(UnderTest {
        kernel: args.on.clone(),
        cpus: args.cpus,
        series,
        ready: args.kernel.is_some(),
        variants: args.variant.clone(),
        patches: args.series_prefix,
        only: args.only.clone(),
    })
}

/// The record of a new run.
pub(super) fn header(args: &Args, job: &Job, rig: &Rig, host: &serde_json::Value) -> Header {
    let reference = |(given, s): (&String, &Scenario)| ScenarioRef {
        given: scenarios::absolute(given),
        hash: s.hash.clone(),
    };
    Header {
        schema: SCHEMA,
        id: job.id.clone(),
        begun: job.begun.to_string(),
        command: std::env::args().skip(1).collect(),
        clock: args.clock,
        repeats: args.repeats,
        debug: args.debug,
        no_aa: args.no_aa,
        under_test: job.under_test.clone(),
        scenarios: job
            .given
            .iter()
            .zip(&job.scenarios)
            .map(reference)
            .collect(),
        ready_kernel: job.ready.clone(),
        shard: job.shard.clone(),
        host: host.clone(),
        machine: rig.machine(),
        kernels: rig.records(),
    }
}
