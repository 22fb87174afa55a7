// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe strategies, firmware, faults and names on a real kernel. Run by `cargo xtask test`.
#![allow(missing_docs)]

mod support;

use bootrig::core::summary::VariantSummary;
use support::benched::benched;

const SCENARIO: &str = r#"
about: Probe strategies and faults, for the rig's own tests.
kernel: "6.1"
machine: {type: microvm, cpus: 1, memory: 256 MiB}
profiles:
  flash:
    id: "1425:4401"
    about: A card with little firmware
    source: "no device"
    firmware: {flash: 8 KiB, size: 4 KiB, sector: 4 KiB, erase: {sleep: 100 ms}, page: 256 B, program: {sleep: 1 ms}}
    probe: [{wait: 100 ms}]
  slow: {id: "1425:4401", about: A card, source: "no device", probe: [{wait: 1 s}]}
devices:
  - {name: slow, profile: slow, names: eth}
  - {name: card, profile: flash, count: 2, names: eth}
variants:
  sync: {order: serial}
  kthread: {order: serial, probe: kthread}
  workqueue: {order: serial, probe: workqueue}
  async-prefer: {order: serial, probe: async-prefer}
  async-param: {order: serial, probe: async-param}
  async-cmdline: {order: serial, probe: async-cmdline}
  per-device-kthread: {order: serial, probe: per-device-kthread}
  built-in: {order: serial, probe: built-in}
  unrecorded: {order: serial, record: false}
  faults: {order: serial, faults: {slow: defer, card.0: no-firmware, card.1: short-firmware}}
  hangs: {order: serial, probe: async-param, faults: {slow: never-returns}}
  unloaded: {order: serial, probe: async-param, unload: 50 ms}
measure: [load, probe, bound]
expect:
  - {variant: kthread, metric: probe, within: 1 %, of: sync}
  - {variant: workqueue, metric: probe, within: 1 %, of: sync}
  - {variant: async-prefer, metric: bound, within: 2 %, of: ideal}
  - {variant: async-prefer, metric: load, within: 2 %, of: 1 s}
  - {variant: async-param, metric: bound, within: 2 %, of: ideal}
  - {variant: async-param, metric: load, at_most: 5 %, of: 1 s}
  - {variant: async-cmdline, metric: bound, within: 2 %, of: ideal}
  - {variant: per-device-kthread, metric: bound, within: 2 %, of: ideal}
  - {variant: built-in, metric: bound, within: 1 %, of: ideal}
  - {variant: built-in, metric: probe, within: 1 %, of: sync}
  - {variant: unrecorded, metric: probe, within: 1 %, of: sync}
"#;

fn became<'s>(variant: &'s VariantSummary, device: &str) -> &'s str {
    let found = variant.became.iter().find(|b| b.device == device);
    &found
        .unwrap_or_else(|| panic!("{device} of {}", variant.name))
        .became
}

#[test]
#[ignore = "real boot"]
fn every_strategy_probes_and_every_fault_is_told() {
    let summary = benched("probing", SCENARIO, &[], 0);
    let scenario = &summary.scenarios[0];
    let variant = |name: &str| scenario.variants.iter().find(|v| v.name == name).unwrap();
    for v in &scenario.variants {
        assert!(v.completed(), "{}: {}", v.name, v.outcome_text());
        assert_eq!(v.oracle.violations, [""; 0], "{}", v.name);
    }
    assert_eq!(scenario.expectations.len(), 11);
    assert!(scenario.expectations.iter().all(|e| e.ok == Some(true)));
    // Who probes whom: one task, or one for each device.
    for (name, tasks) in [
        ("sync", 1),
        ("kthread", 1),
        ("async-prefer", 3),
        ("per-device-kthread", 3),
    ] {
        assert_eq!(variant(name).metrics["probe_tasks"].median, tasks, "{name}");
    }
    // Nobody loads a driver of the kernel's own; without records no probe is seen.
    let built_in = variant("built-in");
    assert!(!built_in.metrics.contains_key("load"));
    assert_eq!(built_in.metrics["probe_tasks"].median, 1);
    assert_eq!(built_in.names["eth0"], "slow");
    assert!(!variant("unrecorded").metrics.contains_key("bound"));
    // First come, first served: the slow one is eth0 only where it is waited for.
    assert_eq!(variant("sync").names["eth0"], "slow");
    assert_eq!(variant("async-prefer").names["eth2"], "slow");
    assert!(
        scenario
            .findings
            .iter()
            .any(|f| f.contains("in async-prefer 3 of 3"))
    );
    let faults = variant("faults");
    assert_eq!(became(faults, "card.0"), "probe failed: ENOENT");
    assert_eq!(became(faults, "card.1"), "probe failed: EINVAL");
    assert!(became(faults, "slow").starts_with("deferred, "));
    assert_eq!(became(variant("hangs"), "slow"), "probe never returned");
    assert_eq!(became(variant("hangs"), "card.0"), "bound");
    for device in ["slow", "card.0", "card.1"] {
        let end = became(variant("unloaded"), device);
        assert_eq!(end, "bound, then its driver was unloaded", "{device}");
    }
}
