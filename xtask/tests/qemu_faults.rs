// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a boot when QEMU or its guest misbehaves; QEMU's part is played by
//! scripts.
#![allow(missing_docs)]

mod fake_qemu;

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use bootrig::{
    core::{machine::End, units::Nanos},
    edge::qemu::{AccelChoice, Accelerator, Limits, Probe, ProbeImage, find},
};
use fake_qemu::{Fake, ends, program, qemu};

/// Much longer than any of these scripts takes.
fn patient() -> Limits {
    Limits::within(Nanos(120_000_000_000))
}
/// For scripts that never end.
fn impatient() -> Limits {
    Limits {
        run: Duration::from_millis(300),
        ..patient()
    }
}

fn check(end: &End, kind: &str, parts: &[&str]) {
    let text = format!("{end:?}");
    assert!(text.starts_with(kind), "{text} is not {kind}");
    for part in parts {
        assert!(text.contains(part), "{text} does not say {part}");
    }
}

#[test]
fn a_good_boot_is_read_whole() {
    let fake = Fake::new(
        "hello 1; leave; hello 2; say 'reboot: Restarting system'; printf end >> \"$channel\"; exit 33",
    );
    let raw = fake.boot(&patient());
    assert_eq!(raw.end, End::Finished);
    assert!(raw.channel.starts_with(b"bootrig1 i 0 hello boot=1") && raw.channel.ends_with(b"end"));
    assert_eq!(raw.console, b"reboot: Restarting system\n");
}

#[test]
fn an_earlier_boots_files_are_not_read() {
    let fake = Fake::new("rm \"$channel\" \"$console\"; exit 33");
    for path in [&fake.files.channel, &fake.files.console] {
        fs::write(path, "Kernel panic - not syncing: of old\n").unwrap();
    }
    let raw = fake.boot(&patient());
    assert_eq!(
        (raw.end, raw.channel, raw.console),
        (End::Finished, vec![], vec![])
    );
}

#[test]
fn killed() {
    let raw = Fake::new("hello 1; kill -9 $$").boot(&patient());
    check(&raw.end, "Machine", &["killed by signal 9"]);
    assert!(
        raw.channel.starts_with(b"bootrig1"),
        "what it wrote is kept"
    );
}

#[test]
fn killed_though_its_children_live() {
    let fake = Fake::new("hello 1; sleep 1000 & echo $! > \"$dir/pid\"; kill -9 $$");
    check(
        &fake.boot(&patient()).end,
        "Machine",
        &["killed by signal 9"],
    );
    assert!(ends(fake.pid("pid")));
}

#[test]
fn refuses_to_start() {
    let raw = Fake::new("echo 'qemu: could not set up guest memory' >&2; exit 1").boot(&patient());
    check(
        &raw.end,
        "Machine",
        &["exit status 1", "could not set up guest memory"],
    );
}

#[test]
fn ends_early() {
    check(
        &Fake::new("hello 1; exit 0").boot(&patient()).end,
        "Early",
        &["powered off"],
    );
    check(
        &Fake::new("hello 1; echo lost my disk >&2; exit 1")
            .boot(&patient())
            .end,
        "Early",
        &["exit status 1", "lost my disk"],
    );
}

#[test]
fn the_guest_gives_up_and_says_why() {
    let play = "hello 1; echo 'bootrig1 i 1 error what=load:marks errno=2 #12345678' >> \"$channel\"; exit 35";
    check(
        &Fake::new(play).boot(&patient()).end,
        "Early",
        &["PID 1 gave up", "what=load:marks errno=2"],
    );
}

#[test]
fn garbage_on_the_channel_is_handed_on() {
    let raw = Fake::new("head -c 300000 /dev/urandom >> \"$channel\"; exit 33").boot(&patient());
    assert_eq!((raw.end, raw.channel.len()), (End::Finished, 300_000));
}

