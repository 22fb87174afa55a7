// SPDX-License-Identifier: MIT OR Apache-2.0
//! Children, grandchildren and temporary folders when the process that made them dies.
//!
//! Each test starts this very test binary again as the process to be killed (the ignored
//! tests named `victim_*`); its guardian is the `xtask` that cargo built beside it.

use std::{
    fs,
    io::{BufRead, BufReader, Lines},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use bootrig::edge::process;
use rustix::process::{Pid, Signal, kill_process};

/// How long anything that must happen may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running victim and what it said on its standard output.
struct Victim {
    child: Child,
    said: Vec<String>,
    /// Kept open, or its last words would fail.
    _output: Lines<BufReader<ChildStdout>>,
}

/// Starts a victim and reads until it says `ready`.
fn victim(name: &str) -> Victim {
    victim_in(name, None, &[])
}

/// What makes a victim deaf to a hang-up, put in front of its command.
const NOHUP: [&str; 4] = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];

/// Whether this process is a victim, not somebody's run of all ignored tests.
fn asked() -> bool {
    std::env::var_os("BOOTRIG_VICTIM").is_some()
}

/// As [`victim`], with `mark`, a `NAME=value`, in its environment, started by `front`.
fn victim_in(name: &str, mark: Option<&str>, front: &[&str]) -> Victim {
    let own = std::env::current_exe()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let words: Vec<&str> = front.iter().copied().chain([own.as_str()]).collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .env("BOOTRIG_VICTIM", "")
        .envs(mark.and_then(|m| m.split_once('=')))
        .args(["--exact", name, "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    while let Some(line) = output.next() {
        let line = line.unwrap();
        if line == "ready" {
            return Victim {
                child,
                said,
                _output: output,
            };
        }
        said.push(line);
    }
    let _ = child.wait();
    panic!("{name} ended early: {said:?}");
}

impl Victim {
    /// The value of a line `key value`.
    fn told(&self, key: &str) -> String {
        let found = self
            .said
            .iter()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
        found
            .unwrap_or_else(|| panic!("no {key} in {:?}", self.said))
            .to_owned()
    }
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    fn sigkill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Whether the process runs: neither gone nor a zombie.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|s| !s[s.rfind(')').unwrap()..].starts_with(") Z"))
}

fn eventually(what: &str, check: impl Fn() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child and a grandchild of the same group, both deaf to polite signals.
fn family() -> (process::Child, String) {
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' TERM INT HUP; sleep 600 & echo $!; wait"])
        .stdout(Stdio::piped());
    let mut child = process::Child::spawn(command).unwrap();
    let mut line = String::new();
    BufReader::new(child.take_stdout().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, line.trim().to_owned())
}

/// Our children that are guardians.
fn guardians() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|s| s.split_whitespace().nth(1));
        line.contains("__guardian") && parent == Some(&own)
    })
    .filter_map(Pid::from_raw)
    .collect()
}

#[test]
#[ignore = "the process that other tests kill"]
fn victim_family() {
    if !asked() {
        return;
    }
    let scratch = process::scratch("bootrig-victim-").unwrap();
    fs::create_dir(scratch.path().join("deep")).unwrap();
    fs::write(scratch.path().join("deep/file"), "x").unwrap();
    let (child, grandchild) = family();
    println!(
        "\nchild {}\ngrandchild {grandchild}\nfolder {}\nready",
        child.id(),
        scratch.path().display()
    );
    std::thread::sleep(PATIENCE * 2);
}

#[test]
#[ignore = "the process that other tests kill"]
fn victim_stoppable() {
    if !asked() {
        return;
    }
    process::install_handlers().unwrap();
    let (child, grandchild) = family();
    println!("\nchild {}\ngrandchild {grandchild}\nready", child.id());
    let mut sleep = Command::new("sleep");
    sleep.arg("600");
    let error = process::read("sleeping", sleep, PATIENCE * 2).unwrap_err();
    assert!(error.is::<process::Stopped>(), "{error:#}");
}

#[test]
#[ignore = "the process that other tests kill"]
fn victim_stubborn() {
    if !asked() {
        return;
    }
    process::install_handlers().unwrap();
    let scratch = process::scratch("bootrig-victim-").unwrap();
    let (child, grandchild) = family();
    println!(
        "\nchild {}\ngrandchild {grandchild}\nfolder {}\nready",
        child.id(),
        scratch.path().display()
    );
    eventually("a signal", process::interrupted);
    // Told by a file: the reader of our output has gone on to other things.
    fs::write(scratch.path().join("interrupted"), "").unwrap();
    std::thread::sleep(PATIENCE * 2);
}

