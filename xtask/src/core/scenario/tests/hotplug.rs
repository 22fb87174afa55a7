// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is plugged in: what it means, and what is said of what cannot be.

use expect_test::{Expect, expect};

use super::*;
use crate::core::{
    plan::{Overrides, plan},
    units::Bytes,
};

/// `BASE` on a machine that takes memory.
fn with(machine: &str, memory: &str) -> String {
    changed(
        "machine: {cpus: 2, memory: 512 MiB}",
        &format!("machine: {{type: q35, cpus: 2, memory: {machine}}}\nmemory: {memory}"),
    )
}

fn plugged(scenario: &Scenario) -> Hotplug {
    scenario.memory.unwrap().hotplug().unwrap()
}

#[test]
fn what_is_left_out_is_the_smallest_dimm_while_it_runs() {
    let scenario = good(&with("512 MiB", "{blocks: 8, how: hotplug}"));
    let hotplug = plugged(&scenario);
    assert_eq!(
        hotplug,
        Hotplug {
            plugged: Plugged::PcDimm(Bytes(128 << 20)),
            block: Bytes(128 << 20),
            when: When::Later,
            online: Online::Online,
        }
    );
    assert_eq!(hotplug.devices(8), 8);
    expect!["8 hotplug memory blocks (pc-dimm of 128 MiB, while it runs, online)"]
        .assert_eq(&scenario.memory.unwrap().to_string());
    let said = "{blocks: 8, how: hotplug, device: pc-dimm, dimm: 128 MiB, block: 128 MiB, when: later, online: online}";
    assert_eq!(good(&with("512 MiB", said)).hash, scenario.hash);
}

#[test]
fn each_key_is_another_experiment_and_the_canonical_form_is_the_same() {
    let mut hashes = std::collections::BTreeSet::new();
    for memory in [
        "{blocks: 8, how: hotplug}",
        "{blocks: 16, how: hotplug}",
        "{blocks: 8, how: hotplug, dimm: 1 GiB}",
        "{blocks: 8, how: hotplug, block: 4 MiB}",
        "{blocks: 8, how: hotplug, when: boot}",
        "{blocks: 8, how: hotplug, online: offline}",
        "{blocks: 8, how: hotplug, online: online_kernel}",
        "{blocks: 8, how: hotplug, online: online_movable}",
        "{blocks: 8, how: hotplug, device: virtio-mem}",
        "{blocks: 8, how: synthetic}",
    ] {
        let scenario = good(&with("512 MiB", memory));
        assert_eq!(good(&to_yaml(&scenario)), scenario, "{memory}");
        assert!(hashes.insert(scenario.hash), "{memory}");
    }
}

#[test]
fn its_kernel_is_one_of_its_own() {
    let kernel = |memory| {
        let scenario = good(&with("512 MiB", memory));
        let plan = plan(&[std::sync::Arc::new(scenario)], Overrides::default());
        plan[0].kernel.to_string()
    };
    assert_eq!(kernel("{blocks: 8, how: synthetic}"), "6.1");
    assert_eq!(kernel("{blocks: 8, how: hotplug}"), "6.1+memory-hotplug");
    assert_eq!(
        kernel("{blocks: 8, how: hotplug, block: 4 MiB}"),
        "6.1+small-sections+memory-hotplug"
    );
}

/// As QEMU's q35 lays it out: above 4 GiB and all RAM, at a whole GiB.
#[test]
fn where_blocks_come_to_be() {
    let hotplug = plugged(&good(&with("512 MiB", "{blocks: 8, how: hotplug}")));
    let first = |mib: u64| hotplug.first_block(Bytes(mib << 20));
    assert_eq!(first(512), 32);
    assert_eq!(first(2815), 32);
    assert_eq!(first(2816), 40, "4 GiB + 768 MiB, rounded up");
    assert_eq!(first(4096), 48);
    let small = Hotplug {
        block: Bytes(4 << 20),
        ..hotplug
    };
    assert_eq!(small.first_block(Bytes(512 << 20)), 1024);
}

#[test]
fn what_a_host_must_have() {
    let memory = |text| good(&with("2 GiB", text)).memory.unwrap();
    // Page structures, 2 MiB a block, and 4 KiB of sysfs.
    let large = memory("{blocks: 256, how: hotplug}");
    assert_eq!(large.host_need(), Some(Bytes((512 + 1 + 512) << 20)));
    let small = memory("{blocks: 256, how: hotplug, block: 4 MiB}");
    assert_eq!(small.host_need(), Some(Bytes((16 + 1 + 512) << 20)));
}

