// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real boots of a real kernel through the real command. Run by `cargo xtask test`.
#![allow(missing_docs)]

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use bootrig::core::summary::Summary;

const REAL: &str = env!("CARGO_BIN_EXE_xtask");

/// A command of ours, with runs kept in `results` and temporary files below it.
fn xtask(results: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(REAL);
    let tmp = results.join("tmp");
    fs::create_dir_all(&tmp).unwrap();
    command
        .args(args)
        .args(["--results", results.to_str().unwrap()])
        .env("TMPDIR", tmp)
        .stdin(Stdio::null());
    command
}

fn run(results: &Path, args: &[&str]) -> Output {
    xtask(results, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The only run in `results`, other than those in `known`.
fn new_run(results: &Path, known: &[PathBuf]) -> PathBuf {
    let runs = fs::read_dir(results).unwrap().map(|e| e.unwrap().path());
    let mut runs: Vec<_> = runs
        .filter(|p| p.join("run.yaml").exists() && !known.contains(p))
        .collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.pop().unwrap()
}

fn nothing_left(results: &Path) {
    let left: Vec<_> = fs::read_dir(results.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "temporary files are left: {left:?}");
    let running = running(results);
    assert!(running.is_empty(), "processes are left: {running:?}");
}

/// The command lines of processes that work below `results`.
fn running(results: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.map(|p| fs::read(p.path().join("cmdline")).unwrap_or_default());
    let marker = results.to_str().unwrap();
    commands
        .map(|command| text(&command))
        .filter(|command| command.contains(marker))
        .collect()
}

fn scenario(dir: &Path, name: &str, body: &str) -> String {
    let path = dir.join(format!("{name}.yaml"));
    fs::write(&path, body).unwrap();
    path.to_str().unwrap().to_owned()
}

const SMALL: &str = r#"
about: A few devices, for the rig's own tests.
kernel: "6.1"
machine: {type: microvm, cpus: 1, memory: 256 MiB}
timeout: 60 s
devices:
  - {name: nic, profile: misc-10ms, count: 3}
  - name: sw
    type: bridge
    devices:
      - {name: disk, profile: misc-10ms, count: 2}
variants:
  stock: {order: serial}
measure: [boot, probe, device_shutdown, reboot]
expect:
  - {variant: stock, metric: device_shutdown, within: 2 %, of: ideal}
"#;

/// The whole of the default suite: expectations hold, the oracle is content, the samples
/// do not depend on how many boots run side by side, and they are the baseline's.
#[test]
#[ignore = "real boot"]
fn default_suite_is_met_and_repeats_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let first = run(results, &["bench", "--jobs", "1", "--json"]);
    assert_eq!(
        first.status.code(),
        Some(0),
        "{}\n{}",
        text(&first.stderr),
        text(&first.stdout)
    );
    let summary: Summary = serde_json::from_slice(&first.stdout).unwrap();
    assert!(
        summary.scenarios[0]
            .variants
            .iter()
            .all(|v| v.oracle.checked > 50 && v.oracle.violations.is_empty())
    );
    let one = new_run(results, &[]);
    let second = run(results, &["bench", "--jobs", "2"]);
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    let two = new_run(results, std::slice::from_ref(&one));
    assert_eq!(
        fs::read(one.join("samples.csv")).unwrap(),
        fs::read(two.join("samples.csv")).unwrap()
    );

    // Against the committed baseline: identical, or made of other parts and said so.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copied = results.join("baselines/shutdown-2018");
    fs::create_dir_all(&copied).unwrap();
    for file in ["baseline.yaml", "samples.csv"] {
        fs::copy(
            root.join("results/baselines/shutdown-2018").join(file),
            copied.join(file),
        )
        .unwrap();
    }
    let id = one.file_name().unwrap().to_str().unwrap();
    let check = run(results, &["baseline", "check", id]);
    let said = text(&check.stdout);
    match check.status.code() {
        Some(0) => assert!(said.contains("identical"), "{said}"),
        Some(3) => assert!(said.contains("not comparable"), "{said}"),
        other => panic!("{other:?}: {said}{}", text(&check.stderr)),
    }
    // Saving over one made of other parts takes a word; over an equal one it does not.
    let save = run(results, &["baseline", "save", id]);
    assert_eq!(
        save.status.code(),
        Some(if check.status.code() == Some(0) { 0 } else { 2 }),
        "{}",
        text(&save.stderr)
    );
    // A baseline of this run is identical to it, however the run is named; an edited one is
    // refused by checksum, and so are samples that were cut.
    let replaced = run(results, &["baseline", "save", id, "--replace"]);
    assert_eq!(
        replaced.status.code(),
        Some(0),
        "{}",
        text(&replaced.stderr)
    );
    for name in [id, one.to_str().unwrap()] {
        let check = run(results, &["baseline", "check", name]);
        assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));
    }
    let samples = one.join("samples.csv");
    let whole = fs::read(&samples).unwrap();
    fs::write(&samples, &whole[..whole.len() / 2]).unwrap();
    let cut = run(results, &["baseline", "check", id]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(
        text(&cut.stderr).contains("--resume"),
        "{}",
        text(&cut.stderr)
    );
    fs::write(&samples, whole).unwrap();
    let path = copied.join("samples.csv");
    fs::write(
        &path,
        fs::read_to_string(&path)
            .unwrap()
            .replacen(",ns,1", ",ns,2", 1),
    )
    .unwrap();
    let refused = run(results, &["baseline", "check", id]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("checksum"),
        "{}",
        text(&refused.stderr)
    );
    nothing_left(results);
}

