// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scripted guest says of its boot of systemd, what becomes of it, and a real boot's
//! record, played again by a program in QEMU's place.
#![allow(missing_docs)]

mod fake_qemu;
mod support;

use std::{fs, path::Path};

use bootrig::{
    core::{
        boot::{Outcome, TrialResult},
        fault::Stopped,
        layout::lay_out,
        machine::{Machine, RawBoot},
        oracle::Rule,
        plan::Trial,
        program::{Finish, files},
        report, samples,
        scenario::{Known, Metric, parse},
        units::Nanos,
    },
    edge::qemu::Limits,
};
use fake_qemu::Fake;
use support::told::{self, first, written};

const SCENARIO: &str = r#"
about: x
kernel: "6.1"
machine: {cpus: 2, memory: 512 MiB}
memory: {blocks: 64, how: synthetic}
walk: {threads: 1, rounds: 1, blocks: 4, paths: existing, do: stat}
variants:
  full: {order: serial, systemd: {default_timeout_start_sec: 2500 ms, limit: 90 s}}
measure: [systemd, walk]
"#;

const MEMORY: &str = "memory blocks=68 size=134217728";
const BOOT: &str =
    "systemd begin=1000 start=2000 target=7000 finish=9000 settled=12000 units=80 broken=0 seen=68";
const WALK: &str =
    "walk threads=1 operations=4 begin=13000 end=14000 p50=1 p99=1 longest=1 wrong=0";

/// What becomes of a boot in which PID 1 and its child wrote these lines.
fn said(lines: &[&str]) -> TrialResult {
    told::told(SCENARIO, lines)
}

fn lost(lines: &[&str]) -> String {
    told::lost(said(lines))
}

#[test]
fn the_guest_is_told_what_to_do_and_systemd_gets_its_limits() {
    let made = |text: &str, finish| {
        let trial = first(text);
        let layout = lay_out(&trial.scenario.devices, &trial.scenario.machine).unwrap();
        files(&trial, &layout, finish)
    };
    let full = made(SCENARIO, Finish::Restart);
    assert_eq!(
        String::from_utf8_lossy(&full["bootrig/plan"]),
        "bootrig-plan 1\nload marks\nload memory_blocks\nload dummy_pci\nflush\nmemory\n\
         systemd limit=90000000000\n\
         walk threads=1 rounds=1 blocks=4 paths=existing do=stat\nstop\n"
    );
    let limits = "etc/systemd/system.conf.d/bootrig.conf";
    assert_eq!(
        String::from_utf8_lossy(&full[limits]),
        "[Manager]\nDefaultTimeoutStartSec=2500000us\nDefaultDeviceTimeoutSec=2500000us\n"
    );
    let getty = "etc/systemd/system/serial-getty@ttyS0.service";
    assert!(!full.contains_key(getty));
    assert!(full.contains_key("usr/lib/udev/rules.d/99-bootrig-seen.rules"));
    assert!(!full.contains_key("usr/lib/udev/rules.d/40-bootrig-forks.rules"));

    // As it comes: no limits of ours. With a console the getty keeps away from it.
    let plain = SCENARIO.replace("{default_timeout_start_sec: 2500 ms, limit: 90 s}", "{}");
    let shell = made(&plain, Finish::Shell);
    assert!(!shell.contains_key(limits));
    assert_eq!(shell[getty], b"");
    let plan = String::from_utf8_lossy(&shell["bootrig/plan"]).into_owned();
    assert!(plan.contains("\nsystemd limit=300000000000\n") && plan.ends_with("\nshell\n"));
}

#[test]
fn a_good_boot_has_times_and_each_unit_is_a_fact() {
    let result = said(&[
        MEMORY,
        BOOT,
        "slow unit=a.service begin=3000 end=5000",
        WALK,
    ]);
    assert_eq!(result.outcome, Outcome::Completed);
    assert_eq!(result.oracle.violations, []);
    assert!(result.oracle.checked > 80 + 68, "{}", result.oracle.checked);
    assert_eq!(result.metric(Metric::Systemd).unwrap().0, Nanos(7000));
    let samples = samples::of(&written(SCENARIO), &result);
    let sample = |name: &str| samples.iter().find(|s| s.metric == name).unwrap().value;
    assert_eq!(sample("systemd"), 7000);
    assert_eq!(sample("systemd/target"), 5000);
    assert_eq!(sample("systemd/settled"), 10000);
    assert_eq!(sample("systemd/units"), 80);
}

