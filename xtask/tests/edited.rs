// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run folders that somebody edited or damaged, before every command that reads them: each is
//! refused or told of, at once, and no terminal obeys what stands in them.
#![allow(missing_docs)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bootrig::core::{
    machine::{End, RawBoot},
    scenario::{Known, parse},
};
use serde_json::Value;
use support::{
    runs::{bench, header, said, xtask},
    *,
};

const WRITTEN: &str = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 256 MiB}\n\
    profiles:\n  nic: {id: \"8086:1528\", about: a, source: s, shutdown: [{wait: 10 ms}]}\n\
    devices: [{name: nic, profile: nic, count: 3}]\n\
    variants: {serial: {order: serial}, parallel: {order: parallel}}\n\
    measure: [boot, device_shutdown]\n";

/// A run called `run` in `results`; its folder.
fn run(results: &Path) -> PathBuf {
    let scenario = parse("written.yaml", WRITTEN, &Known::default()).unwrap();
    bench(results, header("run"), &scenario, 1, &Scripted::good());
    results.join("run")
}

fn said_of(results: &Path, args: &[&str]) -> (i32, String, String) {
    let results = results.to_str().unwrap();
    let begun = Instant::now();
    let (code, text, error) = said(xtask(&[args, &["--results", results]].concat()));
    assert!(begun.elapsed() < Duration::from_secs(60), "{args:?}");
    assert!(!(text.clone() + &error).contains('\u{1b}'), "{args:?}");
    (code.unwrap(), text, error)
}

/// Every command that reads the summary of a run.
const READERS: [&[&str]; 10] = [
    &["compare", "run", "run"],
    &["baseline", "save", "run"],
    &["export", "run", "--format", "csv"],
    &["export", "run", "--format", "junit"],
    &["export", "run", "--format", "kcidb"],
    &["export", "run", "--format", "hyperfine"],
    &["export", "run", "--format", "bencher"],
    &["export", "run", "--format", "prometheus"],
    &["export", "run", "--format", "github-action-benchmark"],
    &["trend", "run"],
];

#[test]
fn what_can_be_no_name_is_refused_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = run(dir.path()).join("summary.json");
    let good: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for name in [
        "\u{1b}[31mred",
        "a,b",
        "",
        "a\nb",
        "\u{202e}b",
        &"n".repeat(100_000),
    ] {
        let mut edited = [good.clone(), good.clone(), good.clone()];
        edited[0]["scenarios"][0]["name"] = name.into();
        edited[1]["scenarios"][0]["variants"][1]["name"] = name.into();
        let metrics = &mut edited[2]["scenarios"][0]["variants"][0]["metrics"];
        let metrics = metrics.as_object_mut().unwrap();
        let boot = metrics.remove("boot").unwrap();
        metrics.insert(name.into(), boot);
        for edited in edited {
            fs::write(&path, edited.to_string()).unwrap();
            for args in READERS {
                let (code, _, error) = said_of(dir.path(), args);
                assert_eq!(code, 2, "{args:?}: {error}");
                assert!(error.contains("is no name"), "{args:?}: {error}");
            }
            let (code, _, error) = said_of(dir.path(), &["report", "run"]);
            assert_eq!(code, 0, "{error}");
            assert!(error.contains("warning: "), "{error}");
        }
    }
}

