// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matrix as a job array of a real Slurm on one node, started here with a configuration
//! of its own; one shard is killed and requeued. Run by `cargo xtask test --nightly`.
#![allow(missing_docs)]

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use bootrig::{core::summary::Summary, edge::store::kept};

const REAL: &str = env!("CARGO_BIN_EXE_xtask");

/// One controller and one node. Nobody else reaches them, so that they trust each other
/// (auth/none), and no munge is needed.
const CONFIG: &str = "\
ClusterName=bootrig
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=USER
SlurmdUser=USER
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
SlurmctldLogFile=DIR/slurmctld.log
SlurmdLogFile=DIR/slurmd.log
SlurmctldPort=PORT1
SlurmdPort=PORT2
ReturnToService=2
MinJobAge=36000
NodeName=HOST NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
";

struct Slurm {
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl Slurm {
    fn start(dir: &Path) -> Self {
        for part in ["state", "spool"] {
            fs::create_dir(dir.join(part)).unwrap();
        }
        let host = text(Command::new("uname").arg("-n").output().unwrap());
        let host = host.trim().split('.').next().unwrap().to_owned();
        let user = text(Command::new("id").arg("-un").output().unwrap());
        // Free now, and so, most likely, in a moment.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let ports = [free(), free()].map(|l| l.local_addr().unwrap().port().to_string());
        let config = CONFIG
            .replace("HOST", &host)
            .replace("USER", user.trim())
            .replace("DIR", dir.to_str().unwrap())
            .replace("PORT1", &ports[0])
            .replace("PORT2", &ports[1]);
        let path = dir.join("slurm.conf");
        fs::write(&path, config).unwrap();
        // Read by every daemon, whether or not it uses groups of processes.
        fs::write(dir.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let daemon = |program: &str, more: &[&str]| {
            let log = fs::File::create(dir.join(format!("{program}.out"))).unwrap();
            Command::new(program)
                .args(["-D", "-f"])
                .arg(&path)
                .args(more)
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap_or_else(|e| {
                    panic!("{program}: {e}: cargo xtask test --nightly --yes installs it")
                })
        };
        let daemons = vec![daemon("slurmctld", &[]), daemon("slurmd", &["-N", &host])];
        let slurm = Self {
            dir: dir.to_owned(),
            daemons,
        };
        slurm.until("the node is there", || {
            let state = slurm.command("sinfo", &["-h", "-o", "%t"]);
            text(state).trim() == "idle"
        });
        slurm
    }

    fn command(&self, program: &str, args: &[&str]) -> Output {
        Command::new("timeout")
            .args(["30", program])
            .args(args)
            .env("SLURM_CONF", self.dir.join("slurm.conf"))
            .output()
            .unwrap()
    }

    /// Waits for what comes, if the daemons do what they should.
    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is() {
            let waited = begin.elapsed();
            assert!(waited < Duration::from_secs(900), "{what}: {}", self.logs());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        let queue = text(self.command("squeue", &["-o", "%i %T %r"]));
        format!("{queue}\n{}\n{}", read("slurmctld.log"), read("slurmd.log"))
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // The controller last: it ends jobs that are still there.
        let _ = self.command("scancel", &["--me", "--full", "--signal=KILL"]);
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn text(output: Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    text
}

fn xtask(args: &[&str]) -> String {
    let output = Command::new(REAL).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(output));
    text(output)
}

/// A cheap scenario in a matrix of its own: 12 boots, 3 a shard.
const MATRIX: &str = "\
shards: {quick: 4}
parts: [{tags: [quick], scenarios: [global-lock], clocks: [virtual]}]
";

/// How many boots a shard has stored.
fn stored(results: &Path, shard: &str) -> usize {
    fs::read_dir(results.join(shard).join("trials")).map_or(0, Iterator::count)
}

/// The process number of the bench that makes `shard` in `results`.
fn bench_of(results: &Path, shard: &str) -> String {
    let results = results.to_str().unwrap();
    let is_it = |pid: &String| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = command.split(|b| *b == 0).collect();
        let has = |word: &str| words.contains(&word.as_bytes());
        has(REAL) && has("bench") && has(shard) && has(results)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|p| p.file_name().into_string().ok());
    pids.find(is_it).expect("the shard is being made")
}

#[test]
#[ignore = "starts a Slurm, builds kernels and boots"]
fn a_killed_shard_is_requeued_and_nothing_is_lost_or_doubled() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let matrix = dir.path().join("matrix.yaml");
    fs::write(&matrix, MATRIX).unwrap();
    let script = xtask(&[
        "matrix",
        "--file",
        matrix.to_str().unwrap(),
        "--tag",
        "quick",
        "--format",
        "slurm",
    ]);
    // More boots than the scenario asks for, so that a shard can be met in the middle.
    let script = script.replace(" --keep-going", " --keep-going --repeats 4 --jobs 1");
    let path = dir.path().join("array.sh");
    fs::write(&path, script).unwrap();
    // What all shards need is built once, before any of them.
    xtask(&["bench", "global-lock", "--dry-run", "--yes"]);

    let slurm = Slurm::start(dir.path());
    let exported = format!(
        "ALL,BOOTRIG_XTASK={REAL},BOOTRIG_RESULTS={}",
        results.display()
    );
    let log = dir.path().join("task-%a.log");
    let job = text(slurm.command(
        "sbatch",
        &[
            "--parsable",
            "--export",
            &exported,
            "--output",
            log.to_str().unwrap(),
            path.to_str().unwrap(),
        ],
    ));
    let job = job.trim().to_owned();
    assert!(job.parse::<u32>().is_ok(), "{job}");
    let shard = format!("quick.6.1.virtual.{job}.2-of-4");
    slurm.until("shard 2 is in the middle", || stored(&results, &shard) >= 1);
    // Nobody is asked to end, as when a machine runs out of memory.
    let pid = bench_of(&results, "2/4");
    let killed = Command::new("kill").args(["-9", &pid]).status().unwrap();
    assert!(killed.success());
    let task = format!("{job}_2");
    slurm.until("shard 2 is requeued", || {
        slurm
            .command("scontrol", &["requeue", &task])
            .status
            .success()
    });
    let before = stored(&results, &shard);
    assert!(before < 3, "the shard was over before it was killed");
    slurm.until("the array is over", || {
        text(slurm.command("squeue", &["-h", "-t", "PD,R,CG,CF", "-o", "%i"]))
            .trim()
            .is_empty()
            && stored(&results, &shard) == 3
    });
    let said = fs::read_to_string(dir.path().join("task-2.log")).unwrap();
    assert!(
        said.contains(&format!("going on with run {shard}")),
        "{said}"
    );
    // No boot that was stored is made again.
    let lines = said.lines().filter_map(|l| l.strip_prefix("done "));
    let mut done: Vec<_> = lines
        .map(|l| l.split_once(':').map(|(boot, _)| boot))
        .collect();
    let all = done.len();
    done.sort_unstable();
    done.dedup();
    assert!(done.len() == all && all <= 3, "{said}");

    let merge = Command::new("bash")
        .arg(&path)
        .args(["merge", &job])
        .env("BOOTRIG_XTASK", REAL)
        .env("BOOTRIG_RESULTS", &results)
        .output()
        .unwrap();
    assert!(merge.status.success(), "{}", text(merge));
    let runs = kept::folders(&results).unwrap();
    assert_eq!(runs.len(), 5, "{runs:?}");
    let summary = |name: &str| -> Summary {
        let path = results.join(name).join("summary.json");
        let mut summary: Summary = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        summary.run = String::new();
        summary.host["load"] = 0.into();
        summary
    };
    // The same boots in one run, without Slurm.
    let args = [
        "bench",
        "global-lock",
        "--on",
        "6.1",
        "--clock",
        "virtual",
        "--keep-going",
    ];
    let more = ["--repeats", "4", "--run", "whole", "--results"];
    xtask(&[&args[..], &more[..], &[results.to_str().unwrap()]].concat());
    let merged = format!("quick.6.1.virtual.{job}");
    assert_eq!(summary(&merged), summary("whole"));
    let csv = |name: &str| fs::read(results.join(name).join("samples.csv")).unwrap();
    assert_eq!(csv(&merged), csv("whole"));
}