/// A reset and kexec, each over a real second boot of the same kernel.
#[test]
#[ignore = "real boot"]
fn kexec_is_a_restart_like_another() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let out = run(results, &["bench", "kexec", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let summary: Summary = serde_json::from_slice(&out.stdout).unwrap();
    for variant in &summary.scenarios[0].variants {
        assert!(variant.completed() && variant.oracle.violations.is_empty());
        assert!(variant.metrics["reboot/next_boot"].median > 0);
    }
    nothing_left(results);
}

/// A mail whose patch touches nothing that is built: said plainly, and measured all the same.
#[test]
#[ignore = "real boot"]
fn a_series_without_effect_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let mailbox = results.join("docs.mbox");
    let mail = "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A Tester <tester@example.org>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: [PATCH 1/1] docs: a file\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: quoted-printable\n\nWhy =3D because.\n---\n Documentation/bootrig.txt | 1 +\n\ndiff --git a/Documentation/bootrig.txt b/Documentation/bootrig.txt\nnew file mode 100644\n--- /dev/null\n+++ b/Documentation/bootrig.txt\n@@ -0,0 +1 @@\n+a =3D b\n--=20\n2.39\n";
    fs::write(&mailbox, mail).unwrap();
    let file = scenario(results, "small", SMALL);
    let args = [
        "bench",
        &file,
        "--json",
        "--series",
        mailbox.to_str().unwrap(),
    ];
    let out = run(results, &args);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let summary: Summary = serde_json::from_slice(&out.stdout).unwrap();
    let names: Vec<_> = summary.scenarios[0]
        .variants
        .iter()
        .map(|v| &v.name)
        .collect();
    assert_eq!(names, ["stock", "patched"]);
    assert!(
        summary
            .notes
            .iter()
            .any(|n| n.contains("kernel image unchanged by this series")),
        "{:?}",
        summary.notes
    );
    nothing_left(results);
}

