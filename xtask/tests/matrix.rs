// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask matrix`: the checkout's, and ones that are wrong.
#![allow(missing_docs)]

mod support;

use std::{fs, process::Command};

use bootrig::core::fault::Exit;
use support::runs::{said, xtask};

fn matrix(args: &[&str]) -> (Option<i32>, String, String) {
    said(xtask(&[&["matrix"], args].concat()))
}

#[test]
fn the_checkouts_matrix_is_written_in_every_form() {
    let (code, table, error) = matrix(&[]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(table.contains("| shutdown-2018"), "{table}");
    for tag in ["quick", "nightly", "weekly"] {
        let (code, json, error) = matrix(&["--tag", tag, "--format", "github"]);
        assert_eq!(code, Some(0), "{error}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let jobs = json["include"].as_array().unwrap();
        assert!(!jobs.is_empty());
        let (_, yaml, _) = matrix(&["--tag", tag, "--format", "gitlab"]);
        let yaml: serde_json::Value = serde_yaml::from_str(&yaml).unwrap();
        let all = yaml.as_object().unwrap();
        assert_eq!(all.keys().filter(|k| k.contains('/')).count(), jobs.len());
        let (_, script, _) = matrix(&["--tag", tag, "--format", "slurm"]);
        let array = format!("#SBATCH --array=1-{}\n", jobs.len());
        assert!(script.contains(&array), "{script}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("array.sh");
        fs::write(&path, script).unwrap();
        let checked = Command::new("bash").arg("-n").arg(&path).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
}

/// What a task of the array calls, and what joins the shards afterwards.
#[test]
fn the_job_array_calls_bench_and_merge() {
    let (_, script, _) = matrix(&["--tag", "quick", "--format", "slurm", "--shards", "2"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array.sh");
    fs::write(&path, script).unwrap();
    let called = |task: &str, args: &[&str]| {
        let output = Command::new("bash")
            .arg(&path)
            .args(args)
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_ARRAY_JOB_ID", "17")
            .env("BOOTRIG_RESULTS", "kept here")
            .env("BOOTRIG_XTASK", "echo")
            .output()
            .unwrap();
        said(output)
    };
    let (code, out, error) = called("2", &[]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(
        out,
        "bench global-lock shutdown-2018 zero-delay-500 memory-growth@257 udev-storm@256 --on 6.1 --clock virtual --keep-going --run quick.6.1.virtual.17 --shard 2/2 --results kept here\n"
    );
    let (code, _, error) = called("5", &[]);
    assert!(
        code == Some(2) && error.contains("there is no shard 5"),
        "{error}"
    );
    let (code, out, _) = called("", &["merge", "17"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        out,
        "merge kept here/quick.6.1.virtual.17.*-of-2 --results kept here\n\
         merge kept here/quick.5.10.virtual.17.*-of-2 --results kept here\n"
    );
}

#[test]
fn what_is_unknown_is_named_with_its_line_and_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.yaml");
    for (text, why) in [
        (
            "parts:\n  - tags: [quick]\n    kernels: [\"6.2\"]\n",
            "mine.yaml:3:15: unknown kernel `6.2` in parts[0].kernels[0]; did you mean `6.12`?",
        ),
        (
            "parts:\n  - tags: [quick]\n    scenarios: [shutdown2018]\n",
            "mine.yaml:3:17: unknown scenario `shutdown2018` in parts[0].scenarios[0]; did you mean `shutdown-2018`?",
        ),
        (
            "parts:\n  - tags: [quick]\n    scenarios: [global-lock]\n    variants: [paralel, stock]\n",
            "mine.yaml:4:16: unknown variant `paralel` in parts[0].variants[0]; did you mean `parallel`?",
        ),
        (
            "parts:\n  - tags: [nightli]\n",
            "mine.yaml:2:12: parts[0].tags[0] cannot be `nightli`; did you mean `nightly`?",
        ),
        ("parts: []\n", "mine.yaml:1:8: parts is empty"),
        (
            "parts:\n  - {tags: [quick], scenarios: [links]",
            "not valid YAML",
        ),
        ("", "the file is empty"),
    ] {
        fs::write(&path, text).unwrap();
        let (code, out, error) = matrix(&["--file", path.to_str().unwrap()]);
        assert_eq!(
            (code, out.as_str()),
            (Some(Exit::Usage as i32), ""),
            "{error}"
        );
        assert!(error.contains(why), "{why}\n{error}");
    }
    fs::write(&path, "parts: [{tags: [quick], scenarios: [links]}]").unwrap();
    let file = path.to_str().unwrap();
    let (code, _, error) = matrix(&["--file", file, "--tag", "weekly"]);
    assert!(
        code == Some(2) && error.contains("has no cell tagged weekly"),
        "{error}"
    );
    let (code, _, error) = matrix(&["--tag", "hourly"]);
    assert!(
        code == Some(2) && error.contains("possible values: quick, nightly, weekly"),
        "{error}"
    );
}
