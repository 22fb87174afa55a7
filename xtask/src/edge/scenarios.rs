// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenario files of the checkout: finds them by name or path and has `core` read them.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::files::write_whole;
use crate::core::{
    fault::Fault,
    matrix::{self, Matrix},
    nearest::hint,
    scenario::{self, Known, Profiles, Scenario},
};

/// Scenarios of this folder of the checkout are known by their name.
const FOLDER: &str = "scenarios";
const PROFILES: &str = "profiles.yaml";

/// Loads the scenario called `name_or_path`: a file's path where it has a `/` or ends in
/// `.yaml` or `.yml`, else a name in `root`'s scenarios folder. `NAME@SIZE` is one size of a
/// sweep.
///
/// # Errors
/// [`Fault::usage`] for a name that does not exist (with the nearest one) and for anything
/// wrong in the files; untyped where a file cannot be read.
pub fn load(root: &Path, name_or_path: &str, known: &Known) -> Result<Scenario> {
    let (name, size) = split_size(name_or_path);
    let (path, shown) = locate(root, name)?;
    let text = read(&path, &shown)?;
    let scenario = scenario::parse(&shown, &text, known).map_err(Fault::from)?;
    match size {
        Some(size) => one_size(scenario, size),
        None => Ok(scenario),
    }
}

/// `NAME@SIZE` as its two parts; a file whose own name has an `@` is a file.
fn split_size(name_or_path: &str) -> (&str, Option<&str>) {
    match name_or_path.rsplit_once('@') {
        Some((name, size)) if !size.contains('/') && !Path::new(name_or_path).is_file() => {
            (name, Some(size))
        }
        _ => (name_or_path, None),
    }
}

/// The size `size` of a sweep.
fn one_size(scenario: Scenario, size: &str) -> Result<Scenario> {
    let name = format!("{}@{size}", scenario.name);
    if let Some(point) = scenario.members().iter().find(|p| p.name == name) {
        return Ok(point.clone());
    }
    let why = match &scenario.sweep {
        Some(sweep) => {
            let sizes = sweep.points.iter().filter_map(|p| p.name.rsplit_once('@'));
            let sizes: Vec<_> = sizes.map(|(_, size)| size).collect();
            format!("it has the sizes {}", sizes.join(", "))
        }
        None => "it is no sweep".into(),
    };
    Err(Fault::usage(format!(
        "no scenario is called {}: {why}",
        name.escape_debug()
    ))
    .into())
}

/// `name_or_path` as it can be used from any folder: a path is made absolute.
pub fn absolute(name_or_path: &str) -> String {
    let (name, size) = split_size(name_or_path);
    let size = size.map_or(String::new(), |size| format!("@{size}"));
    match Path::new(name).canonicalize() {
        Ok(path) if is_path(name) => format!("{}{size}", path.display()),
        _ => name_or_path.to_owned(),
    }
}

/// Whether a scenario is named by its path: with a `/`, or an ending.
fn is_path(name_or_path: &str) -> bool {
    name_or_path.contains('/') || name_or_path.ends_with(".yaml") || name_or_path.ends_with(".yml")
}

