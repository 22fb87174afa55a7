// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real boots with the tracer. Run by `cargo xtask test`.
#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use bootrig::core::{
    boot::TrialResult,
    event::Mark as ModuleMark,
    trace::{
        record::{Mark, Record},
        tally::Wait,
    },
};

const SCENARIO: &str = r#"
about: A few devices that sleep and wait, for the tracer.
kernel: "6.1"
machine: {type: microvm, cpus: 1, memory: 256 MiB}
timeout: 120 s
devices:
  - {name: nic, profile: misc-10ms, count: 3}
variants:
  stock: {order: serial}
measure: [boot, probe, device_shutdown]
"#;

fn bench(dir: &Path, more: &[&str]) -> (Output, PathBuf) {
    let scenario = dir.join("traced.yaml");
    fs::write(&scenario, SCENARIO).unwrap();
    let results = dir.join("results");
    let before = runs(&results);
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", scenario.to_str().unwrap(), "--jobs", "1"])
        .args(["--results", results.to_str().unwrap()])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let run = runs(&results).into_iter().find(|r| !before.contains(r));
    (output, run.unwrap_or_default())
}

fn runs(results: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(results).into_iter().flatten();
    entries.map(|e| e.unwrap().path()).collect()
}

fn record(run: &Path) -> Record {
    let path = run.join("traces/traced+stock.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn result(run: &Path) -> TrialResult {
    let path = run.join("trials/traced+stock+0.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn ok(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// The marks of the module and the tracer's, of two boots that are the same to the nanosecond.
fn agree(result: &TrialResult, marks: &[Mark]) {
    const MOST: u64 = 10_000;
    let log = result.log.as_ref().unwrap();
    let close = |what: &str, theirs: u64, ours: i64| {
        let apart = theirs.abs_diff(ours as u64);
        assert!(
            apart <= MOST,
            "{what}: {theirs} and {ours} are {apart} ns apart"
        );
    };
    // One tick of the counter is a nanosecond of virtual time.
    let begin = log.marks[&ModuleMark::ShutdownBegin];
    let of = |function: &str| marks.iter().find(|m| m.function == function).unwrap();
    close("shutdown_begin", begin.tsc, of("device_shutdown").entered);
    let end = log.marks[&ModuleMark::ShutdownEnd];
    close("shutdown_end", end.tsc, of("syscore_shutdown").entered);
    let offset = begin.tsc - begin.mono.0;
    let ours: Vec<&Mark> = marks
        .iter()
        .filter(|m| m.function == "pci_device_shutdown" && m.left.unwrap() - m.entered > 5_000_000)
        .collect();
    let theirs: Vec<_> = log.shutdowns().collect();
    assert_eq!((ours.len(), theirs.len()), (3, 3), "{marks:#?}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        close("a callback's begin", theirs.begin.0 + offset, ours.entered);
        close(
            "a callback's end",
            theirs.end.unwrap().0 + offset,
            ours.left.unwrap(),
        );
        assert!(ours.what.starts_with("0000:"), "{}", ours.what);
    }
}

#[test]
#[ignore = "real boot"]
fn marks_by_symbol_agree_with_the_modules() {
    let dir = tempfile::tempdir().unwrap();
    let (output, run) = bench(dir.path(), &["--mark", "pci_enable_device"]);
    ok(&output);
    let record = record(&run);
    assert!(record.complete && record.windows.is_empty());
    agree(&result(&run), &record.marks);
    let initcall = |m: &&Mark| m.function == "do_one_initcall" && m.what == "pci_sysfs_init";
    assert!(
        record
            .marks
            .iter()
            .any(|m| m.function == "pci_enable_device")
    );
    assert!(
        record
            .marks
            .iter()
            .find(initcall)
            .is_some_and(|m| m.left.is_some()),
        "{:#?}",
        record.marks
    );
}

#[test]
#[ignore = "real boot"]
fn a_profile_accounts_for_every_nanosecond_and_is_the_same_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (output, run) = bench(dir.path(), &["--profile"]);
    ok(&output);
    let first = record(&run);
    assert!(first.complete && first.stacks);
    agree(&result(&run), &first.marks);
    let shutdown = first.window("device_shutdown").unwrap();
    assert_eq!(shutdown.unaccounted, 0);
    // A kernel thread that waits for something else meanwhile (do_free_init()) may run next, and
    // then the time is named after it; whose shutdown was under way is told all the same.
    let of = |function: i32| format!("0000:00:01.{function}");
    for device in [0, 1, 2].map(of) {
        let under_way = |w: &&Wait| w.device == device;
        let slept: i64 = shutdown.waits.iter().filter(under_way).map(|w| w.ns).sum();
        assert!(
            slept > 8_000_000,
            "{device} slept 10 ms: {:#?}",
            shutdown.waits
        );
    }
    let in_callback =
        |w: &&Wait| w.stack.iter().any(|f| f == "dummy_run [dummy_pci]") && w.task == "init";
    assert!(
        shutdown.waits.iter().any(|w| in_callback(&w)),
        "{:#?}",
        shutdown.waits
    );
    for window in &first.windows {
        let parts = window.tasks + window.interrupts + window.user + window.firmware;
        let sum = parts * window.ns_per_instruction + window.idle + window.unaccounted;
        assert_eq!(sum, window.length, "{}", window.window);
        assert!(
            window.attributed() >= 0.995,
            "{}: {}",
            window.window,
            window.attributed()
        );
        // A thousandth of a thousandth, and what the first exceptions take.
        assert!(
            window.unaccounted.abs() <= 200 + window.length / 1_000_000,
            "{}",
            window.window
        );
    }
    let (output, run) = bench(dir.path(), &["--profile"]);
    ok(&output);
    assert_eq!(record(&run), first);
    assert!(run.join("traces/traced+stock.boot.svg").is_file());
}

/// Frames of the deepest call stack in the run's flame graphs.
fn deepest(run: &Path) -> usize {
    let files = fs::read_dir(run.join("traces")).unwrap();
    let folded = files
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "folded"))
        .map(|p| fs::read_to_string(p).unwrap());
    let depth = |text: String| text.lines().map(|l| l.matches(';').count()).max();
    folded.filter_map(depth).max().unwrap()
}

