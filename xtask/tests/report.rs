// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask report` over run folders: good ones, old ones, and those that are not as they
//! were.
#![allow(missing_docs)]

mod support;

use std::{fs, path::Path};

use bootrig::{
    core::{
        machine::{End, RawBoot},
        scenario::{Known, Scenario, parse},
    },
    edge::store::{Header, Run},
};
use support::{
    runs::{bench, header, said, traced, xtask},
    *,
};

const WRITTEN: &str = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 256 MiB}\n\
    profiles:\n  nic: {id: \"8086:1528\", about: a, source: s, probe: [{wait: 1 ms}], shutdown: [{wait: 10 ms}]}\n\
    devices: [{name: nic, profile: nic, count: 3}]\n\
    variants: {serial: {order: serial}, parallel: {order: parallel}}\n\
    measure: [boot, probe, device_shutdown]\n";

fn written() -> Scenario {
    parse("written.yaml", WRITTEN, &Known::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn report(results: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let results = results.to_str().unwrap();
    said(xtask(
        &[&["report"], args, &["--results", results]].concat(),
    ))
}

fn page(results: &Path, run: &str) -> String {
    fs::read_to_string(results.join(run).join("report.html")).unwrap()
}

/// A night's run, whose `parallel` takes `more` ms longer.
fn night(results: &Path, number: u32, more: u64) {
    let mut header = header(&format!("night{number:02}"));
    header.begun = format!("2026-01-{:02}T03:00:00Z", number + 1);
    let commit = if more > 0 { "fedcba" } else { "abcdef" };
    header.kernels[0].source = format!("linux {commit}");
    header.kernels[0].key = commit.into();
    let machine = Scripted::new(move |trial, _| {
        let mut calls = shutdowns(trial, SHUTDOWN);
        if trial.variant().name == "parallel" {
            calls.iter_mut().for_each(|c| c.3 += more * MS);
        }
        Ok(RawBoot {
            channel: channel(trial, &calls),
            ..good(trial)
        })
    });
    bench(results, header, &written(), 1, &machine);
}

#[test]
fn a_kept_run_is_drawn_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    bench(dir.path(), header("run"), &written(), 2, &Scripted::good());
    let run = dir.path().join("run");
    let pictures = ["report.html", "trace.json"].map(|name| run.join(name));
    let drawn = pictures.clone().map(|path| fs::read(path).unwrap());
    for named in ["run", run.to_str().unwrap()] {
        pictures
            .iter()
            .for_each(|path| fs::remove_file(path).unwrap());
        let (code, text, error) = report(dir.path(), &[named]);
        assert_eq!(code, Some(0), "{error}");
        let want = pictures.clone().map(|path| format!("{}\n", path.display()));
        assert_eq!(text, want.concat());
        for (path, drawn) in pictures.iter().zip(&drawn) {
            assert!(fs::read(path).unwrap() == *drawn, "{}", path.display());
        }
    }
    // Alone it has no trend, and nothing of it was traced.
    let page = page(dir.path(), "run");
    assert!(!page.contains("Trend") && !page.contains("kernel's profile"));
    assert!(page.contains("Critical path of probe"));
}

/// Another machine's folder, at another place, below which its scenario's file never was.
#[test]
fn a_run_of_another_machine_is_drawn_from_what_it_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut elsewhere = header("theirs");
    elsewhere.host["cpu"] = "Another CPU".into();
    bench(dir.path(), elsewhere, &written(), 1, &Scripted::good());
    let moved = tempfile::tempdir().unwrap();
    fs::rename(dir.path(), moved.path()).unwrap();
    let (code, _, error) = report(moved.path(), &["theirs"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(page(moved.path(), "theirs").contains("Another CPU"));
}

#[test]
fn what_failed_is_told_and_never_averaged() {
    let dir = tempfile::tempdir().unwrap();
    // One of three boots of one variant.
    let machine = Scripted::new(|trial, _| {
        let mut raw = good(trial);
        if trial.variant().name == "parallel" && trial.repeat == 1 {
            raw.end = End::Splat("Kernel panic - not syncing: out of luck".into());
        }
        Ok(raw)
    });
    bench(dir.path(), header("broken"), &written(), 3, &machine);
    assert_eq!(report(dir.path(), &["broken"]).0, Some(0));
    let page = page(dir.path(), "broken");
    assert!(page.contains("1 of 2 variants failed or incomplete") && page.contains("out of luck"));
    // Nothing was measured yet.
    let mut empty = header("empty");
    empty.scenarios = vec![bootrig::edge::store::ScenarioRef {
        given: "written.yaml".into(),
        hash: written().hash,
    }];
    let run = Run::create(dir.path(), &empty).unwrap();
    run.keep_scenarios([&written()]).unwrap();
    drop(run);
    let (code, _, error) = report(dir.path(), &["empty"]);
    assert_eq!(code, Some(0), "{error}");
    let page = self::page(dir.path(), "empty");
    assert!(page.contains("2 of 2 variants failed or incomplete") && page.contains("not run"));
}

#[test]
fn what_cannot_be_drawn_is_named_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let made = |id: &str| {
        bench(results, header(id), &written(), 1, &Scripted::good());
        results.join(id)
    };
    fs::write(made("old").join("run.yaml"), "schema: 0\nname: old\n").unwrap();
    let damaged = made("damaged");
    let trials = fs::read_dir(damaged.join("trials")).unwrap();
    let trial = trials.map(|e| e.unwrap().path()).min().unwrap();
    fs::write(&trial, "{").unwrap();
    let renamed = results.join("renamed");
    fs::rename(made("named"), &renamed).unwrap();
    // Without its scenarios, which no file of the checkout is.
    fs::remove_dir_all(made("forgot").join("scenarios")).unwrap();
    let edited = made("edited").join("scenarios/written.yaml");
    let other = fs::read_to_string(&edited)
        .unwrap()
        .replace("10 ms", "11 ms");
    fs::write(&edited, other).unwrap();
    for (run, want) in [
        ("nothing", "there is no run `nothing`"),
        ("old", "has schema 0; this program reads 1: begin a new run"),
        ("damaged", "delete it to make the trial again"),
        ("renamed", "is of run named: give the folder its name back"),
        ("forgot", "written.yaml"),
        ("edited", "written.yaml"),
    ] {
        let (code, text, error) = report(results, &[run]);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{run}: {error}");
        assert!(error.contains(want), "{run}: {error}");
    }
}

#[test]
fn earlier_runs_are_its_trend() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..14 {
        night(dir.path(), number, if number < 7 { 0 } else { 2 });
    }
    // Of another scenario, and one that is cut: neither hides the others.
    let mut other = written();
    other.hash = "f".repeat(64);
    let mut else_ = header("night00b");
    else_.begun = "2026-01-01T04:00:00Z".into();
    bench(dir.path(), else_, &other, 1, &Scripted::good());
    fs::write(dir.path().join("night02/summary.json"), "{").unwrap();
    let drawn = |args: &[&str]| {
        let (code, _, error) = report(dir.path(), args);
        assert_eq!(code, Some(0), "{error}");
        page(dir.path(), args[0])
    };
    let last = drawn(&["night13"]);
    for want in [
        "Over 13 runs of this scenario.",
        "Changes that stayed",
        "night06 (linux abcdef)",
        "night07 (linux fedcba)",
        "; parallel is slower from run night07 on",
        "boot: trend",
        "Each variant has the same value in all 13 runs, to the nanosecond.",
        "night02/summary.json",
    ] {
        assert!(last.contains(want), "{want}");
    }
    // A ring for the one change of the one metric, besides a point for each value.
    let plot = &last[last.find("device_shutdown: trend").unwrap()..];
    let plot = &plot[..plot.find("</svg>").unwrap()];
    assert_eq!(plot.matches("<circle").count(), 2 * 13 + 1, "{plot}");
    // Later runs are none of an earlier one's past, unless they are named.
    let early = drawn(&["night05"]);
    assert!(early.contains("Over 5 runs") && early.contains("can be told from 11 runs on"));
    assert!(!early.contains("night07"));
    let named = drawn(&["night05", "--trend", "night0[3-9]", "night1*"]);
    assert!(named.contains("Over 11 runs") && named.contains("night07 (linux fedcba)"));
    let (code, _, error) = report(dir.path(), &["night05", "--trend", "***"]);
    assert!(
        code == Some(2) && error.contains("is no pattern"),
        "{error}"
    );
}

#[test]
fn what_was_traced_is_drawn_and_what_is_damaged_left_out() {
    let dir = tempfile::tempdir().unwrap();
    bench(dir.path(), header("run"), &written(), 1, &Scripted::good());
    let hostile = "</text><script>alert(1)</script>";
    traced(
        dir.path(),
        "run",
        "written/serial",
        "nic_shutdown [dummy_pci]",
    );
    traced(dir.path(), "run", "written/parallel", hostile);
    let drawn = || {
        let (code, _, error) = report(dir.path(), &["run"]);
        assert_eq!(code, Some(0), "{error}");
        page(dir.path(), "run")
    };
    let page = drawn();
    for want in [
        "written/serial: device_shutdown, 4.000 us",
        "Flame graph of written/serial: device_shutdown, 1000 instructions; [tasks] 90.0 %; device_shutdown 90.0 %; nic_shutdown [dummy_pci] 50.0 %",
        "nic_shutdown [dummy_pci]: 500 instructions, 50.0 %",
        "&lt;/text&gt;&lt;script&gt;alert(1)",
    ] {
        assert!(page.contains(want), "{want}");
    }
    assert_eq!(page.matches("<script").count(), 2);
    // Five frames a graph: two roots, and three below them.
    assert_eq!(page.matches("class=\"frame-").count(), 2 * 5);
    let traces = dir.path().join("run/traces");
    // Cut at the end of a line it still is one of stacks.
    let folded = traces.join("written+serial.device_shutdown.folded");
    let whole = fs::read_to_string(&folded).unwrap();
    for lines in 0..whole.lines().count() {
        let cut: Vec<&str> = whole.split_inclusive('\n').take(lines).collect();
        fs::write(&folded, cut.concat()).unwrap();
        let page = drawn();
        assert_eq!(page.matches("class=\"frame-").count(), 5);
        assert!(page.contains("its record 1000: it was cut"));
    }
    fs::write(&folded, whole).unwrap();
    // Of figures that no boot has.
    let json = traces.join("written+serial.json");
    let whole = fs::read_to_string(&json).unwrap();
    fs::write(
        &json,
        whole.replace("\"tasks\":900", "\"tasks\":9000000000000000000"),
    )
    .unwrap();
    let page = drawn();
    assert!(page.contains("which no boot comes to"));
    fs::write(traces.join("written+serial.json"), "{\"schema\": 0}").unwrap();
    fs::write(
        traces.join("written+parallel.device_shutdown.folded"),
        "a b\n",
    )
    .unwrap();
    let page = drawn();
    assert!(!page.contains("class=\"frame-"));
    for want in [
        "no record of a traced boot",
        "line 1 is no stack with a count",
    ] {
        assert!(page.contains(want), "{want}");
    }
}

/// What `bench` kept is read back as the scenario that it was: else no run could be drawn.
#[test]
fn every_scenario_survives_being_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let known = bootrig::rig::known(root).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut hashes = Vec::new();
    let header: Header = header("run");
    let run = Run::create(dir.path(), &header).unwrap();
    for entry in fs::read_dir(root.join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !name.ends_with(".yaml") || !text.contains("\nvariants:") {
            continue;
        }
        let scenario = parse(&name, &text, &known).unwrap_or_else(|e| panic!("{e}"));
        // A sweep is read from its file.
        if scenario.sweep.is_none() {
            hashes.push(scenario.hash.clone());
        }
        run.keep_scenarios([&scenario]).unwrap();
    }
    assert!(hashes.len() > 10, "{}", hashes.len());
    let kept = Run::kept_scenarios(dir.path(), "run");
    hashes.sort();
    assert_eq!(kept.keys().cloned().collect::<Vec<_>>(), hashes);
}
