// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shards over a scripted machine, joined by the real command.
#![allow(missing_docs)]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bootrig::{
    core::{
        fault::{Exit, Stopped},
        machine::{End, Machine, RawBoot},
        plan::Trial,
        scenario::{Known, Scenario, parse, to_yaml},
        shard::{Cut, Shard, cut},
    },
    edge::store::{Header, ImageRecord, ScenarioRef},
};
use support::{
    runs::{self, said, xtask},
    *,
};

const REPEATS: u32 = 3;

/// As it is read back from a run that kept it.
fn kept(mut change: impl FnMut(&mut Scenario)) -> Scenario {
    let mut scenario = scenario();
    scenario.about = "x".into();
    for profile in scenario.profiles.values_mut() {
        profile.about = "x".into();
        profile.source = "x".into();
        profile.shutdown.retain(|step| step.nominal().0 > 0);
    }
    change(&mut scenario);
    parse("scripted.yaml", &to_yaml(&scenario), &Known::default()).unwrap()
}

fn header(id: &str, scenario: &Scenario, shard: Option<Cut>) -> Header {
    let mut command: Vec<String> = ["bench", "scripted"].map(str::to_owned).into();
    if let Some(cut) = &shard {
        let words = [
            "--run".into(),
            "night".into(),
            "--shard".into(),
            cut.shard().to_string(),
        ];
        command.extend(words);
    }
    Header {
        command,
        shard,
        repeats: Some(REPEATS),
        scenarios: vec![ScenarioRef {
            given: "scripted.yaml".into(),
            hash: scenario.hash.clone(),
        }],
        ..runs::header(id)
    }
}

/// Makes the run of shard `number` of `of`, as `bench --run night --shard` does.
fn make(
    results: &Path,
    scenario: &Scenario,
    (number, of): (u32, u32),
    machine: &dyn Machine,
    change: impl FnOnce(&mut Header),
) -> PathBuf {
    let shard = Shard { number, of };
    let plan = trials(scenario.clone(), REPEATS);
    let own = cut(&plan, shard, &BTreeMap::new());
    let boots = own.iter().map(|t| t.id.clone()).collect();
    let id = format!("night.{}", shard.suffix());
    let mut header = header(&id, scenario, Some(Cut { number, of, boots }));
    change(&mut header);
    runs::make_keeping(results, &header, scenario, &own, machine);
    results.join(&header.id)
}

fn merge(results: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let results = results.to_str().unwrap();
    said(xtask(&[&["merge", "--results", results], more].concat()))
}

fn read(results: &Path, name: &str) -> String {
    fs::read_to_string(results.join("night").join(name)).unwrap()
}

fn exit(code: Exit) -> Option<i32> {
    Some(code as i32)
}

