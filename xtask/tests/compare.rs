// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask compare` over run folders and baselines.
#![allow(missing_docs)]

mod support;

use std::{fs, path::Path};

use bootrig::core::{
    machine::{End, RawBoot},
    plan::Trial,
    scenario::{Clock, NodeKind, Order, Scenario},
};
use support::{
    runs::{header, make, said, xtask},
    *,
};

/// 200 devices of 50 ms each, one after another.
fn many() -> Scenario {
    let mut s = scenario();
    s.devices = (0..200)
        .map(|n| device(&format!("nic.{n}"), None, NodeKind::Endpoint, Some("quick")))
        .collect();
    s.variants = vec![variant("serial", Order::Serial)];
    s
}

/// A boot whose `slow` device takes `by` ns longer, and all after it begin later.
fn slower(trial: &Trial, slow: usize, by: u64) -> RawBoot {
    let mut calls = shutdowns(trial, SHUTDOWN);
    let mut shift = 0;
    for (device, begin, locked, end) in &mut calls {
        *begin += shift;
        *locked += shift;
        if *device == slow {
            shift += by;
        }
        *end += shift;
    }
    RawBoot {
        channel: channel(trial, &calls),
        ..good(trial)
    }
}

fn compare(results: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let results = results.to_str().unwrap();
    said(xtask(
        &[&["compare"], args, &["--results", results]].concat(),
    ))
}

