// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places of devices.

use super::*;
use crate::core::units::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

fn device(name: impl Into<String>, parent: Option<usize>, kind: NodeKind) -> Device {
    Device {
        name: name.into(),
        parent,
        kind,
        profile: None,
        names: None,
    }
}
fn endpoints(count: usize, parent: Option<usize>) -> Vec<Device> {
    (0..count)
        .map(|i| device(format!("dev.{i}"), parent, NodeKind::Endpoint))
        .collect()
}
/// Bridges that are no device of the tree.
fn added(layout: &Layout) -> usize {
    layout.nodes.len() - layout.paths.len()
}
fn machine(kind: MachineKind, backend: Backend) -> MachineSpec {
    MachineSpec {
        kind,
        cpus: 1,
        memory: Bytes(1 << 30),
        backend,
    }
}
fn microvm() -> MachineSpec {
    machine(MachineKind::Microvm, Backend::Qemu)
}
fn check(devices: &[Device], expect: &Expect) {
    let text = match lay_out(devices, &microvm()) {
        Ok(l) => {
            l.paths.join(" ")
                + "\n"
                + &l.qemu_devices()
                    .map(|a| format!("{a}\n"))
                    .collect::<String>()
        }
        Err(e) => e.to_string(),
    };
    expect.assert_eq(&text);
}

