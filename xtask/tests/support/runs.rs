// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run folders as `bench` leaves them, of scripted boots.

use std::{num::NonZeroUsize, path::Path, process::Output};

use bootrig::{
    core::{
        boot::TrialResult,
        machine::{Machine, RawBoot},
        measure::{Options, Sink, measure},
        plan::{KernelSpec, Trial},
        scenario::Scenario,
        summary::{self, Summary},
        trace::{
            record::Record,
            tally::{Function, Profile},
        },
    },
    edge::store::{Header, KernelRecord, MachineRecord, Run, SCHEMA, ScenarioRef},
    rig::{draw, history::history, traces::keep, tracing::Seen},
};

use super::{SHUTDOWN, Scripted, channel, good, scenario, shutdowns, trials};

/// The header of a run of kernel 6.1.
pub fn header(id: &str) -> Header {
    Header {
        schema: SCHEMA,
        id: id.into(),
        begun: "2026-01-01T00:00:00Z".into(),
        command: vec!["bench".into()],
        clock: None,
        repeats: None,
        debug: false,
        no_aa: false,
        under_test: Default::default(),
        scenarios: vec![],
        ready_kernel: None,
        shard: None,
        host: serde_json::json!({"machine": "0123456789abcdef", "cpu": "A CPU"}),
        machine: MachineRecord {
            qemu: "10.0.2".into(),
            command: 1,
            accelerator: "KVM".into(),
            init: "init".into(),
            images: vec![],
            notes: vec![],
        },
        kernels: vec![KernelRecord {
            spec: KernelSpec {
                source: "6.1".into(),
                ..KernelSpec::default()
            },
            key: "kernel".into(),
            source: "linux 6.1.1".into(),
            release: "6.1.1".into(),
            compiler: "gcc 12".into(),
            modules: "modules".into(),
            image: String::new(),
        }],
    }
}

struct Keep(Run);

impl Sink for Keep {
    fn started(&mut self, _: &Trial) {}
    fn again(&mut self, _: &Trial, _: &str) {}
    fn finished(&mut self, t: &Trial, raw: &RawBoot, result: &TrialResult) -> anyhow::Result<()> {
        self.0.store(t, raw, result)
    }
}

/// Makes the run folder of `plan` on `machine`.
pub fn make(results: &Path, header: &Header, plan: &[Trial], machine: &dyn Machine) -> Summary {
    fill(Run::create(results, header).unwrap(), header, plan, machine)
}

/// The same, with `scenario` kept in it.
pub fn make_keeping(
    results: &Path,
    header: &Header,
    scenario: &Scenario,
    plan: &[Trial],
    machine: &dyn Machine,
) -> Summary {
    let run = Run::create(results, header).unwrap();
    run.keep_scenarios([scenario]).unwrap();
    fill(run, header, plan, machine)
}

fn fill(run: Run, header: &Header, plan: &[Trial], machine: &dyn Machine) -> Summary {
    let mut keep = Keep(run);
    let options = Options {
        jobs: NonZeroUsize::MIN,
        keep_going: true,
        retries: 0,
    };
    measure(plan, machine, options, &mut keep).unwrap();
    let summary = summary::summarise(
        &header.id,
        header.host.clone(),
        vec![],
        plan,
        &keep.0.results,
    );
    keep.0.finish(&summary).unwrap();
    summary
}

/// Makes the run folder of `scenario` on `machine` with all that `bench` leaves in it.
pub fn bench(
    results: &Path,
    mut header: Header,
    scenario: &Scenario,
    repeats: u32,
    machine: &dyn Machine,
) -> Summary {
    header.scenarios = vec![ScenarioRef {
        given: format!("{}.yaml", scenario.name),
        hash: scenario.hash.clone(),
    }];
    header.repeats = Some(repeats);
    let mut keep = Keep(Run::create(results, &header).unwrap());
    keep.0.keep_scenarios([scenario]).unwrap();
    let plan = trials(scenario.clone(), repeats);
    let options = Options {
        jobs: NonZeroUsize::MIN,
        keep_going: true,
        retries: 0,
    };
    measure(&plan, machine, options, &mut keep).unwrap();
    let (host, made) = (header.host.clone(), &keep.0.results);
    let summary = summary::summarise(&header.id, host, vec![], &plan, made);
    let mut run = keep.0;
    run.finish(&summary).unwrap();
    let others = history(results, &header, &summary, &[]).unwrap();
    draw(run.dir(), &header, &summary, &plan, &run.results, others).unwrap();
    summary
}

/// A night's run of kernel `commit`: the parallel variant's bridge takes `more` ns longer.
pub fn night(results: &Path, number: u32, commit: &str, more: u64) {
    let mut header = header(&format!("night{number:02}"));
    header.begun = format!("2026-01-{:02}T03:00:00Z", number + 1);
    header.kernels[0].source = format!("linux {commit}");
    header.kernels[0].key = commit.into();
    let machine = Scripted::new(move |trial, _| {
        let mut calls = shutdowns(trial, SHUTDOWN);
        if trial.variant().name == "parallel" {
            let bridge = calls.iter_mut().filter(|c| c.0 == 0);
            bridge.for_each(|c| c.3 += more);
        }
        Ok(RawBoot {
            channel: channel(trial, &calls),
            ..good(trial)
        })
    });
    make(results, &header, &trials(scenario(), 1), &machine);
}

/// A profile of device_shutdown of `boot`, and its stacks: half of it in `function`.
pub fn traced(results: &Path, run: &str, boot: &str, function: &str) {
    let named = |own, with_callees| Function {
        own,
        with_callees,
        calls: 1,
    };
    let profile = Profile {
        window: "device_shutdown".into(),
        length: 4000,
        ns_per_instruction: 2,
        tasks: 900,
        interrupts: 100,
        idle: 2000,
        functions: [
            ("device_shutdown".to_owned(), named(400, 900)),
            (function.to_owned(), named(500, 500)),
            ("tick".to_owned(), named(100, 100)),
        ]
        .into(),
        ..Profile::default()
    };
    let folded = format!(
        "[tasks];device_shutdown 400\n[tasks];device_shutdown;{function} 500\n[interrupts];tick 100\n"
    );
    let seen = Seen {
        record: Record {
            schema: bootrig::core::trace::record::SCHEMA,
            boot: boot.into(),
            point: None,
            kernel: "6.1".into(),
            qemu: "10.0.2".into(),
            stacks: true,
            complete: true,
            windows: vec![profile],
            marks: vec![],
        },
        folded: vec![("device_shutdown".into(), folded)],
        notes: vec![],
    };
    keep(&seen, &results.join(run)).unwrap();
}

/// `cargo xtask` with these arguments.
pub fn xtask(args: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(args)
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap()
}

/// Exit code, standard output, standard error.
pub fn said(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}
