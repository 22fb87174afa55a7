// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask export`: each form, as its readers see it.
#![allow(missing_docs)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bootrig::core::machine::{End, RawBoot};
use serde_json::{Value, json};
use support::{
    runs::{header, make, night, said, xtask},
    *,
};

/// A run whose `serial` completed twice and whose `parallel` hung.
fn run(results: &Path) {
    let machine = Scripted::new(|trial, _| {
        let mut raw = good(trial);
        if trial.variant().name == "parallel" {
            raw.end = End::Splat("Kernel panic <&\"'> \u{1b}[31m, \"dead\"".into());
        }
        Ok(raw)
    });
    make(results, &header("run"), &trials(scenario(), 2), &machine);
}

fn export(results: &Path, format: &str) -> String {
    exported(results, "run", format)
}

fn exported(results: &Path, run: &str, format: &str) -> String {
    let results = results.to_str().unwrap();
    let args = ["export", run, "--format", format, "--results", results];
    let (code, text, error) = said(xtask(&args));
    assert_eq!(code, Some(0), "{format}: {error}");
    text
}

/// A variant that the kernel has no means for is skipped, not failed, and a run with it is
/// whole: its samples are checked, and it can be compared.
#[test]
fn what_is_not_available_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let machine = Scripted::new(|trial, _| {
        Ok(match trial.variant().name.as_str() {
            "parallel" => RawBoot {
                end: End::NotAvailable("it takes a newer one".into()),
                ..RawBoot::default()
            },
            _ => good(trial),
        })
    });
    make(dir.path(), &header("run"), &trials(scenario(), 2), &machine);
    let junit = export(dir.path(), "junit");
    assert!(junit.contains("it takes a newer one"), "{junit}");
    assert!(!junit.contains("<failure"), "{junit}");
    let kcidb = export(dir.path(), "kcidb");
    assert!(
        kcidb.contains("\"SKIP\"") || kcidb.contains("\"tests\":[]"),
        "{kcidb}"
    );
    assert!(!kcidb.contains("\"FAIL\""), "{kcidb}");
    let prometheus = export(dir.path(), "prometheus");
    assert!(
        !prometheus.contains("variant=\"parallel\"} 0"),
        "{prometheus}"
    );
    let results = dir.path().to_str().unwrap();
    let args = ["compare", "run", "run", "--results", results];
    let (code, text, error) = said(xtask(&args));
    assert_eq!(code, Some(0), "{text}{error}");
    let csv = dir.path().join("run/samples.csv");
    let edited = std::fs::read_to_string(&csv)
        .unwrap()
        .replacen("boot", "toob", 1);
    std::fs::write(&csv, edited).unwrap();
    let args = ["export", "run", "--format", "csv", "--results", results];
    let (code, _, error) = said(xtask(&args));
    assert_eq!(code, Some(2), "{error}");
}

/// The JSON that hyperfine's own scripts read: they index `results`, `command`, `times` and
/// the statistics.
#[test]
fn hyperfine_s_scripts_find_what_they_index() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let json: Value = serde_json::from_str(&export(dir.path(), "hyperfine")).unwrap();
    let results = json["results"].as_array().unwrap();
    let of = |name: &str| {
        let mut all = results.iter();
        all.find(|r| r["command"] == name).cloned()
    };
    let shutdown = of("scripted/serial/device_shutdown").unwrap();
    assert_eq!(shutdown["times"], json!([0.26, 0.26]));
    for field in ["mean", "median", "min", "max"] {
        assert_eq!(shutdown[field], 0.26, "{field}");
    }
    assert_eq!(shutdown["stddev"], 0.0);
    assert_eq!(shutdown["exit_codes"], json!([0, 0]));
    // What failed is no number.
    assert!(
        results
            .iter()
            .all(|r| !r["command"].as_str().unwrap().contains("parallel"))
    );
}

/// customSmallerIsBetter wants name, unit and value; range and extra are texts. Bencher wants
/// numbers by benchmark and measure.
#[test]
fn benchmark_trackers_find_what_they_read() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let json: Value = serde_json::from_str(&export(dir.path(), "github-action-benchmark")).unwrap();
    let entries = json.as_array().unwrap();
    for entry in entries {
        let keys: Vec<_> = entry.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["extra", "name", "range", "unit", "value"]);
        assert!(entry["value"].is_number() && entry["range"].is_string());
    }
    let boot = entries
        .iter()
        .find(|e| e["name"] == "scripted/serial/boot")
        .unwrap();
    assert_eq!(
        (&boot["value"], &boot["unit"]),
        (&json!(280.0), &json!("ms"))
    );
    let json: Value = serde_json::from_str(&export(dir.path(), "bencher")).unwrap();
    assert_eq!(
        json["scripted/serial/boot"]["latency"],
        json!({"value": 280_000_000, "lower_value": 280e6, "upper_value": 280e6})
    );
    assert!(json.get("scripted/parallel/boot").is_none());
}

/// A file is there whole or not at all, and a place that cannot be written is named.
#[test]
fn files_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().to_str().unwrap();
    run(dir.path());
    let out = dir.path().join("out.csv");
    let write = |out: &Path| {
        let out = out.to_str().unwrap();
        said(xtask(&[
            "export",
            "run",
            "--format",
            "csv",
            "--out",
            out,
            "--results",
            results,
        ]))
    };
    assert_eq!(write(&out).0, Some(0));
    assert_eq!(fs::read_to_string(&out).unwrap(), export(dir.path(), "csv"));
    let (code, _, error) = write(&dir.path().join("none/out.csv"));
    assert!(code == Some(2) && error.contains("none/out.csv"), "{error}");
}