#[test]
fn four_shards_are_together_what_one_is() {
    let scenario = kept(|_| {});
    let dir = tempfile::tempdir().unwrap();
    let [one, four] = ["one", "four"].map(|n| dir.path().join(n));
    for (results, of) in [(&one, 1), (&four, 4)] {
        // Whoever ends first: the order changes nothing.
        for number in (1..=of).rev() {
            make(results, &scenario, (number, of), &Scripted::good(), |_| {});
        }
        let (code, json, error) = merge(results, &["night.*-of-*", "--json"]);
        assert_eq!(code, exit(Exit::Done), "{error}");
        assert_eq!(json, read(results, "summary.json"));
        assert!(
            error.contains(&format!("{of} shards merged into")),
            "{error}"
        );
    }
    for name in [
        "summary.json",
        "samples.csv",
        "scenarios/scripted.yaml",
        "report.html",
    ] {
        assert_eq!(read(&one, name), read(&four, name), "{name}");
    }
    assert_eq!(
        read(&four, "samples.csv")
            .lines()
            .filter(|l| l.contains(",device_shutdown,"))
            .count(),
        6
    );
    let consoles = |of: &Path| {
        let mut all: Vec<_> = fs::read_dir(of.join("night/console"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .map(|p| (p.file_name().unwrap().to_owned(), fs::read(p).unwrap()))
            .collect();
        all.sort();
        all
    };
    assert!(consoles(&one).len() == 12 && consoles(&one) == consoles(&four));
    let command = read(&four, "run.yaml");
    assert!(
        !command.contains("--shard") && !command.contains("--run"),
        "{command}"
    );
    // The merged run is a run like any other, and its shards are none.
    let four = four.to_str().unwrap();
    let (code, text, _) = said(xtask(&["trend", "--results", four]));
    assert_eq!(code, exit(Exit::Inconclusive), "{text}");
    assert!(
        text.contains("run night.2-of-4 is shard 2/4 of another"),
        "{text}"
    );
    let left: Vec<_> = fs::read_dir(four).unwrap().flatten().collect();
    assert_eq!(left.len(), 5, "{left:?}");
    // A second time there is nothing to do, and nothing is overwritten.
    let (code, _, error) = merge(Path::new(four), &["night.*-of-*"]);
    assert_eq!(code, exit(Exit::Usage), "{error}");
    assert!(error.contains("night is there already"), "{error}");
}

#[test]
fn what_is_missing_or_doubled_is_named_and_not_merged() {
    let scenario = kept(|_| {});
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    for number in [1, 3] {
        make(results, &scenario, (number, 3), &Scripted::good(), |_| {});
    }
    let (code, out, error) = merge(results, &["night.*"]);
    assert_eq!(
        (code, out.as_str()),
        (exit(Exit::Inconclusive), ""),
        "{error}"
    );
    assert!(
        error.contains("missing: shard 2/3: there is no run of it")
            && error.contains("boots in no run: 2: scripted/parallel/0, scripted/serial/2")
            && error.contains("not merged"),
        "{error}"
    );
    assert!(!results.join("night").exists());
    // Asked for, it is made of what there is; what is not there is no number.
    let (code, _, error) = merge(results, &["night.*", "--partial", "--run", "part"]);
    assert_eq!(code, exit(Exit::Guest), "{error}");
    let part = fs::read_to_string(results.join("part/summary.json")).unwrap();
    let part: serde_json::Value = serde_json::from_str(&part).unwrap();
    let parallel = &part["scenarios"][0]["variants"][1];
    assert!(
        parallel["name"] == "parallel" && parallel["outcome"].is_null(),
        "{parallel}"
    );
    // A shard that was stopped.
    let stops = Scripted::new(|trial, _| match trial.id.as_str() {
        "scripted/serial/2" => Err(Stopped),
        _ => Ok(good(trial)),
    });
    make(results, &scenario, (2, 3), &stops, |_| {});
    let (code, _, error) = merge(results, &["night.*"]);
    assert_eq!(code, exit(Exit::Inconclusive), "{error}");
    assert!(
        error.contains(
            "unfinished: shard 2/3 (run night.2-of-3) lacks 1 of its 2 boots: scripted/serial/2"
        ),
        "{error}"
    );
    // One that was made twice is not chosen from, whoever asks.
    make(results, &scenario, (1, 3), &Scripted::good(), |h| {
        h.id = "again".into()
    });
    let (code, _, error) = merge(results, &["night.*", "again", "--partial", "--run", "x"]);
    assert_eq!(code, exit(Exit::Usage), "{error}");
    assert!(
        error.contains("doubled: shard 1/3 is in runs again, night.1-of-3"),
        "{error}"
    );
    assert!(!results.join("x").exists());
}

#[test]
fn a_shard_that_failed_is_named_and_is_no_number() {
    let scenario = kept(|_| {});
    let dir = tempfile::tempdir().unwrap();
    let fails = |trial: &Trial, _| -> Result<RawBoot, Stopped> {
        let end = match trial.id.as_str() {
            "scripted/parallel/0" => End::Machine("no more memory".into()),
            _ => return Ok(good(trial)),
        };
        Ok(RawBoot {
            end,
            ..RawBoot::default()
        })
    };
    for number in [1, 2] {
        make(
            dir.path(),
            &scenario,
            (number, 2),
            &Scripted::new(fails),
            |_| {},
        );
    }
    let (code, _, error) = merge(dir.path(), &["night.*"]);
    assert_eq!(code, exit(Exit::Infrastructure), "{error}");
    assert!(
        error.contains(
            "failed: shard 2/2 (run night.2-of-2): 1 of its boots failed: scripted/parallel/0:"
        ) && error.contains("no more memory"),
        "{error}"
    );
    let summary: serde_json::Value =
        serde_json::from_str(&read(dir.path(), "summary.json")).unwrap();
    let parallel = &summary["scenarios"][0]["variants"][1];
    assert_eq!(
        parallel["metrics"]["device_shutdown"]["samples"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert!(
        parallel["outcome"].to_string().contains("no more memory"),
        "{parallel}"
    );
}

#[test]
fn only_shards_of_one_experiment_are_merged() {
    let scenario = kept(|_| {});
    let slower = kept(|s| {
        s.profiles.get_mut("slow").unwrap().shutdown = vec![];
    });
    assert_ne!(scenario.hash, slower.hash);
    let refused = |of: &Scenario, change: fn(&mut Header), why: &str| {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), &scenario, (1, 2), &Scripted::good(), |_| {});
        make(dir.path(), of, (2, 2), &Scripted::good(), change);
        let (code, _, error) = merge(dir.path(), &["night.*"]);
        assert!(
            code == exit(Exit::Usage) && error.contains(why),
            "{why}: {error}"
        );
        assert!(!dir.path().join("night").exists());
    };
    refused(&slower, |_| {}, "the hashes of scenario scripted differ");
    refused(
        &scenario,
        |h| h.machine.qemu = "8.2.0".into(),
        "the QEMU differs: 10.0.2 and 8.2.0",
    );
    refused(
        &scenario,
        |h| h.machine.init = "other".into(),
        "the PID 1 differs: init and other",
    );
    refused(
        &scenario,
        |h| h.kernels[0].compiler = "gcc 13".into(),
        "the compiler of kernel 6.1 differs: gcc 12 and gcc 13",
    );
    refused(
        &scenario,
        |h| h.clock = Some(bootrig::core::scenario::Clock::Wall),
        "the clock differs: each scenario's own and wall",
    );
    refused(
        &scenario,
        |h| h.shard.as_mut().unwrap().of = 3,
        "the number of shards differs: 2 and 3",
    );
    refused(
        &scenario,
        |h| h.shard = None,
        "run night.2-of-2 is no shard",
    );
    // By the wall clock the host counts too; in virtual time it does not.
    let elsewhere = |h: &mut Header| h.host["machine"] = "fedcba9876543210".into();
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &scenario, (1, 2), &Scripted::good(), |_| {});
    make(dir.path(), &scenario, (2, 2), &Scripted::good(), elsewhere);
    let (code, _, error) = merge(dir.path(), &["night.*"]);
    assert_eq!(code, exit(Exit::Done), "{error}");
    let header: serde_json::Value = serde_yaml::from_str(&read(dir.path(), "run.yaml")).unwrap();
    assert_eq!(header["host"]["shards"][1]["machine"], "fedcba9876543210");
    let wall = kept(|s| s.clock = bootrig::core::scenario::Clock::Wall);
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &wall, (1, 2), &Scripted::good(), |_| {});
    make(dir.path(), &wall, (2, 2), &Scripted::good(), elsewhere);
    let (code, _, error) = merge(dir.path(), &["night.*"]);
    assert!(
        code == exit(Exit::Usage) && error.contains("machine (wall time is of one host) differs"),
        "{error}"
    );
}

