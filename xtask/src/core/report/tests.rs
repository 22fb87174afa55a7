// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people read.

use std::fmt::Write;

use expect_test::expect;

use super::*;
use crate::core::{
    scenario::{Clock, Known, parse, parse_profiles},
    summary::{OracleSummary, Unit},
};

/// The device table of devices with these names, the n-th of which takes n us.
fn devices(names: impl Iterator<Item = String>) -> String {
    let mut text = String::from(
        "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 64 MiB}\nmeasure: [probe]\n\
         variants: {v: {order: serial}}\ndevices:\n",
    );
    let mut metrics = BTreeMap::new();
    for (at, name) in names.enumerate() {
        let _ = writeln!(text, "- {{name: {name}, profile: none}}");
        let median = 1000 * at as u64;
        let measured = MetricSummary {
            unit: Unit::Ns,
            samples: vec![median],
            median,
            ideal: None,
            bound: None,
            efficiency: None,
        };
        metrics.insert(format!("device_shutdown/{name}"), measured);
    }
    let known = Known {
        profiles: parse_profiles("p.yaml", "none: {id: \"1b36:0011\", about: a, source: s}")
            .unwrap(),
        kernels: None,
        series: None,
    };
    let scenario = parse("s.yaml", &text, &known).unwrap_or_else(|e| panic!("{e}"));
    let part = ScenarioSummary {
        name: "s".into(),
        hash: String::new(),
        point: None,
        variants: vec![VariantSummary {
            name: "v".into(),
            kernel: None,
            clock: Clock::Virtual,
            outcome: None,
            metrics,
            blame: Default::default(),
            became: vec![],
            names: Default::default(),
            oracle: OracleSummary::default(),
        }],
        cpus: Some(1),
        debug: false,
        noise: None,
        warnings: vec![],
        expectations: vec![],
        findings: vec![],
    };
    let (grid, left_out) = device_table(&scenario, &part);
    let note = (left_out > 0).then(|| format!("\n\n{}", left_out_text(left_out)));
    format!("{grid}{}", note.unwrap_or_default())
}

#[test]
fn devices_are_grouped() {
    let names = ["disk.0", "nic.0", "disk.1", "nic-a", "nic.1"];
    expect![[r#"
        | device | count |        v |
        |--------|-------|----------|
        | disk   |     2 | 2.000 us |
        | nic    |     2 | 4.000 us |
        | nic-a  |     1 | 3.000 us |"#]]
    .assert_eq(&devices(names.into_iter().map(String::from)));
}

#[test]
fn ten_thousand_groups_stay_readable() {
    let table = devices((0..10_000).map(|i| format!("d{i}")));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 2 + MOST_GROUPS + 2);
    assert!(lines[2].starts_with("| d9999 "), "{}", lines[2]);
    assert_eq!(
        lines.last(),
        Some(&"The slowest 50; 9950 more are in summary.json.")
    );
}
