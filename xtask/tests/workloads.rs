// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scripted guest says of walks, churns and coldplugs, and what becomes of it.
#![allow(missing_docs)]

mod support;

use bootrig::core::{
    boot::{Outcome, TrialResult},
    layout::lay_out,
    oracle::Rule,
    program::{Finish, files},
    samples,
    scenario::Metric,
    units::Nanos,
};
use support::told::{self, first, written};

const SCENARIO: &str = r#"
about: x
kernel: "6.1"
machine: {cpus: 2, memory: 512 MiB}
memory: {blocks: 64, how: synthetic}
churn: {walkers: 2, blocks: 4, rounds: 5, do: stat}
variants:
  plain: {order: serial, coldplug: {children_max: 3}}
measure: [coldplug, churn]
"#;

const MEMORY: &str = "memory blocks=68 size=134217728";
const COLDPLUG: &str = "coldplug start=1000 begin=1500 triggered=1700 end=4500 events=99 seen=68";
const CHURN: &str =
    "churn walkers=2 changes=40 begin=5000 end=9000 answers=800 certain=700 wrong=0";

/// What becomes of a boot in which PID 1 wrote these lines.
fn said(lines: &[&str]) -> TrialResult {
    told::told(SCENARIO, lines)
}

fn violation(lines: &[&str]) -> (Rule, String) {
    told::violation(said(lines))
}

fn lost(lines: &[&str]) -> String {
    told::lost(said(lines))
}

#[test]
fn the_guest_is_told_what_to_do_and_udev_gets_its_rules() {
    let files = |forking: &str| {
        let text = SCENARIO.replace("children_max: 3", forking);
        let trial = first(&text);
        let layout = lay_out(&trial.scenario.devices, &trial.scenario.machine).unwrap();
        files(&trial, &layout, Finish::Restart)
    };
    let plain = files("children_max: 3");
    assert_eq!(
        String::from_utf8_lossy(&plain["bootrig/plan"]),
        "bootrig-plan 1\nload marks\nload memory_blocks\nload dummy_pci\nflush\nmemory\n\
         coldplug limit=300000000000 children_max=3\n\
         churn walkers=2 blocks=4 rounds=5 do=stat\nstop\n"
    );
    let rules = |files: &std::collections::BTreeMap<String, Vec<u8>>| {
        let rules = files.keys().filter(|f| f.ends_with(".rules")).cloned();
        rules.collect::<Vec<_>>()
    };
    let seen = "usr/lib/udev/rules.d/99-bootrig-seen.rules";
    assert_eq!(rules(&plain), [seen]);
    let forking = files("forking_rule: true, limit: 2 s");
    let fork = "usr/lib/udev/rules.d/40-bootrig-forks.rules";
    assert_eq!(rules(&forking), [fork, seen]);
    assert_eq!(
        String::from_utf8_lossy(&forking[fork])
            .matches("PROGRAM=\"/usr/bin/")
            .count(),
        2
    );
    assert!(
        String::from_utf8_lossy(&forking["bootrig/plan"]).contains("\ncoldplug limit=2000000000\n")
    );
}

#[test]
fn good_work_has_times_and_each_answer_is_a_fact() {
    let result = said(&[MEMORY, COLDPLUG, CHURN]);
    assert_eq!(result.outcome, Outcome::Completed);
    assert_eq!(result.oracle.violations, []);
    assert!(
        result.oracle.checked > 700 + 68,
        "{}",
        result.oracle.checked
    );
    assert_eq!(result.metric(Metric::Coldplug).unwrap().0, Nanos(3000));
    assert_eq!(result.metric(Metric::Churn).unwrap().0, Nanos(4000));
    let samples = samples::of(&written(SCENARIO), &result);
    let sample = |name: &str| samples.iter().find(|s| s.metric == name).unwrap().value;
    assert_eq!(sample("coldplug"), 3000);
    assert_eq!(sample("coldplug/udevd"), 500);
    assert_eq!(sample("coldplug/trigger"), 200);
    assert_eq!(sample("coldplug/settle"), 2800);
    assert_eq!(sample("coldplug/events"), 99);
    assert_eq!(sample("churn/answers"), 800);
}

#[test]
fn a_wrong_answer_is_a_violation() {
    let wrong = CHURN.replace("wrong=0", "wrong=1");
    let (rule, what) = violation(&[MEMORY, COLDPLUG, &wrong]);
    assert_eq!(rule, Rule::ChurnAnswers);
    assert!(
        what.starts_with("1 of 800 answers (700 of them certain) were wrong"),
        "{what}"
    );
    let blind = CHURN.replace("certain=700", "certain=0");
    assert!(
        violation(&[MEMORY, COLDPLUG, &blind])
            .1
            .starts_with("of no answer")
    );
    let fewer = CHURN.replace("changes=40", "changes=39");
    assert_eq!(
        violation(&[MEMORY, COLDPLUG, &fewer]).1,
        "40 changes were to be made, 39 were"
    );
}

#[test]
fn a_block_that_udev_has_not_seen_is_a_violation() {
    let missed = COLDPLUG.replace("seen=68", "seen=67");
    let (rule, what) = violation(&[MEMORY, &missed, CHURN]);
    assert_eq!(rule, Rule::ColdplugComplete);
    assert_eq!(what, "68 memory blocks are there, udev's rules saw 67");
}

#[test]
fn what_is_missing_or_runs_backwards_is_lost() {
    assert_eq!(
        lost(&[MEMORY, CHURN]),
        "the guest did not say how its coldplug went"
    );
    assert_eq!(
        lost(&[MEMORY, COLDPLUG]),
        "the guest did not say how its churn went"
    );
    let backwards = COLDPLUG.replace("triggered=1700", "triggered=1400");
    assert!(lost(&[MEMORY, &backwards, CHURN]).contains("coldplug that runs backwards"));
    assert!(lost(&[MEMORY, COLDPLUG, COLDPLUG, CHURN]).contains("repeats `coldplug`"));
    let cut = CHURN.replace(" wrong=0", "");
    assert!(lost(&[MEMORY, COLDPLUG, &cut]).contains("lacks wrong="));
}

#[test]
fn a_settle_that_times_out_is_no_number() {
    let lines = [MEMORY, "error what=coldplug:settle:status:1 errno=0"];
    let why = lost(&lines);
    assert_eq!(
        why,
        "PID 1 gave up; PID 1: coldplug:settle:status:1 (errno 0)"
    );
    assert_eq!(said(&lines).metric(Metric::Coldplug), None);
}
