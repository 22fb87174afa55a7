// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real boots with the tracer that take too long for each change: several CPUs, kexec, a kernel
//! without anything of ours, symbols that do not fit. Run by
//! `cargo test -p xtask --test nightly_tracer -- --ignored --test-threads=1`.
#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bootrig::{
    core::{
        qemu_version::QemuVersion,
        trace::record::{Mark, Record},
    },
    edge::{cache::Cache, qemu, tracer},
};

const SCENARIO: &str = r#"
about: A few devices that sleep, restarted one way and the other.
kernel: "6.1"
machine: {type: microvm, cpus: 1, memory: 256 MiB}
timeout: 120 s
devices:
  - {name: nic, profile: misc-10ms, count: 3}
variants:
  reset: {order: serial}
  kexec: {order: serial, restart: kexec}
measure: [boot, device_shutdown, reboot]
"#;

fn xtask(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    let code = output.status.code().unwrap();
    (code, String::from_utf8_lossy(&both).into_owned())
}

/// A run of [`SCENARIO`] in `dir`, and the records of its variants.
fn bench(dir: &Path, more: &[&str]) -> (String, Vec<Record>) {
    let scenario = dir.join("ways.yaml");
    fs::write(&scenario, SCENARIO).unwrap();
    let results = dir.join("results");
    let _ = fs::remove_dir_all(&results);
    let mut args = vec!["bench", scenario.to_str().unwrap()];
    args.extend(["--results", results.to_str().unwrap()]);
    args.extend(more);
    let (code, said) = xtask(&args);
    assert_eq!(code, 0, "{said}");
    let run = fs::read_dir(&results).unwrap().next().unwrap().unwrap();
    let read = |variant: &str| {
        let path = run.path().join(format!("traces/ways+{variant}.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let records = ["reset", "kexec"].map(read);
    (said, records.into())
}

/// Image and symbols of the kernel that the scenario boots.
fn built(dir: &Path) -> (PathBuf, PathBuf) {
    bench(dir, &["--mark", "device_shutdown"]);
    let run = fs::read_dir(dir.join("results")).unwrap().next().unwrap();
    let header = fs::read_to_string(run.unwrap().path().join("run.yaml")).unwrap();
    let key = header.split("key: ").nth(1).unwrap();
    let key = key.split_whitespace().next().unwrap();
    let folder = Cache::open(&|_| {})
        .unwrap()
        .root()
        .join("kernel")
        .join(key);
    (folder.join("bzImage"), folder.join("System.map"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn sums(record: &Record) {
    for window in &record.windows {
        let parts = window.tasks + window.interrupts + window.user + window.firmware;
        let sum = parts * window.ns_per_instruction + window.idle + window.unaccounted;
        assert_eq!(sum, window.length, "{}", window.window);
        // Of the kernel that kexec begins, some 25 instructions too many are counted where there
        // are several CPUs (docs/tracer.md).
        let over_kexec = ["all", "kernel_kexec", "machine_kexec"].contains(&&*window.window)
            && record.boot.contains("kexec");
        let may = if over_kexec { 100 } else { 0 };
        assert!(
            window.unaccounted.abs() <= may,
            "{} of {}: {}",
            window.window,
            record.boot,
            window.unaccounted
        );
        assert!(window.attributed() >= 0.995, "{}", window.window);
    }
}

/// Each CPU has its own stack, and the parts add up with two and four of them as with one;
/// kexec ends no window early.
#[test]
#[ignore = "real boots, nightly"]
fn several_cpus_and_kexec_add_up() {
    let dir = tempfile::tempdir().unwrap();
    for cpus in ["1", "2", "4"] {
        let (_, records) = bench(dir.path(), &["--profile", "--cpus", cpus]);
        for record in &records {
            assert!(record.complete && record.stacks);
            sums(record);
            let shutdown = record.window("device_shutdown").unwrap();
            assert!(!shutdown.cut, "{}", record.boot);
        }
        let last = if cpus == "1" {
            "kernel_kexec"
        } else {
            "machine_kexec"
        };
        let kexec = &records[1].marks;
        let of = |m: &&Mark| m.function == last || m.function == "machine_kexec";
        assert!(kexec.iter().any(|m| of(&m)), "{kexec:#?}");
    }
}

/// A kernel as it is, with no module of ours: from its boot to the next PID 1, at the same
/// nanosecond each time; and what does not fit it is refused.
#[test]
#[ignore = "real boots, nightly"]
fn a_kernel_without_anything_of_ours_from_boot_to_reboot() {
    let dir = tempfile::tempdir().unwrap();
    let (image, map) = built(dir.path());
    let boot = |symbols: &Path, more: &[&str]| {
        let given = ["--kernel", text(&image), "--symbols", text(symbols)];
        xtask(&[&["profile", "boot"][..], &given, more].concat())
    };
    let (code, said) = boot(&map, &[]);
    assert_eq!(code, 0, "{said}");
    for phase in ["boot", "device_shutdown", "next boot", "reboot"] {
        assert!(said.contains(&format!("| {phase} ")), "{phase}: {said}");
    }
    let (_, again) = boot(&map, &[]);
    assert_eq!(said, again);
    let (code, said) = boot(&map, &["--profile=device_shutdown", "--cpus", "2"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("what the time went into"), "{said}");

    // The kernel lies elsewhere than its symbols say.
    let moved: String = fs::read_to_string(&map)
        .unwrap()
        .lines()
        .map(|line| {
            let (address, rest) = line.split_once(' ').unwrap();
            let address = u64::from_str_radix(address, 16).unwrap();
            // As KASLR does it, the kernel lies above.
            let by = if address >> 31 == u64::MAX >> 31 {
                0x0100_0000
            } else {
                0
            };
            format!("{:016x} {rest}\n", address - by)
        })
        .collect();
    let file = dir.path().join("moved.map");
    fs::write(&file, moved).unwrap();
    let (code, said) = boot(&file, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("nokaslr"), "{said}");

    // A file that is no kernel, and symbols that are none.
    let (code, said) = xtask(&[
        "profile",
        "boot",
        "--kernel",
        text(&map),
        "--symbols",
        text(&map),
    ]);
    assert_eq!(code, 2, "{said}");
    let (code, said) = boot(&image, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("System.map"), "{said}");
    let (code, said) = boot(&map, &["--mark", "device_shutdwon"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("did you mean `device_shutdown`"), "{said}");

    // A panic in a window: there is no PID 1.
    let window = ["--mark", "kernel_init", "--profile=kernel_init"];
    let panics = ["--append", "initcall_blacklist=populate_rootfs"];
    let (code, said) = boot(&map, &[window, [panics[0], panics[1], "--cpus=1"]].concat());
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("cut: the machine was reset or ended"),
        "{said}"
    );
}

/// A tracer built for another QEMU is refused by this one, and built anew.
#[test]
#[ignore = "real boots, nightly"]
fn a_tracer_for_another_qemu_is_built_anew() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let cache = Cache::open(&|_| {}).unwrap();
    let qemu = qemu::find(None).unwrap();
    // As if it were of another version than it is.
    let wrong = QemuVersion::parse("QEMU emulator version 8.2.0").unwrap();
    assert_ne!(wrong.plugin_api(), qemu.version.plugin_api());
    let found = tracer::provide(root, &cache, &qemu.program, wrong, &|_| {}).unwrap();
    let tracer::Tracer::Ready { api, .. } = found else {
        panic!("no tracer for QEMU {}", qemu.version);
    };
    assert_ne!(api, wrong.plugin_api());
}
