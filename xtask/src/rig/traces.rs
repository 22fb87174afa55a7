// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was traced of a run's boots, as it is kept in its folder's `traces/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{tracing::Seen, wish::Wish};
use crate::{
    core::{
        fault::{Fault, text},
        report::Profiled,
        trace::{
            flame,
            record::{Record, SCHEMA},
            table,
            tally::Profile,
        },
    },
    edge::{
        files::{list, read_file, remove, write_whole},
        store::explain,
    },
};

/// A record of a boot with thousands of windows has tens of MB.
const MOST_BYTES: u64 = 1 << 30;
/// The folder's name.
const TRACES: &str = "traces";

/// Names a file after a boot or a window.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.chars()
        .map(|c| if plain(c) { c } else { '+' })
        .collect()
}

/// Writes what was seen into the run's folder `run`: the record, and each window's stacks and
/// picture. The paths, the pictures' first.
///
/// # Errors
/// A full disk, most likely.
pub fn keep(seen: &Seen, run: &Path) -> Result<Vec<PathBuf>> {
    let dir = &run.join(TRACES);
    fs::create_dir_all(dir)
        .with_context(|| format!("creating {}", dir.display()))
        .map_err(|e| explain(e, run))?;
    let stem = file_name(&seen.record.boot);
    let mut files = Vec::new();
    for (window, folded) in &seen.folded {
        let base = format!("{stem}.{}", file_name(window));
        let title = format!("{}: {window}", seen.record.boot);
        if let Ok(svg) = flame::svg(&title, folded) {
            files.push((dir.join(format!("{base}.svg")), svg.into_bytes()));
        }
        let path = dir.join(format!("{base}.folded"));
        files.push((path, folded.clone().into_bytes()));
    }
    let record = serde_json::to_vec(&seen.record)?;
    files.push((dir.join(format!("{stem}.json")), record));
    write_all(&files).map_err(|e| explain(e, dir))?;
    let kept = files.into_iter().map(|(path, _)| path);
    let told = |path: &PathBuf| path.extension().is_none_or(|e| e != "folded");
    Ok(kept.filter(told).collect())
}

/// Writes all files, or leaves none: a picture without its record is of nothing.
fn write_all(files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    for (written, (path, bytes)) in files.iter().enumerate() {
        if let Err(error) = write_whole(path, bytes) {
            files[..written].iter().for_each(|(path, _)| remove(path));
            return Err(error);
        }
    }
    Ok(())
}

/// What is shown of a boot that was traced as `wish` says, with `most` rows a table; says what
/// is not as asked, and keeps what was seen in the folder `keep`.
///
/// # Errors
/// Usage: a window that the boot does not have. A full disk.
pub fn told(
    seen: &Seen,
    keep: Option<&Path>,
    wish: &Wish,
    most: usize,
    say: &dyn Fn(&str),
) -> Result<String> {
    for note in &seen.notes {
        say(&format!("note: {}: {note}", seen.record.boot));
    }
    if let Some(run) = keep {
        for path in self::keep(seen, run)? {
            say(&format!("kept {}", path.display()));
        }
    }
    let text = table::boot(&seen.record, &wish.windows, &wish.marks, most);
    Ok(text.map_err(Fault::usage)?)
}

/// The files of the records that the run in `run` has.
pub fn records(run: &Path) -> Vec<PathBuf> {
    let files = list(&run.join(TRACES)).into_iter();
    let records = files.filter(|(name, _)| name.ends_with(".json"));
    records.map(|(_, path)| path).collect()
}

/// A record.
///
/// # Errors
/// Usage: it is none, or of another version.
pub fn read(path: &Path) -> Result<Record> {
    let usage = |why: String| Fault::usage(format!("{}: {why}", path.display()));
    let bytes = read_file(path, MOST_BYTES).map_err(|e| usage(e.to_string()))?;
    let record: Record = serde_json::from_slice(&bytes)
        .map_err(|e| usage(format!("no record of a traced boot of this version: {e}")))?;
    if record.schema != SCHEMA {
        let was = record.schema;
        return Err(usage(format!("has schema {was}; this program reads {SCHEMA}")).into());
    }
    record.check().map_err(|why| {
        usage(format!(
            "no record of a traced boot: {why}; remove it, or trace the boot again (bench --profile)"
        ))
    })?;
    Ok(record)
}

/// The windows whose stacks were kept, of all traced boots of the run in `run`; and why others
/// cannot be drawn.
pub fn profiled(run: &Path) -> (Vec<Profiled>, Vec<String>) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for path in records(run) {
        let record = match read(&path) {
            Ok(record) => record,
            Err(error) => {
                left_out.push(text(&error));
                continue;
            }
        };
        for profile in record.windows {
            let window = format!("{}.{}", file_name(&record.boot), file_name(&profile.window));
            let path = path.with_file_name(format!("{window}.folded"));
            // Only those that were asked for have stacks.
            if !path.is_file() {
                continue;
            }
            match stacks(&path, &profile) {
                Ok(folded) => found.push(Profiled {
                    boot: record.boot.clone(),
                    profile,
                    folded,
                }),
                Err(why) => left_out.push(format!("{}: {why}", path.display())),
            }
        }
    }
    (found, left_out)
}

/// Folded stacks, which have all instructions of their window.
fn stacks(path: &Path, profile: &Profile) -> Result<String, String> {
    let bytes = read_file(path, MOST_BYTES).map_err(|e| e.to_string())?;
    let folded = String::from_utf8(bytes).map_err(|e| e.to_string())?;
    let (_, counted) = flame::frames(&folded)?;
    let parts = [profile.user, profile.firmware];
    let executed = parts.iter().sum::<i64>() + profile.kernel();
    if i64::try_from(counted) != Ok(executed) {
        return Err(format!(
            "has {counted} instructions, its record {executed}: it was cut or is of another boot; trace the boot again"
        ));
    }
    Ok(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_all_be_written_is_not_there_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Seen {
            record: Record {
                schema: SCHEMA,
                boot: "a/b".into(),
                point: None,
                kernel: "6.1".into(),
                qemu: "10.0.2".into(),
                stacks: true,
                complete: true,
                windows: Vec::new(),
                marks: Vec::new(),
            },
            folded: vec![("boot".into(), "[tasks];f 5\n".into())],
            notes: Vec::new(),
        };
        let names = || -> Vec<String> {
            let all = list(&dir.path().join(TRACES)).into_iter();
            all.map(|(name, _)| name).collect()
        };
        // The record, which comes last, cannot take the place of a folder.
        let record = dir.path().join(TRACES).join("a+b.json");
        fs::create_dir_all(record.join("folder")).unwrap();
        assert!(keep(&seen, dir.path()).is_err());
        assert_eq!(names(), ["a+b.json"]);
        fs::remove_dir_all(&record).unwrap();
        let kept = keep(&seen, dir.path()).unwrap();
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!(names(), ["a+b.boot.folded", "a+b.boot.svg", "a+b.json"]);
    }
}
