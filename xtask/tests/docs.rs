// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the documentation lists is what there is, and all of it.
#![allow(missing_docs)]

mod support;

use std::{collections::BTreeSet, fs, path::Path};

use bootrig::{
    cli::Cli,
    core::{fault::Exit, metric, scenario::Metric},
};
use clap::CommandFactory;
use support::runs;

fn doc(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join(name)).unwrap()
}

/// What stands between backticks in the first column of the tables of `text`.
fn first_columns(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|l| l.strip_prefix("| "));
    rows.filter_map(|row| row.split(" | ").next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// `text` from the line `from` up to the next heading, or the next list of options.
fn section<'t>(text: &'t str, from: &str) -> &'t str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from}"));
    let ends = ["\n## ", "\nOptions of "];
    let end = ends.iter().filter_map(|e| rest.find(e)).min();
    &rest[..end.unwrap_or(rest.len())]
}

fn options(of: &str) -> BTreeSet<String> {
    let cli = Cli::command();
    let command = cli.find_subcommand(of).unwrap();
    let shown = command.get_arguments().filter(|a| !a.is_hide_set());
    shown
        .filter_map(|a| Some(format!("--{}", a.get_long()?)))
        .collect()
}

#[test]
fn the_readme_has_every_subcommand_and_every_option_of_bench_and_compare() {
    let readme = doc("README.md");
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        let known = readme.contains(&format!("cargo xtask {name}"))
            || readme.contains(&format!("`{name} "));
        assert!(known, "README.md does not name `cargo xtask {name}`");
    }
    for command in ["bench", "compare"] {
        let table = section(&readme, &format!("Options of `{command}`:\n"));
        let listed: BTreeSet<String> = first_columns(table)
            .iter()
            .filter_map(|cell| cell.split([' ', '=', '[']).next())
            .map(str::to_owned)
            .collect();
        let there = options(command);
        let unknown: Vec<_> = listed.difference(&there).collect();
        assert_eq!(
            unknown, [""; 0],
            "README.md lists of {command} what is not there"
        );
        // Those that say for themselves what they are stand in the text.
        let untold = there
            .difference(&listed)
            .filter(|o| !table.contains(o.as_str()));
        assert_eq!(
            untold.collect::<Vec<_>>(),
            [""; 0],
            "README.md lacks of {command}"
        );
    }
}

#[test]
fn the_readme_has_every_exit_code() {
    let readme = doc("README.md");
    let table = section(&readme, "## Exit codes\n");
    for exit in [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Inconclusive,
        Exit::Guest,
        Exit::Infrastructure,
        Exit::Stopped,
    ] {
        let row = format!("\n| {} | ", exit as u8);
        assert!(
            table.contains(&row),
            "README.md lacks exit code {}",
            exit as u8
        );
    }
}

#[test]
fn the_glossary_has_every_metric() {
    let glossary = doc("docs/glossary.md");
    let listed = first_columns(&glossary);
    let names = Metric::ALL.map(Metric::name);
    let reboot = metric::REBOOT_PARTS.map(|(part, _)| format!("reboot/{part}"));
    let others = [
        metric::TASKS,
        metric::PROBE_TASKS,
        metric::WALK_P50,
        metric::WALK_P99,
        metric::WALK_LONGEST,
        metric::CHURN_ANSWERS,
        metric::CHURN_CERTAIN,
        metric::HOTPLUG_THERE,
        metric::HOTPLUG_BLOCKS,
        metric::COLDPLUG_UDEVD,
        metric::COLDPLUG_TRIGGER,
        metric::COLDPLUG_SETTLE,
        metric::COLDPLUG_EVENTS,
        metric::SYSTEMD_TARGET,
        metric::SYSTEMD_SETTLED,
        metric::SYSTEMD_UNITS,
    ];
    let all = names
        .into_iter()
        .chain(others)
        .map(str::to_owned)
        .chain(reboot);
    let missing: Vec<String> = all.filter(|name| !listed.contains(name)).collect();
    assert_eq!(missing, [""; 0], "docs/glossary.md lacks metrics");
}

/// A run as `bench` leaves it has no key that docs/formats.md does not explain.
#[test]
fn the_formats_have_every_key() {
    let formats = doc("docs/formats.md");
    let told = |key: &str| {
        let last = |name: &str| name == key || name.rsplit('.').next() == Some(key);
        formats.split('`').skip(1).step_by(2).any(last)
    };
    let results = tempfile::tempdir().unwrap();
    runs::night(results.path(), 1, "0123456789abcdef", 0);
    let run = fs::read_dir(results.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let header: serde_yaml::Mapping =
        serde_yaml::from_str(&fs::read_to_string(run.join("run.yaml")).unwrap()).unwrap();
    let mut keys: Vec<String> = header
        .keys()
        .map(|key| key.as_str().unwrap().to_owned())
        .collect();
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    let scenario = &summary["scenarios"][0];
    let variant = &scenario["variants"][0];
    let metric = &variant["metrics"]["device_shutdown"];
    for object in [&summary, scenario, variant, metric, &variant["oracle"]] {
        keys.extend(object.as_object().unwrap().keys().cloned());
    }
    let missing: Vec<_> = keys.iter().filter(|key| !told(key)).collect();
    assert_eq!(missing, [""; 0], "docs/formats.md lacks keys");
    for file in fs::read_dir(&run).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let is_told = told(&name) || told(&format!("{name}/"));
        assert!(is_told, "docs/formats.md lacks {name}");
    }
}
