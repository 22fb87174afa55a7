// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series that are wrong on purpose, and what finds each out. Run by `cargo xtask test`.
//!
//! They are in fixtures/defective-series. All but one defect of each is as it should be: a
//! thread for each device, which waits for the device's children and consumers. What our
//! own series does in the same scenarios is the last test's.
#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bootrig::core::{
    boot::Outcome,
    summary::{ScenarioSummary, Summary},
};

const REAL: &str = env!("CARGO_BIN_EXE_xtask");

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/defective-series")
}

fn scenario(name: &str) -> PathBuf {
    let path = fixtures().join("scenarios").join(format!("{name}.yaml"));
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

/// The exit code and the summary of `scenarios` with the patches in `series`.
fn bench(series: &Path, scenarios: &[PathBuf]) -> (Option<i32>, Summary) {
    let results = tempfile::tempdir().unwrap();
    let tmp = results.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let out = Command::new(REAL)
        .arg("bench")
        .args(scenarios)
        .arg("--series")
        .arg(series)
        .args(["--on", "6.1", "--json", "--keep-going", "--results"])
        .arg(results.path())
        .env("TMPDIR", tmp)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let summary = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}; {}\n{said}", out.status));
    (out.status.code(), summary)
}

/// The one scenario `name` with the defective series `defect`.
fn caught(defect: &str, name: &str) -> (Option<i32>, ScenarioSummary) {
    let series = fixtures().join(defect);
    let (code, mut summary) = bench(&series, &[scenario(name)]);
    assert_eq!(summary.scenarios.len(), 1);
    (code, summary.scenarios.remove(0))
}

/// The oracle says that `rule` is broken, and nothing else is wrong.
fn breaks(defect: &str, name: &str, rule: &str) {
    let (code, part) = caught(defect, name);
    let tested = part.variants.last().unwrap();
    let violations = &tested.oracle.violations;
    assert_eq!(code, Some(1), "{}: {violations:?}", tested.outcome_text());
    assert!(tested.completed(), "{}", tested.outcome_text());
    assert!(!violations.is_empty());
    let begin = format!("{name}/tested/0: {rule}: ");
    assert!(
        violations.iter().all(|v| v.starts_with(&begin)),
        "{violations:?}"
    );
    assert!(part.expectations.iter().all(|e| e.ok == Some(true)));
}

fn hangs(defect: &str, name: &str) {
    let (code, part) = caught(defect, name);
    let tested = part.variants.last().unwrap();
    assert_eq!(code, Some(4), "{}", tested.outcome_text());
    assert!(
        matches!(tested.outcome, Some(Outcome::Hang(_))),
        "{}",
        tested.outcome_text()
    );
}

#[test]
#[ignore = "real boot"]
fn ignored_thread_failure_hangs() {
    hangs("ignored-thread-failure", "no-threads");
    hangs("ignored-thread-failure", "killed");
}

#[test]
#[ignore = "real boot"]
fn racy_counter_hangs() {
    hangs("racy-counter", "siblings");
}

#[test]
#[ignore = "real boot"]
fn children_by_index_miss_the_expectation() {
    let (code, part) = caught("children-by-index", "many-idle");
    assert_eq!(code, Some(1));
    for variant in &part.variants {
        assert!(variant.completed(), "{}", variant.outcome_text());
        assert!(variant.oracle.violations.is_empty());
    }
    let missed: Vec<_> = part.expectations.iter().map(|e| (&*e.what, e.ok)).collect();
    assert_eq!(missed, [("tested.device_shutdown", Some(false))]);
    // Not by a little, as a series without the defect could by its threads.
    let time = |i: usize| part.variants[i].metrics["device_shutdown"].median;
    assert!(time(1) > 5 * time(0), "{} and {}", time(1), time(0));
}

#[test]
#[ignore = "real boot"]
fn links_ignored_break_consumers_first() {
    breaks("links-ignored", "ordering-links", "consumers first");
}

#[test]
#[ignore = "real boot"]
fn parent_before_children_breaks_children_first() {
    breaks(
        "parent-before-children",
        "bridge-of-its-own",
        "children first",
    );
}

#[test]
#[ignore = "real boot"]
fn shutdown_twice_breaks_shut_down_once() {
    breaks("shutdown-twice", "siblings", "shut down once");
}

#[test]
#[ignore = "real boot"]
fn skips_devices_breaks_shut_down_once() {
    breaks("skips-devices", "no-threads", "shut down once");
}

#[test]
#[ignore = "real boot"]
fn unbounded_threads_break_tasks_bounded() {
    breaks("unbounded-threads", "hundreds", "tasks bounded");
}

#[test]
#[ignore = "real boot"]
fn dead_device_is_found_in_freed_memory() {
    let (code, part) = caught("dead-device", "removed-card");
    let outcome = part.variants[0].outcome_text();
    assert_eq!(code, Some(4), "{outcome}");
    // What freed memory is overwritten with.
    assert!(
        outcome.starts_with("panic: ") && outcome.contains("0x6b6b6b6b"),
        "{outcome}"
    );
}

/// Ours, in every scenario that a defective one fails.
#[test]
#[ignore = "real boot"]
fn our_series_passes_where_the_defective_fail() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let series = root.join("images/kernels/patches/parallel-shutdown/6.1");
    let entries = fs::read_dir(fixtures().join("scenarios")).unwrap();
    let mut scenarios: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    scenarios.sort();
    let (code, summary) = bench(&series, &scenarios);
    for part in &summary.scenarios {
        for variant in &part.variants {
            let violations = &variant.oracle.violations;
            assert!(
                variant.completed() && violations.is_empty() && variant.oracle.checked > 0,
                "{}/{}: {}, {violations:?}",
                part.name,
                variant.name,
                variant.outcome_text()
            );
        }
        assert!(
            part.expectations.iter().all(|e| e.ok == Some(true)),
            "{}: {:?}",
            part.name,
            part.expectations
        );
    }
    assert_eq!(summary.scenarios.len(), scenarios.len());
    assert_eq!(code, Some(0));
}