#[test]
fn units_that_were_not_started_are_a_violation_that_names_them() {
    let violation = |lines: &[&str]| {
        let result = said(lines);
        assert_eq!(result.outcome, Outcome::Completed);
        let [violation] = &result.oracle.violations[..] else {
            panic!("{:?}", result.oracle.violations)
        };
        (violation.rule, violation.what.clone())
    };
    let three = BOOT.replace("broken=0", "broken=3");
    let device = "broken unit=dev-ttyS0.device result=timeout";
    let getty = "broken unit=serial-getty@ttyS0.service result=dependency";
    assert_eq!(
        violation(&[MEMORY, &three, device, getty, WALK]),
        (
            Rule::SystemdUnits,
            "3 of systemd's units were not started: dev-ttyS0.device (timeout), \
             serial-getty@ttyS0.service (dependency) and 1 more; \
             default_timeout_start_sec is 2.500 s"
                .to_owned()
        )
    );
    let one = BOOT.replace("broken=0", "broken=1");
    let failed = "broken unit=x.service result=failed";
    assert_eq!(
        violation(&[MEMORY, &one, failed, WALK]).1,
        "1 of systemd's units were not started: x.service (failed)"
    );
    let blind = BOOT.replace("seen=68", "seen=60");
    assert_eq!(
        violation(&[MEMORY, &blind, WALK]),
        (
            Rule::ColdplugComplete,
            "68 memory blocks are there, udev's rules saw 60".to_owned()
        )
    );
}

#[test]
fn a_boot_that_does_not_get_there_is_an_outcome_in_words() {
    assert_eq!(
        lost(&[MEMORY, WALK]),
        "the guest did not say how its boot of systemd went"
    );
    let lines = [
        MEMORY,
        "error what=systemd:dev-x.device:timeout errno=0",
        "error what=systemd:multi-user.target:inactive errno=0",
    ];
    assert_eq!(
        lost(&lines),
        "PID 1 gave up; PID 1: systemd:dev-x.device:timeout (errno 0); \
         PID 1: systemd:multi-user.target:inactive (errno 0)"
    );
    assert_eq!(said(&lines).metric(Metric::Systemd), None);
    let late = "error what=systemd:limit:dev-x.device errno=110";
    let late = lost(&[MEMORY, late]);
    let want = "systemd:limit:dev-x.device (errno 110): give `systemd` a longer `limit`";
    assert!(late.ends_with(want), "{late}");
    assert!(lost(&[MEMORY, BOOT, BOOT, WALK]).contains("repeats `systemd`"));
    let hostile = "slow unit=<script>alert(1)</script> begin=1 end=2";
    assert!(lost(&[MEMORY, BOOT, hostile, WALK]).contains("is no unit"));
}

const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/recorded/systemd-boot"
);

/// A program in QEMU's place, which the real code starts and watches, plays what was recorded.
struct Replay;

impl Machine for Replay {
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Stopped> {
        let record = Path::new(RECORDED).join(format!("{}.events", trial.file_stem()));
        let play = format!("cat '{}' >> \"$channel\"; exit 33", record.display());
        Ok(Fake::new(&play).boot(&Limits::within(Nanos(120_000_000_000))))
    }
}

#[test]
fn a_real_boots_record_becomes_a_run_with_its_report() {
    let text = fs::read_to_string(Path::new(RECORDED).join("systemd-boot.yaml")).unwrap();
    let scenario = parse("systemd-boot.yaml", &text, &Known::default());
    let scenario = scenario.unwrap_or_else(|e| panic!("{e}"));
    let dir = tempfile::tempdir().unwrap();
    let header = support::runs::header("replayed");
    let summary = support::runs::bench(dir.path(), header, &scenario, 1, &Replay);
    let variant = |name: &str| {
        let variants = &summary.scenarios[0].variants;
        variants.iter().find(|v| v.name == name).unwrap()
    };
    let good = variant("systemd");
    assert!(good.completed(), "{}", good.outcome_text());
    assert_eq!(good.oracle.violations, [""; 0]);
    let boot = good.systemd.as_ref().unwrap();
    assert_eq!(boot.chain[0].unit, "multi-user.target");
    assert_eq!(boot.slow.len(), 10);
    assert!(good.metrics["reboot/user_space"].median > 0);
    let hurried = variant("hurried");
    let [violation] = &hurried.oracle.violations[..] else {
        panic!("{:?}", hurried.oracle.violations)
    };
    assert!(
        violation.contains("dev-ttyS0.device (timeout)"),
        "{violation}"
    );

    let text = report::text(&summary, &[&scenario]);
    for part in [
        "### systemd\n",
        "udev is done",
        "### slowest units of systemd",
        "### critical chain of multi-user.target",
        "systemd-analyze calls userspace",
        "systemd-logind.service",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let page = fs::read_to_string(dir.path().join("replayed/report.html")).unwrap();
    assert!(page.contains("critical chain of multi-user.target"));
}
