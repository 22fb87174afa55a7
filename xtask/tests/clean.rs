// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask clean` beside a run that uses the cache, and over all that is kept.
#![allow(missing_docs)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bootrig::{
    core::shard::Cut,
    edge::{
        cache::Cache,
        store::{Begun, Header, Held, ImageRecord, kept},
    },
};
use support::{
    Scripted,
    runs::{header, make, night, said, xtask},
    scenario, trials,
};

fn clean(root: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["clean", "--older-than", "0"])
        .env("BOOTRIG_CACHE", root)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}

/// A dry run is one in every combination, and what belongs to runs is not taken for the cache.
#[test]
fn no_option_is_lost_beside_another() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path()).unwrap();
    let lock = cache.lock("kernel", "key", "a kernel", &|_| {}).unwrap();
    let place = cache.put(&lock, cache.stage(&lock).unwrap()).unwrap();
    drop((lock, cache));
    let clean = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("clean")
            .args(more)
            .env("BOOTRIG_CACHE", dir.path())
            .output()
            .unwrap();
        said(output)
    };
    for what in [
        &["--older-than", "0"][..],
        &["--max-size", "0 MiB"],
        &["--unused"],
        &["--unused", "--max-size", "0 MiB", "--older-than", "0"],
    ] {
        let (code, out, error) = clean(&[what, &["--dry-run"]].concat());
        assert_eq!(code, Some(0), "{error}");
        assert!(out.contains("would be freed"), "{out}");
        assert!(error.contains("would remove"), "{error}");
        let (code, _, error) = clean(&[what, &["--keep", "3"]].concat());
        assert!(
            code == Some(2) && error.contains("add --results"),
            "{error}"
        );
        assert!(place.exists(), "{what:?}");
    }
}

#[test]
fn it_names_the_run_and_removes_nothing_until_that_ends() {
    let dir = tempfile::tempdir().unwrap();
    let run = Cache::at(dir.path()).unwrap();
    let lock = run.lock("kernel", "key", "a kernel", &|_| {}).unwrap();
    let place = run.put(&lock, run.stage(&lock).unwrap()).unwrap();
    drop(lock);
    let (code, error) = clean(dir.path());
    let us = format!("process {}", std::process::id());
    // Where the system does not tell whose lock it is, nobody can be named.
    let named = [us.as_str(), "another run"]
        .iter()
        .any(|w| error.contains(&format!("in use by {w}:")));
    assert!(code == Some(2) && named, "{error}");
    assert!(place.exists());
    drop(run);
    let (code, error) = clean(dir.path());
    assert_eq!(code, Some(0), "{error}");
    assert!(!place.exists());
}