/// The readers.
fn readers() -> PathBuf {
    support::python::venv("readers", "requirements.txt")
}

/// hyperfine's own scripts, which its crate brings along; cargo fetches it. The crate is a
/// program, of which cargo's metadata says nothing: so it is looked for where cargo unpacks it.
fn hyperfine_scripts() -> PathBuf {
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hyperfine");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("lib.rs"), "").unwrap();
    let manifest = "[package]\nname = \"readers\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
        [lib]\npath = \"lib.rs\"\n[dependencies]\nhyperfine = \"=1.20.0\"\n[workspace]\n";
    fs::write(project.join("Cargo.toml"), manifest).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["fetch", "--quiet", "--manifest-path"])
        .arg(project.join("Cargo.toml"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hyperfine cannot be had: {error}");
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cargo"));
    let unpacked = home.join("registry/src/*/hyperfine-1.20.0/scripts");
    let mut found = glob::glob(unpacked.to_str().unwrap()).unwrap();
    found.next().expect("cargo unpacked it").unwrap()
}

/// Apache Otava finds in the CSV of many runs the change that `trend` finds in the runs.
#[test]
#[ignore = "installs readers from PyPI"]
fn otava_finds_the_change_that_trend_finds() {
    let dir = tempfile::tempdir().unwrap();
    let exports = tempfile::tempdir().unwrap();
    for number in 0..24 {
        let slow = u64::from(number >= 13);
        // No two nights are quite the same.
        let more = slow * 10 * MS + u64::from(number * 7 % 5) * 100_000;
        let commit = if slow > 0 { "fedcba" } else { "abcdef" };
        night(dir.path(), number, commit, more);
        let run = format!("night{number:02}");
        let csv = exported(dir.path(), &run, "csv");
        fs::write(exports.path().join(run), csv).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/otava_changes.py");
    let output = Command::new(readers())
        .arg(script)
        .arg(exports.path())
        .args(["parallel", "device_shutdown"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found, json!(["night13"]));
    let results = dir.path().to_str().unwrap();
    let (_, text, error) = said(xtask(&["trend", results, "--json"]));
    let ours: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {error}"));
    let ours = ours["changes"].as_array().unwrap().iter();
    let ours: Vec<_> = ours
        .filter(|c| c["variant"] == "parallel" && c["metric"] == "device_shutdown")
        .map(|c| c["first_after"]["id"].clone())
        .collect();
    assert_eq!(Value::from(ours), found);
}

#[test]
#[ignore = "installs readers from PyPI"]
fn exports_are_read_by_their_readers() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let exports = tempfile::tempdir().unwrap();
    for format in ["junit", "kcidb", "csv", "prometheus", "hyperfine"] {
        fs::write(exports.path().join(format), export(dir.path(), format)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/readers.py");
    let output = Command::new(readers())
        .arg(script)
        .arg(exports.path())
        .arg(hyperfine_scripts())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // hyperfine's own script computes its statistics of the samples.
    let hyperfine = &found["hyperfine"]["scripted/serial/device_shutdown"];
    assert_eq!(
        hyperfine,
        &json!({
            "runs": "2", "mean": "0.260 s", "stddev": "0.000 s", "median": "0.260 s",
            "min": "0.260 s", "max": "0.260 s",
        })
    );
    let commands = found["hyperfine"].as_object().unwrap();
    assert!(commands.keys().all(|c| c.starts_with("scripted/serial/")));
    // Boots and oracle of two variants; one of them hung, and its oracle never looked.
    assert_eq!(
        found["junit"],
        json!({
            "tests": 4, "failures": 1, "errors": 0,
            "failed": ["scripted/scripted.boots/parallel"],
        })
    );
    let kcidb = &found["kcidb"];
    assert_eq!(kcidb["bootrig.scripted.serial"], "PASS");
    assert_eq!(kcidb["bootrig.scripted.parallel"], "FAIL");
    assert_eq!(kcidb["bootrig.scripted.serial.device_shutdown"], 0.26);
    assert_eq!(kcidb["bootrig.scripted.serial.reboot.firmware"], 0.01);
    let rows = found["csv"].as_array().unwrap();
    let row = |variant: &str, metric: &str| {
        let mut all = rows.iter();
        all.find(|r| r["variant"] == variant && r["metric"] == metric)
            .cloned()
            .unwrap()
    };
    assert_eq!(row("serial", "device_shutdown")["median"], "260000000");
    assert_eq!(row("serial", "device_shutdown")["samples"], "2");
    let failed = row("parallel", "");
    assert_eq!(failed["median"], "");
    assert!(
        failed["outcome"].as_str().unwrap().contains("\"dead\""),
        "{failed}"
    );
    let prometheus = &found["prometheus"];
    assert_eq!(
        prometheus["bootrig_seconds/scripted/serial/device_shutdown/virtual"],
        0.26
    );
    assert_eq!(
        prometheus["bootrig_ideal_seconds/scripted/serial/device_shutdown/virtual"],
        0.26
    );
    assert_eq!(prometheus["bootrig_completed/scripted/parallel"], 0.0);
    assert!(
        prometheus
            .get("bootrig_seconds/scripted/parallel/boot/virtual")
            .is_none()
    );
}
