// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory blocks: the RAM that they make, and what is said of bad ones.

use expect_test::{Expect, expect};

use super::*;
use crate::core::units::Bytes;

fn with(ram: &str, memory: &str) -> String {
    changed(
        "machine: {cpus: 2, memory: 512 MiB}",
        &format!("machine: {{cpus: 2{ram}}}\nmemory: {memory}"),
    )
}

#[test]
fn real_blocks_are_the_ram() {
    let scenario = good(&with("", "{blocks: 102401, how: real}"));
    assert_eq!(scenario.machine.memory, Bytes((409_604 - 1) << 20));
    assert_eq!(good(&to_yaml(&scenario)).hash, scenario.hash);
    let other = good(&with("", "{blocks: 102400, how: real}"));
    assert_ne!(other.hash, scenario.hash);
    let beside = good(&with(", memory: 1 GiB", "{blocks: 131072, how: synthetic}"));
    assert_eq!(beside.machine.memory, Bytes(1 << 30));
}

#[test]
fn sizes_change_the_blocks() {
    let text = with("", "{blocks: 16, how: real}") + "sweep: {blocks: [16, 64]}\n";
    let scenario = good(&text);
    let of = |s: &Scenario| (s.name.clone(), s.memory.unwrap().blocks, s.machine.memory);
    let points: Vec<_> = scenario.members().iter().map(of).collect();
    assert_eq!(
        points,
        [
            ("x@16".to_owned(), 16, Bytes(63 << 20)),
            ("x@64".to_owned(), 64, Bytes(255 << 20))
        ]
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let check = |ram, memory: &str, expect: Expect| expect.assert_eq(&said(&with(ram, memory)));
    check(
        "",
        "{blocks: 0, how: real}",
        expect![[r#"
        x.yaml:4:18: memory.blocks must be 16 (less than 64 MiB does not boot) to 196608 (what the machine can address beside its PCI windows), not 0
    "#]],
    );
    check(
        "",
        "{blocks: 196609, how: real}",
        expect![[r#"
        x.yaml:4:18: memory.blocks must be 16 (less than 64 MiB does not boot) to 196608 (what the machine can address beside its PCI windows), not 196609
    "#]],
    );
    check(
        "",
        "{blocks: -1, how: real}",
        expect![[r#"
        x.yaml:4:18: memory.blocks takes a whole number up to 4294967295, not -1
    "#]],
    );
    check(
        "",
        "{blocks: 100, how: rael}",
        expect![[r#"
        x.yaml:4:28: memory.how cannot be `rael`; did you mean `real`?
    "#]],
    );
    check(
        "",
        "{blocks: 100}",
        expect![[r#"
            x.yaml:4:9: `how` is missing in memory; it takes one of real, hotplug, synthetic
        "#]],
    );
    check(
        ", memory: 1 GiB",
        "{blocks: 0, how: synthetic}",
        expect![[r#"
            x.yaml:4:18: memory.blocks must be 1 to 1048576, not 0
        "#]],
    );
    check(
        "",
        "{blocks: 100, how: synthetic}",
        expect![[r#"
        x.yaml:3:10: `memory` is missing in machine
    "#]],
    );
    check(
        ", memory: 1 GiB",
        "{blocks: 100, how: real}",
        expect![[r#"
        x.yaml:3:28: machine.memory: the real memory blocks say how much there is; leave it out
    "#]],
    );
    let built_in = with(", memory: 1 GiB", "{blocks: 100, how: synthetic}").replace(
        "stock: {order: serial}",
        "stock: {order: serial, probe: built-in}",
    );
    expect![[r#"
        x.yaml:4:28: memory.how: synthetic blocks are made by a module, and variant stock loads none (`probe: built-in`)
    "#]].assert_eq(&said(&built_in));
    let sweep = changed("variants:", "sweep: {blocks: [16, 64]}\nvariants:");
    expect![[r#"
        x.yaml:10:8: sweep goes over blocks, and the scenario has no `memory`: whose blocks?
    "#]]
    .assert_eq(&said(&sweep));
}

#[test]
fn who_walks_over_blocks_has_them() {
    let walk = |memory: &str, blocks: u32| {
        with(", memory: 512 MiB", memory).replace("measure: [", "measure: [walk, ")
            + &format!(
                "walk: {{threads: 1, rounds: 1, blocks: {blocks}, paths: mixed, do: stat}}\n"
            )
    };
    let synthetic = "{blocks: 100, how: synthetic}";
    assert_eq!(said(&walk(synthetic, 105)), "no error");
    expect![[r#"
        x.yaml:21:39: walk.blocks: 106 memory blocks, and the guest shows at most 105; `memory` brings more
    "#]].assert_eq(&said(&walk(synthetic, 106)));
    // Those of its own RAM are blocks too.
    let none = |blocks| walk(synthetic, blocks).replace(&format!("memory: {synthetic}\n"), "");
    assert_eq!(said(&none(4)), "no error");
    expect![[r#"
        x.yaml:20:39: walk.blocks: 1000 memory blocks, and the guest shows at most 5; `memory` brings more
    "#]].assert_eq(&said(&none(1000)));
}

#[test]
fn a_guest_has_room_for_synthetic_blocks() {
    let blocks = |ram: &str| {
        with(
            &format!(", memory: {ram}"),
            "{blocks: 131072, how: synthetic}",
        )
    };
    assert_eq!(said(&blocks("448 MiB")), "no error");
    expect![[r#"
        x.yaml:3:28: machine.memory: 447 MiB do not hold 131072 synthetic memory blocks; give it 448 MiB or more
    "#]].assert_eq(&said(&blocks("447 MiB")));
}

/// Products of what is far too much are told as that.
#[test]
fn numbers_without_end_are_refused_one_by_one() {
    let most = u32::MAX;
    let churn = with(", memory: 512 MiB", "{blocks: 100, how: synthetic}")
        .replace("measure: [", "measure: [walk, churn, ")
        + &format!("churn: {{walkers: {most}, blocks: {most}, rounds: {most}, do: stat}}\n")
        + &format!(
            "walk: {{threads: {most}, rounds: {most}, blocks: {most}, paths: mixed, do: stat}}\n"
        );
    let said = said(&churn);
    for key in [
        "churn.walkers",
        "churn.blocks",
        "churn.rounds",
        "walk.threads",
        "walk.rounds",
        "walk.blocks",
    ] {
        assert!(said.contains(&format!("{key} must be")), "{said}");
    }
}