#[test]
#[ignore = "the process that other tests kill"]
fn victim_bereft() {
    if !asked() {
        return;
    }
    let scratch = process::scratch("bootrig-victim-").unwrap();
    let (first, _) = family();
    let guardians = guardians();
    assert_eq!(guardians.len(), 1, "one guardian for everything");
    kill_process(guardians[0], Signal::KILL).unwrap();
    eventually("the guardian's end", || {
        !runs(&guardians[0].as_raw_nonzero().to_string())
    });
    let (second, _) = family();
    println!(
        "\nfirst {}\nsecond {}\nfolder {}\nready",
        first.id(),
        second.id(),
        scratch.path().display()
    );
    std::thread::sleep(PATIENCE * 2);
}

/// Starts and drops children in two threads without pause.
#[test]
#[ignore = "the process that other tests kill"]
fn victim_storm() {
    if !asked() {
        return;
    }
    let storm = || {
        let mut last = None;
        loop {
            let mut sleep = Command::new("sleep");
            sleep.arg("600");
            last.replace(process::Child::spawn(sleep).unwrap());
        }
    };
    std::thread::spawn(storm);
    println!("\nready");
    storm();
}

/// How many processes have this in their environment.
fn marked(mark: &str) -> usize {
    let found = fs::read_dir("/proc").unwrap().filter(|e| {
        let path = e.as_ref().unwrap().path().join("environ");
        fs::read(path).is_ok_and(|env| env.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
    });
    found.count()
}

#[test]
fn no_child_is_lost_between_fork_and_exec() {
    for round in 0..20u64 {
        let mark = format!("BOOTRIG_STORM={}.{round}", std::process::id());
        let mut victim = victim_in("victim_storm", Some(&mark), &[]);
        std::thread::sleep(Duration::from_micros(20_000 + 1_370 * round));
        assert!(marked(&mark) > 1, "the storm blows");
        victim.sigkill();
        eventually("the end of all", || marked(&mark) == 0);
        // A child lost in a gap would show up now.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(marked(&mark), 0, "round {round}");
    }
}

#[test]
fn nothing_outlives_a_sigkill() {
    let mut victim = victim("victim_family");
    let (child, grandchild) = (victim.told("child"), victim.told("grandchild"));
    let folder = PathBuf::from(victim.told("folder"));
    assert!(runs(&child) && runs(&grandchild) && folder.join("deep/file").exists());
    victim.sigkill();
    eventually("the child's end", || !runs(&child));
    eventually("the grandchild's end", || !runs(&grandchild));
    eventually("the folder's removal", || !folder.exists());
}

#[test]
fn a_killed_guardian_is_replaced_and_told_everything() {
    let mut victim = victim("victim_bereft");
    let (first, second) = (victim.told("first"), victim.told("second"));
    let folder = PathBuf::from(victim.told("folder"));
    victim.sigkill();
    eventually("the first child's end", || !runs(&first));
    eventually("the second child's end", || !runs(&second));
    eventually("the folder's removal", || !folder.exists());
}

#[test]
fn one_signal_stops_in_order() {
    // Under nohup we are deaf to a hang-up, and so are our victims.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .unwrap();
    let nohup = u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if nohup && signal == Signal::HUP {
            continue;
        }
        let mut victim = victim("victim_stoppable");
        let (child, grandchild) = (victim.told("child"), victim.told("grandchild"));
        victim.signal(signal);
        let status = victim.child.wait().unwrap();
        assert!(status.success(), "{signal:?}: {status}");
        // Killed and reaped by the destructor, so no need to wait.
        assert!(!runs(&child), "{signal:?}");
        eventually("the grandchild's end", || !runs(&grandchild));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut victim = victim("victim_stubborn");
    let (child, grandchild) = (victim.told("child"), victim.told("grandchild"));
    let folder = PathBuf::from(victim.told("folder"));
    victim.signal(Signal::INT);
    eventually("the first signal's notice", || {
        folder.join("interrupted").exists()
    });
    victim.signal(Signal::INT);
    let status = victim.child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    eventually("the child's end", || !runs(&child));
    eventually("the grandchild's end", || !runs(&grandchild));
    eventually("the folder's removal", || !folder.exists());
}

#[test]
fn under_nohup_a_hang_up_is_not_heard() {
    let mut victim = victim_in("victim_stubborn", None, &NOHUP);
    let (child, folder) = (victim.told("child"), PathBuf::from(victim.told("folder")));
    victim.signal(Signal::HUP);
    // Had it been heard, this would be the second signal, and the end.
    victim.signal(Signal::INT);
    eventually("the first signal's notice", || {
        folder.join("interrupted").exists()
    });
    assert!(victim.child.try_wait().unwrap().is_none());
    victim.sigkill();
    eventually("the child's end", || !runs(&child));
    eventually("the folder's removal", || !folder.exists());
}
