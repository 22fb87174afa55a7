// SPDX-License-Identifier: MIT OR Apache-2.0
//! What guests are told.

use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use crate::core::{
    layout::lay_out,
    plan::{Overrides, plan},
    scenario::{Clock, Known, parse, parse_profiles},
};

const PROFILES: &str = r#"
nvme: {id: "8086:0953", class: "010802", about: a, source: s, shutdown: [{wait: 1 s}]}
nic: {id: "8086:1528", about: a, source: s, probe: [{sleep: 1 ms}], lock: rtnl}
switch: {id: "10b5:8747", about: a, source: s, shutdown: [{busy: 5 us}]}
"#;

/// The guest's files, each with its name above it, for one variant of a tree.
fn check(backend: &str, devices: &str, expect: &Expect) {
    let text = format!(
        "about: a\nkernel: \"6.1\"\nmachine: {{cpus: 1, memory: 64 MiB, backend: {backend}}}\n\
         devices:\n{devices}\nvariants: {{v: {{order: serial, swap: {{nic: nvme}}}}}}\nmeasure: [probe]\n"
    );
    let known = Known {
        profiles: parse_profiles("profiles.yaml", PROFILES).unwrap(),
        kernels: None,
        series: None,
    };
    let scenario = parse("s.yaml", &text, &known).unwrap_or_else(|e| panic!("{e}"));
    let layout = lay_out(&scenario.devices, &scenario.machine).unwrap();
    let trials = plan(&[Arc::new(scenario)], Overrides::default());
    let files = files(&trials[0], &layout, Finish::Restart);
    let text: String = files
        .iter()
        .map(|(name, text)| format!("{name}:\n{}", String::from_utf8_lossy(text)))
        .collect();
    expect.assert_eq(&text);
}

const TREE: &str = "
  - {name: port, type: root-port, devices: [{name: disk, profile: nvme}]}
  - {name: sw, type: bridge, profile: switch, devices: [{name: nic, profile: nic, count: 2}]}";