#[test]
fn what_a_header_says_is_shown_and_not_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = run(dir.path());
    let path = folder.join("run.yaml");
    let good = fs::read_to_string(&path).unwrap();
    let list = || {
        said(xtask(
            &[&format!("list --runs={}", dir.path().display())]
                .iter()
                .flat_map(|s| s.split(' '))
                .collect::<Vec<_>>(),
        ))
    };
    for (from, to) in [
        ("given: written.yaml", "given: \"\\e[2Jwritten\""),
        ("release: 6.1.1", "release: \"6\\x1b]0;title\\a\""),
        ("begun: 2026-01-01T00:00:00Z", "begun: \"\\e[5m\""),
    ] {
        assert!(good.contains(from), "{from}: {good}");
        fs::write(&path, good.replace(from, to)).unwrap();
        fs::rename(folder.join("summary.json"), folder.join("aside")).unwrap();
        let (code, text, error) = list();
        assert_eq!(code, Some(0), "{error}");
        assert!(text.contains("run") && !text.contains('\u{1b}'), "{text}");
        fs::rename(folder.join("aside"), folder.join("summary.json")).unwrap();
    }
    // The last of them is what runs are sorted by.
    let (code, _, error) = said_of(dir.path(), &["compare", "run", "run"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("is no time"), "{error}");
}

#[test]
fn a_header_of_thousands_of_levels_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = run(dir.path()).join("run.yaml");
    let good = fs::read_to_string(&path).unwrap();
    for deep in [
        format!("host: {}{}\n", "[".repeat(10_000), "]".repeat(10_000)),
        format!("host:\n{}x\n", "- ".repeat(10_000)),
    ] {
        fs::write(&path, format!("{good}{deep}")).unwrap();
        let begun = Instant::now();
        let (code, _, error) = said_of(dir.path(), &["compare", "run", "run"]);
        assert_eq!(code, 2, "{error}");
        let told = ["nested more than", "recursion limit"];
        assert!(told.iter().any(|t| error.contains(t)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    let (code, _, error) = said_of(dir.path(), &["compare", "run", "run"]);
    assert_eq!(code, 2, "{error}");
}

/// A plan of it would not fit into memory.
#[test]
fn a_header_that_asks_for_too_much_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = run(dir.path()).join("run.yaml");
    let good = fs::read_to_string(&path).unwrap();
    assert!(good.contains("\nrepeats: 1\n"), "{good}");
    for n in [0, 10_001, 4_294_967_295_u32] {
        fs::write(
            &path,
            good.replace("\nrepeats: 1\n", &format!("\nrepeats: {n}\n")),
        )
        .unwrap();
        for args in [
            &["report", "run"][..],
            &["merge", "run"],
            &["compare", "run", "run"],
        ] {
            let (code, _, error) = said_of(dir.path(), args);
            assert_eq!(code, 2, "{args:?}: {error}");
            assert!(error.contains("`repeats`"), "{args:?}: {error}");
        }
    }
    // Not read before it is refused.
    let file = fs::File::create(&path).unwrap();
    file.set_len(3 << 30).unwrap();
    let (code, _, error) = said_of(dir.path(), &["trend", "run"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("has more than"), "{error}");
}

/// `edit` is made to the summary of a good run; what the readers say then.
fn edited_summary(edit: &dyn Fn(&mut Value), want: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = run(dir.path()).join("summary.json");
    let mut summary: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut summary);
    fs::write(&path, summary.to_string()).unwrap();
    for args in READERS {
        let (code, _, error) = said_of(dir.path(), args);
        assert_eq!(code, 2, "{args:?}: {error}");
        assert!(error.contains(want), "{args:?}: {error}");
    }
    let (_, text, _) = said(xtask(&[
        "list",
        &format!("--runs={}", dir.path().display()),
    ]));
    assert!(text.contains("summary.json cannot be read"), "{text}");
}

#[test]
fn figures_that_are_not_of_the_samples_are_refused_everywhere() {
    edited_summary(
        &|s| s["scenarios"][0]["variants"][0]["metrics"]["boot"]["median"] = 1.into(),
        "boot of written/serial is not the median of its samples",
    );
    edited_summary(
        &|s| s["scenarios"][0]["variants"][1]["clock"] = "wall".into(),
        "written has variants of both clocks",
    );
    edited_summary(&|s| s["schema"] = 0.into(), "has schema 0");
}

/// The baseline that is there is the old one or the new one, whenever its writer is killed.
#[test]
fn a_baseline_survives_whoever_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let scenario = parse("written.yaml", WRITTEN, &Known::default()).unwrap();
    let slower = Scripted::new(|trial, _| {
        let mut calls = shutdowns(trial, SHUTDOWN);
        calls.iter_mut().for_each(|c| c.3 += MS);
        Ok(RawBoot {
            channel: channel(trial, &calls),
            ..good(trial)
        })
    });
    bench(dir.path(), header("other"), &scenario, 1, &slower);
    let results = dir.path().to_str().unwrap();
    let (code, _, error) = said_of(dir.path(), &["baseline", "save", "run"]);
    assert_eq!(code, 0, "{error}");
    for n in 0..40_u64 {
        let named = ["run", "other"][n as usize % 2];
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["baseline", "save", named, "--replace", "--results", results])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(n * 1500));
        child.kill().unwrap();
        child.wait().unwrap();
        let codes = ["run", "other"].map(|r| said_of(dir.path(), &["baseline", "check", r]).0);
        assert!(matches!(codes, [0, 1] | [1, 0]), "{codes:?}");
    }
}

