// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people read.

use std::fmt::Write;

use expect_test::expect;

use super::*;
use crate::core::{
    metric::Unit,
    scenario::{Clock, Known, Over, Point, parse, parse_profiles},
    stats::noise::Noise,
    summary::{NoiseSummary, OracleSummary, Warning},
};

fn part(name: &str, metrics: BTreeMap<String, MetricSummary>) -> ScenarioSummary {
    ScenarioSummary {
        name: name.into(),
        hash: String::new(),
        point: None,
        variants: vec![VariantSummary {
            name: "v".into(),
            kernel: None,
            image: None,
            clock: Clock::Virtual,
            outcome: None,
            metrics,
            blame: Default::default(),
            became: vec![],
            systemd: None,
            names: Default::default(),
            oracle: OracleSummary::default(),
        }],
        cpus: Some(1),
        debug: false,
        noise: None,
        warnings: vec![],
        expectations: vec![],
        findings: vec![],
    }
}

/// One boot's figure, in ns.
fn measured(median: u64) -> MetricSummary {
    MetricSummary {
        unit: Unit::Ns,
        samples: vec![median],
        median,
        ideal: None,
        bound: None,
        efficiency: None,
    }
}

/// The device table of devices with these names, the n-th of which takes n us.
fn devices(names: impl Iterator<Item = String>) -> String {
    let mut text = String::from(
        "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 64 MiB}\nmeasure: [probe]\n\
         variants: {v: {order: serial}}\ndevices:\n",
    );
    let mut metrics = BTreeMap::new();
    for (at, name) in names.enumerate() {
        let _ = writeln!(text, "- {{name: {name}, profile: none}}");
        metrics.insert(
            format!("device_shutdown/{name}"),
            measured(1000 * at as u64),
        );
    }
    let known = Known {
        profiles: parse_profiles("p.yaml", "none: {id: \"1b36:0011\", about: a, source: s}")
            .unwrap(),
        kernels: None,
        series: None,
    };
    let scenario = parse("s.yaml", &text, &known).unwrap_or_else(|e| panic!("{e}"));
    let part = part("s", metrics);
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

/// Of each size what the host could see there, and what makes its figures doubtful.
#[test]
fn a_sweep_says_what_its_host_can_see() {
    let size = |value: u64| {
        let name = format!("many@{value}");
        let seen = Noise {
            spread: 0.02,
            floor: 0.01,
            smallest: (value < 100).then_some(0.03),
        };
        let warning = Warning::BusyHost { load: 2.5, cpus: 2 };
        ScenarioSummary {
            point: Some(Point {
                of: "many".into(),
                over: Over::Devices,
                value,
            }),
            noise: Some(NoiseSummary {
                variant: "v".into(),
                boots: 20,
                metrics: [("boot".to_owned(), seen)].into(),
            }),
            warnings: (value == 100).then_some(warning).into_iter().collect(),
            ..part(&name, BTreeMap::new())
        }
    };
    let summary = Summary {
        schema: 1,
        run: "run".into(),
        host: serde_json::Value::Null,
        notes: vec![],
        scenarios: vec![size(10), size(100)],
        growth: vec![],
    };
    expect![[r#"
        ## many: growth over devices

        ### what this host can see: 20 boots of many@10/v

        | metric | spread | noise floor | smallest change seen |
        |--------|--------|-------------|----------------------|
        | boot   | 2.00 % |      1.00 % |               3.00 % |

        - many@10/v: not run

        ### what this host can see: 20 boots of many@100/v

        | metric | spread | noise floor | smallest change seen |
        |--------|--------|-------------|----------------------|
        | boot   | 2.00 % |      1.00 % |                 none |

        - warning: many@100: the host was busy when the run began (load 2.5 on 2 CPUs): stop what else runs there, or use virtual time, which does not mind

        - many@100/v: not run

        oracle: 0 facts checked, 0 violations

    "#]]
    .assert_eq(&text(&summary, &[]));
}

/// What each number of threads did in a second, against one thread, and how long operations took.
#[test]
fn a_walk_over_threads_says_what_more_of_them_bring() {
    let text = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 4, memory: 512 MiB}\n\
        memory: {blocks: 10, how: synthetic}\n\
        walk: {threads: 1, rounds: 10, blocks: 10, paths: missing, do: stat}\n\
        measure: [walk]\nvariants: {v: {order: serial}}\nsweep: {threads: [1, 4]}\n";
    let scenario = parse("s.yaml", text, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    let sizes: Vec<&Scenario> = scenario.members().iter().collect();
    // One thread looks 100 times in 1 ms, four look 400 times in 1.6 ms.
    let parts = [(1, 1_000_000), (4, 1_600_000)].map(|(threads, time)| ScenarioSummary {
        point: Some(Point {
            of: "s".into(),
            over: Over::Threads,
            value: threads,
        }),
        ..part(
            &format!("s@{threads}"),
            [
                ("walk", time),
                ("walk/p50", 10),
                ("walk/p99", 1000 * threads),
            ]
            .map(|(name, median)| (name.to_owned(), measured(median)))
            .into(),
        )
    });
    let sweep = growth::Grown {
        name: "s",
        over: Over::Threads,
        parts: parts.iter().collect(),
        metrics: vec![],
    };
    let tables: String = walk::by_threads(&sweep, &sizes)
        .iter()
        .map(|(what, grid)| format!("{what}\n{grid}\n"))
        .collect();
    expect![[r#"
        operations a second (T(n)/T(1))
        | threads |             1 |             4 |
        |---------|---------------|---------------|
        | v       | 100000 (1.00) | 250000 (2.50) |
        half of the operations within
        | threads |     1 |     4 |
        |---------|-------|-------|
        | v       | 10 ns | 10 ns |
        99 % of the operations within
        | threads |        1 |        4 |
        |---------|----------|----------|
        | v       | 1.000 us | 4.000 us |
        the longest operation
        | threads | 1 | 4 |
        |---------|---|---|
        | v       | - | - |
    "#]]
    .assert_eq(&tables);
    assert!(
        walk::sweep_note(&parts[0], &sizes)
            .unwrap()
            .starts_with("In virtual time")
    );
    // Without its scenarios nothing is known of the walk.
    assert!(walk::by_threads(&sweep, &[]).is_empty());
}

/// The only size that was booted is shown as any scenario is.
#[test]
fn one_size_alone_has_its_tables() {
    let text_of = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 512 MiB}\n\
        memory: {blocks: 10, how: synthetic}\nmeasure: [boot]\n\
        variants: {v: {order: serial}}\nsweep: {blocks: [1, 4]}\n";
    let scenario = parse("s.yaml", text_of, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    let size = |value: u64| ScenarioSummary {
        point: Some(Point {
            of: "s".into(),
            over: Over::Blocks,
            value,
        }),
        ..part(
            &format!("s@{value}"),
            [("boot".to_owned(), measured(5_000))].into(),
        )
    };
    let summary = |scenarios| Summary {
        schema: 1,
        run: "run".into(),
        host: serde_json::Value::Null,
        notes: vec![],
        scenarios,
        growth: vec![],
    };
    let all: Vec<&Scenario> = scenario.members().iter().collect();
    let alone = text(&summary(vec![size(4)]), &all);
    assert!(alone.contains("## s@4: kernel 6.1"), "{alone}");
    assert!(
        alone.contains("5.000 us") && !alone.contains("growth"),
        "{alone}"
    );
    let both = text(&summary(vec![size(1), size(4)]), &all);
    assert!(
        both.contains("## s: growth over memory blocks") && !both.contains("## s@"),
        "{both}"
    );
}
