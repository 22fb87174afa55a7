// SPDX-License-Identifier: MIT OR Apache-2.0
//! took.csv: what boots took on the host, so that shards can be balanced. No figure of the
//! guest's, and none that anything is judged by.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use super::{Run, explain};
use crate::edge::files::read_file;

/// A hundred thousand boots have some 5 MB.
const MOST_BYTES: u64 = 64 << 20;

fn place(dir: &Path) -> PathBuf {
    dir.join("took.csv")
}

impl Run {
    /// Notes that the boot `id` took `time`.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn took(&self, id: &str, time: Duration) -> Result<()> {
        let path = place(&self.dir);
        let line = format!("{id},{}\n", time.as_millis());
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("adding to {}", path.display()))
            .map_err(|e| explain(e, &self.dir))
    }

    /// What the boots of the run in folder `dir` took, in ms, by id; of a boot that was made
    /// again the last time. What cannot be read is not there: shards are less even then.
    pub fn times(dir: &Path) -> BTreeMap<String, u64> {
        let bytes = read_file(&place(dir), MOST_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let time = |line: &str| {
            let (id, ms) = line.rsplit_once(',')?;
            Some((id.to_owned(), ms.parse().ok()?))
        };
        text.lines().filter_map(time).collect()
    }
}
