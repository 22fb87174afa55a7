// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series that are wrong on purpose (fixtures/defective-series), and what finds each out.
//!
//! All but one defect of each is as it should be: a thread for each device, which waits for the
//! device's children and consumers.

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

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/defective-series")
}

fn scenario(name: &str) -> PathBuf {
    let path = fixtures().join("scenarios").join(format!("{name}.yaml"));
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

/// The exit code and the summary of `scenarios` with the patches in `series`.
pub fn bench(series: &Path, scenarios: &[PathBuf]) -> (Option<i32>, Summary) {
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
pub fn caught(defect: &str, name: &str) -> (Option<i32>, ScenarioSummary) {
    let series = fixtures().join(defect);
    let (code, mut summary) = bench(&series, &[scenario(name)]);
    assert_eq!(summary.scenarios.len(), 1);
    (code, summary.scenarios.remove(0))
}

/// The oracle says that `rule` is broken, and nothing else is wrong.
pub fn breaks(defect: &str, name: &str, rule: &str) {
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

pub fn hangs(defect: &str, name: &str) {
    let (code, part) = caught(defect, name);
    let tested = part.variants.last().unwrap();
    assert_eq!(code, Some(4), "{}", tested.outcome_text());
    assert!(
        matches!(tested.outcome, Some(Outcome::Hang(_))),
        "{}",
        tested.outcome_text()
    );
}
