// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo bench -p xtask`: the rig's own cost on this host, in wall time. Not a test: it
//! prints figures and asserts none.
#![allow(missing_docs)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

/// The same program that `cargo xtask` runs.
const XTASK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/debug/xtask");
const ROUNDS: usize = 5;

fn main() {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "xtask"])
        .status();
    assert!(built.expect("cargo runs").success());
    let dir = tempfile::tempdir().unwrap();
    warm(dir.path());
    sleepers(dir.path());
    many_devices(dir.path());
}

/// The default suite with everything cached, beside its bare QEMU commands.
fn warm(dir: &Path) {
    let commands = dry_run(&["shutdown-2018"]);
    let jobs = thread::available_parallelism().unwrap().get();
    let (mut ours, mut bare, mut peak) = (vec![], vec![], 0);
    for _ in 0..ROUNDS {
        bare.push(side_by_side(&commands, jobs));
        let (time, rss) = bench(dir, &["shutdown-2018"]);
        ours.push(time);
        peak = peak.max(rss);
    }
    let (ours, bare) = (median(ours), median(bare));
    println!(
        "warm shutdown-2018, {jobs} jobs, median of {ROUNDS}: {ours:.2?}, bare QEMU {bare:.2?}, ratio {:.3}",
        ratio(ours, bare)
    );
    println!(
        "xtask's peak resident memory: {:.1} MB",
        peak as f64 / 1000.0
    );
}

/// 24 devices that sleep 13 s each, one after another.
fn sleepers(_: &Path) {
    let commands = dry_run(&["sleepers-24"]);
    let times = (0..ROUNDS)
        .map(|_| side_by_side(&commands[..1], 1))
        .collect();
    println!(
        "24 devices x 13 s, serial shutdown, median of {ROUNDS}: {:.2?}",
        median(times)
    );
}

/// 1,024 QEMU PCI devices beside 64.
fn many_devices(dir: &Path) {
    let many = dry_run(&["idle-1024"]);
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../scenarios/idle-1024.yaml"
    ))
    .unwrap();
    let few = text.replace("count: 128", "count: 8");
    assert_ne!(text, few, "the scenario no longer has 8 bridges of 128");
    let path = dir.join("idle-64.yaml");
    fs::write(&path, few).unwrap();
    let few = dry_run(&[path.to_str().unwrap()]);
    let (mut of_many, mut of_few) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        of_many.push(boot(&many[0]));
        of_few.push(boot(&few[0]));
    }
    for (what, pick) in [
        (
            "boot to PID 1",
            (|t| t.0) as fn(&(Duration, Duration)) -> Duration,
        ),
        ("boot, probe, shutdown and records", |t| t.1),
    ] {
        let of = |times: &[_]| median(times.iter().map(pick).collect());
        let (many, few) = (of(&of_many), of(&of_few));
        println!(
            "{what}: 1,024 devices {many:.2?}, 64 devices {few:.2?}, ratio {:.3}",
            ratio(many, few)
        );
    }
}

/// Runs one command; the time until PID 1 speaks, and until the machine ends.
fn boot(command: &str) -> (Duration, Duration) {
    let channel = command
        .split_whitespace()
        .find_map(|word| word.strip_prefix("file,id=channel,path="))
        .expect("the command writes a channel");
    let _ = fs::remove_file(channel);
    let start = Instant::now();
    let mut machine = Command::new("sh")
        .args(["-c", &format!("exec {command}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut spoke = None;
    while machine.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(channel).unwrap_or_default();
        if spoke.is_none() && text.contains("hello boot=1") {
            spoke = Some(start.elapsed());
        }
        thread::sleep(Duration::from_millis(2));
    }
    (spoke.expect("PID 1 speaks"), start.elapsed())
}

/// The QEMU commands of a plan, in its order.
fn dry_run(args: &[&str]) -> Vec<String> {
    let out = Command::new(XTASK)
        .args(["bench", "--dry-run"])
        .args(args)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "bench --dry-run {args:?} failed; run it by hand"
    );
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .map(Into::into)
        .collect()
}

fn side_by_side(commands: &[String], jobs: usize) -> Duration {
    let queue = Mutex::new(commands.iter());
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(command) = { queue.lock().unwrap().next() } {
                    let status = Command::new("sh")
                        .args(["-c", command])
                        .stdin(Stdio::null())
                        .stderr(Stdio::null())
                        .status()
                        .unwrap();
                    // PID 1's word, or the reset where no second boot is measured.
                    assert!(matches!(status.code(), Some(0 | 33)), "{status}: {command}");
                }
            });
        }
    });
    start.elapsed()
}

/// Wall time of a whole bench, and its own peak resident memory in kB.
fn bench(results: &Path, args: &[&str]) -> (Duration, u64) {
    let start = Instant::now();
    let mut child = Command::new(XTASK)
        .arg("bench")
        .args(args)
        .arg("--results")
        .arg(results)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let high = text.lines().find_map(|l| {
            l.strip_prefix("VmHWM:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        peak = peak.max(high.unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "bench {args:?}: {status}");
    (start.elapsed(), peak)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