#[test]
fn floods_are_dammed() {
    for file in ["channel", "console"] {
        let fake = Fake::new(&format!(
            "echo $$ > \"$dir/pid\"; while :; do head -c 100000 /dev/zero >> \"${file}\"; done"
        ));
        let raw = fake.boot(&Limits {
            channel: 1 << 20,
            console: 1 << 20,
            ..patient()
        });
        check(&raw.end, "Deadline", &["wrote more than 1 MiB", file]);
        assert!(raw.channel.len().max(raw.console.len()) <= 1 << 20);
        assert!(ends(fake.pid("pid")));
    }
}

#[test]
fn hangs_are_ended_with_all_their_children() {
    let fake =
        Fake::new("hello 1; echo $$ > \"$dir/pid\"; sleep 1000 & echo $! > \"$dir/child\"; wait");
    check(
        &fake.boot(&impatient()).end,
        "Deadline",
        &["300.0 ms", "PID 1's leave"],
    );
    assert!(ends(fake.pid("pid")) && ends(fake.pid("child")));
}

#[test]
fn each_phase_has_its_limit() {
    let short = Duration::from_millis(300);
    let never = "sleep 1000 & wait";
    for (play, limits, awaited) in [
        (
            "",
            Limits {
                boot: short,
                ..patient()
            },
            "PID 1's hello",
        ),
        (
            "hello 1; leave;",
            Limits {
                reboot: short,
                ..patient()
            },
            "second boot's hello",
        ),
        (
            "hello 1; leave; hello 2;",
            Limits {
                whole: short,
                ..patient()
            },
            "machine's end",
        ),
    ] {
        check(
            &Fake::new(&format!("{play} {never}")).boot(&limits).end,
            "Deadline",
            &[awaited],
        );
    }
}

#[test]
fn a_panic_ends_the_boot_with_its_whole_text() {
    let fake = Fake::new(
        "hello 1; say '[ 1.0] Kernel panic - not syncing: x'; sleep 0.1; say '[ 1.1] ---[ end Kernel panic'; sleep 1000 & wait",
    );
    let raw = fake.boot(&patient());
    check(&raw.end, "Splat", &["Kernel panic - not syncing: x"]);
    assert!(
        raw.console.ends_with(b"---[ end Kernel panic\n"),
        "{:?}",
        String::from_utf8_lossy(&raw.console)
    );
}

#[test]
fn a_report_just_before_a_good_end_counts() {
    let raw = Fake::new("say 'rcu: INFO: rcu_sched self-detected stall on CPU'; exit 33")
        .boot(&patient());
    check(&raw.end, "Splat", &["self-detected stall"]);
}

/// By the wall clock it says nothing about the guest; measuring then makes the boot again.
#[test]
fn a_lost_clock_is_the_machines_failure_by_the_wall_clock_only() {
    let lost = "say '[ 0.0] tsc: Marking TSC unstable due to could not calculate TSC khz'; hello 1; exit 33";
    check(
        &Fake::new(lost).wall().boot(&patient()).end,
        "Machine",
        &["emulated clock failed", "Marking TSC unstable", "too busy"],
    );
    assert_eq!(Fake::new(lost).boot(&patient()).end, End::Finished);
}

#[test]
fn a_full_disk_is_no_fault_of_the_guests() {
    let fake = Fake::new("hello 1; exit 33");
    symlink("/dev/full", fake.dir.path().join("room")).unwrap();
    check(
        &fake.boot(&patient()).end,
        "Machine",
        &["No space left", "make room"],
    );
}

#[test]
fn missing_old_and_odd_programs() {
    let error = |path: &Path| format!("{:#}", find(Some(path)).unwrap_err());
    assert!(error(Path::new("/nonexistent/qemu")).contains("/nonexistent/qemu"));
    assert!(error(&program("old")).contains("is QEMU 6.2.0; 7.2.0 or newer is needed"));
    assert!(error(&program("mute")).contains("does not say its version: `this is no machine`"));
    assert!(error(&program("failing")).contains("no such library"));
    assert_eq!(find(Some(&program("player"))).unwrap(), qemu());
    assert!(!find(Some(&program("unfenced"))).unwrap().sandbox);
    let mut fake = Fake::new("exit 33");
    fake.line.program = "/nonexistent/qemu".into();
    check(
        &fake.boot(&patient()).end,
        "Machine",
        &["starting /nonexistent/qemu"],
    );
}

