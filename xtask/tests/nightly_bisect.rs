// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole search over a real kernel: 200 commits made from the source of 6.1, one of which
//! makes the shutdown 3 % slower. It builds a kernel from nothing and some more by steps, a
//! quarter of an hour, so it belongs to the nightly set:
//! `cargo test -p xtask --test nightly_bisect -- --ignored --nocapture`. With BOOTRIG_PROOF set to a
//! folder, the history is made there and both stay.
#![allow(missing_docs)]

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bootrig::{
    edge::{cache::Cache, kernel},
    rig::checkout,
};

const COMMITS: usize = 200;
/// Does not build; the next commit mends it. This one, the next and the one that changes a
/// comment are where halving looks.
const BROKEN: usize = 99;
/// Panics as soon as there is a console to say so; the next commit mends it.
const DEAD: usize = 149;
const COMMENT: usize = 153;
const CULPRIT: usize = 156;

const CORE: &str = "drivers/base/core.c";
const REBOOT: &str = "kernel/reboot.c";
const INIT: &str = "init/main.c";

/// Files of the driver core that every configuration compiles; the other commits add a constant
/// to one of them.
const OTHERS: [&str; 8] = [
    "drivers/base/bus.c",
    "drivers/base/driver.c",
    "drivers/base/class.c",
    "drivers/base/platform.c",
    "drivers/base/cpu.c",
    "drivers/base/devres.c",
    "drivers/base/property.c",
    "drivers/base/syscore.c",
];

fn git(repository: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository);
    git
}

fn run(mut command: Command) -> String {
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    assert!(out.status.success(), "{command:?}: {out:?}");
    text
}

/// What commit `n` (its parent's text is given) makes of a file.
fn edit(n: usize, text: &str, file: &str) -> String {
    let once = |from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
        text.replacen(from, to, 1)
    };
    let dead = "\tconsole_init();\n";
    match n {
        BROKEN => format!("{text}\n#error not finished\n"),
        _ if n == BROKEN + 1 => text.replace("\n#error not finished\n", ""),
        DEAD => once(dead, &format!("{dead}\tpanic(\"not finished\");\n")),
        _ if n == DEAD + 1 => text.replace("\tpanic(\"not finished\");\n", ""),
        COMMENT => format!("{text}/* Says nothing that was not known. */\n"),
        CULPRIT => once(
            "\t\t\tdev->bus->shutdown(dev);\n",
            "\t\t\tdev->bus->shutdown(dev);\n\t\t\tif (dev->driver && !strcmp(dev->bus->name, \"pci\"))\n\t\t\t\tmdelay(6);\n",
        )
        .replacen("#include <linux/device.h>\n", "#include <linux/delay.h>\n#include <linux/device.h>\n", 1),
        n => format!("{text}static const int proof_{n} __used = {n};\n"),
    }
}

fn file(n: usize) -> &'static str {
    match n {
        BROKEN => REBOOT,
        DEAD => INIT,
        COMMENT | CULPRIT => CORE,
        _ if n == BROKEN + 1 => REBOOT,
        _ if n == DEAD + 1 => INIT,
        _ => OTHERS[n % OTHERS.len()],
    }
}

/// A repository of `COMMITS` commits, made of the tree `source`, which is only read; their names.
fn history(source: &Path, repository: &Path) -> Vec<String> {
    fs::create_dir_all(repository).unwrap();
    let mut init = git(repository);
    init.args(["init", "--quiet", "--bare", "--initial-branch=main"]);
    run(init);
    let in_source = |args: &[&str]| {
        let mut command = git(source);
        command
            .env("GIT_DIR", repository)
            .env("GIT_WORK_TREE", source);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "A Tester");
            command.env(format!("GIT_{who}_EMAIL"), "tester@example.org");
            command.env(format!("GIT_{who}_DATE"), "@0 +0000");
        }
        command.args(["-c", "core.compression=0"]).args(args);
        run(command)
    };
    in_source(&["add", "--all", "--force"]);
    let tree = in_source(&["write-tree"]);
    let first = in_source(&["commit-tree", &tree, "-m", "the source as it is"]);
    in_source(&["update-ref", "refs/heads/main", &first]);
    let mut texts: std::collections::BTreeMap<&str, String> = Default::default();
    let mut stream = String::new();
    for n in 1..COMMITS {
        let name = file(n);
        let read = || fs::read_to_string(source.join(name)).unwrap();
        let text = texts.entry(name).or_insert_with(read);
        *text = edit(n, text, name);
        let subject = format!("{}: change {n}\n", name.trim_end_matches(".c"));
        let from = match n {
            1 => "from refs/heads/main^0\n",
            _ => "",
        };
        let _ = write!(
            stream,
            "commit refs/heads/main\ncommitter A Tester <tester@example.org> {n} +0000\ndata {}\n{subject}{from}M 100644 inline {name}\ndata {}\n{text}\n",
            subject.len(),
            text.len()
        );
    }
    let mut import = git(repository);
    let mut import = import
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = import.stdin.take().unwrap();
    input.write_all(stream.as_bytes()).unwrap();
    drop(input);
    assert!(import.wait().unwrap().success());
    let mut list = git(repository);
    list.args(["rev-list", "--reverse", "main"]);
    run(list).lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "builds kernels for a quarter of an hour"]
fn one_of_200_commits_of_a_real_kernel_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let place =
        std::env::var_os("BOOTRIG_PROOF").map_or_else(|| scratch.path().into(), PathBuf::from);
    let root = checkout().unwrap();
    let cache = Cache::open(&|_| {}).unwrap();
    let source = kernel::source_tree(&root, &cache, "6.1", &|line| eprintln!("{line}")).unwrap();
    drop(cache);
    let repository = place.join("linux.git");
    let _ = fs::remove_dir_all(&repository);
    let commits = history(&source, &repository);
    assert_eq!(commits.len(), COMMITS);
    let results = place.join("results");
    let out = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args([
            "bisect",
            "shutdown-2018",
            "--variant",
            "stock",
            "--metric",
            "device_shutdown",
        ])
        .args([
            "--good",
            &commits[0],
            "--bad",
            &commits[COMMITS - 1],
            "--tree",
        ])
        .arg(&repository)
        .arg("--results")
        .arg(&results)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let report = String::from_utf8_lossy(&out.stdout);
    println!("{said}\n{report}");
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        report.contains(&format!("commit {}", commits[CULPRIT])),
        "{report}"
    );
    assert!(!report.contains("DOES NOT HOLD") && report.matches(": holds: ").count() == 3);
    // Up to the first proof: ends and steps, each of them once.
    let way: Vec<_> = report
        .lines()
        .skip_while(|l| !l.starts_with("## How it was found"))
        .collect();
    let built = way.iter().filter(|l| {
        l.contains("as the old end") || l.contains("as the new end") || l.contains("skipped: panic")
    });
    assert!(built.count() <= 10, "{way:#?}");
    assert!(
        way.iter()
            .any(|l| l.contains("does not build") && l.contains("not finished")),
        "{way:#?}"
    );
    assert!(way.iter().any(|l| l.contains("skipped: panic")), "{way:#?}");
}