/// Names of all scenarios in `root`, sorted.
///
/// # Errors
/// Where the folder cannot be read.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(FOLDER);
    let context = || format!("reading the folder {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(stem) = name.strip_suffix(".yaml") else {
            continue;
        };
        if name != PROFILES && !stem.starts_with('.') {
            names.push(stem.to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Loads the matrix in `path`, and the scenarios that there are: the checkout's.
///
/// # Errors
/// [`Fault::usage`] for anything wrong in the matrix, or in a scenario.
pub fn load_matrix(root: &Path, path: &Path, known: &Known) -> Result<Matrix> {
    let shown = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
    let text = read(path, &shown)?;
    let mut scenarios = Vec::new();
    for name in names(root)? {
        scenarios.push(load(root, &name, known)?);
    }
    let kernels = known.kernels.clone().unwrap_or_default();
    Ok(matrix::parse(&shown, &text, &kernels, &scenarios).map_err(Fault::from)?)
}

/// What scenario files may name but not define: profiles, and the patch series there are.
///
/// # Errors
/// [`Fault::usage`] for anything wrong in profiles.yaml.
pub fn known(root: &Path) -> Result<Known> {
    let series = folders(&root.join("images/kernels/patches"))?;
    Ok(Known {
        profiles: profiles(root)?,
        kernels: None,
        series,
    })
}

/// Writes the JSON schemas for editors beside the scenarios; returns their paths.
///
/// # Errors
/// Where they cannot be written.
pub fn write_schemas(root: &Path) -> Result<Vec<PathBuf>> {
    schemas()
        .into_iter()
        .map(|(name, text)| {
            let path = root.join(FOLDER).join(name);
            write_whole(&path, text.as_bytes())?;
            Ok(path)
        })
        .collect()
}

/// The schema files: name in the scenarios folder, and text.
fn schemas() -> [(&'static str, String); 3] {
    [
        (
            "schema.json",
            scenario::schema_text(scenario::scenario_schema()),
        ),
        (
            "profiles.schema.json",
            scenario::schema_text(scenario::profiles_schema()),
        ),
        (
            "matrix.schema.json",
            scenario::schema_text(matrix::matrix_schema()),
        ),
    ]
}

fn profiles(root: &Path) -> Result<Profiles> {
    let shown = format!("{FOLDER}/{PROFILES}");
    let text = read(&root.join(FOLDER).join(PROFILES), &shown)?;
    Ok(scenario::parse_profiles(&shown, &text).map_err(Fault::from)?)
}

/// Names of the folders in `path`; `None` where there is no such folder.
fn folders(path: &Path) -> Result<Option<BTreeSet<String>>> {
    let context = || format!("reading the folder {}", path.display());
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(context)?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.with_context(context)?;
        if entry.path().is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    Ok(Some(names))
}

/// Where a scenario is, and its name in messages.
fn locate(root: &Path, name_or_path: &str) -> Result<(PathBuf, String)> {
    if is_path(name_or_path) {
        let path = PathBuf::from(name_or_path);
        if !path.is_file() {
            let message = format!(
                "{name_or_path} is no file; name a scenario file, or a scenario that `cargo xtask list` lists"
            );
            return Err(Fault::usage(message).into());
        }
        return Ok((path, name_or_path.into()));
    }
    let names = names(root)?;
    if !names.iter().any(|n| n == name_or_path) {
        let hint = if Path::new(name_or_path).is_file() {
            format!("; for the file of this name write ./{name_or_path}")
        } else {
            match hint(name_or_path, names.iter().map(String::as_str)) {
                hint if hint.is_empty() => "; `cargo xtask list` names them".into(),
                hint => hint,
            }
        };
        return Err(Fault::usage(format!("unknown scenario `{name_or_path}`{hint}")).into());
    }
    let shown = format!("{FOLDER}/{name_or_path}.yaml");
    Ok((root.join(&shown), shown))
}

fn read(path: &Path, shown: &str) -> Result<String> {
    use io::Read;
    const LIMIT: u64 = scenario::MAX_TEXT as u64;
    let file = fs::File::open(path).with_context(|| format!("opening {shown}"))?;
    let size = file.metadata().map_or(0, |m| m.len());
    let mut bytes = Vec::new();
    // No more than shows that it is too large, should it not know its own size.
    file.take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("reading {shown}"))?;
    if bytes.len() as u64 > LIMIT {
        let size = size.max(LIMIT + 1);
        let message = format!("{shown} has {size} bytes; the limit is {LIMIT}");
        return Err(Fault::usage(message).into());
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        Fault::usage(format!("{shown}:{line}: not UTF-8 text")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{fault, layout::lay_out};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies in the checkout")
            .into()
    }

    fn refused(name_or_path: &str) -> String {
        let error = load(&root(), name_or_path, &known(&root()).unwrap()).unwrap_err();
        assert_eq!(fault::exit_of(&error), fault::Exit::Usage, "{error:#}");
        format!("{error:#}")
    }

    #[test]
    fn every_committed_scenario_loads() {
        let names = names(&root()).unwrap();
        assert!(names.iter().any(|n| n == "shutdown-2018"));
        for name in names {
            let scenario =
                load(&root(), &name, &known(&root()).unwrap()).unwrap_or_else(|e| panic!("{e:#}"));
            assert_eq!(scenario.name, name);
            lay_out(&scenario.devices, &scenario.machine).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn unknown_names_get_the_nearest_one() {
        assert_eq!(
            refused("shutdown2018"),
            "unknown scenario `shutdown2018`; did you mean `shutdown-2018`?"
        );
        // Not a scenario, though it lies in the folder.
        assert!(refused("profiles").contains("unknown scenario"));
        assert!(refused("no/such.yaml").contains("is no file"));
        assert!(refused("../shutdown-2018").contains("is no file"));
    }

    #[test]
    fn a_file_outside_of_the_checkout_loads_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.yaml");
        fs::copy(root().join("scenarios/shutdown-2018.yaml"), &path).unwrap();
        let mine = load(&root(), path.to_str().unwrap(), &known(&root()).unwrap()).unwrap();
        assert_eq!(mine.name, "mine");

        fs::write(&path, b"about: x\n\xff").unwrap();
        assert!(refused(path.to_str().unwrap()).ends_with("mine.yaml:2: not UTF-8 text"));
        fs::write(&path, vec![b'#'; 20 << 20]).unwrap();
        assert!(
            refused(path.to_str().unwrap())
                .ends_with("mine.yaml has 20971520 bytes; the limit is 4194304")
        );
    }

    /// docs/scenarios.md shows a scenario, and what is said when it is broken.
    #[test]
    fn the_documentation_is_right() {
        let docs = fs::read_to_string(root().join("docs/scenarios.md")).unwrap();
        let (_, rest) = docs.split_once("```yaml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let known = known(&root()).unwrap();
        // The series of the example may come later than this test.
        let known = Known {
            series: None,
            ..known
        };
        scenario::parse("scenarios/mine.yaml", example, &known).unwrap_or_else(|e| panic!("{e}"));
        let broken = example
            .replace("profile: nvme", "profile: nvm")
            .replace("ideal", "idael");
        let said = scenario::parse("scenarios/mine.yaml", &broken, &known)
            .unwrap_err()
            .to_string();
        assert!(docs.contains(&said), "not in docs/scenarios.md:\n{said}");
    }

    #[test]
    fn committed_schemas_are_up_to_date() {
        for (name, text) in schemas() {
            let path = root().join(FOLDER).join(name);
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == text,
                "{name} is stale; run `cargo xtask show --schema`"
            );
        }
    }

    fn validator(schema: &serde_json::Value) -> jsonschema::Validator {
        jsonschema::draft202012::new(schema).unwrap()
    }

    fn as_json(yaml: &str) -> serde_json::Value {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn committed_files_satisfy_the_schemas() {
        let scenario = validator(scenario::scenario_schema());
        let read = |name: &str| fs::read_to_string(root().join(FOLDER).join(name)).unwrap();
        for name in names(&root()).unwrap() {
            let name = format!("{name}.yaml");
            let text = read(&name);
            scenario
                .validate(&as_json(&text))
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                text.contains("yaml-language-server: $schema=schema.json"),
                "{name}"
            );
        }
        let profiles = validator(scenario::profiles_schema());
        profiles
            .validate(&as_json(&read(PROFILES)))
            .unwrap_or_else(|e| panic!("{e}"));
    }

    #[test]
    fn editors_see_what_is_broken() {
        let schema = validator(scenario::scenario_schema());
        let good = fs::read_to_string(root().join("scenarios/shutdown-2018.yaml")).unwrap();
        for (from, to) in [
            ("kernel: \"6.1\"", "kernel: 6.1"),
            ("cpus: 1", "cpus: 0"),
            ("cpus: 1", "cpus: two"),
            ("512 MiB", "512 MB"),
            ("2.95 s, parallel", "2.95 sec, parallel"),
            ("count: 4", "count: 0"),
            ("about: >", "abuot: >"),
            ("name: mlx4", "name: ../mlx4"),
            ("[boot, probe", "[bot, probe"),
            ("within: 3 %", "within: 3"),
            ("order: parallel}", "order: sideways}"),
            ("  source: ", "  sauce: "),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(good, bad, "{from} is not in the file");
            assert!(
                !schema.is_valid(&as_json(&bad)),
                "{to} satisfies the schema"
            );
        }
    }
}