/// Asks whether KVM works, where the probe's guest does what `play` says.
fn probe(choice: AccelChoice, device: &Path, play: &str) -> Result<Accelerator, String> {
    let fake = Fake::new(play);
    probe_with(&fake, choice, device, "key")
}

fn probe_with(
    fake: &Fake,
    choice: AccelChoice,
    device: &Path,
    key: &str,
) -> Result<Accelerator, String> {
    let image = ProbeImage {
        kernel: "kernel".into(),
        initrd: fake.files.initrd.clone(),
        key: key.into(),
    };
    let memory = fake.dir.path().join("memory");
    let probe = Probe {
        device,
        qemu: &qemu(),
        image: &image,
        memory: &memory,
        patience: Nanos(1_000_000_000),
    };
    probe.choose(choice).map_err(|e| format!("{e:#}"))
}

#[test]
fn kvm_is_used_only_where_a_guest_came_up() {
    use AccelChoice::{Auto, Kvm, Tcg};
    let usable = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(
        probe(Auto, usable.path(), "hello 1; exit 33"),
        Ok(Accelerator::Kvm)
    );
    assert_eq!(
        probe(Kvm, usable.path(), "hello 1; exit 35"),
        Ok(Accelerator::Kvm)
    );
    for (device, play, why) in [
        (
            Path::new("/nonexistent/kvm"),
            "exit 33",
            "there is no /nonexistent/kvm",
        ),
        (Path::new("/proc"), "exit 33", "opening /proc"),
        (
            usable.path(),
            "sleep 1000 & wait",
            "did not come up within 1.000 s",
        ),
        (
            usable.path(),
            "echo 'invalid accelerator kvm' >&2; exit 1",
            "built without KVM",
        ),
        (
            usable.path(),
            "echo 'kvm_buf_set_msrs: Assertion' >&2; kill -ABRT $$",
            "signal 6: kvm_buf_set_msrs",
        ),
        (
            usable.path(),
            "say 'Kernel panic - not syncing: x'; sleep 1000 & wait",
            "died: Kernel panic",
        ),
        (usable.path(), "say x; exit 0", "powered off"),
    ] {
        let Ok(Accelerator::Tcg { why: found }) = probe(Auto, device, play) else {
            panic!("{why}: KVM")
        };
        assert!(found.contains(why), "{found} does not say {why}");
        let error = probe(Kvm, device, play).unwrap_err();
        assert!(error.contains(why) && error.contains("--accel"), "{error}");
        assert_eq!(
            probe(Tcg, device, play),
            Ok(Accelerator::Tcg {
                why: "as asked".into()
            })
        );
    }
}

#[test]
fn the_probes_answer_is_remembered_while_the_question_is_the_same() {
    let usable = tempfile::NamedTempFile::new().unwrap();
    let fake = Fake::new("echo x >> \"${play%/*}/probes\"; exit 33");
    let probes = || {
        fs::read_to_string(fake.dir.path().join("probes"))
            .unwrap()
            .lines()
            .count()
    };
    let ask = |key| {
        assert_eq!(
            probe_with(&fake, AccelChoice::Auto, usable.path(), key),
            Ok(Accelerator::Kvm)
        )
    };
    ask("key");
    ask("key");
    assert_eq!(probes(), 1);
    ask("another kernel");
    assert_eq!(probes(), 2);
    fs::write(
        fake.dir.path().join("memory/accelerator.json"),
        "{\"identity\":",
    )
    .unwrap();
    ask("another kernel");
    assert_eq!(probes(), 3, "half an answer is none");
}