#[test]
fn sizes_are_blocks() {
    let text = with("1 GiB", "{blocks: 8, how: hotplug, dimm: 512 MiB}")
        + "sweep: {blocks: [8, 64, 1024]}\n";
    let scenario = good(&text);
    let of = |s: &Scenario| {
        (
            s.memory.unwrap().blocks,
            plugged(s).devices(s.memory.unwrap().blocks),
        )
    };
    let points: Vec<_> = scenario.members().iter().map(of).collect();
    assert_eq!(points, [(8, 2), (64, 16), (1024, 256)]);
    expect![[r#"
        x.yaml:21:25: sweep.blocks[2], 1026: memory.blocks: 1026 blocks of 128 MiB are no whole DIMMs of 512 MiB: take a multiple of 4
    "#]].assert_eq(&said(&text.replace("1024", "1026")));
}

#[test]
fn what_cannot_be_is_refused() {
    let check = |memory: &str, expect: Expect| expect.assert_eq(&said(&with("512 MiB", memory)));
    check(
        "{blocks: 0, how: hotplug}",
        expect![[r#"
        x.yaml:4:18: memory.blocks must be 1 to 1048576, not 0
    "#]],
    );
    check(
        "{blocks: 257, how: hotplug}",
        expect![[r#"
        x.yaml:4:18: memory.blocks: 257 blocks of 128 MiB in DIMMs of 128 MiB are 257 DIMMs, and the machine has 256 slots: take a larger `dimm`, `device: virtio-mem`, or 256 blocks
    "#]],
    );
    check(
        "{blocks: 1000000, how: hotplug, device: virtio-mem}",
        expect![[r#"
            x.yaml:4:18: memory.blocks: 1000000 blocks of 128 MiB, with what QEMU sets aside for slots and PCI, go beyond the 1 TiB that its translated CPU addresses: take 7904 or fewer
        "#]],
    );
    check(
        "{blocks: 8000, how: hotplug, dimm: 1000 GiB}",
        expect![[r#"
            x.yaml:4:18: memory.blocks: a DIMM of 1000 GiB goes beyond the 1 TiB that QEMU's translated CPU addresses: beside slots and PCI the largest is one of 987 GiB
        "#]],
    );
    check(
        "{blocks: 8064, how: hotplug, dimm: 504 GiB}",
        expect![[r#"
            x.yaml:4:18: memory.blocks: 8064 blocks of 128 MiB, with what QEMU sets aside for slots and PCI, go beyond the 1 TiB that its translated CPU addresses: take 4032 or fewer
        "#]],
    );
    check(
        "{blocks: 8, how: hotplug, dimm: 100 MiB}",
        expect![[r#"
        x.yaml:4:41: memory.dimm must be a multiple of a section, 128 MiB: the kernel adds nothing less, and not 100 MiB; `block: 4 MiB` allows smaller ones
    "#]],
    );
    check(
        "{blocks: 8, how: hotplug, dimm: 0 B}",
        expect![[r#"
        x.yaml:4:41: memory.dimm must be a multiple of a section, 128 MiB: the kernel adds nothing less, and not 0 B; `block: 4 MiB` allows smaller ones
    "#]],
    );
    check(
        "{blocks: 8, how: hotplug, dimm: 128}",
        expect![[r#"
        x.yaml:4:41: memory.dimm takes a size such as `512 MiB`, not the number 128
    "#]],
    );
    check(
        "{blocks: 8, how: hotplug, dimm: 6 MiB, block: 4 MiB}",
        expect![[r#"
            x.yaml:4:41: memory.dimm must be a multiple of a section, 4 MiB: the kernel adds nothing less, and not 6 MiB
        "#]],
    );
    check(
        "{blocks: 8, how: hotplug, block: 8 MiB}",
        expect![[r#"
        x.yaml:4:42: memory.block must be 128 MiB (a section of x86) or 4 MiB (a kernel of its own, series small-sections), not 8 MiB
    "#]],
    );
    check(
        "{blocks: 5, how: hotplug, dimm: 512 MiB}",
        expect![[r#"
        x.yaml:4:18: memory.blocks: 5 blocks of 128 MiB are no whole DIMMs of 512 MiB: take a multiple of 4
    "#]],
    );
    check(
        "{blocks: 8, how: hotplug, online: movable}",
        expect![[r#"
            x.yaml:4:43: memory.online cannot be `movable`; did you mean `online_movable`?
        "#]],
    );
    check(
        "{blocks: 8, how: hotplug, when: before}",
        expect![[r#"
        x.yaml:4:41: memory.when cannot be `before`; valid: boot, later
    "#]],
    );
    check(
        "{blocks: 8, how: hotplug, device: dimm}",
        expect![[r#"
        x.yaml:4:43: memory.device cannot be `dimm`; did you mean `pc-dimm`?
    "#]],
    );
    check(
        "{blocks: 8, how: hotplug, device: virtio-mem, dimm: 1 GiB}",
        expect![[r#"
            x.yaml:4:61: memory.dimm is the size of each pc-dimm, and virtio-mem is one device: leave it out
        "#]],
    );
    check(
        "{blocks: 8, how: hotplug, device: virtio-mem, online: offline}",
        expect![[r#"
            x.yaml:4:63: memory.online: virtio-mem's driver adds no more once some blocks are offline: take another policy, or `device: pc-dimm`
        "#]],
    );
    check(
        "{blocks: 8, how: synthetic, when: boot, online: online}",
        expect![[r#"
            x.yaml:4:43: memory.when is about memory that is plugged in (`how: hotplug`); leave it out
            x.yaml:4:57: memory.online is about memory that is plugged in (`how: hotplug`); leave it out
        "#]],
    );
    // Page structures that find no room: of all blocks, or of one DIMM.
    check(
        "{blocks: 256, how: hotplug, online: online_movable}",
        expect![[r#"
            x.yaml:3:39: machine.memory: 512 MiB do not hold the page structures of what is plugged in, 512 MiB (a 64th of it), beside the guest; give it 576 MiB or more
        "#]],
    );
    check(
        "{blocks: 256, how: hotplug, dimm: 32 GiB}",
        expect![[r#"
            x.yaml:3:39: machine.memory: 512 MiB do not hold the page structures of what is plugged in, 512 MiB (a 64th of it), beside the guest; give it 576 MiB or more
        "#]],
    );
    assert_eq!(
        said(&with(
            "512 MiB",
            "{blocks: 256, how: hotplug, dimm: 16 GiB}"
        )),
        "no error"
    );
    assert_eq!(
        said(&with(
            "512 MiB",
            "{blocks: 7000, how: hotplug, device: virtio-mem}"
        )),
        "no error"
    );
}

#[test]
fn machines_that_take_none_are_refused() {
    let microvm = with("512 MiB", "{blocks: 8, how: hotplug}").replace("type: q35, ", "");
    expect![[r#"
        x.yaml:4:26: memory.how: a microvm has no memory hotplug; say `machine: {type: q35}`
    "#]]
    .assert_eq(&said(&microvm));
    expect![[r#"
        x.yaml:3:39: machine.memory: with 64 GiB or more the kernel makes its blocks larger than a section; give it less, and plug in the rest
    "#]].assert_eq(&said(&with("64 GiB", "{blocks: 8, how: hotplug}")));
    let missing = with("512 MiB", "{blocks: 8, how: hotplug}").replace(", memory: 512 MiB", "");
    expect![[r#"
        x.yaml:3:10: `memory` is missing in machine
    "#]]
    .assert_eq(&said(&missing));
}

#[test]
fn it_is_measured_where_it_is_done() {
    let measured = |text: String| text.replace("measure: [", "measure: [hotplug, ");
    expect![[r#"
        x.yaml:13:10: `hotplug` is measured, and no `memory` with `how: hotplug` says what is plugged in
    "#]].assert_eq(&said(&measured(BASE.to_owned())));
    expect![[r#"
        x.yaml:14:10: `hotplug` is measured, and no `memory` with `how: hotplug` says what is plugged in
    "#]].assert_eq(&said(&measured(with(
        "512 MiB",
        "{blocks: 8, how: synthetic}",
    ))));
    let good = measured(with("512 MiB", "{blocks: 8, how: hotplug}"));
    assert_eq!(said(&good), "no error");
    let owned = changed(
        "variants:",
        "variants:\n  own: {order: serial, cmdline: [memhp_default_state=offline]}",
    );
    expect![[r#"
        x.yaml:11:34: variants.own.cmdline[0]: `memhp_default_state=offline` is set by bootrig: it is `online` of `memory`, which the oracle holds the kernel to
    "#]].assert_eq(&said(&owned));
}