#[test]
fn a_millisecond_on_one_device_of_200_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let plan = trials(many(), 2);
    make(results, &header("before"), &plan, &Scripted::good());
    make(results, &header("again"), &plan, &Scripted::good());
    let (code, text, _) = compare(results, &["before", "again"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("0 slower, 0 faster, 0 inconclusive"),
        "{text}"
    );
    for slow in [0, 77, 199] {
        let id = format!("slow{slow}");
        let machine = Scripted::new(move |t, _| Ok(slower(t, slow, MS)));
        make(results, &header(&id), &plan, &machine);
        let (code, json, error) = compare(results, &["before", &id, "--json"]);
        assert_eq!(code, Some(1), "{error}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let slower: Vec<_> = json["rows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|r| r["kind"] == "device" && r["verdict"] != "no_change")
            .map(|r| {
                (
                    r["metric"].as_str().unwrap(),
                    r["verdict"].as_str().unwrap(),
                )
            })
            .collect();
        let metric = format!("device_shutdown/nic.{slow}");
        assert_eq!(slower, [(metric.as_str(), "slower")]);
        // For people it is the first of the devices.
        let (_, text, _) = compare(results, &["before", &id]);
        let devices = text.split("### devices").nth(1).unwrap();
        let first = devices.lines().find(|l| l.contains("/nic.")).unwrap();
        assert!(
            first.contains(&metric) && first.contains("+1.000 ms"),
            "{text}"
        );
        // Faster the other way round, which is no failure.
        assert_eq!(compare(results, &[&id, "before"]).0, Some(0));
    }
    // Two runs of a kind are one side.
    let (code, text, error) = compare(results, &["before", "[ab]*"]);
    assert_eq!(code, Some(0), "{text}{error}");
    let (code, _, error) = compare(results, &["before", "*"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("not deterministic"), "{error}");
}

#[test]
fn a_baseline_is_a_side_and_not_when_it_was_edited() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let plan = trials(scenario(), 1);
    make(results, &header("run"), &plan, &Scripted::good());
    let folder = results.to_str().unwrap();
    let saved = xtask(&["baseline", "save", "run", "--results", folder]);
    assert!(saved.status.success());
    let (code, text, error) = compare(results, &["scripted", "run"]);
    assert_eq!(code, Some(0), "{text}{error}");
    // By its path too, and with another kernel by the same compiler.
    let path = results.join("baselines/scripted");
    let mut other = header("other");
    other.kernels[0].key = "patched".into();
    make(results, &other, &plan, &Scripted::good());
    let (code, text, error) = compare(results, &[path.to_str().unwrap(), "other"]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(
        text.contains("kernel 6.1 was built from other patches"),
        "{text}"
    );
    let samples = path.join("samples.csv");
    let edited = fs::read_to_string(&samples)
        .unwrap()
        .replace("260000000", "250000000");
    fs::write(&samples, edited).unwrap();
    let (code, _, error) = compare(results, &["scripted", "run"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("has checksum") && error.contains("samples.csv"),
        "{error}"
    );
}

#[test]
fn two_variants_of_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let plan = trials(scenario(), 2);
    make(results, &header("run"), &plan, &Scripted::good());
    // A device that waits for a lock in parallel is slower itself, so the exit code is 1.
    let (_, json, error) = compare(results, &["run:serial", "run:parallel", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect(&error);
    let rows = json["rows"].as_array().unwrap();
    let of = |metric: &str| {
        let row = rows.iter().find(|r| r["metric"] == metric).unwrap();
        assert_eq!(row["variant"], "parallel");
        row["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(of("device_shutdown"), "faster");
    assert_eq!(of("boot"), "no_change");
    // The other way around it is a regression; with itself nothing is.
    assert_eq!(compare(results, &["run:parallel", "run:serial"]).0, Some(1));
    let (code, text, _) = compare(results, &["run:serial", "run:serial"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("0 slower, 0 faster, 0 inconclusive"),
        "{text}"
    );
    for (before, after, want) in [
        ("run:serial", "run", "on both sides, or on none"),
        ("run", "run:serial", "on both sides, or on none"),
        ("run:serial", "run:paralel", "did you mean `parallel`?"),
        ("run:serial", "nowhere:serial", "neither a run"),
    ] {
        let (code, _, error) = compare(results, &[before, after]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn bad_sides_are_told_what_is_wrong_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let plan = trials(scenario(), 1);
    make(results, &header("good"), &plan, &Scripted::good());
    // A boot that failed: shown as failed, and of its variant nothing is compared.
    let machine = Scripted::new(|t, _| {
        let mut raw = good(t);
        if t.variant().name == "parallel" {
            raw.end = End::Splat("Kernel panic - not syncing: dead".into());
        }
        Ok(raw)
    });
    make(results, &header("broken"), &plan, &machine);
    let (code, text, error) = compare(results, &["good", "broken"]);
    assert_eq!(code, Some(1), "{text}{error}");
    assert!(
        text.contains("FAILED scripted/parallel: before: completed; after: hang"),
        "{text}"
    );
    assert!(!text.contains("| parallel"), "{text}");
    // A run that holds nothing.
    make(results, &header("empty"), &[], &Scripted::good());
    // One of an older program, with keys of its own.
    make(results, &header("old"), &plan, &Scripted::good());
    let yaml = results.join("old/run.yaml");
    fs::write(&yaml, "schema: 0\nname: old\n").unwrap();
    // One whose summary is older.
    make(results, &header("older"), &plan, &Scripted::good());
    fs::write(results.join("older/summary.json"), "{\"schema\": 0}").unwrap();
    // One that was edited.
    make(results, &header("edited"), &plan, &Scripted::good());
    let csv = results.join("edited/samples.csv");
    fs::write(
        &csv,
        fs::read_to_string(&csv).unwrap().replace("260000000", "1"),
    )
    .unwrap();
    for (name, want) in [
        ("nothing", "is neither a run in"),
        ("no*ne", "no run fits"),
        ("***", "is no pattern"),
        ("empty", "is empty: it has no sample"),
        ("old", "has schema 0; this program reads 1"),
        ("older", "has schema 0, this program reads 1"),
        ("edited", "it was cut or edited"),
    ] {
        for args in [["good", name], [name, "good"]] {
            let (code, text, error) = compare(results, &args);
            assert_eq!(code, Some(2), "{name}: {text}{error}");
            assert!(error.contains(want), "{name}: {error}");
        }
    }
}

#[test]
fn other_machines_and_clocks_are_refused_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let wall = |id: &str, machine: &str| {
        let mut scenario = scenario();
        scenario.clock = Clock::Wall;
        let mut header = header(id);
        header.host["machine"] = machine.into();
        make(results, &header, &trials(scenario, 5), &Scripted::good());
    };
    wall("here", "0123456789abcdef");
    wall("there", "fedcba9876543210");
    make(
        results,
        &header("virtual"),
        &trials(scenario(), 5),
        &Scripted::good(),
    );
    for (other, want) in [
        (
            "there",
            "another machine: 0123456789abcdef (A CPU) against fedcba9876543210",
        ),
        ("virtual", "wall time against virtual time"),
    ] {
        let (code, _, error) = compare(results, &["here", other]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(want) && error.contains("--force"), "{error}");
        let (code, text, _) = compare(results, &["here", other, "--force"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("FORCED") && text.contains(want), "{text}");
    }
}

/// Boots of the same thing by the wall clock, whose noise widens what counts as a change.
#[test]
fn boots_of_the_same_widen_what_counts_and_warn() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let mut s = scenario();
    s.clock = Clock::Wall;
    s.variants.truncate(1);
    let plan = bootrig::core::plan::with_same(trials(s, 6));
    assert_eq!(plan.len(), 1 + 12 + 6);
    // Every other boot of the same takes 40 ms longer: 15 % of noise.
    let machine = |by: u64| {
        Scripted::new(move |t: &Trial, _| {
            let odd = t.id.contains("same") && t.repeat % 2 == 1;
            Ok(slower(
                t,
                0,
                if odd {
                    40 * MS
                } else {
                    by + u64::from(t.repeat)
                },
            ))
        })
    };
    let before = make(results, &header("before"), &plan, &machine(0));
    let noise = before.scenarios[0].noise.as_ref().unwrap();
    assert_eq!((noise.variant.as_str(), noise.boots), ("serial", 12));
    assert!(noise.metrics["device_shutdown"].floor > 0.1, "{noise:?}");
    // What is not measured is no sample.
    assert_eq!(
        before.scenarios[0].variants[0].metrics["boot"]
            .samples
            .len(),
        6
    );
    let csv = fs::read_to_string(results.join("before/samples.csv")).unwrap();
    assert!(!csv.contains("same") && !csv.contains("warm-up"), "{csv}");
    let warned = before.scenarios[0].warnings.iter();
    let warned = warned.map(ToString::to_string).collect::<String>();
    assert!(warned.contains("with so few boots"), "{warned}");
    // +5 % of a metric this noisy is nothing to go by.
    make(results, &header("after"), &plan, &machine(13 * MS));
    let (code, text, error) = compare(results, &["before", "after"]);
    assert_ne!(code, Some(1), "{text}{error}");
    make(results, &header("far"), &plan, &machine(130 * MS));
    let (code, text, _) = compare(results, &["before", "far"]);
    assert_eq!(code, Some(1), "{text}");
}
