// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of scenario parsing: what it makes of good files (here), what it says of bad ones
//! (`shape`,
//! `meaning`), and what holds for all (`properties`).

mod hotplug;
mod meaning;
mod memory;
mod probing;
mod properties;
mod shape;
mod sweep;
mod systemd;
mod userspace;

use std::sync::OnceLock;

use expect_test::Expect;

use super::*;

/// profiles.yaml of these tests.
const PROFILES: &str = r#"
mlx4: {id: "15b3:1003", about: a NIC, source: a table, shutdown: [{sleep: 1 s}, {wait: 140 ms}]}
mlx4-fast: {id: "15b3:1003", about: a NIC, source: a table, shutdown: [{wait: 140 ms}]}
ixgbe-x540: {id: "8086:1528", about: a NIC, source: a table, lock: rtnl,
  shutdown: [{poll: 132 ms, every: 5.5 ms}], probe: [{busy: 300 us}]}
"#;

/// A good scenario; tests break it.
const BASE: &str = r#"about: a test
kernel: "6.1"
machine: {cpus: 2, memory: 512 MiB}
devices:
  - {name: mlx4, profile: mlx4}
  - {name: ixgbe, profile: ixgbe-x540, count: 2}
  - name: sw
    type: bridge
    devices: [{name: nic, profile: mlx4}]
variants:
  stock: {order: serial}
  parallel: {series: parallel-shutdown, cmdline: [a=1], order: parallel}
measure: [boot, device_shutdown]
reference:
  source: a report
  device_shutdown: {stock: 2.95 s}
  devices: {ixgbe: 0.37 s}
expect:
  - {variant: parallel, metric: device_shutdown, within: 2 %, of: ideal}
"#;

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let series = ["parallel-shutdown".to_owned()].into();
        let profiles = parse_profiles("profiles.yaml", PROFILES).unwrap_or_else(|e| panic!("{e}"));
        Known {
            profiles,
            kernels: None,
            series: Some(series),
        }
    })
}

fn good(text: &str) -> Scenario {
    parse("scenarios/x.yaml", text, known()).unwrap_or_else(|e| panic!("{e}"))
}

/// `BASE` with its `devices:` replaced, and without what depends on them.
fn with_devices(devices: &str) -> String {
    let (head, rest) = BASE.split_once("devices:\n").expect("BASE has devices");
    let (_, tail) = rest.split_once("variants:").expect("BASE has variants");
    let tail = tail.replace("  devices: {ixgbe: 0.37 s}\n", "");
    format!("{head}devices:\n{devices}\nvariants:{tail}")
}

fn tree(devices: &str) -> Vec<(String, Option<usize>)> {
    let scenario = good(&with_devices(devices));
    scenario
        .devices
        .into_iter()
        .map(|d| (d.name, d.parent))
        .collect()
}

fn node(name: &str, parent: impl Into<Option<usize>>) -> (String, Option<usize>) {
    (name.into(), parent.into())
}

fn said(text: &str) -> String {
    match parse("x.yaml", text, known()) {
        Ok(_) => "no error".into(),
        Err(e) => format!("{e}\n"),
    }
}

/// Breaks `BASE` in one place.
fn check(from: &str, to: &str, expect: Expect) {
    expect.assert_eq(&said(&changed(from, to)));
}

fn check_text(text: &str, expect: Expect) {
    expect.assert_eq(&said(text));
}

fn check_devices(devices: &str, expect: Expect) {
    check_text(&with_devices(devices), expect);
}

/// Puts `step` into a profile of the scenario's own.
fn check_step(step: &str, expect: Expect) {
    let own =
        format!("profiles:\n  p: {{id: \"15b3:1003\", about: x, source: x, shutdown: [{step}]}}\n");
    check_text(&format!("{BASE}{own}"), expect);
}

fn check_profile(profile: &str, expect: Expect) {
    check_text(&format!("{BASE}profiles:\n  p: {profile}\n"), expect);
}

#[test]
fn a_scenario_means_what_it_says() {
    let s = good(BASE);
    assert_eq!(s.name, "x");
    assert_eq!(
        (s.clock, s.repeats_by(s.clock), s.timeout),
        (Clock::Virtual, 1, Nanos(300_000_000_000))
    );
    assert_eq!(s.machine.memory, Bytes(512 << 20));
    let names: Vec<_> = s.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["mlx4", "ixgbe.0", "ixgbe.1", "sw", "nic"]);
    assert_eq!(s.devices[4].parent, Some(3));
    assert_eq!(
        (s.devices[3].kind, &s.devices[3].profile),
        (NodeKind::Bridge, &None)
    );
    assert_eq!(s.profiles.len(), 2, "only profiles that are used");
    assert_eq!(
        s.profiles["mlx4"].shutdown,
        [
            Step::Sleep(Nanos(1_000_000_000)),
            Step::Wait(Nanos(140_000_000))
        ]
    );
    let every = Nanos(5_500_000);
    assert_eq!(
        s.profiles["ixgbe-x540"].shutdown,
        [Step::Poll {
            total: Nanos(132_000_000),
            every
        }]
    );
    assert_eq!(s.profiles["ixgbe-x540"].lock.as_deref(), Some("rtnl"));
    assert_eq!(s.variants[1].name, "parallel", "in the file's order");
    assert_eq!(s.expect[0].of, Target::Ideal);
    assert_eq!(
        s.reference.unwrap().devices,
        [("ixgbe".into(), Nanos(370_000_000))]
    );
}