/// Tasks go from CPU to CPU, and each keeps its call stack.
#[test]
#[ignore = "real boot"]
fn two_cpus_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (output, run) = bench(dir.path(), &["--profile", "--cpus", "2"]);
    ok(&output);
    let record = record(&run);
    agree(&result(&run), &record.marks);
    for window in &record.windows {
        assert_eq!(window.unaccounted, 0, "{}", window.window);
        assert!(window.attributed() >= 0.995, "{}", window.window);
    }
    let shutdown = record.window("device_shutdown").unwrap();
    assert!(!shutdown.cut && shutdown.idle > 25_000_000);
    let sleeps = |w: &&Wait| w.stack.iter().any(|f| f == "dummy_run [dummy_pci]");
    assert!(
        shutdown
            .waits
            .iter()
            .find(sleeps)
            .is_some_and(|w| w.task == "init")
    );
    // Whole, whoever slept: from where a task enters the kernel or begins.
    for wait in &shutdown.waits {
        let first = wait.stack.first().map_or("", String::as_str);
        let begins = ["entry_SYSCALL_64", "ret_from_fork"].contains(&first);
        assert!(begins, "{wait:#?}");
    }
    let deepest = deepest(&run);
    assert!((15..=80).contains(&deepest), "{deepest} frames");
}

#[test]
#[ignore = "real boot"]
fn what_cannot_be_traced_is_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let (output, run) = bench(dir.path(), &["--mark", "device_shutdwon"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(run, PathBuf::new(), "nothing was booted");
    assert!(said.contains("did you mean `device_shutdown`"), "{said}");
    // Symbols of another kernel: every function a little further on.
    let (output, run) = bench(dir.path(), &[]);
    ok(&output);
    let header = fs::read_to_string(run.join("run.yaml")).unwrap();
    let key = header
        .split("key: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    let cache = bootrig::edge::cache::Cache::open(&|_| {}).unwrap();
    let map = cache.root().join("kernel").join(key).join("System.map");
    let moved: String = fs::read_to_string(map)
        .unwrap()
        .lines()
        .map(|line| {
            let (address, rest) = line.split_once(' ').unwrap();
            let address = u64::from_str_radix(address, 16).unwrap();
            let by = if rest.starts_with(['t', 'T']) && !rest.contains(" _") {
                5
            } else {
                0
            };
            format!("{:016x} {rest}\n", address + by)
        })
        .collect();
    let file = dir.path().join("System.map");
    fs::write(&file, moved).unwrap();
    let (output, _) = bench(
        dir.path(),
        &["--profile", "--symbols", file.to_str().unwrap()],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("another kernel"), "{said}");
}