#[test]
fn a_domain_in_the_guest() {
    check(
        "guest",
        TREE,
        &expect![[r#"
            bootrig/dummy_pci.params:
            profile=0:-:w1000000000:-:-
            profile=1:-:b5000:-:-
            dev=1:1:00.0/00.0:0
            dev=2:1:00.1:1
            dev=3:1:00.1/00.0:0
            dev=4:1:00.1/00.1:0
            bootrig/marks.params:
            records=79
            bootrig/plan:
            bootrig-plan 1
            load marks
            load vpci
            load dummy_pci
            flush
            stop
            bootrig/vpci.params:
            kind=0:1b36:000c:060400:bridge:-
            kind=1:8086:0953:010802:endpoint:bootrig_dummy
            kind=2:10b5:8747:060400:bridge:bootrig_dummy
            node=00.0:0
            node=00.0/00.0:1
            node=00.1:2
            node=00.1/00.0:1
            node=00.1/00.1:1
        "#]],
    );
}

#[test]
fn devices_of_qemu() {
    check(
        "qemu",
        TREE,
        &expect![[r#"
            bootrig/dummy_pci.params:
            profile=0:-:w1000000000:-:-
            profile=1:-:b5000:-:-
            dev=1:01.0/00.0:0
            dev=2:01.1:1
            dev=3:01.1/00.0:0
            dev=4:01.1/00.1:0
            bootrig/marks.params:
            records=79
            bootrig/plan:
            bootrig-plan 1
            load marks
            load dummy_pci
            flush
            stop
        "#]],
    );
}

#[test]
fn firmware_faults_and_names() {
    let text = r#"about: a
kernel: "6.1"
machine: {cpus: 1, memory: 64 MiB}
profiles:
  card: {id: "8086:0953", about: a, source: s, probe: [{thread: true}], firmware: {flash: 64 B,
    size: 48 B, sector: 32 B, erase: {sleep: 1 ms}, page: 16 B, program: {poll: 2 ms, every: 1 ms}}}
devices: [{name: card, profile: card, count: 3, names: eth}]
variants:
  v: {order: serial, probe: per-device-kthread, kill_loader: 1 s,
    faults: {card.1: no-firmware, card.2: short-firmware}}
  w: {order: serial, probe: async-param, faults: {card.1: never-returns}}
measure: [bound]
"#;
    let scenario = parse("s.yaml", text, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    let layout = lay_out(&scenario.devices, &scenario.machine).unwrap();
    let trials = plan(&[Arc::new(scenario)], Overrides::default());
    let text: String = trials
        .iter()
        .flat_map(|t| files(t, &layout, Finish::Restart))
        .map(|(name, bytes)| match name.starts_with("lib/") {
            true => format!("{name}: {} bytes\n", bytes.len()),
            false => format!("{name}:\n{}", String::from_utf8_lossy(&bytes)),
        })
        .collect();
    expect![[r#"
        bootrig/dummy_pci.params:
        probe=per-device-kthread
        profile=0:t:-:-:-
        firmware=0:bootrig/card.bin:48:32:s1000000:16:p2000000/1000000
        profile=1:t:-:-:-
        firmware=1:bootrig/card.missing:48:32:s1000000:16:p2000000/1000000
        profile=2:t:-:-:-
        firmware=2:bootrig/card.short:48:32:s1000000:16:p2000000/1000000
        dev=0:01.0:0
        name=0:eth
        dev=1:01.1:1
        name=1:eth
        dev=2:01.2:2
        name=2:eth
        bootrig/marks.params:
        records=76
        bootrig/plan:
        bootrig-plan 1
        load marks
        load dummy_pci kill=1000000000
        flush
        stop
        lib/firmware/bootrig/card.bin: 48 bytes
        lib/firmware/bootrig/card.short: 24 bytes
        bootrig/dummy_pci.params:
        async_probe=1
        profile=0:t:-:-:-
        firmware=0:bootrig/card.bin:48:32:s1000000:16:p2000000/1000000
        dev=0:01.0:0
        name=0:eth
        dev=1:01.1:0
        fault=1:never-returns
        name=1:eth
        dev=2:01.2:0
        name=2:eth
        bootrig/marks.params:
        records=76
        bootrig/plan:
        bootrig-plan 1
        load marks
        load dummy_pci limit=60048000000
        flush 60048000000
        stop
        lib/firmware/bootrig/card.bin: 48 bytes
    "#]]
    .assert_eq(&text);
}

/// A task that is killed before it is in reboot(2) does not reboot.
#[test]
fn slow_kernels_get_a_head_start() {
    let text = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 64 MiB}\n\
        variants: {v: {order: serial}}\nmeasure: [device_shutdown]\n\
        meanwhile: [{after: 1 us, kill: true}, {after: 50 ms, rescan: true}]\n";
    let scenario = parse("s.yaml", text, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    let layout = lay_out(&scenario.devices, &scenario.machine).unwrap();
    let scenario = Arc::new(scenario);
    let said = |debug| {
        let overrides = Overrides {
            debug,
            ..Overrides::default()
        };
        let trials = plan(std::slice::from_ref(&scenario), overrides);
        let plan = files(&trials[0], &layout, Finish::Restart)
            .remove("bootrig/plan")
            .unwrap();
        let plan = String::from_utf8(plan).unwrap();
        let lines = plan.lines().filter(|l| l.starts_with("meanwhile"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        said(false),
        ["meanwhile 1000 kill", "meanwhile 50000000 rescan"]
    );
    assert_eq!(
        said(true),
        ["meanwhile 2001000 kill", "meanwhile 52000000 rescan"]
    );
}

/// In virtual time a further repeat has a phase of its own before each thing that is timed;
/// the first has none, and neither has wall time.
#[test]
fn repeats_wait_for_phases_of_their_own() {
    let text = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 64 MiB}\n\
                devices: [{name: d, profile: nvme}]\nvariants: {v: {order: serial}, w: {order: serial}}\nmeasure: [probe]\n";
    let known = Known {
        profiles: parse_profiles("profiles.yaml", PROFILES).unwrap(),
        kernels: None,
        series: None,
    };
    let scenario = Arc::new(parse("s.yaml", text, &known).unwrap_or_else(|e| panic!("{e}")));
    let layout = lay_out(&scenario.devices, &scenario.machine).unwrap();
    let plans = |clock| {
        let overrides = Overrides {
            clock: Some(clock),
            repeats: Some(9),
            debug: false,
        };
        let trials = plan(std::slice::from_ref(&scenario), overrides);
        let measured = trials.into_iter().filter(|t| t.variant().name == "v");
        let plan = |t| files(&t, &layout, Finish::Restart)["bootrig/plan"].clone();
        let texts = measured.map(|t| String::from_utf8(plan(t)).unwrap());
        texts.collect::<Vec<_>>()
    };
    let virtual_time = plans(Clock::Virtual);
    assert!(!virtual_time[0].contains("wait"));
    assert_eq!(
        virtual_time[1],
        "bootrig-plan 1\nload marks\nwait 6180340\nload dummy_pci\nflush\nwait 6180340\nstop\n"
    );
    let distinct: std::collections::BTreeSet<_> = virtual_time.iter().collect();
    assert_eq!(distinct.len(), 9);
    assert!(plans(Clock::Wall).iter().all(|p| !p.contains("wait")));
}
