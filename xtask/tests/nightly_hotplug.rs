// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory plugged into a real kernel in each way there is. Run by `cargo xtask test --nightly`,
//! and alone by `cargo test -p xtask --test nightly_hotplug -- --ignored --test-threads=1`.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;

use bootrig::core::summary::VariantSummary;
use support::benched::benched;

/// Boots `memory` on a machine of so many CPUs and `ram`, where `more` is measured beside; what came of it.
fn booted(cpus: u32, ram: &str, memory: &str, more: &str) -> VariantSummary {
    let text = format!(
        "about: memory that is plugged in, for the rig's own tests.\n\
         kernel: \"6.1\"\n\
         machine: {{type: q35, cpus: {cpus}, memory: {ram}}}\n\
         memory: {{how: hotplug, {memory}}}\n\
         devices: [{{name: disk, profile: none, count: 3}}]\n\
         variants: {{stock: {{order: serial}}}}\n\
         {more}"
    );
    let summary = benched("plugged", &text, &[], 0);
    let mut scenarios = summary.scenarios;
    let variant = scenarios.remove(0).variants.remove(0);
    assert!(variant.completed(), "{memory}: {}", variant.outcome_text());
    assert_eq!(variant.oracle.violations, [""; 0], "{memory}");
    variant
}

fn medians(variant: &VariantSummary) -> BTreeMap<String, u64> {
    let metrics = variant.metrics.iter();
    metrics.map(|(name, m)| (name.clone(), m.median)).collect()
}

const MEASURE: &str = "measure: [hotplug, boot]\n";

#[test]
#[ignore = "real boot"]
fn each_device_time_and_policy_and_each_block_is_as_asked() {
    for memory in [
        "blocks: 8, online: offline",
        "blocks: 8, online: online_movable",
        "blocks: 16, dimm: 1 GiB, online: online_kernel",
        "blocks: 8, when: boot, online: online_kernel",
        "blocks: 8, when: boot, online: offline",
        "blocks: 8, device: virtio-mem, online: online_movable",
        "blocks: 8, device: virtio-mem, when: boot, online: online",
    ] {
        let variant = booted(2, "512 MiB", memory, MEASURE);
        let blocks = if memory.contains("16") { 16 } else { 8 };
        assert_eq!(variant.metrics["hotplug/blocks"].median, blocks, "{memory}");
        let hotplug = variant.metrics["hotplug"].median;
        assert!(
            hotplug >= variant.metrics["hotplug/there"].median,
            "{memory}"
        );
        // From the kernel's start, or much less than that.
        let boot = variant.metrics["boot"].median;
        assert_eq!(memory.contains("boot"), hotplug > boot, "{memory}");
    }
}

/// The most DIMMs, and the largest, each as it is refused beyond.
#[test]
#[ignore = "real boot"]
fn the_most_dimms_and_the_largest() {
    let many = booted(1, "1 GiB", "blocks: 256, online: online_movable", MEASURE);
    assert_eq!(many.metrics["hotplug/blocks"].median, 256);
    let large = booted(1, "1 GiB", "blocks: 384, dimm: 48 GiB", MEASURE);
    assert_eq!(large.metrics["hotplug/blocks"].median, 384);
}

/// With one CPU: with several, whose turn is next may depend on a host that has too much to do.
#[test]
#[ignore = "real boot"]
fn a_boot_repeats_to_the_nanosecond_whatever_the_host_does() {
    for memory in [
        "blocks: 8, online: online_movable",
        "blocks: 8, device: virtio-mem",
    ] {
        let boot = || medians(&booted(1, "512 MiB", memory, MEASURE));
        assert_eq!(boot(), boot(), "{memory}");
    }
}

/// What is plugged in is walked over, goes down with the machine, and is there again.
#[test]
#[ignore = "real boot"]
fn what_is_plugged_in_is_walked_over_and_survives_a_reboot() {
    let more = "walk: {threads: 2, rounds: 2, blocks: 12, paths: existing, do: read}\n\
                measure: [hotplug, walk, device_shutdown, reboot]\n";
    let variant = booted(2, "512 MiB", "blocks: 8, online: online_kernel", more);
    for metric in ["hotplug", "walk", "device_shutdown", "reboot"] {
        assert!(variant.metrics.contains_key(metric), "{metric}");
    }
}
