// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is plugged in: what a scripted guest says of it and what becomes of that, and
//! what happens where the guest stops its machine, QEMU's part being played by a script and by a
//! monitor of the test's own.
#![allow(missing_docs)]

mod fake_qemu;
mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bootrig::{
    core::{
        boot::Outcome,
        layout::lay_out,
        machine::End,
        oracle::Rule,
        plan::{Overrides, plan},
        program::{Finish, files},
        samples,
        scenario::Metric,
        units::Nanos,
    },
    edge::qemu::{Limits, Order},
};
use fake_qemu::Fake;
use serde_json::{Value, json};
use support::told::{self, told, written};

const SCENARIO: &str = r#"
about: x
kernel: "6.1"
machine: {type: q35, cpus: 2, memory: 512 MiB}
memory: {blocks: 8, how: hotplug, online: online_movable, when: later}
variants:
  stock: {order: serial}
measure: [hotplug]
"#;

const MEMORY: &str = "memory blocks=12 size=134217728";
const HOTPLUG: &str =
    "hotplug before=0 blocks=8 offline=0 kernel=0 movable=8 begin=1000 there=4000 end=9000";

/// The only violation of a boot of [`SCENARIO`] changed in one place.
fn violation(from: &str, to: &str, line: &str) -> String {
    let told = told(&SCENARIO.replace(from, to), &[MEMORY, line]);
    let (rule, what) = told::violation(told);
    assert_eq!(rule, Rule::Hotplug);
    what
}

fn lost(lines: &[&str]) -> String {
    told::lost(told(SCENARIO, lines))
}

#[test]
fn the_guest_is_told_when_and_what() {
    let told = |text: &str, finish| {
        let scenario = written(text);
        let layout = lay_out(&scenario.devices, &scenario.machine).unwrap();
        let trials = plan(&[Arc::new(scenario)], Overrides::default());
        let mut files = files(&trials[0], &layout, finish);
        String::from_utf8(files.remove("bootrig/plan").unwrap()).unwrap()
    };
    let line = "first=32 blocks=8 state=online limit=68000000000\n";
    assert_eq!(
        told(SCENARIO, Finish::Restart),
        format!(
            "bootrig-plan 1\nload marks\nload dummy_pci\nflush\nhotplug when=now {line}memory\nstop\n"
        )
    );
    // The driver's load has nothing to do with what was there before.
    let boot = SCENARIO.replace("later", "boot");
    assert_eq!(
        told(&boot, Finish::Restart),
        format!(
            "bootrig-plan 1\nhotplug when=boot {line}load marks\nload dummy_pci\nflush\nmemory\nstop\n"
        )
    );
    // Nobody is there who would let a machine with a console go on.
    assert!(!told(SCENARIO, Finish::Shell).contains("hotplug"));
    let offline = SCENARIO.replace("online_movable", "offline");
    assert!(told(&offline, Finish::Restart).contains(" state=offline "));
}

#[test]
fn good_blocks_have_a_time_and_each_is_a_fact() {
    let result = told(SCENARIO, &[HOTPLUG, MEMORY]);
    assert_eq!(result.outcome, Outcome::Completed);
    assert_eq!(result.oracle.violations, []);
    assert!(result.oracle.checked > 10, "{}", result.oracle.checked);
    assert_eq!(result.metric(Metric::Hotplug).unwrap().0, Nanos(8000));
    let samples = samples::of(&written(SCENARIO), &result);
    let sample = |name: &str| samples.iter().find(|s| s.metric == name).unwrap().value;
    assert_eq!(sample("hotplug"), 8000);
    assert_eq!(sample("hotplug/there"), 3000);
    assert_eq!(sample("hotplug/blocks"), 8);
}