#[test]
fn a_device_that_the_scenario_has_not_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let trials = run(dir.path()).join("trials");
    let file = fs::read_dir(trials)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut trial: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    trial["log"]["callbacks"][0]["device"] = 3.into();
    fs::write(&file, trial.to_string()).unwrap();
    let (code, _, error) = said_of(dir.path(), &["report", "run"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("device 3 of 3"), "{error}");
    assert!(error.contains("delete it"), "{error}");
}

/// The page is drawn from the trials, and is right; what others would read is not.
#[test]
fn samples_that_are_not_what_was_measured_are_told_when_the_run_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let path = run(dir.path()).join("samples.csv");
    let good = fs::read_to_string(&path).unwrap();
    let (_, _, error) = said_of(dir.path(), &["report", "run"]);
    assert_eq!(error, "");
    for bad in [
        String::new(),
        good[..good.len() / 2].into(),
        good.replace('\n', "\r\n"),
    ] {
        fs::write(&path, bad).unwrap();
        let (code, _, error) = said_of(dir.path(), &["report", "run"]);
        assert_eq!(code, 0, "{error}");
        assert!(
            error.contains("warning: ") && error.contains("samples.csv"),
            "{error}"
        );
        assert!(error.contains("bench --resume"), "{error}");
    }
}

#[test]
fn where_there_is_no_run_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for place in ["/nope", "/dev/null"] {
        let (code, text, error) = said(xtask(&["list", &format!("--runs={place}")]));
        assert_eq!((code, &*text), (Some(2), ""), "{error}");
        assert!(error.contains("is no folder"), "{error}");
    }
    run(dir.path());
    for args in [
        &["trend", "night*"][..],
        &["report", "run", "--trend", "night*"],
    ] {
        let (code, _, error) = said_of(dir.path(), args);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("no run fits night*"), "{error}");
    }
}

#[test]
fn a_form_of_numbers_says_what_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = parse("written.yaml", WRITTEN, &Known::default()).unwrap();
    let machine = Scripted::new(|trial, _| {
        Ok(match trial.variant().name.as_str() {
            "parallel" => RawBoot {
                end: End::Splat("BUG: \u{1b}[31m\n0 slower, 0 faster".into()),
                ..good(trial)
            },
            _ => good(trial),
        })
    });
    bench(dir.path(), header("run"), &scenario, 1, &machine);
    for (format, tells) in [
        ("hyperfine", true),
        ("bencher", true),
        ("github-action-benchmark", true),
        ("junit", false),
        ("kcidb", false),
        ("csv", false),
        ("prometheus", false),
    ] {
        let (code, _, error) = said_of(dir.path(), &["export", "run", "--format", format]);
        assert_eq!(code, 0, "{format}: {error}");
        assert_eq!(
            error.contains("written/parallel: "),
            tells,
            "{format}: {error}"
        );
    }
}
