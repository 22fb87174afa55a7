// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run folders as `bench` leaves them, of scripted boots.

use std::{num::NonZeroUsize, path::Path, process::Output};

use bootrig::{
    core::{
        boot::TrialResult,
        machine::{Machine, RawBoot},
        measure::{Options, Sink, measure},
        plan::{KernelSpec, Trial},
        summary::{self, Summary},
    },
    edge::store::{Header, KernelRecord, MachineRecord, Run, SCHEMA},
};

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
        under_test: Default::default(),
        scenarios: vec![],
        ready_kernel: None,
        host: serde_json::json!({"machine": "0123456789abcdef", "cpu": "A CPU"}),
        machine: MachineRecord {
            qemu: "10.0.2".into(),
            command: 1,
            accelerator: "KVM".into(),
            init: "init".into(),
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
    let mut keep = Keep(Run::create(results, header).unwrap());
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
