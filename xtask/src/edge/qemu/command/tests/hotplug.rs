// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines of machines into which memory is plugged, and what QEMU is told later.

use super::*;
use crate::core::scenario::{Hotplug, How, Memory, Online, Plugged, When};

/// What is said of a machine with two blocks of 128 MiB, beside what every machine has.
fn said(plugged: Plugged, when: When, online: Online) -> String {
    let mut scenario = scenario();
    scenario.machine.kind = MachineKind::Q35;
    let without = line(&host("10.0.2", tcg()), &trial(scenario.clone())).unwrap();
    let block = Bytes(128 << 20);
    let hotplug = Hotplug {
        plugged,
        block,
        when,
        online,
    };
    scenario.memory = Some(Memory {
        blocks: 2,
        how: How::Hotplug(hotplug),
    });
    let with = line(&host("10.0.2", tcg()), &trial(scenario)).unwrap();
    let mut lines = Vec::new();
    for word in with.args.iter().filter(|w| !without.args.contains(w)) {
        // Of the kernel's words, the last but the variant's own.
        let kernel = word.strip_prefix("console=");
        let own = kernel.map(|w| w.rsplit(' ').nth(1).unwrap_or_default());
        lines.push(own.unwrap_or(word).to_owned());
    }
    lines.extend(with.attach.iter().map(super::super::Order::line));
    lines.join("\n")
}

#[test]
fn dimms_while_it_runs() {
    let dimm = Plugged::PcDimm(Bytes(128 << 20));
    expect![[r#"
        512M,slots=2,maxmem=768M
        memhp_default_state=online_movable
        ib700
        -action
        watchdog=pause
        {"arguments":{"id":"plug0","qom-type":"memory-backend-ram","reserve":false,"size":134217728},"execute":"object-add"}
        {"arguments":{"driver":"pc-dimm","id":"dimm0","memdev":"plug0"},"execute":"device_add"}
        {"arguments":{"id":"plug1","qom-type":"memory-backend-ram","reserve":false,"size":134217728},"execute":"object-add"}
        {"arguments":{"driver":"pc-dimm","id":"dimm1","memdev":"plug1"},"execute":"device_add"}"#]]
    .assert_eq(&said(dimm, When::Later, Online::OnlineMovable));
}

#[test]
fn one_large_dimm_before_it_boots() {
    let dimm = Plugged::PcDimm(Bytes(256 << 20));
    expect![[r#"
        512M,slots=1,maxmem=768M
        memhp_default_state=offline
        memory-backend-ram,id=plug0,size=256M,reserve=off
        pc-dimm,id=dimm0,memdev=plug0"#]]
    .assert_eq(&said(dimm, When::Boot, Online::Offline));
}

#[test]
fn virtio_mem_is_there_and_grows() {
    expect![[r#"
        512M,maxmem=768M
        memhp_default_state=online
        memory-backend-ram,id=plug0,size=256M,reserve=off
        virtio-mem-pci,id=vmem,memdev=plug0,requested-size=0M,ioeventfd=off,bus=pcie.0,addr=1f.7
        ib700
        -action
        watchdog=pause
        {"arguments":{"path":"/machine/peripheral/vmem","property":"requested-size","value":268435456},"execute":"qom-set"}"#]]
    .assert_eq(&said(Plugged::VirtioMem, When::Later, Online::Online));
    expect![[r#"
        512M,maxmem=768M
        memhp_default_state=online_kernel
        memory-backend-ram,id=plug0,size=256M,reserve=off
        virtio-mem-pci,id=vmem,memdev=plug0,requested-size=256M,ioeventfd=off,bus=pcie.0,addr=1f.7"#]]
    .assert_eq(&said(Plugged::VirtioMem, When::Boot, Online::OnlineKernel));
}
