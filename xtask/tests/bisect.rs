// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bisect` and `judge` given what cannot be: through the real commands, with
//! real repositories. Nothing is built or booted.
#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A repository of three commits, with a side branch, and a cache.
struct Lab {
    dir: TempDir,
    commits: Vec<String>,
}

impl Lab {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut lab = Self {
            dir,
            commits: Vec::new(),
        };
        fs::create_dir(lab.tree()).unwrap();
        lab.git(&["init", "--quiet", "--initial-branch=main"]);
        for n in 0..3 {
            fs::write(lab.tree().join("Makefile"), format!("# {n}\n")).unwrap();
            lab.git(&["add", "."]);
            lab.git(&["commit", "--quiet", "-m", "a commit"]);
            lab.commits.push(lab.git(&["rev-parse", "HEAD"]));
            lab.git(&["tag", &format!("v{n}")]);
        }
        lab.git(&["checkout", "--quiet", "-b", "side", "v0"]);
        lab.git(&["commit", "--quiet", "--allow-empty", "-m", "aside"]);
        lab.git(&["checkout", "--quiet", "main"]);
        lab
    }
    fn tree(&self) -> PathBuf {
        self.dir.path().join("linux")
    }
    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.tree());
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        let out = git.args(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
    /// Exit status and standard error.
    fn xtask(&self, args: &[&str]) -> (Option<i32>, String) {
        let out = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(args)
            .args([
                "--results",
                self.dir.path().join("results").to_str().unwrap(),
            ])
            .env("BOOTRIG_CACHE", self.dir.path().join("cache"))
            .output()
            .unwrap();
        assert!(out.stdout.is_empty(), "{out:?}");
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    }
    fn bisect(&self, args: &[&str]) -> (Option<i32>, String) {
        let asked = ["bisect", "shutdown-2018", "--variant", "stock"];
        self.xtask(&[&asked[..], args].concat())
    }
    fn over(&self, tree: &Path, good: &str, bad: &str, more: &[&str]) -> (Option<i32>, String) {
        let metric = ["--metric", "device_shutdown"];
        let tree = [
            "--tree",
            tree.to_str().unwrap(),
            "--good",
            good,
            "--bad",
            bad,
        ];
        self.bisect(&[&metric[..], &tree, more].concat())
    }
}

fn refused((code, text): (Option<i32>, String), want: &[&str]) {
    assert_eq!(code, Some(2), "{text}");
    for want in want {
        assert!(text.contains(want), "{want}: {text}");
    }
}

#[test]
fn ends_that_cannot_be() {
    let lab = Lab::new();
    let tree = lab.tree();
    // A user amid changes: whatever is refused, they stay.
    fs::write(tree.join("Makefile"), "mine\n").unwrap();
    let status = lab.git(&["status", "--porcelain"]);
    refused(
        lab.over(&tree, "v2", "v0", &[]),
        &["v2 comes after v0", "--fixed", "--good v0 --bad v2"],
    );
    refused(
        lab.over(&tree, "v0", "v2", &["--fixed"]),
        &["v2 comes after v0", "leave --fixed out"],
    );
    refused(
        lab.over(&tree, "side", "v2", &[]),
        &["side is no ancestor of v2", "two branches"],
    );
    refused(lab.over(&tree, "v1", "v1", &[]), &["the same commit"]);
    refused(lab.over(&tree, "v9", "v2", &[]), &["no commit `v9`"]);
    refused(
        lab.over(lab.dir.path(), "v0", "v2", &[]),
        &["is no git repository"],
    );
    refused(
        lab.over(Path::new("/nowhere"), "v0", "v2", &[]),
        &["no such folder"],
    );
    let shallow = lab.dir.path().join("shallow");
    let url = format!("file://{}", tree.display());
    lab.git(&[
        "clone",
        "--quiet",
        "--depth=1",
        &url,
        shallow.to_str().unwrap(),
    ]);
    refused(
        lab.over(&shallow, &lab.commits[0], "HEAD", &[]),
        &["shallow clone", "git fetch --unshallow"],
    );
    assert_eq!(lab.git(&["status", "--porcelain"]), status);
    assert!(
        !lab.dir.path().join("results").exists(),
        "nothing was begun"
    );
}

#[test]
fn questions_that_cannot_be() {
    let lab = Lab::new();
    let tree = lab.tree();
    let tree = tree.to_str().unwrap();
    let commits = ["--tree", tree, "--good", "v0", "--bad", "v2"];
    let with = |args: &[&str]| lab.bisect(&[&commits[..], args].concat());
    refused(
        with(&["--metric", "walk"]),
        &["does not record `walk`", "device_shutdown"],
    );
    refused(
        with(&["--metric", "device_shutdwn"]),
        &["does not record `device_shutdwn`", "did you mean"],
    );
    refused(with(&[]), &["name what to look for", "--symptom"]);
    refused(
        with(&["--metric", "boot", "--threshold", "3"]),
        &["unit is missing"],
    );
    refused(
        with(&["--metric", "boot", "--sources", "5.10,6.1"]),
        &["name one thing to search"],
    );
    let metric = ["--metric", "boot"];
    let list = |args: &[&str]| lab.bisect(&[&metric[..], args].concat());
    refused(list(&[]), &["name one thing to search"]);
    refused(
        list(&["--sources", "5.10,6.11"]),
        &["unknown kernel `6.11`", "6.1"],
    );
    refused(list(&["--sources", "5.10"]), &["two places or more"]);
    refused(
        list(&["--sources", "5.10,6.1,5.10"]),
        &["`5.10` is named twice"],
    );
    refused(list(&["--patches"]), &["variant stock", "has no series"]);
    refused(list(&["--options", "SLUB=y"]), &["`SLUB=y` is no option"]);
    refused(list(&["--words", "console=tty0"]), &["is set by bootrig"]);
    refused(list(&["--tree", tree]), &["--good"]);
    refused(
        lab.xtask(&[
            "bisect",
            "memory-growth",
            "--variant",
            "stock",
            "--metric",
            "boot",
            "--sources",
            "5.10,6.1",
        ]),
        &["is a sweep", "@"],
    );
    refused(
        lab.xtask(&[
            "bisect",
            "shutdown-2018",
            "--metric",
            "boot",
            "--sources",
            "5.10,6.1",
        ]),
        &["--variant: name one of shutdown-2018", "parallel"],
    );
    refused(
        lab.xtask(&["bisect", "--resume", "nothing"]),
        &["the folder of no search"],
    );
}

/// git takes 1 to 127, but for 125, as bad: no error may look like that.
#[test]
fn no_error_of_judge_is_an_answer() {
    let lab = Lab::new();
    let judge = |args: &[&str]| lab.xtask(&[&["judge"], args].concat());
    let stock = ["shutdown-2018", "--variant", "stock"];
    for (args, want) in [
        (vec!["--nonsense"], "unexpected argument"),
        (vec!["nowhere", "--variant", "x"], "nowhere"),
        (stock.to_vec(), "name what to look for"),
        ([&stock[..], &["--metric", "boot"]].concat(), "--threshold"),
        (
            [&stock[..], &["--metric", "boot", "--threshold", "3 %"]].concat(),
            "nothing to compare it with",
        ),
        (
            [
                &stock[..],
                &["--symptom", "hang", "--kernel-tree", "/nowhere"],
            ]
            .concat(),
            "no git repository",
        ),
    ] {
        let (code, text) = judge(&args);
        assert_eq!(code, Some(129), "{args:?}: {text}");
        assert!(text.contains(want), "{want}: {text}");
    }
}