/// What the guest's console says to `commands`, the first variant of `file` being booted
/// to it in virtual time. `script` is the terminal that shell asks for.
fn console(results: &Path, file: &str, commands: &[&str]) -> String {
    let mut shell = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .arg(format!("{REAL} shell --clock virtual {file}"))
        .arg("/dev/null")
        .env("TMPDIR", results.join("tmp"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    let mut said = Vec::new();
    for command in commands.iter().chain(&["poweroff"]) {
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"bootrig# ") {
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", text(&said));
            answer.extend(byte);
        }
        said.extend(answer);
        writeln!(input, "{command}").unwrap();
    }
    output.read_to_end(&mut said).unwrap();
    assert!(shell.wait().unwrap().success(), "{}", text(&said));
    text(&said).replace('\r', "")
}

/// Bridges three deep; two of the devices have IDs that other drivers know.
const DEEP: &str = r#"
about: Bridges three deep, the innermost and a leaf of each level with delays.
kernel: "6.1"
machine: {cpus: 1, memory: 256 MiB, backend: guest}
timeout: 60 s
profiles:
  serial-card: {id: "13a8:0152", class: "070002", about: a card of 8250_pci, source: none, shutdown: [{wait: 2 ms}]}
devices:
  - {name: card, profile: serial-card}
  - name: outer
    type: bridge
    devices:
      - {name: nic, profile: ixgbe-x540, count: 9}
      - name: middle
        type: bridge
        devices:
          - name: inner
            type: bridge
            profile: misc-10ms
            devices:
              - {name: disk, profile: misc-10ms, count: 2}
variants:
  stock: {order: serial}
measure: [probe, device_shutdown]
expect:
  - {variant: stock, metric: device_shutdown, within: 2 %, of: ideal}
"#;

/// Devices that the guest makes itself are bound by path, wherever they are, and shut down
/// children first, as QEMU's are; and they show the IDs of real ones.
#[test]
#[ignore = "real boot"]
fn the_guests_own_domain_is_like_the_machines() {
    let dir = tempfile::tempdir().unwrap();
    let mut checked = Vec::new();
    for backend in ["qemu", "guest"] {
        let body = DEEP.replace("backend: guest", &format!("backend: {backend}"));
        let file = scenario(dir.path(), &format!("deep-{backend}"), &body);
        let out = run(dir.path(), &["bench", "--json", &file]);
        let said = text(&out.stderr) + &text(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{said}");
        let summary: Summary = serde_json::from_slice(&out.stdout).unwrap();
        let variant = &summary.scenarios[0].variants[0];
        let seen = |d: &str| {
            variant
                .metrics
                .contains_key(&format!("device_shutdown/{d}"))
        };
        assert!(["card", "nic.8", "inner", "disk.1"].into_iter().all(seen));
        checked.push(variant.oracle.checked);
    }
    assert_eq!(checked[0], checked[1], "the same facts are checked of both");

    let file = scenario(dir.path(), "deep", DEEP);
    let devices = "/sys/bus/pci/devices";
    let said = console(
        dir.path(),
        &file,
        &[
            &format!("cat {devices}/0001:00:00.0/uevent"),
            &format!("cat {devices}/0001:01:01.0/uevent"),
            &format!("cat {devices}/0001:02:00.0/uevent"),
            &format!("cat {devices}/0001:03:00.1/uevent"),
        ],
    );
    let mut at = 0;
    for (class, id) in [
        ("70002", "13A8:0152"),
        ("FF0000", "8086:1528"),
        ("60400", "1B36:0011"),
        ("FF0000", "1B36:0011"),
    ] {
        let want = format!("DRIVER=bootrig_dummy\nPCI_CLASS={class}\nPCI_ID={id}\n");
        let found = said[at..].find(&want);
        at += found.unwrap_or_else(|| panic!("no {want:?} in {said}"));
    }
    nothing_left(dir.path());
}

/// What --dry-run prints works when typed by hand.
#[test]
#[ignore = "real boot"]
fn dry_run_commands_run_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), "small", SMALL);
    let out = run(dir.path(), &["bench", "--dry-run", &file]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    let commands: Vec<_> = printed.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(commands.len(), 1);
    let status = Command::new("sh")
        .args(["-c", commands[0]])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(
        status.code(),
        Some(33),
        "the guest ends the machine by itself"
    );
}