#[test]
fn by_the_wall_clock_one_boot_is_not_enough() {
    assert_eq!(
        good(&format!("{BASE}\nclock: wall\n")).repeats_by(Clock::Wall),
        10
    );
    assert_eq!(
        good(&format!("{BASE}\nclock: wall\nrepeats: 3\n")).repeats_by(Clock::Virtual),
        3
    );
}

#[test]
fn counts_below_counted_bridges_number_on() {
    let devices = "  - {name: sw, type: bridge, count: 2, devices: [
    {name: nic, profile: mlx4, count: 2}, {name: one, profile: mlx4}]}";
    assert_eq!(
        tree(devices),
        [
            node("sw.0", None),
            node("sw.1", None),
            node("nic.0", 0),
            node("nic.1", 0),
            node("nic.2", 1),
            node("nic.3", 1),
            node("one.0", 0),
            node("one.1", 1),
        ]
    );
}

#[test]
fn parents_come_first_and_the_rest_keeps_its_order() {
    let devices = "
  - {name: a, profile: mlx4, parent: low}
  - {name: b, profile: mlx4}
  - {name: low, type: bridge, parent: top}
  - {name: c, profile: mlx4, parent: top}
  - {name: top, type: bridge}";
    assert_eq!(
        tree(devices),
        [
            node("top", None),
            node("low", 0),
            node("a", 1),
            node("b", None),
            node("c", 0)
        ]
    );
}

#[test]
fn the_hash_sees_meaning_only() {
    let hash = |text: &str| good(text).hash;
    let base = hash(BASE);
    assert_eq!(base.len(), 64);
    for (from, to) in [
        ("about: a test", "# a comment\nabout: another text"),
        (
            "{name: mlx4, profile: mlx4}",
            "{profile: mlx4, name: mlx4, count: 1, type: endpoint}",
        ),
        ("512 MiB", "0.5 GiB"),
        ("measure:", "clock: virtual\nrepeats: 1\nmeasure:"),
        (
            "    devices: [{name: nic, profile: mlx4}]",
            "  - {name: nic, profile: mlx4, parent: sw}",
        ),
    ] {
        assert_eq!(base, hash(&changed(from, to)), "{from} -> {to}");
    }
    for (from, to) in [
        ("cpus: 2", "cpus: 3"),
        ("count: 2", "count: 3"),
        ("type: bridge", "type: root-port"),
        ("a=1", "a=2"),
        ("order: serial", "order: serial, swap: {mlx4: mlx4-fast}"),
        ("2.95 s", "2.96 s"),
        ("2 %", "3 %"),
        ("profile: ixgbe-x540", "profile: mlx4-fast"),
    ] {
        assert_ne!(base, hash(&changed(from, to)), "{from} -> {to}");
    }
    let slower = PROFILES.replace("sleep: 1 s", "sleep: 2 s");
    let slower = Known::from(parse_profiles("profiles.yaml", &slower).unwrap());
    assert_ne!(
        base,
        parse("x.yaml", BASE, &slower).unwrap().hash,
        "profiles are part of it"
    );
}

#[test]
fn a_scenario_brings_its_own_profiles() {
    let own =
        "profiles:\n  slow: {id: \"1af4:1000\", about: x, source: x, shutdown: [{wait: 9 s}]}\n";
    let s = good(&format!(
        "{}{own}",
        changed("profile: ixgbe-x540", "profile: slow")
    ));
    assert_eq!(s.profiles["slow"].id, (0x1af4, 0x1000));
}

/// `BASE` with `from`, which must be in it, replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "`{from}` is not in BASE");
    BASE.replacen(from, to, 1)
}

#[test]
fn editors_of_other_systems_may_be_used() {
    let base = good(BASE);
    assert_eq!(base, good(&format!("\u{feff}{BASE}")));
    assert_eq!(base, good(&BASE.replace('\n', "\r\n")));
}

#[test]
fn backend() {
    let with = |backend: &str| {
        let text = BASE.replace("{cpus: 2", &format!("{{{backend}cpus: 2"));
        let scenario = good(&text);
        assert_eq!(good(&to_yaml(&scenario)).hash, scenario.hash);
        (scenario.machine.backend, scenario.hash)
    };
    let guest = with("backend: guest, ");
    assert_eq!(guest.0, Backend::Guest);
    assert_eq!(with(""), with("backend: qemu, "));
    assert_ne!(with("").1, guest.1);
}
