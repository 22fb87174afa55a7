// SPDX-License-Identifier: MIT OR Apache-2.0
//! udev's coldplug, and blocks that come and go: what is read, and what is said of bad ones.

use super::*;
use crate::core::units::Nanos;

const SCENARIO: &str = "about: x
kernel: \"6.1\"
machine: {cpus: 2, memory: 512 MiB}
memory: {blocks: 64, how: synthetic}
churn: {walkers: 2, blocks: 32, rounds: 5, do: readdir}
variants:
  without: {order: serial}
  udev: {order: serial, coldplug: {children_max: 3, forking_rule: true, limit: 90 s, suite: trixie}}
measure: [coldplug, churn]
";

#[test]
fn both_are_read_and_written_again() {
    let scenario = good(SCENARIO);
    assert_eq!(scenario.variants[0].image(), None);
    let udev = scenario.variants[1].coldplug.clone().unwrap();
    assert_eq!(udev.image().to_string(), "udev (trixie)");
    assert_eq!(
        (udev.children_max, udev.limit),
        (Some(3), Nanos(90_000_000_000))
    );
    assert!(udev.forking_rule);
    assert_eq!(scenario.churn.unwrap().changes(), 320);
    assert_eq!(good(&to_yaml(&scenario)).hash, scenario.hash);
    let other = good(&SCENARIO.replace("children_max: 3", "children_max: 4"));
    assert_ne!(other.hash, scenario.hash);
    let bare = "{children_max: 3, forking_rule: true, limit: 90 s, suite: trixie}";
    let left_out = good(&SCENARIO.replace(bare, "{}")).variants[1]
        .coldplug
        .clone()
        .unwrap();
    assert_eq!(left_out.image().to_string(), "udev (bookworm)");
    assert_eq!(
        (left_out.children_max, left_out.forking_rule),
        (None, false)
    );
}

#[test]
fn what_cannot_be_is_refused() {
    for (from, to, expect) in [
        (
            "children_max: 3",
            "children_max: 0",
            "x.yaml:8:50: variants.udev.coldplug.children_max must be 1 (udev takes 0 for its own choice: leave it out) to 65536, not 0",
        ),
        (
            "children_max: 3",
            "children_max: 65537",
            "x.yaml:8:50: variants.udev.coldplug.children_max must be 1 (udev takes 0 for its own choice: leave it out) to 65536, not 65537",
        ),
        (
            "limit: 90 s",
            "limit: 1 ms",
            "x.yaml:8:80: variants.udev.coldplug.limit: udev counts whole seconds; give it 1 s or more, not 1.000 ms",
        ),
        (
            "suite: trixie",
            "suite: \"../x\"",
            "x.yaml:8:93: variants.udev.coldplug.suite: `../x` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
        ),
        (
            "forking_rule: true",
            "forking: true",
            "x.yaml:8:53: unknown key `variants.udev.coldplug.forking`; did you mean `forking_rule`?",
        ),
        (
            "[coldplug, churn]",
            "[churn]",
            "x.yaml:9:10: variant udev does a coldplug that is not measured; add `coldplug` to `measure`",
        ),
        (
            "[coldplug, churn]",
            "[coldplug]",
            "x.yaml:5:8: churn is done and not measured; add `churn` to `measure`",
        ),
        (
            "walkers: 2",
            "walkers: 0",
            "x.yaml:5:18: churn.walkers must be 1 to 256, not 0",
        ),
        (
            "rounds: 5",
            "rounds: 1000000",
            "x.yaml:5:8: churn: 64000000 changes (twice blocks x rounds) in one boot; the limit is 10000000",
        ),
        (
            "blocks: 32",
            "blocks: 33",
            "x.yaml:5:8: churn needs `memory` with 66 synthetic blocks or more: half of those walked over come and go, and only synthetic ones can",
        ),
        (
            "how: synthetic",
            "how: real",
            "x.yaml:3:28: machine.memory: the real memory blocks say how much there is; leave it out\nx.yaml:5:8: churn needs `memory` with 64 synthetic blocks or more: half of those walked over come and go, and only synthetic ones can",
        ),
        (
            ", coldplug: {children_max: 3, forking_rule: true, limit: 90 s, suite: trixie}",
            "",
            "x.yaml:9:10: `coldplug` is measured, and no variant has a `coldplug` that says how",
        ),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let said = said(&SCENARIO.replace(from, to));
        assert_eq!(said.trim_end(), expect, "{from} -> {to}");
    }
}