/// A guest that fails is an outcome with its reason, and exit code 4.
#[test]
#[ignore = "real boot"]
fn guests_that_fail_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let panic = SMALL.replace(
        "stock: {order: serial}",
        "stock: {order: serial, cmdline: [mem=9M]}",
    );
    let hang = SMALL
        .replace("timeout: 60 s", "timeout: 12 s\nprofiles:\n  forever: {id: \"1b36:0011\", about: spins, source: none, shutdown: [{busy: 60 min}]}")
        .replace("{name: nic, profile: misc-10ms, count: 3}", "{name: nic, profile: forever}");
    for (name, body, want) in [("panics", &panic, "panic: "), ("hangs", &hang, "hang: ")] {
        let file = scenario(dir.path(), name, body);
        let out = run(dir.path(), &["bench", "--json", &file]);
        assert_eq!(out.status.code(), Some(4), "{name}: {}", text(&out.stderr));
        let summary: Summary = serde_json::from_slice(&out.stdout).unwrap();
        let variant = &summary.scenarios[0].variants[0];
        assert!(
            variant.outcome_text().starts_with(want),
            "{name}: {}",
            variant.outcome_text()
        );
        assert!(variant.metrics.is_empty(), "a failure is never a number");
    }
    nothing_left(dir.path());
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: &str) {
    assert!(
        Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// Stopped in the middle of its boots, a run leaves nothing running, says how to go on,
/// and goes on to the same samples as if it had not been stopped.
#[test]
#[ignore = "real boot"]
fn stopped_runs_resume_to_the_same_samples() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path();
    let file = scenario(results, "small", SMALL);
    let whole = run(results, &["bench", "--repeats", "4", "--jobs", "1", &file]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    let whole = new_run(results, &[]);
    for how in ["-INT", "-TERM", "-KILL"] {
        let results = &dir.path().join(how.trim_start_matches('-'));
        fs::create_dir(results).unwrap();
        let mut bench = xtask(results, &["bench", "--repeats", "4", "--jobs", "1", &file])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let trials = || {
            fs::read_dir(results)
                .unwrap()
                .flatten()
                .filter_map(|e| fs::read_dir(e.path().join("trials")).ok())
                .flatten()
                .count()
        };
        wait_for("a finished boot", || trials() >= 1);
        signal(&bench, how);
        let status = bench.wait().unwrap();
        assert!(
            if how == "-KILL" {
                status.code().is_none()
            } else {
                status.code() == Some(130)
            },
            "{how}: {status}"
        );
        // The guardian may need a moment after a SIGKILL, and so may a killed machine, whose
        // memory the kernel takes back first.
        wait_for("the end of all children", || {
            let tmp = fs::read_dir(results.join("tmp")).unwrap().next();
            how != "-KILL" || (tmp.is_none() && running(results).is_empty())
        });
        nothing_left(results);
        let stopped = new_run(results, &[]);
        let before = trials();
        assert!(before < 4, "{how} came too late to test anything");
        let id = stopped.file_name().unwrap().to_str().unwrap();
        let again = run(results, &["bench", "--resume", id]);
        assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
        assert_eq!(
            fs::read(stopped.join("samples.csv")).unwrap(),
            fs::read(whole.join("samples.csv")).unwrap()
        );
    }
}

/// Two runs at once do not disturb each other.
#[test]
#[ignore = "real boot"]
fn two_runs_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(dir.path(), "small", SMALL);
    let start = || {
        xtask(dir.path(), &["bench", &file])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (a, b) = (start(), start());
    for child in [a, b] {
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    }
    let runs: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .flatten()
        .map(|e| e.path().join("samples.csv"))
        .filter(|p| p.exists())
        .collect();
    assert_eq!(runs.len(), 2);
    assert_eq!(fs::read(&runs[0]).unwrap(), fs::read(&runs[1]).unwrap());
}

/// Whether /dev/kvm works or not, `--accel auto` finds a way; where it does not,
/// `--accel kvm` says what it saw.
#[test]
#[ignore = "real boot"]
fn wall_clock_boots_with_what_works() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario(
        dir.path(),
        "small",
        &SMALL.replace(
            "expect:\n  - {variant: stock, metric: device_shutdown, within: 2 %, of: ideal}\n",
            "",
        ),
    );
    let out = run(dir.path(), &["bench", "--clock", "wall", "--json", &file]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let run_yaml = fs::read_to_string(new_run(dir.path(), &[]).join("run.yaml")).unwrap();
    let kvm = run(
        dir.path(),
        &["bench", "--clock", "wall", "--accel", "kvm", &file],
    );
    if run_yaml.contains("TCG") {
        assert_eq!(kvm.status.code(), Some(5), "{}", text(&kvm.stderr));
        assert!(
            text(&kvm.stderr).to_lowercase().contains("kvm"),
            "{}",
            text(&kvm.stderr)
        );
    } else {
        assert_eq!(kvm.status.code(), Some(0), "{}", text(&kvm.stderr));
    }
    nothing_left(dir.path());
}