#[test]
fn images_of_user_space_are_parts_of_shards() {
    let scenario = kept(|_| {});
    let image = |image: &str, key: &str| ImageRecord {
        image: image.into(),
        key: key.into(),
        packages: vec![format!("udev {key}")],
    };
    let udev = |key: &str| image("udev (bookworm)", key);
    let merged = |images: [Vec<ImageRecord>; 2]| {
        let dir = tempfile::tempdir().unwrap();
        for (number, images) in (1..).zip(images) {
            let shard = (number, 2);
            make(dir.path(), &scenario, shard, &Scripted::good(), |header| {
                header.machine.images = images;
            });
        }
        let (code, _, error) = merge(dir.path(), &["night.*"]);
        (code, error, Header::read(dir.path(), "night"))
    };
    let (code, error, _) = merged([vec![udev("1")], vec![udev("2")]]);
    let want = "the user space udev (bookworm) differs: 1 and 2";
    assert!(code == exit(Exit::Usage) && error.contains(want), "{error}");
    // One that no boot of the other shard takes is the whole run's.
    let systemd = image("systemd (bookworm)", "3");
    let (code, error, header) = merged([vec![udev("1")], vec![systemd.clone(), udev("1")]]);
    assert_eq!(code, exit(Exit::Done), "{error}");
    assert_eq!(header.unwrap().machine.images, [systemd, udev("1")]);
}

