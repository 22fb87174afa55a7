// SPDX-License-Identifier: MIT OR Apache-2.0
//! What guests are told.

use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use crate::core::{
    layout::lay_out,
    plan::{Overrides, plan},
    scenario::{Known, parse, parse_profiles},
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
        reboot
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
        reboot
    "#]],
    );
}