#[test]
fn tree() {
    let mut tree = vec![
        device("port", None, NodeKind::RootPort),
        device("bridge", Some(0), NodeKind::Bridge),
        device("lone", None, NodeKind::Endpoint),
    ];
    tree.extend(endpoints(9, Some(1)));
    tree.push(device("beside", Some(0), NodeKind::Endpoint));
    check(
        &tree,
        &expect![[r#"
            01.0 01.0/00.0 01.1 01.0/00.0/00.0 01.0/00.0/00.1 01.0/00.0/00.2 01.0/00.0/00.3 01.0/00.0/00.4 01.0/00.0/00.5 01.0/00.0/00.6 01.0/00.0/00.7 01.0/00.0/01.0 01.0/00.1
            pcie-root-port,id=b1,slot=1,hotplug=off,bus=pcie.0,addr=01.0,multifunction=on
            pci-bridge,id=b2,chassis_nr=2,shpc=off,bus=b1,addr=00.0,multifunction=on
            pvpanic-pci,events=0,bus=b2,addr=00.0,multifunction=on
            pvpanic-pci,events=0,bus=b2,addr=00.1
            pvpanic-pci,events=0,bus=b2,addr=00.2
            pvpanic-pci,events=0,bus=b2,addr=00.3
            pvpanic-pci,events=0,bus=b2,addr=00.4
            pvpanic-pci,events=0,bus=b2,addr=00.5
            pvpanic-pci,events=0,bus=b2,addr=00.6
            pvpanic-pci,events=0,bus=b2,addr=00.7
            pvpanic-pci,events=0,bus=b2,addr=01.0
            pvpanic-pci,events=0,bus=b1,addr=00.1
            pvpanic-pci,events=0,bus=pcie.0,addr=01.1
        "#]],
    );
}

#[test]
fn overflow_goes_behind_bridges_in_order() {
    let layout = lay_out(&endpoints(1000, None), &microvm()).unwrap();
    assert_eq!(added(&layout), 3);
    assert_eq!(layout.paths[0], "01.0");
    assert_eq!(
        layout.paths[244], "1f.4",
        "248 functions less three bridges"
    );
    assert_eq!(layout.paths[245], "1f.5/00.0");
    assert_eq!(layout.paths[245 + 256], "1f.6/00.0");
    let q35 = machine(MachineKind::Q35, Backend::Qemu);
    for (devices, bridges) in [(240, 0), (241, 1)] {
        let layout = lay_out(&endpoints(devices, None), &q35).unwrap();
        assert_eq!(added(&layout), bridges);
    }
}

#[test]
fn bridges_nest_where_ports_fill_the_root_bus() {
    let mut tree: Vec<_> = (0..247)
        .map(|i| device(format!("port.{i}"), None, NodeKind::RootPort))
        .collect();
    tree.extend(endpoints(500, None));
    let layout = lay_out(&tree, &microvm()).unwrap();
    assert_eq!(added(&layout), 2);
    assert_eq!(layout.paths[247], "1f.7/00.0");
    assert_eq!(layout.paths[746], "1f.7/1f.7/1e.4");
}

#[test]
fn what_does_not_fit_is_named() {
    let mut port = vec![device("port", None, NodeKind::RootPort)];
    port.extend(endpoints(9, Some(0)));
    check(
        &port,
        &expect!["`port` has 9 devices below it and holds 8: move some elsewhere"],
    );
    let mut bridge = vec![device("bridge", None, NodeKind::Bridge)];
    bridge.extend(endpoints(257, Some(0)));
    check(
        &bridge,
        &expect!["`bridge` has 257 devices below it and holds 256: move some elsewhere"],
    );
    let leaf = vec![
        device("leaf", None, NodeKind::Endpoint),
        device("x", Some(0), NodeKind::Endpoint),
    ];
    check(
        &leaf,
        &expect!["`leaf` has devices below it but is neither a root port nor a bridge"],
    );
    let deep = vec![
        device("b", None, NodeKind::Bridge),
        device("port", Some(0), NodeKind::RootPort),
    ];
    check(
        &deep,
        &expect!["root port `port` must sit on the root bus; use a bridge below other devices"],
    );
    let ports: Vec<_> = (0..249)
        .map(|i| device(format!("port.{i}"), None, NodeKind::RootPort))
        .collect();
    check(
        &ports,
        &expect!["no place for `port.248`: root ports take all 248 places of the root bus"],
    );
    let mut full = ports[..248].to_vec();
    full.push(device("last", None, NodeKind::Endpoint));
    check(
        &full,
        &expect!["no place for `last`: root ports take all 248 places of the root bus"],
    );
    check(
        &[device("x", Some(0), NodeKind::Endpoint)],
        &expect!["`x` comes before its parent"],
    );
    let bridges: Vec<_> = (0..256)
        .map(|i| device(format!("b.{i}"), None, NodeKind::Bridge))
        .collect();
    check(
        &bridges,
        &expect!["no bus number left for `b.254`: the tree needs more than a machine's 256 buses"],
    );
    let mut chain = endpoints(248, None);
    chain.push(device("b.1", None, NodeKind::Bridge));
    chain.extend((2..=7).map(|i| device(format!("b.{i}"), Some(246 + i), NodeKind::Bridge)));
    check(
        &chain,
        &expect![
            "`b.7` comes to lie deeper than 7 levels, as the root bus is too small for all that is on it: move something from there below a bridge"
        ],
    );
    let error = lay_out(&endpoints(70_000, None), &microvm()).unwrap_err();
    assert!(
        matches!(error, LayoutError::TooManyBuses { limit: 256, .. }),
        "{error}"
    );
}

#[test]
fn a_domain_in_the_guest_holds_ten_thousand() {
    let guest = machine(MachineKind::Microvm, Backend::Guest);
    let layout = lay_out(&endpoints(10_000, None), &guest).unwrap();
    assert_eq!(added(&layout), 39);
    assert_eq!(layout.paths[0], "1:00.0", "no host bridge is in slot 0");
    assert_eq!(layout.paths[216], "1:1b.0");
    assert_eq!(layout.paths[217], "1:1b.1/00.0");
    assert_eq!(layout.nodes[217].path, "1b.1");
    assert_eq!(layout.nodes[217].device, None);
    assert_eq!(layout.qemu_devices().count(), 0);
}

/// Trees of up to 1,500 nodes: each new node picks its kind and, if it may, a parent.
fn trees() -> impl Strategy<Value = Vec<Device>> {
    proptest::collection::vec(
        (0..100u8, any::<prop::sample::Index>(), any::<bool>()),
        0..1500,
    )
    .prop_map(|picks| {
        let mut tree: Vec<Device> = Vec::new();
        for (i, (pick, parent, root)) in picks.into_iter().enumerate() {
            let homes: Vec<_> = (0..i)
                .filter(|p| tree[*p].kind != NodeKind::Endpoint)
                .collect();
            let parent = (!root && !homes.is_empty()).then(|| homes[parent.index(homes.len())]);
            let kind = match (pick, parent) {
                (0..4, None) => NodeKind::RootPort,
                (4..8, _) => NodeKind::Bridge,
                _ => NodeKind::Endpoint,
            };
            tree.push(device(format!("d.{i}"), parent, kind));
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_device_has_a_place_of_its_own(tree in trees(), q35 in any::<bool>(), guest in any::<bool>()) {
        let kind = if q35 { MachineKind::Q35 } else { MachineKind::Microvm };
        let backend = if guest { Backend::Guest } else { Backend::Qemu };
        let Ok(layout) = lay_out(&tree, &machine(kind, backend)) else { return Ok(()) };
        prop_assert_eq!(layout.paths.len(), tree.len());
        let bridges = layout.nodes.iter().filter(|n| n.kind == NodeKind::Bridge).count();
        let own = tree.iter().filter(|d| d.kind == NodeKind::Bridge).count();
        prop_assert_eq!(added(&layout), bridges - own);
        prop_assert_eq!(layout.qemu_devices().count(), if guest { 0 } else { layout.nodes.len() });
        let distinct: HashSet<_> = layout.paths.iter().collect();
        prop_assert_eq!(distinct.len(), tree.len());
        for (device, path) in tree.iter().zip(&layout.paths) {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            if let Some(parent) = device.parent {
                prop_assert_eq!(above, &layout.paths[parent]);
            }
        }
        // What vpci checks: bridges exist before what is below them, and function 0 of a
        // slot before the others.
        let mut before = HashSet::new();
        for node in &layout.nodes {
            let path = node.path.as_str();
            if let Some((above, _)) = path.rsplit_once('/') {
                prop_assert!(before.contains(above), "{}", path);
            }
            let zero = format!("{}0", &path[..path.len() - 1]);
            prop_assert!(path == zero || before.contains(zero.as_str()), "{}", path);
            prop_assert!(before.insert(path), "{}", path);
        }
        // What QEMU checks: buses exist before they are used, no address twice, and
        // function 0 announces the others.
        let (mut buses, mut taken) = (HashSet::from(["pcie.0".to_string()]), BTreeMap::new());
        for arg in layout.qemu_devices() {
            let prop = |name| arg.props.iter().find(|p| p.0 == name).map(|p| p.1.clone());
            let (bus, addr) = (prop("bus").unwrap(), prop("addr").unwrap());
            prop_assert!(buses.contains(&bus));
            prop_assert!(taken.insert((bus.clone(), addr), prop("multifunction").is_some()).is_none());
            buses.extend(prop("id"));
        }
        for (bus, addr) in taken.keys() {
            let zero = (bus.clone(), format!("{}.0", &addr[..2]));
            prop_assert!(addr.ends_with('0') || taken.get(&zero) == Some(&true), "{} {}", bus, addr);
        }
    }
}
