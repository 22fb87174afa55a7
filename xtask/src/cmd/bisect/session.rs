// SPDX-License-Identifier: MIT OR Apache-2.0
//! A search's folder: `<results>/bisect-<time>/{bisect.yaml, bisect.log, runs/, report.md}`.
//! A search that goes on asks again for every place from its beginning; what was booted
//! before is read from `runs/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Parser;
use serde::{Deserialize, Serialize};

use super::Args;
use crate::{
    core::{fault::Fault, scenario::Scenario, yaml},
    edge::{
        files::{read_file, write_whole},
        store::{
            Begun, Held, Run,
            kept::{SEARCH, SEARCH_RUNS},
        },
    },
};

/// The version of bisect.yaml.
const SCHEMA: u32 = 1;
const MOST_BYTES: u64 = 1 << 20;

/// bisect.yaml.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    schema: u32,
    /// When it was begun: RFC 3339, UTC.
    begun: String,
    /// The command line that began it.
    pub command: Vec<String>,
    /// Where: paths in it are relative to this.
    from: PathBuf,
    /// The scenario's hash.
    scenario: String,
    /// The two ends, where they are commits: a branch moves on.
    pub commits: Option<[String; 2]>,
}

/// A search's folder.
#[derive(Debug)]
pub struct Session {
    /// Where it is.
    pub dir: PathBuf,
    /// What it began with.
    pub stored: Stored,
    _held: Held,
}

/// The words of a command line, read again.
#[derive(Debug, Parser)]
#[command(name = "bisect")]
struct Again {
    #[command(flatten)]
    args: Args,
}

impl Session {
    /// Begins one.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(
        results: &Path,
        scenario: &Scenario,
        commits: Option<[String; 2]>,
    ) -> Result<Self> {
        let begun = Begun::now();
        let dir = std::path::absolute(results)?.join(format!("bisect-{}", begun.id()));
        fs::create_dir_all(dir.join(SEARCH_RUNS)).with_context(|| {
            format!(
                "creating {}; name another place with --results",
                dir.display()
            )
        })?;
        let stored = Stored {
            schema: SCHEMA,
            begun: begun.to_string(),
            command: std::env::args().skip(1).collect(),
            from: std::env::current_dir()?,
            scenario: scenario.hash.clone(),
            commits,
        };
        let held = Held::take(&dir, "search")?;
        let text = serde_yaml::to_string(&stored)?;
        write_whole(&dir.join(SEARCH), text.as_bytes())?;
        Ok(Self {
            dir,
            stored,
            _held: held,
        })
    }

    /// The search `named`, and what it was asked. Goes where it was begun.
    ///
    /// # Errors
    /// Usage: there is none, it is of another version, or somebody goes on with it already.
    pub fn read(results: &Path, named: &str) -> Result<(Self, Args)> {
        let (results, id) = Run::locate(results, named);
        let dir = std::path::absolute(results)?.join(id);
        let path = dir.join(SEARCH);
        let wrong = |why: String| Fault::usage(format!("{}: {why}", path.display()));
        let bytes = read_file(&path, MOST_BYTES)
            .map_err(|e| wrong(format!("{e}; it is the folder of no search")))?;
        let stored: Stored = yaml::read(&String::from_utf8_lossy(&bytes))
            .map_err(|e| wrong(format!("{e}; begin a new search")))?;
        if stored.schema != SCHEMA {
            let why = format!(
                "has schema {}, not {SCHEMA}: begin a new search",
                stored.schema
            );
            return Err(wrong(why).into());
        }
        std::env::set_current_dir(&stored.from)
            .with_context(|| format!("going to {}, where it was begun", stored.from.display()))?;
        let again = Again::try_parse_from(&stored.command)
            .map_err(|e| wrong(format!("{e}; begin a new search")))?;
        let session = Self {
            _held: Held::take(&dir, "search")?,
            dir,
            stored,
        };
        Ok((session, again.args))
    }

    /// Where the runs of its places are kept.
    pub fn runs(&self) -> PathBuf {
        self.dir.join(SEARCH_RUNS)
    }

    /// Checks that it still is of `scenario`.
    ///
    /// # Errors
    /// Usage: the scenario has changed.
    pub fn same(self, scenario: &Scenario) -> Result<Self> {
        if self.stored.scenario == scenario.hash {
            return Ok(self);
        }
        Err(Fault::usage(format!(
            "scenario {} has changed since the search in {} began; begin a new one",
            scenario.name,
            self.dir.display()
        ))
        .into())
    }
}