#[test]
fn blocks_that_are_missing_or_in_another_state_are_violations() {
    let check = |from, to, line: &str, expect| assert_eq!(violation(from, to, line), expect);
    let fewer = HOTPLUG
        .replace("blocks=8", "blocks=7")
        .replace("=8 b", "=7 b");
    check(
        "",
        "",
        &fewer,
        "8 memory blocks were plugged in (pc-dimm of 128 MiB, while it runs, online_movable), 7 are there",
    );
    let early = HOTPLUG.replace("before=0", "before=2");
    check(
        "",
        "",
        &early,
        "2 memory blocks were there before anything was plugged in",
    );
    check(
        "online_movable",
        "online_kernel",
        HOTPLUG,
        "of 8 memory blocks that were plugged in 0 are offline, 0 online for the kernel and 8 for what is movable; all were to be online_kernel",
    );
    check(
        "online_movable",
        "offline",
        HOTPLUG,
        "of 8 memory blocks that were plugged in 0 are offline, 0 online for the kernel and 8 for what is movable; all were to be offline",
    );
    let nowhere = HOTPLUG.replace("movable=8", "movable=7");
    assert!(violation("online_movable", "online", &nowhere).ends_with("all were to be online"));
    // What was there before the machine booted may be there at the first look.
    let boot = told(&SCENARIO.replace("later", "boot"), &[&early, MEMORY]);
    assert_eq!(boot.oracle.violations, []);
    let mixed = HOTPLUG.replace("kernel=0 movable=8", "kernel=3 movable=5");
    let any = SCENARIO.replace("online_movable", "online");
    assert_eq!(told(&any, &[&mixed, MEMORY]).oracle.violations, []);
}

#[test]
fn what_is_missing_or_runs_backwards_is_lost() {
    assert_eq!(
        lost(&[MEMORY]),
        "the guest did not say how its hotplug went"
    );
    let backwards = HOTPLUG.replace("there=4000", "there=9001");
    assert!(lost(&[&backwards, MEMORY]).contains("hotplug that runs backwards"));
    assert!(lost(&[HOTPLUG, HOTPLUG, MEMORY]).contains("repeats `hotplug`"));
    let cut = HOTPLUG.replace(" end=9000", "");
    assert!(lost(&[&cut, MEMORY]).contains("lacks end="));
    let late = "error what=hotplug:limit:3_of_8_there:2_online errno=110";
    assert_eq!(
        lost(&[late]),
        "PID 1 gave up; PID 1: hotplug:limit:3_of_8_there:2_online (errno 110)"
    );
}

/// Much longer than any of these scripts takes.
fn patient() -> Limits {
    Limits::within(Nanos(120_000_000_000))
}

/// A machine into which one DIMM is plugged. It says that it is up, and waits for a word.
fn machine() -> Fake {
    let mut fake = Fake::new(
        "hello 1; : > \"$dir/up\"; until [ -e \"$dir/word\" ]; do sleep 0.01; done; \
         . \"$dir/word\"; exit 33",
    );
    let order = |execute, arguments| Order { execute, arguments };
    fake.line.attach = vec![
        order("object-add", json!({"id": "plug0"})),
        order("device_add", json!({"id": "dimm0"})),
    ];
    fake
}

/// Waits for what is to come soon.
fn until(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came");
        thread::sleep(Duration::from_millis(5));
    }
}

const STOPPED: &str = r#"{"event": "WATCHDOG", "data": {"action": "pause"}}"#;
const DONE: &str = r#"{"return": {}}"#;

/// What the monitor does about an order.
enum Does {
    /// Says these lines.
    Says(Vec<String>),
    /// Leaves this word for the machine, and is gone.
    Dies(&'static str),
}

fn says(lines: &[&str]) -> Does {
    Does::Says(lines.iter().map(|l| (*l).to_owned()).collect())
}

/// Boots `fake` with a monitor that does `does` about each order and leaves `word` at `cont`;
/// how it ended, and the orders.
fn boot(fake: &Fake, word: &'static str, does: impl Fn(&str) -> Does + Sync) -> (End, Vec<String>) {
    let (dir, socket) = (fake.dir.path(), fake.files.qmp.clone().unwrap());
    let leave = |word: &str| {
        fs::write(dir.join("new"), word).unwrap();
        fs::rename(dir.join("new"), dir.join("word")).unwrap();
    };
    thread::scope(|scope| {
        let monitor = scope.spawn(|| {
            until(|| dir.join("up").exists());
            let stream = accept(&socket);
            serve(&stream, &|order| {
                if order == "cont" {
                    leave(word);
                }
                let does = does(order);
                if let Does::Dies(word) = does {
                    leave(word);
                }
                does
            })
        });
        let end = fake.boot(&patient()).end;
        (end, monitor.join().unwrap())
    })
}

fn accept(socket: &Path) -> UnixStream {
    let listener = UnixListener::bind(socket).unwrap();
    listener.accept().unwrap().0
}

fn serve(mut stream: &UnixStream, does: &dyn Fn(&str) -> Does) -> Vec<String> {
    let mut orders = Vec::new();
    // The caller may be gone already.
    let _ = stream.write_all(b"{\"QMP\": {\"version\": {}}}\r\n");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let order: Value = serde_json::from_str(&line).unwrap();
        let name = order["execute"].as_str().unwrap().to_owned();
        let id = order["arguments"]["id"].as_str().map(|id| format!(" {id}"));
        orders.push(name.clone() + &id.unwrap_or_default());
        match does(&name) {
            Does::Says(lines) => {
                let text: String = lines.iter().map(|l| format!("{l}\r\n")).collect();
                let _ = stream.write_all(text.as_bytes());
            }
            Does::Dies(_) => return orders,
        }
    }
    orders
}

