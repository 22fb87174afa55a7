// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps: the scenarios that they stand for, and what is said of bad ones.

use expect_test::{Expect, expect};

use super::*;

fn with(sweep: &str) -> String {
    changed("variants:", &format!("sweep: {sweep}\nvariants:"))
}

/// Name, size and number of devices of each point.
fn points(sweep: &str) -> Vec<(String, u64, usize)> {
    let scenario = good(&with(sweep));
    let point = |s: &Scenario| {
        let point = s
            .point
            .as_ref()
            .expect("a size of a sweep says which it is");
        assert_eq!(point.of, "x");
        (s.name.clone(), point.value, s.devices.len())
    };
    scenario.members().iter().map(point).collect()
}

#[test]
fn each_size_is_the_file_with_one_number_changed() {
    assert_eq!(
        points("{devices: [2, 30], of: ixgbe}"),
        [("x@2".into(), 5, 5), ("x@30".into(), 33, 33)]
    );
    assert_eq!(
        points("{cpus: [1, 2, 4]}"),
        [
            ("x@1".into(), 1, 5),
            ("x@2".into(), 2, 5),
            ("x@4".into(), 4, 5)
        ]
    );
    let own = "{delay: [1 ms, 1.5 s], of: own}\nprofiles:\n  own: {id: \"1:1\", about: x, source: x, shutdown: [{sleep: 1 s}, {poll: 5 ms, every: 1 ms}]}"
        .replace("1:1", "15b3:1003");
    assert_eq!(
        points(&own),
        [
            ("x@1ms".into(), 1_000_000, 5),
            ("x@1.5s".into(), 1_500_000_000, 5)
        ]
    );
    let written = changed("ixgbe-x540, count: 2", "ixgbe-x540, count: 30");
    let swept = good(&with("{devices: [2, 30], of: ixgbe}"));
    assert_eq!(swept.members()[1].devices, good(&written).devices);
    assert_eq!(good(BASE).members().len(), 1);
}

#[test]
fn a_hash_says_which_sizes() {
    let hash = |sweep: &str| good(&with(sweep)).hash;
    let one = hash("{cpus: [1, 2]}");
    assert_ne!(one, good(BASE).hash);
    assert_ne!(one, hash("{cpus: [1, 3]}"));
    assert_ne!(
        one,
        hash("{cpus: [1, 2], growth: [{variant: stock, metric: boot, at_most: 1.5}]}")
    );
    assert_eq!(one, hash("{ cpus: [ 1, 2 ] }"));
}

#[test]
fn the_command_line_reaches_each_size() {
    let under = UnderTest {
        kernel: Some("6.12".into()),
        ..UnderTest::default()
    };
    let swept = good(&with("{devices: [2, 30], of: ixgbe}"));
    let tested = swept.put_under_test(&under).unwrap();
    assert!(tested.members().iter().all(|p| p.kernel == "6.12"));
    let same = swept.put_under_test(&UnderTest::default()).unwrap();
    assert_eq!(same, swept);
    let under = UnderTest {
        cpus: Some(2),
        ..UnderTest::default()
    };
    let error = good(&with("{cpus: [1, 2]}"))
        .put_under_test(&under)
        .unwrap_err();
    assert!(error.contains("leave --cpus out"), "{error}");
}

#[test]
fn what_is_no_sweep_is_refused() {
    let check = |sweep: &str, expect: Expect| expect.assert_eq(&said(&with(sweep)));
    check(
        "{}",
        expect![[r#"
            x.yaml:10:8: sweep must have exactly one of devices, delay, cpus, blocks and threads, with its sizes
        "#]],
    );
    check(
        "{devices: [1, 2], cpus: [1, 2], of: ixgbe}",
        expect![[r#"
            x.yaml:10:8: sweep must have exactly one of devices, delay, cpus, blocks and threads, with its sizes
        "#]],
    );
    check(
        "{devices: [1, 2]}",
        expect![[r#"
        x.yaml:10:8: `of` is missing in sweep: whose devices or delay?
    "#]],
    );
    check(
        "{cpus: [1, 2], of: ixgbe}",
        expect![[r#"
            x.yaml:10:27: sweep.of says nothing beside CPUs; leave it out
        "#]],
    );
    check(
        "{cpus: [4]}",
        expect![[r#"
        x.yaml:10:15: sweep.cpus must have 2 to 64 sizes, not 1: growth needs several
    "#]],
    );
    check(
        "{cpus: [2, 2]}",
        expect![[r#"
        x.yaml:10:19: sweep.cpus[1]: sizes must rise, and 2 is no more than the one before
    "#]],
    );
    check(
        "{cpus: [1, 100]}",
        expect![[r#"
        x.yaml:10:19: sweep.cpus[1], 100: machine.cpus must be 1 to 64, not 100
    "#]],
    );
    check(
        "{devices: [1, 300], of: nic}",
        expect![[r#"
        x.yaml:10:22: sweep.devices[1], 300: devices[2]: `sw` has room for 256 devices right below it, not for 300
    "#]],
    );
    check(
        "{devices: [0, 3], of: ixgbe}",
        expect![[r#"
        x.yaml:10:19: sweep.devices[0], 0: devices[1].count is 0; leave the device out instead
        x.yaml:10:19: sweep.devices[0], 0: no device is called `ixgbe` as reference.devices.ixgbe says; valid: mlx4, nic, sw
    "#]],
    );
    check(
        "{devices: [1, 3], of: ixgb}",
        expect![[r#"
        x.yaml:10:30: unknown device `ixgb` in sweep.of; did you mean `ixgbe`?
    "#]],
    );
    check(
        "{delay: [1 ms, 2 ms], of: mlx4}",
        expect![[r#"
        x.yaml:10:34: this file has no profile `mlx4` of its own, as sweep.of says; none is defined
    "#]],
    );
    check(
        "{devices: [1, 1.5], of: ixgbe}",
        expect![[r#"
        x.yaml:10:22: sweep.devices[1] takes a whole number, not the number 1.5
    "#]],
    );
    check(
        "{blocks: [1, 2]}",
        expect![[r#"
            x.yaml:10:8: sweep goes over blocks, and the scenario has no `memory`: whose blocks?
        "#]],
    );
    let growth = |limit: &str| format!("{{cpus: [1, 2], growth: [{{{limit}}}]}}");
    check(
        &growth("variant: stok, metric: boot, at_most: 1"),
        expect![[r#"
            x.yaml:10:42: unknown variant `stok` in sweep.growth[0].variant; did you mean `stock`?
        "#]],
    );
    check(
        &growth("variant: stock, metric: probe, at_most: 1"),
        expect![[r#"
            x.yaml:10:57: sweep.growth[0].metric: `probe` is not measured; add it to `measure` (now boot, device_shutdown)
        "#]],
    );
    check(
        &growth("variant: stock, metric: boot, at_most: 11"),
        expect![[r#"
            x.yaml:10:72: sweep.growth[0].at_most must be an exponent from 0 to 10, such as 1.1
        "#]],
    );
    check(
        &growth("variant: stock, metric: boot, at_most: linear"),
        expect![[r#"
            x.yaml:10:72: sweep.growth[0].at_most takes a number, not `linear`
        "#]],
    );
    check(
        &growth("variant: stock, metric: boot, at_most: .nan"),
        expect![[r#"
            x.yaml:10:72: sweep.growth[0].at_most takes a number, not the number .nan
        "#]],
    );
}
