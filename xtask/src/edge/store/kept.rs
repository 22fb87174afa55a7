// SPDX-License-Identifier: MIT OR Apache-2.0
//! What there is in a folder of results, and removing what is not needed any more: runs,
//! searches with the runs of their places, and kernels that were judged, each in a run.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Begun, Header, Held, Run, read::summary};
use crate::{
    core::{
        fault::{Fault, text},
        summary::Summary,
        yaml,
    },
    edge::files::{disk_usage, list, read_file, remove},
};

/// What says in a search's folder what is searched.
pub const SEARCH: &str = "bisect.yaml";
/// Where it keeps the runs of its places.
pub const SEARCH_RUNS: &str = "runs";
/// The folder of all judgements.
pub const JUDGED: &str = "judged";
const MOST_BYTES: u64 = 1 << 20;

/// A run's folder, and what is in it.
#[derive(Debug)]
pub struct Folder {
    /// Where.
    pub dir: PathBuf,
    /// Where below the results: its id, or that of a search's run, `bisect-.../runs/ID`.
    pub name: String,
    /// run.yaml, or why it cannot be read.
    pub header: Result<Header, String>,
    /// summary.json, or why it cannot be read; `None`: the run was not finished.
    pub summary: Option<Result<Summary, String>>,
    /// Bytes on disk.
    pub bytes: u64,
}

impl Folder {
    fn read(results: &Path, dir: PathBuf) -> Self {
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        let header = Header::read(dir.parent().unwrap_or(results), &id).map_err(|e| text(&e));
        let there = dir.join("summary.json").exists();
        let summary = there.then(|| summary(&dir, "`cargo xtask bench --resume` writes it"));
        let name = dir.strip_prefix(results).unwrap_or(&dir);
        Self {
            name: name.to_string_lossy().into_owned(),
            summary: summary.map(|read| read.map_err(|e| text(&e))),
            bytes: disk_usage(&dir),
            header,
            dir,
        }
    }
}

/// What is made by one command, kept as one, and removed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A run of `bench` or `merge`.
    Run,
    /// A search, to go on with or to be proved by.
    Search,
    /// A kernel that was judged.
    Judgement,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Run, Self::Search, Self::Judgement];

    /// One of it in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Search => "search",
            Self::Judgement => "judgement",
        }
    }
}

/// Something that is kept.
#[derive(Debug)]
pub struct Kept {
    /// What it is.
    pub kind: Kind,
    /// Where.
    pub dir: PathBuf,
    /// When it was begun, or why that is not known.
    pub begun: Result<String, String>,
    /// Its runs.
    pub runs: Vec<Folder>,
}

impl Kept {
    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        disk_usage(&self.dir)
    }

    /// Removes it, all at once for whoever looks at it.
    ///
    /// # Errors
    /// Usage: it is being made.
    pub fn remove(&self) -> Result<()> {
        // A run is its own only one.
        let runs = self.runs.iter().filter(|run| run.dir != self.dir);
        let runs = runs.map(|run| (&run.dir, Kind::Run));
        let all = [(&self.dir, self.kind)].into_iter().chain(runs);
        let hold = |(dir, kind): (&PathBuf, Kind)| Held::take_if_held_before(dir, kind.name());
        let _held: Vec<_> = all.map(hold).collect::<Result<_>>()?;
        let dir = &self.dir;
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let aside = dir.with_file_name(format!(".removed-{name}"));
        fs::rename(dir, &aside).with_context(|| format!("removing {}", dir.display()))?;
        remove(&aside);
        Ok(())
    }
}

/// All that is kept in `results`, by kind and the oldest first; what cannot be read before
/// that.
///
/// # Errors
/// Usage: `results` is no folder.
pub fn all(results: &Path) -> Result<Vec<Kept>> {
    if !results.is_dir() {
        let results = results.display();
        let why = format!("{results} is no folder: name one that runs are kept in");
        return Err(Fault::usage(why).into());
    }
    let runs_in = |dir: &Path| -> Result<Vec<Folder>> {
        let dirs = Run::matching(dir, "*")?.into_iter();
        Ok(dirs.map(|dir| Folder::read(results, dir)).collect())
    };
    let mut all = Vec::new();
    for run in runs_in(results)? {
        all.push(Kept {
            kind: Kind::Run,
            dir: run.dir.clone(),
            begun: run
                .header
                .as_ref()
                .map(|h| h.begun.clone())
                .map_err(Clone::clone),
            runs: vec![run],
        });
    }
    for (_, dir) in list(results) {
        let file = dir.join(SEARCH);
        if file.is_file() {
            all.push(Kept {
                kind: Kind::Search,
                begun: search_begun(&file),
                runs: runs_in(&dir.join(SEARCH_RUNS))?,
                dir,
            });
        }
    }
    let judged = list(&results.join(JUDGED)).into_iter();
    // One that begins with a dot is not wholly removed yet.
    for (name, dir) in judged.filter(|(name, dir)| !name.starts_with('.') && dir.is_dir()) {
        let begun = Begun::of_id(&name).map(|begun| begun.to_string());
        let no_id = || format!("{} is the folder of no judgement", dir.display());
        all.push(Kept {
            kind: Kind::Judgement,
            begun: begun.ok_or_else(no_id),
            runs: runs_in(&dir)?,
            dir,
        });
    }
    all.sort_by_cached_key(|kept| (kept.kind, kept.begun.clone().ok(), kept.dir.clone()));
    Ok(all)
}

/// When the search with this `file` was begun.
fn search_begun(file: &Path) -> Result<String, String> {
    /// What every version of it has.
    #[derive(Deserialize)]
    struct Stored {
        begun: String,
    }
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let bytes = read_file(file, MOST_BYTES).map_err(|e| wrong(&e))?;
    let stored: Stored = yaml::read(&String::from_utf8_lossy(&bytes)).map_err(|e| wrong(&e))?;
    let begun: Begun = stored.begun.parse().map_err(|e: String| wrong(&e))?;
    Ok(begun.to_string())
}

/// The runs in `results`, those of searches and judgements among them, the oldest first,
/// those that cannot be read before them.
///
/// # Errors
/// As [`all`].
pub fn folders(results: &Path) -> Result<Vec<Folder>> {
    let mut runs: Vec<_> = all(results)?
        .into_iter()
        .flat_map(|kept| kept.runs)
        .collect();
    runs.sort_by_cached_key(|f| {
        let header = f.header.as_ref().ok();
        (header.map(|h| h.begun.clone()), f.name.clone())
    });
    Ok(runs)
}

/// The keys of all cache entries that the runs in `results` were made with.
///
/// # Errors
/// Usage: `results` is no place to look in, or a run in it cannot be read.
pub fn keys_used(results: &Path) -> Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    for folder in folders(results)? {
        let header = folder.header.map_err(|why| {
            Fault::usage(format!(
                "{why}; what that run uses is not known: remove it first"
            ))
        })?;
        keys.insert(header.machine.init);
        keys.extend(header.machine.images.into_iter().map(|image| image.key));
        for kernel in header.kernels {
            keys.extend([kernel.key, kernel.modules]);
        }
    }
    Ok(keys)
}