#[test]
fn runs_are_listed_and_the_oldest_removed() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    for number in 0..4 {
        night(results, number, "abc", 0);
    }
    fs::create_dir(results.join("baselines")).unwrap();
    fs::create_dir(results.join("odd")).unwrap();
    fs::write(results.join("odd/run.yaml"), "{").unwrap();
    let mut shard = header("night.1-of-2");
    shard.begun = "2026-01-09T00:00:00Z".into();
    shard.shard = Some(Cut {
        number: 1,
        of: 2,
        boots: vec![],
    });
    make(results, &shard, &trials(scenario(), 1), &Scripted::good());
    let of = format!("--runs={}", results.display());
    let (code, table, error) = said(xtask(&["list", &of]));
    assert_eq!(code, Some(0), "{error}");
    let order: Vec<_> = table
        .lines()
        .skip(2)
        .map(|l| l.split('|').nth(1).unwrap().trim())
        .collect();
    assert_eq!(
        order,
        [
            "odd",
            "night00",
            "night01",
            "night02",
            "night03",
            "night.1-of-2"
        ]
    );
    assert!(
        table.contains("good") && table.contains("shard 1/2"),
        "{table}"
    );
    let (_, json, _) = said(xtask(&["list", &of, "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["runs"][0]["state"], "cannot be read");
    assert_eq!(json["runs"][5]["shard"], "1/2");
    let clean = format!("--results={}", results.display());
    let (code, _, error) = said(xtask(&["clean", &clean]));
    assert!(
        code == Some(2) && error.contains("say which runs"),
        "{error}"
    );
    let (_, out, error) = said(xtask(&["clean", &clean, "--keep", "3", "--dry-run"]));
    assert!(
        out.starts_with("2 runs would be removed") && error.contains("night01"),
        "{out}{error}"
    );
    assert!(results.join("night00").exists());
    // One that is being made stays.
    let lock = fs::File::open(results.join("night00/.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (code, out, error) = said(xtask(&["clean", &clean, "--keep", "3"]));
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.starts_with("1 run removed") && error.contains("night00 is being made"),
        "{out}{error}"
    );
    drop(lock);
    // Both must agree: all of them began long ago, but two are kept.
    let (_, out, _) = said(xtask(&[
        "clean",
        &clean,
        "--keep",
        "2",
        "--older-than",
        "1",
    ]));
    assert!(out.starts_with("2 runs removed"), "{out}");
    let mut left: Vec<_> = fs::read_dir(results)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["baselines", "night.1-of-2", "night03", "odd"]);
}

/// A folder of results in which everything that a command leaves was begun long ago, and
/// searches and judgements now as well.
struct Results {
    dir: tempfile::TempDir,
    /// `judged/ID`, the one of long ago.
    judged: String,
}

/// What a run was made with that is called `id`.
fn of(id: &str, begun: &str) -> Header {
    let mut header = header(id);
    header.begun = begun.into();
    header.machine.init = format!("init-{id}");
    header.machine.images = vec![ImageRecord {
        image: "udev (bookworm)".into(),
        key: format!("image-{id}"),
        packages: vec![],
    }];
    header.kernels[0].key = format!("kernel-{id}");
    header.kernels[0].modules = format!("modules-{id}");
    header
}

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

impl Results {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let long_ago: Begun = LONG_AGO.parse().unwrap();
        let results = Self {
            judged: format!("judged/{}", long_ago.id()),
            dir,
        };
        let now = Begun::now();
        results.run("", of("night", LONG_AGO));
        for (search, begun) in [
            ("bisect-old", LONG_AGO),
            ("bisect-new", now.to_string().as_str()),
        ] {
            results.run(&format!("{search}/runs"), of("v6.1", begun));
            // One that did not build is no run.
            fs::create_dir(results.path(&format!("{search}/runs/v6.2"))).unwrap();
            let text = format!("schema: 1\nbegun: {begun}\ncommand: []\n");
            fs::write(results.path(&format!("{search}/bisect.yaml")), text).unwrap();
        }
        results.run(&results.judged, of("6.1", LONG_AGO));
        results.run(
            &format!("judged/{}", now.id()),
            of("6.12", &now.to_string()),
        );
        fs::create_dir_all(results.path("baselines/shutdown-2018")).unwrap();
        results
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn run(&self, below: &str, header: Header) {
        let plan = trials(scenario(), 1);
        make(&self.path(below), &header, &plan, &Scripted::good());
    }
    fn clean(&self, args: &[&str]) -> (String, String) {
        let of = format!("--results={}", self.dir.path().display());
        let (code, out, error) = said(xtask(&[&["clean", &of], args].concat()));
        assert_eq!(code, Some(0), "{error}");
        (out, error)
    }
    /// What is left: runs, searches, judgements, baselines.
    fn left(&self) -> Vec<String> {
        let names = |dir: &Path| -> Vec<String> {
            let all = fs::read_dir(dir).unwrap();
            let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name();
            let names = all.map(|e| name(e).into_string().unwrap());
            names.collect()
        };
        let mut all = names(self.dir.path());
        all.retain(|name| name != "judged");
        let judged = names(&self.path("judged"));
        all.extend(judged.iter().map(|name| format!("judged/{name}")));
        all.sort();
        all
    }
}

#[test]
fn what_a_search_or_a_judgement_was_made_with_is_used() {
    let results = Results::new();
    let used = kept::keys_used(results.dir.path()).unwrap();
    for run in ["night", "v6.1", "6.1", "6.12"] {
        for kind in ["init", "image", "kernel", "modules"] {
            assert!(used.contains(&format!("{kind}-{run}")), "{kind} of {run}");
        }
    }
    // What uses what is not known: better nothing is removed.
    fs::write(results.path("bisect-old/runs/v6.1/run.yaml"), "{").unwrap();
    let error = kept::keys_used(results.dir.path()).unwrap_err();
    assert!(error.to_string().contains("is not known"), "{error:#}");
}

#[test]
fn runs_of_searches_and_judgements_are_listed_by_names_that_are_understood() {
    let results = Results::new();
    let of = format!("--runs={}", results.dir.path().display());
    let (code, table, error) = said(xtask(&["list", &of]));
    assert_eq!(code, Some(0), "{error}");
    let judged = format!("{}/6.1", results.judged);
    for name in [
        "night",
        "bisect-old/runs/v6.1",
        "bisect-new/runs/v6.1",
        &judged,
    ] {
        let row = format!("| {name} ");
        assert_eq!(table.matches(&row).count(), 1, "{name}: {table}");
        let folder = results.dir.path().to_str().unwrap();
        let args = ["export", name, "--format", "csv", "--results", folder];
        let (code, csv, error) = said(xtask(&args));
        assert!(
            code == Some(0) && csv.contains("scripted"),
            "{name}: {error}"
        );
    }
    assert!(!table.contains("v6.2"), "{table}");
}

#[test]
fn old_searches_and_judgements_are_removed_whole() {
    let results = Results::new();
    let before = results.left();
    let (out, _) = results.clean(&["--older-than", "30", "--dry-run"]);
    let would = "1 run, 1 search, 1 judgement would be removed";
    assert!(out.starts_with(would), "{out}");
    assert_eq!(results.left(), before);
    // Nothing that is being made: neither as a whole, nor one of its runs.
    let searched = Held::take(&results.path("bisect-old"), "search").unwrap();
    let booted = Held::take(&results.path(&results.judged).join("6.1"), "run").unwrap();
    let (out, error) = results.clean(&["--older-than", "30"]);
    assert!(out.starts_with("1 run removed"), "{out}");
    assert_eq!(error.matches("is being made").count(), 2, "{error}");
    drop((searched, booted));
    // As many of each kind are kept as are asked for.
    let (out, _) = results.clean(&["--keep", "2"]);
    assert!(out.starts_with("0 runs removed"), "{out}");
    let (out, _) = results.clean(&["--keep", "1"]);
    assert!(out.starts_with("1 search, 1 judgement removed"), "{out}");
    let left = results.left();
    let [baselines, search, judged] = &left[..] else {
        panic!("{left:?}")
    };
    assert_eq!(
        (baselines.as_str(), search.as_str()),
        ("baselines", "bisect-new")
    );
    assert_ne!(*judged, results.judged);
}

#[test]
fn what_nobody_knows_is_left_alone() {
    let results = Results::new();
    fs::write(results.path("bisect-old/bisect.yaml"), "{").unwrap();
    fs::create_dir(results.path("judged/mine")).unwrap();
    let (_, error) = results.clean(&["--keep", "0"]);
    for left in ["bisect-old", "judged/mine"] {
        assert!(results.path(left).is_dir(), "{error}");
        let told = |l: &str| l.contains("left alone: ") && l.contains(left);
        assert!(error.lines().any(told), "{error}");
    }
    assert_eq!(results.left(), ["baselines", "bisect-old", "judged/mine"]);
}
