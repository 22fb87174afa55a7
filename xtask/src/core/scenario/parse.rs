// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the text of a scenario file to a [`Scenario`], or to all that is wrong with it.
//!
//! Three sieves, each of which reports everything it finds before the next is tried:
//! YAML itself (`tree`), the shape (`shape`), the meaning (`validate`).

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{
    Scenario,
    diagnose::{Diagnostics, Sink},
    profiles::Profiles,
    raw, schema, shape,
    tree::{self, At, Node, Position},
    validate,
};

/// The names that a scenario may use but not define.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Profiles of profiles.yaml.
    pub profiles: Profiles,
    /// Keys of images/kernels/sources.yaml; `None`: any name will do.
    pub kernels: Option<BTreeSet<String>>,
    /// Folders of images/kernels/patches; `None`: any name will do.
    pub series: Option<BTreeSet<String>>,
}

impl From<Profiles> for Known {
    fn from(profiles: Profiles) -> Self {
        Self {
            profiles,
            ..Self::default()
        }
    }
}

/// Reads the scenario file `file` (used for its stem and in errors) from its `text`.
///
/// # Errors
/// Everything that is wrong with the file, in line order; becomes a usage
/// [`Fault`](crate::core::fault::Fault).
pub fn parse(file: &str, text: &str, known: &Known) -> Result<Scenario, Diagnostics> {
    let (node, raw): (Node, raw::Scenario) = typed(file, text, schema::scenario_schema())?;
    let mut sink = Sink::default();
    let scenario = validate::scenario(stem(file), &raw, &At::root(&node), known, &mut sink);
    sink.finish(file)?;
    Ok(scenario)
}

/// Reads `text` as YAML of the given schema and type.
pub fn typed<T: DeserializeOwned>(
    file: &str,
    text: &str,
    schema: &Json,
) -> Result<(Node, T), Diagnostics> {
    // Some editors begin UTF-8 files with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sink = Sink::default();
    let node = tree::read(text, &mut sink);
    if let Some(node) = &node {
        shape::check(node, schema, &mut sink);
    }
    sink.finish(file)?;
    let raw = serde_yaml::from_str(text);
    match (node, raw) {
        (Some(node), Ok(raw)) => Ok((node, raw)),
        (_, raw) => {
            // The two YAML readers disagree, or the schema says less than the type.
            let mut sink = Sink::default();
            let (at, why) = match raw {
                Err(e) => (e.location(), e.to_string()),
                Ok(_) => (None, "not readable".into()),
            };
            let position = at.map_or(Position { line: 1, column: 1 }, |l| Position {
                line: l.line().max(1),
                column: l.column().max(1),
            });
            sink.add(position, why);
            Err(sink.finish(file).expect_err("an error was added"))
        }
    }
}

/// `shutdown-2018` of `scenarios/shutdown-2018.yaml`.
pub(super) fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".yaml")
        .or_else(|| name.strip_suffix(".yml"))
        .unwrap_or(name)
}
