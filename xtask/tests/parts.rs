// SPDX-License-Identifier: MIT OR Apache-2.0
//! What runs are made of: where a part is another, whoever reads the runs says so.
#![allow(missing_docs)]

mod support;

use std::path::Path;

use bootrig::{
    core::{
        fault::{Exit, exit_of},
        plan::Trial,
    },
    edge::{
        baselines,
        store::{Header, ImageRecord},
    },
};
use support::{
    runs::{header, make, said, xtask},
    told::{raw, written},
    *,
};

const SCENARIO: &str = r#"
about: x
kernel: "6.1"
machine: {cpus: 2, memory: 512 MiB}
memory: {blocks: 64, how: synthetic}
churn: {walkers: 2, blocks: 4, rounds: 5, do: stat}
variants:
  udev: {order: serial, coldplug: {children_max: 3}}
  without: {order: serial}
measure: [coldplug, churn]
"#;

/// A run whose image of udev has this key, and whose churn takes `churn` ns.
fn run_of(results: &Path, header: Header, key: &str, churn: u64) {
    let image = ImageRecord {
        image: "udev (bookworm)".into(),
        key: key.into(),
        packages: vec![format!("udev {key}")],
    };
    let mut header = header;
    header.machine.images = vec![image];
    let machine = Scripted::new(move |trial: &Trial, _| {
        let churn = format!(
            "churn walkers=2 changes=40 begin=5000 end={} answers=800 certain=700 wrong=0",
            5000 + churn
        );
        let mut lines = vec!["memory blocks=68 size=134217728"];
        if trial.variant().coldplug.is_some() {
            lines.push("coldplug start=1000 begin=1500 triggered=1700 end=4500 events=99 seen=68");
        }
        lines.push(&churn);
        Ok(raw(&lines))
    });
    make(results, &header, &trials(written(SCENARIO), 1), &machine);
}

fn asked(results: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let results = results.to_str().unwrap();
    said(xtask(&[args, &["--results", results]].concat()))
}

#[test]
fn runs_whose_guests_had_other_packages_are_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    for (id, key) in [("old", "252.1"), ("same", "252.1"), ("new", "252.2")] {
        run_of(results, header(id), key, 9000);
    }
    let told = "user space udev (bookworm) is another";
    let (code, text, error) = asked(results, &["compare", "old", "same"]);
    assert_eq!(code, Some(0), "{text}{error}");
    let (code, _, error) = asked(results, &["compare", "old", "new"]);
    assert!(code == Some(2) && error.contains(told), "{error}");
    let (_, text, _) = asked(results, &["compare", "old", "new", "--force"]);
    assert!(text.contains("FORCED") && text.contains(told), "{text}");
    let (code, _, error) = asked(results, &["compare", "old", "*"]);
    assert!(code == Some(2) && error.contains(told), "{error}");

    let (code, _, error) = asked(results, &["baseline", "save", "old"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(asked(results, &["baseline", "check", "same"]).0, Some(0));
    let (code, text, _) = asked(results, &["baseline", "check", "new"]);
    assert!(code == Some(3) && text.contains(told), "{text}");
    let (code, _, error) = asked(results, &["baseline", "save", "new"]);
    assert!(code == Some(2) && error.contains(told), "{error}");
    let (code, _, error) = asked(results, &["compare", "x", "new"]);
    assert!(code == Some(2) && error.contains(told), "{error}");

    // Nor is a run gone on with.
    let [old, new] = ["old", "new"].map(|id| Header::read(results, id).unwrap());
    old.goes_on_with(&old.machine, &old.kernels).unwrap();
    let error = old.goes_on_with(&new.machine, &new.kernels).unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage);
    let error = format!("{error:#}");
    let want = "run old was begun with another user space udev (bookworm);";
    assert!(error.contains(want), "{error}");
}

/// What a variant does not boot with is none of its parts.
#[test]
fn a_change_for_good_is_told_with_the_image_that_changed_there() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    for number in 0..20 {
        let mut header = header(&format!("night{number:02}"));
        header.begun = format!("2026-01-{:02}T03:00:00Z", number + 1);
        let (key, churn) = match number < 11 {
            true => ("252.1", 100 * MS),
            false => ("252.2", 200 * MS),
        };
        run_of(results, header, key, churn);
    }
    let (code, json, error) = said(xtask(&["trend", results.to_str().unwrap(), "--json"]));
    assert_eq!(code, Some(1), "{error}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let changes = json["changes"].as_array().unwrap();
    let also = |variant: &str| {
        let change = changes.iter().find(|c| c["variant"] == variant).unwrap();
        assert_eq!(change["metric"], "churn");
        change["also_changed"].clone()
    };
    assert_eq!(
        also("udev"),
        serde_json::json!(["user space udev (bookworm)"])
    );
    assert_eq!(also("without"), serde_json::json!([]));
}

/// A series that came with `--series` is what is compared, whatever it is called.
#[test]
fn a_series_under_test_goes_by_one_name_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    for (id, series, key) in [("v18", "v18@1", "a"), ("v19", "v19@2", "b")] {
        let mut scenario = scenario();
        for variant in &mut scenario.variants {
            variant.series = Some(series.into());
        }
        let mut header = header(id);
        header.kernels[0].spec.series = Some(series.into());
        header.kernels[0].key = key.into();
        make(results, &header, &trials(scenario, 1), &Scripted::good());
    }
    let (code, _, error) = asked(results, &["baseline", "save", "v18"]);
    assert_eq!(code, Some(0), "{error}");
    for before in ["v18", "scripted"] {
        let (code, text, error) = asked(results, &["compare", before, "v19"]);
        assert_eq!(code, Some(0), "{text}{error}");
        assert!(
            text.contains("kernel 6.1+under test was built from other patches"),
            "{text}"
        );
    }
    let (code, text, _) = asked(results, &["baseline", "check", "v19"]);
    assert!(
        code == Some(3) && text.contains("kernel 6.1+under test was built otherwise"),
        "{text}"
    );
}

/// Those that are committed were saved before images were recorded.
#[test]
fn baselines_that_name_no_image_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = baselines::load(&root.join("results/baselines"), "shutdown-2018").unwrap();
    assert!(read.identity.images.is_empty() && !read.identity.kernels.is_empty());
    assert_eq!(read.identity.differs(&read.identity), [""; 0]);
}
