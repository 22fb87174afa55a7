// SPDX-License-Identifier: MIT OR Apache-2.0
//! A boot of systemd: what is read, and what is said of bad ones.

use super::*;
use crate::core::{
    plan::{Overrides, plan},
    units::Nanos,
};

const SCENARIO: &str = "about: x
kernel: \"6.1\"
machine: {cpus: 2, memory: 512 MiB}
variants:
  without: {order: serial}
  full: {order: serial, systemd: {default_timeout_start_sec: 90 s, limit: 2 min, suite: trixie}}
measure: [systemd]
";

#[test]
fn it_is_read_and_written_again_and_has_a_kernel_of_its_own() {
    let scenario = good(SCENARIO);
    let full = scenario.variants[1].systemd.clone().unwrap();
    assert_eq!(full.image().to_string(), "systemd (trixie)");
    assert_eq!(
        (full.default_timeout_start_sec, full.limit),
        (Some(Nanos(90_000_000_000)), Nanos(120_000_000_000))
    );
    assert_eq!(scenario.variants[1].image(), Some(full.image()));
    assert_eq!(
        full.to_string(),
        "systemd of trixie to multi-user.target, 90.00 s for a unit to start"
    );
    assert_eq!(good(&to_yaml(&scenario)).hash, scenario.hash);
    let bare = SCENARIO.replace(
        "{default_timeout_start_sec: 90 s, limit: 2 min, suite: trixie}",
        "{}",
    );
    let bare = good(&bare);
    assert_ne!(bare.hash, scenario.hash);
    let left_out = bare.variants[1].systemd.clone().unwrap();
    assert_eq!(left_out.image().to_string(), "systemd (bookworm)");
    assert_eq!(left_out.default_timeout_start_sec, None);
    assert_eq!(left_out.timeout_text(), "systemd's");

    let trials = plan(&[std::sync::Arc::new(scenario)], Overrides::default());
    let kernels: Vec<_> = trials.iter().map(|t| t.kernel.to_string()).collect();
    assert_eq!(kernels, ["6.1", "6.1+systemd"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let timeout = "default_timeout_start_sec: 90 s";
    for (from, to, expect) in [
        (
            timeout,
            "default_timeout_start_sec: 0 s",
            "x.yaml:6:62: variants.full.systemd.default_timeout_start_sec is zero; leave it out instead",
        ),
        (
            timeout,
            "default_timeout_start_sec: 3 us",
            "x.yaml:6:62: variants.full.systemd.default_timeout_start_sec: nothing starts within 3.000 us; give it 1.000 ms or more",
        ),
        (
            timeout,
            "default_timeout_start_sec: 61 min",
            "x.yaml:6:62: variants.full.systemd.default_timeout_start_sec: 61 min is longer than 1 h; is the unit right?",
        ),
        (
            timeout,
            "default_timeout_start_sec: infinity",
            "x.yaml:6:62: variants.full.systemd.default_timeout_start_sec: `infinity` is no duration",
        ),
        (
            timeout,
            "default_timeout: 90 s",
            "x.yaml:6:35: unknown key `variants.full.systemd.default_timeout`; did you mean `default_timeout_start_sec`?",
        ),
        (
            "limit: 2 min",
            "limit: 5 ms",
            "x.yaml:6:75: variants.full.systemd.limit: nothing boots within 5.000 ms; give it 1 s or more",
        ),
        (
            "suite: trixie",
            "suite: \"a b\"",
            "x.yaml:6:89: variants.full.systemd.suite: `a b` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
        ),
        (
            "{order: serial, systemd",
            "{order: serial, coldplug: {}, systemd",
            "x.yaml:6:48: variants.full.systemd: systemd starts an udev of its own; leave `coldplug` out, or give it a variant\nx.yaml:7:10: variant full does a coldplug that is not measured; add `coldplug` to `measure`",
        ),
        (
            "memory: 512 MiB",
            "memory: 127 MiB",
            "x.yaml:3:28: machine.memory: 127 MiB do not hold the image that variant full boots systemd from, packed and unpacked; give it 128 MiB or more",
        ),
        (
            "measure: [systemd]",
            "measure: [boot]",
            "x.yaml:7:10: variant full boots systemd, which is not measured; add `systemd` to `measure`",
        ),
        (
            ", systemd: {default_timeout_start_sec: 90 s, limit: 2 min, suite: trixie}",
            "",
            "x.yaml:7:10: `systemd` is measured, and no variant has a `systemd` that says how",
        ),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let said = said(&SCENARIO.replace(from, to));
        let said = said.trim_end();
        assert!(
            said.starts_with(expect),
            "{from} -> {to}:\n{said}\n{expect}"
        );
    }
}