/// `.ci/nightly quick NIGHT LAST` in `work`: its exit code, and what it wrote.
fn night(work: &Path, night: &str, last: &str) -> (Option<i32>, String, Option<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(root.join(".ci/nightly"))
        .args(["quick", night, last])
        .env("BOOTRIG_NIGHT", work)
        .env("BOOTRIG_XTASK", env!("CARGO_BIN_EXE_xtask"))
        .output()
        .unwrap();
    let summary = fs::read_to_string(work.join("summary.md")).unwrap();
    let issue = fs::read_to_string(work.join("issue.md")).ok();
    (output.status.code(), summary, issue)
}

#[test]
fn a_night_is_compared_with_the_last_good_one() {
    let scenario = kept(|_| {});
    let dir = tempfile::tempdir().unwrap();
    let shard = |night: &str, more: u64| {
        let machine = Scripted::new(move |trial, _| {
            let mut calls = shutdowns(trial, SHUTDOWN);
            calls
                .iter_mut()
                .filter(|c| c.0 == 0)
                .for_each(|c| c.3 += more);
            Ok(RawBoot {
                channel: channel(trial, &calls),
                ..good(trial)
            })
        });
        let shards = dir.path().join("shards");
        for run in ["quick.6.1.virtual", "quick.5.10.virtual"] {
            make(&shards, &scenario, (1, 1), &machine, |header| {
                header.id = format!("{run}.{night}.1-of-1");
            });
        }
    };
    shard("n1", 0);
    let (code, summary, issue) = night(dir.path(), "n1", "");
    assert_eq!((code, issue), (Some(0), None), "{summary}");
    assert!(
        summary.contains("no earlier good night") && summary.contains("oracle:"),
        "{summary}"
    );
    shard("n2", 0);
    let (code, summary, issue) = night(dir.path(), "n2", "n1");
    assert_eq!((code, issue), (Some(0), None), "{summary}");
    assert!(summary.contains("### against n1"), "{summary}");
    shard("n3", 20 * MS);
    let (code, summary, issue) = night(dir.path(), "n3", "n2");
    assert_eq!(code, Some(1), "{summary}");
    let issue = issue.unwrap();
    assert!(
        issue.starts_with("quick n3 is slower than n2\n")
            && issue.contains("## quick.6.1.virtual")
            && issue.contains("device_shutdown"),
        "{issue}"
    );
    // Nobody made its shard.
    let (code, summary, issue) = night(dir.path(), "n4", "n2");
    assert_eq!((code, issue), (Some(5), None), "{summary}");
    assert!(summary.contains("no run fits"), "{summary}");
    // What the next night needs, and no more.
    let mut kept: Vec<_> = fs::read_dir(dir.path().join("history/quick.6.1.virtual.n3"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, ["run.yaml", "samples.csv", "summary.json"]);
}

#[test]
fn shards_that_there_are_not_are_refused_before_anything_is_done() {
    for (shard, why) in [
        ("5/4", "there are only 4 shards: 1/4 to 4/4"),
        ("0/4", "shards are counted from 1"),
        ("1/0", "1 to 1024 shards"),
        ("two", "it is K/N, such as 2/4"),
    ] {
        let (code, _, error) = said(xtask(&["bench", "zero-delay-500", "--shard", shard]));
        assert!(
            code == exit(Exit::Usage) && error.contains(why),
            "{shard}: {error}"
        );
    }
    let (code, _, error) = said(xtask(&["bench", "--run", "../x", "--shard", "1/2"]));
    assert!(
        code == exit(Exit::Usage) && error.contains("is no name for a run"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let (code, _, error) = merge(dir.path(), &["nothing.*"]);
    assert!(
        code == exit(Exit::Usage) && error.contains("no run fits nothing.*"),
        "{error}"
    );
}
