// SPDX-License-Identifier: MIT OR Apache-2.0

use std::collections::BTreeSet;

use expect_test::expect;

use super::*;
use crate::core::{
    scenario::{Known, Scenario, parse as scenario},
    shard::{MOST_SHARDS, Shard},
};

fn scenarios() -> Vec<Scenario> {
    let variants = |names: &[&str]| -> String {
        let line = |n: &&str| format!("  {n}: {{order: serial}}\n");
        names.iter().map(line).collect()
    };
    let one = |name: &str, kernel: &str, names: &[&str]| {
        let text = format!(
            "about: x\nkernel: \"{kernel}\"\nmachine: {{cpus: 1, memory: 256 MiB}}\nvariants:\n{}measure: [boot]\n",
            variants(names)
        );
        scenario(&format!("{name}.yaml"), &text, &Known::default()).unwrap()
    };
    vec![
        one("tree", "6.1", &["stock", "serial", "parallel"]),
        one("links", "6.1", &["stock", "parallel"]),
        one("walk", "5.10", &["stock"]),
    ]
}

fn read(text: &str) -> Result<Matrix, String> {
    let kernels: BTreeSet<String> = ["5.10", "6.1", "7.3"].map(str::to_owned).into();
    parse("matrix.yaml", text, &kernels, &scenarios()).map_err(|e| e.to_string())
}

fn cells(text: &str) -> Vec<String> {
    let cells = read(text).unwrap().cells;
    let show = |c: &Cell| {
        let tags: Vec<_> = c.tags.iter().map(Tag::to_string).collect();
        let tags = tags.join("+");
        format!(
            "{} {} {} {} {tags}",
            c.kernel, c.scenario, c.variant, c.clock
        )
    };
    cells.iter().map(show).collect()
}

#[test]
fn a_part_is_the_product_of_its_lists() {
    let text = "parts:\n  - tags: [quick]\n    kernels: [\"6.1\", own]\n    scenarios: [links, walk]\n    clocks: [virtual, wall]\n    variants: [stock]\n";
    assert_eq!(
        cells(text),
        [
            "6.1 links stock virtual quick",
            "6.1 links stock wall quick",
            "6.1 walk stock virtual quick",
            "6.1 walk stock wall quick",
            "5.10 walk stock virtual quick",
            "5.10 walk stock wall quick",
        ]
    );
    assert_eq!(cells("parts: [{tags: [weekly]}]").len(), 6);
}