/// A QEMU that does as it is told; its guest asks as soon as somebody listens.
fn obedient(order: &str) -> Does {
    match order {
        "query-status" => says(&[r#"{"return": {"status": "running"}}"#, STOPPED]),
        _ => says(&[DONE]),
    }
}

const ALL: [&str; 5] = [
    "qmp_capabilities",
    "query-status",
    "object-add plug0",
    "device_add dimm0",
    "cont",
];

#[test]
fn a_guest_that_asks_is_given_what_there_is_and_goes_on() {
    let (end, orders) = boot(&machine(), "leave; hello 2", obedient);
    assert_eq!(end, End::Finished);
    assert_eq!(orders, ALL);
}

/// Between the monitor's socket and our call the guest may have come as far as that.
#[test]
fn a_guest_that_asked_before_anybody_listened_is_heard() {
    let stopped = |order: &str| match order {
        "query-status" => says(&[STOPPED, r#"{"return": {"status": "watchdog"}}"#]),
        _ => says(&[DONE]),
    };
    let (end, orders) = boot(&machine(), "", stopped);
    assert_eq!(end, End::Finished);
    assert_eq!(orders, ALL);
}

#[test]
fn a_dimm_that_qemu_refuses_is_the_machines_failure() {
    let refusing = |order: &str| match order {
        "device_add" => {
            says(&[r#"{"error": {"class": "GenericError", "desc": "no free slots available"}}"#])
        }
        order => obedient(order),
    };
    let (end, orders) = boot(&machine(), "", refusing);
    assert_eq!(orders, ALL[..4]);
    let End::Machine(why) = end else {
        panic!("{end:?}")
    };
    assert_eq!(
        why,
        "plugging in memory (order 2 of 2, {\"arguments\":{\"id\":\"dimm0\"},\"execute\":\"device_add\"}): QEMU says: no free slots available"
    );
}

#[test]
fn a_qemu_that_dies_while_its_machine_stands_still_is_told_with_what_it_was_doing() {
    for (word, said) in [
        ("kill -9 $$", "killed by signal 9"),
        (
            "echo out of memory >&2; exit 1",
            "exit status 1: out of memory",
        ),
    ] {
        let dying = |order: &str| match order {
            "object-add" => Does::Dies(word),
            order => obedient(order),
        };
        let (end, orders) = boot(&machine(), "", dying);
        assert_eq!(orders, ALL[..3]);
        let End::Machine(why) = end else {
            panic!("{end:?}")
        };
        assert!(why.contains("order 1 of 2") && why.contains(said), "{why}");
    }
}

#[test]
fn a_guest_that_stops_its_machine_again_has_no_result() {
    let again = |order: &str| match order {
        "cont" => says(&[DONE, STOPPED]),
        order => obedient(order),
    };
    let (end, orders) = boot(&machine(), "sleep 60", again);
    assert_eq!(orders, ALL);
    assert!(
        matches!(&end, End::Early(why) if why.contains("once more")),
        "{end:?}"
    );
}

/// Its end is read from its status, whether or not anything was plugged in.
#[test]
fn a_guest_that_never_asks_ends_as_any_other() {
    let (end, orders) = boot(&machine(), "", |order| match order {
        "query-status" => Does::Dies("exit 35"),
        _ => says(&[DONE]),
    });
    assert_eq!(orders, ALL[..2]);
    assert!(
        matches!(&end, End::Early(why) if why.contains("gave up")),
        "{end:?}"
    );
}

#[test]
fn without_a_socket_nothing_is_booted() {
    let mut fake = machine();
    fake.files.qmp = None;
    let raw = fake.boot(&patient());
    let End::Machine(why) = raw.end else {
        panic!("{:?}", raw.end)
    };
    assert!(why.contains("set TMPDIR to a shorter path"), "{why}");
    assert!(!fake.dir.path().join("up").exists());
}