#[test]
fn cells_are_taken_out_and_put_in_and_have_the_tags_of_all_parts() {
    let text = "\
parts:
  - tags: [nightly]
    scenarios: [tree, links]
    exclude:
      - {scenario: tree, variant: serial}
      - {variant: stock}
    include:
      - {scenario: walk, kernel: \"7.3\", clock: wall}
  - tags: [quick]
    scenarios: [links]
    variants: [parallel]
";
    assert_eq!(
        cells(text),
        [
            "6.1 tree parallel virtual nightly",
            "6.1 links parallel virtual quick+nightly",
            "7.3 walk stock wall nightly",
        ]
    );
}

#[test]
fn one_size_of_a_sweep_is_an_experiment_of_its_own() {
    let text = "about: x
kernel: \"6.1\"
machine: {type: microvm, cpus: 1}
memory: {blocks: 257, how: real}
variants: {stock: {order: serial}}
measure: [boot]
sweep: {blocks: [257, 1025]}
";
    let sweep = scenario("growth.yaml", text, &Known::default()).unwrap();
    let read = |parts: &str| {
        let kernels = BTreeSet::from(["6.1".to_owned()]);
        parse("matrix.yaml", parts, &kernels, std::slice::from_ref(&sweep))
    };
    let matrix =
        read("parts: [{tags: [quick], scenarios: [growth@257]}, {tags: [weekly]}]").unwrap();
    let named: Vec<_> = matrix.cells.iter().map(|c| c.scenario.as_str()).collect();
    assert_eq!(named, ["growth@257", "growth"]);
    let jobs = matrix.jobs(Some(Tag::Quick), None);
    assert_eq!(jobs[0].words()[0], "growth@257");
    assert_eq!(jobs[0].only, [""; 0]);
    let said = read("parts: [{tags: [quick], scenarios: [growth@256]}]").unwrap_err();
    assert!(
        said.to_string().contains("unknown scenario `growth@256`"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_has_its_line_its_key_and_the_nearest_name() {
    let text = "\
shards: {nigthly: 2}
parts:
  - tags: [nightli]
    scenario: [tree]
";
    let said = read(text).unwrap_err();
    expect![[r#"
        matrix.yaml:1:10: unknown key `shards.nigthly`; did you mean `nightly`?
        matrix.yaml:3:12: parts[0].tags[0] cannot be `nightli`; did you mean `nightly`?
        matrix.yaml:4:5: unknown key `parts[0].scenario`; did you mean `scenarios`?"#]]
    .assert_eq(&said);
    let text = "\
shards: {nightly: 0}
parts:
  - tags: []
    kernels: [\"6.2\"]
    scenarios: [tre, links, walk]
    variants: [paralel, serial]
    exclude:
      - {scenario: links, clock: wall}
      - {kernel: \"6.11\"}
    include:
      - {scenario: liks}
      - {scenario: links, variant: serial}
  - tags: [quick]
    scenarios: []
";
    let said = read(text).unwrap_err();
    expect![[r#"
        matrix.yaml:1:19: shards.nightly takes 1 to 1024, not 0
        matrix.yaml:3:11: parts[0].tags is empty: its cells would never be run
        matrix.yaml:4:15: unknown kernel `6.2` in parts[0].kernels[0]; did you mean `6.1`?
        matrix.yaml:5:17: unknown scenario `tre` in parts[0].scenarios[0]; did you mean `tree`?"#]]
    .assert_eq(&said.lines().take(4).collect::<Vec<_>>().join("\n"));
    for want in [
        "matrix.yaml:6:16: unknown variant `paralel` in parts[0].variants[0]; did you mean `parallel`?",
        "scenario links has none of parts[0].variants: its variants are stock, parallel",
        "matrix.yaml:8:9: parts[0].exclude[0] excludes nothing",
        "unknown kernel `6.11` in parts[0].exclude[1].kernel; did you mean `6.1`?",
        "unknown scenario `liks` in parts[0].include[0].scenario; did you mean `links`?",
        "unknown variant `serial` in parts[0].include[1].variant",
        "parts[1].scenarios is empty",
    ] {
        assert!(said.contains(want), "{want}\n{said}");
    }
}

/// Whoever says how many shards there are is told the same most.
#[test]
fn a_run_is_cut_into_as_many_shards_wherever_that_is_said() {
    let cut = |into: u32| {
        let text = format!(
            "shards: {{nightly: {into}}}\nparts:\n  - {{tags: [nightly], scenarios: [tree]}}\n"
        );
        let shard: Result<Shard, _> = format!("1/{into}").parse();
        [read(&text).is_ok(), shard.is_ok()]
    };
    for (into, allowed) in [
        (0, false),
        (1, true),
        (MOST_SHARDS, true),
        (MOST_SHARDS + 1, false),
    ] {
        assert_eq!(cut(into), [allowed; 2], "{into}");
    }
    let shards = &matrix_schema()["$defs"]["Shards"]["properties"];
    for tag in ["quick", "nightly", "weekly"] {
        assert_eq!(shards[tag]["maximum"], MOST_SHARDS, "{tag}");
    }
}

fn nightly() -> Matrix {
    let text = "\
shards: {nightly: 2}
parts:
  - {tags: [nightly], scenarios: [tree, links, walk]}
  - {tags: [nightly], scenarios: [tree, links], kernels: [\"7.3\"], variants: [stock, parallel]}
";
    read(text).unwrap()
}

#[test]
fn what_one_bench_can_boot_is_one_run() {
    let matrix = nightly();
    let jobs = matrix.jobs(Some(Tag::Nightly), None);
    let shown: Vec<_> = jobs
        .iter()
        .map(|j| format!("{} x{}: {}", j.run, j.shards, j.words().join(" ")))
        .collect();
    assert_eq!(
        shown,
        [
            "nightly.6.1.virtual x2: tree links --on 6.1 --clock virtual --keep-going",
            "nightly.5.10.virtual x2: walk --on 5.10 --clock virtual --keep-going",
            "nightly.7.3.virtual.stock-parallel x2: tree --on 7.3 --clock virtual --only stock --only parallel --keep-going",
            "nightly.7.3.virtual x2: links --on 7.3 --clock virtual --keep-going",
        ]
    );
    assert_eq!(matrix.jobs(Some(Tag::Weekly), None), []);
    assert!(matrix.jobs(None, Some(3)).iter().all(|j| j.shards == 3));
}

#[test]
fn github_gets_a_job_a_shard() {
    let jobs = nightly().jobs(Some(Tag::Nightly), None);
    let text = write::github(&jobs).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = json["include"].as_array().unwrap();
    assert_eq!((all.len(), text.lines().count()), (8, 1));
    assert_eq!(
        all[1],
        serde_json::json!({
            "run": "nightly.6.1.virtual", "kernel": "6.1", "clock": "virtual", "shard": "2/2",
            "args": "tree links --on 6.1 --clock virtual --keep-going",
            "artifact": "nightly.6.1.virtual.2-of-2",
        })
    );
    let many = nightly().jobs(Some(Tag::Nightly), Some(64 + 1));
    assert!(write::github(&many).unwrap_err().contains("260 shards"));
}

#[test]
fn gitlab_merges_what_its_jobs_made() {
    let jobs = nightly().jobs(Some(Tag::Nightly), None);
    let text = write::gitlab(&jobs[..1]).unwrap();
    let yaml: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(yaml["stages"], serde_json::json!(["bench", "merge"]));
    let shard = &yaml["nightly.6.1.virtual 2/2"];
    assert_eq!(
        shard["script"][0],
        "cargo xtask bench tree links --on 6.1 --clock virtual --keep-going --run nightly.6.1.virtual.$CI_PIPELINE_ID --shard 2/2 --yes"
    );
    assert_eq!(
        shard["artifacts"]["paths"][0],
        "results/nightly.6.1.virtual.$CI_PIPELINE_ID.2-of-2/"
    );
    let merge = &yaml["nightly.6.1.virtual merged"];
    assert_eq!(
        merge["script"][0],
        "cargo xtask merge nightly.6.1.virtual.$CI_PIPELINE_ID.*-of-2"
    );
    assert_eq!(merge["needs"].as_array().unwrap().len(), 2);
    let shards = |n| nightly().jobs(Some(Tag::Nightly), Some(n));
    assert!(write::gitlab(&shards(50)).is_ok());
    let why = write::gitlab(&shards(51)).unwrap_err();
    assert!(why.contains("51 shards of nightly.6.1.virtual"), "{why}");
}
