// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of an entry's files that proves it whole: one line a file, the last line
//! proves the list.
//!
//! `<blake3> <size> <path>` for a file, `-> <target> <path>`, escaped, for a link. A file
//! that the entry shares with another entry (a hard link into its source) is listed as
//! well: it costs reading, and tells of a write that went through the link.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufWriter, Read, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, bail, ensure};

use crate::edge::{files::read_file, process};

/// The longest manifest: one of a kernel's build has some 20 MB.
const MOST_BYTES: u64 = 1 << 30;

/// The manifest's file name in its entry.
pub const NAME: &str = "MANIFEST";

/// What an entry says about one of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// blake3 of the contents in hex and the size, or the target of a symbolic link.
    pub content: String,
    /// Relative to the entry, escaped as by `{:?}` without the quotes.
    pub path: String,
}

/// Writes the manifest of everything in `dir`; returns how many files that is. What is
/// said of a file that is the same inode in the entry `base` is taken from there.
pub fn write(dir: &Path, base: Option<&Path>) -> Result<usize> {
    let files = walk(dir)?;
    let mut lines = match base {
        Some(base) => shared(dir, base, &files)?,
        None => vec![String::new(); files.len()],
    };
    let unknown: Vec<usize> = (0..files.len()).filter(|&i| lines[i].is_empty()).collect();
    let to_read: Vec<PathBuf> = unknown.iter().map(|&i| files[i].clone()).collect();
    for (i, line) in unknown.into_iter().zip(describe(dir, &to_read)?) {
        lines[i] = line;
    }
    let mut hash = blake3::Hasher::new();
    let mut out = BufWriter::new(File::create(dir.join(NAME))?);
    for (content, path) in lines.iter().zip(&files) {
        let line = format!("{content} {}\n", escape(path));
        hash.update(line.as_bytes());
        out.write_all(line.as_bytes())?;
    }
    writeln!(out, "end {} {}", files.len(), hash.finalize().to_hex())?;
    out.into_inner()
        .map_err(std::io::IntoInnerError::into_error)?
        .sync_all()?;
    Ok(files.len())
}

/// The manifest's lines, in order of path, after checking the manifest itself.
pub fn read(dir: &Path) -> Result<Vec<Line>> {
    let bytes =
        read_file(&dir.join(NAME), MOST_BYTES).with_context(|| format!("reading its {NAME}"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("reading its {NAME}"))?;
    let body = text
        .trim_end_matches('\n')
        .rfind('\n')
        .map_or("", |i| &text[..=i]);
    let lines: Vec<_> = body
        .lines()
        .filter_map(|l| l.rsplit_once(' '))
        .map(|(c, p)| Line {
            content: c.into(),
            path: p.into(),
        })
        .collect();
    let end = format!(
        "end {} {}\n",
        lines.len(),
        blake3::hash(body.as_bytes()).to_hex()
    );
    ensure!(text[body.len()..] == end, "its {NAME} is cut or altered");
    Ok(lines)
}

/// Compares every byte of `dir` with its manifest.
pub fn verify(dir: &Path) -> Result<()> {
    let wanted = read(dir)?;
    let files = walk(dir)?;
    let mut there = files.iter().map(|f| escape(f));
    for line in &wanted {
        match there.next() {
            Some(path) if path == line.path => {}
            Some(path) if path < line.path => bail!("{path} does not belong to it"),
            _ => bail!("{} is missing", line.path),
        }
    }
    if let Some(path) = there.next() {
        bail!("{path} does not belong to it");
    }
    let found = describe(dir, &files)?;
    match wanted.iter().zip(&found).find(|(w, f)| w.content != **f) {
        Some((w, f)) => bail!("{} has changed: {f} instead of {}", w.path, w.content),
        None => Ok(()),
    }
}

/// The lines of `base`'s manifest for those of `files` that are its very inodes; empty
/// for the others.
fn shared(dir: &Path, base: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let known: BTreeMap<String, String> = read(base)?
        .into_iter()
        .map(|l| (l.path, l.content))
        .collect();
    let inode = |p: PathBuf| {
        p.symlink_metadata()
            .ok()
            .filter(|m| m.nlink() > 1)
            .map(|m| (m.dev(), m.ino()))
    };
    let line = |f: &PathBuf| {
        let same = inode(dir.join(f)).is_some_and(|i| inode(base.join(f)) == Some(i));
        same.then(|| known.get(&escape(f)).cloned())
            .flatten()
            .unwrap_or_default()
    };
    Ok(files.iter().map(line).collect())
}

/// All files and links below `dir`, relative, in order of their escaped path.
fn walk(dir: &Path) -> Result<Vec<PathBuf>> {
    fn into(dir: &Path, below: &Path, out: &mut Vec<PathBuf>) -> Result<()> {
        for entry in
            fs::read_dir(dir.join(below)).with_context(|| format!("listing {}", below.display()))?
        {
            let entry = entry?;
            let path = below.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                into(dir, &path, out)?;
            } else if path.as_os_str() != NAME {
                ensure!(
                    kind.is_file() || kind.is_symlink(),
                    "{} is neither file nor link",
                    path.display()
                );
                out.push(path);
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    into(dir, Path::new(""), &mut out)?;
    out.sort_by_cached_key(|p| escape(p));
    Ok(out)
}

/// What each file holds; read by all CPUs.
fn describe(dir: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    const CHUNK: usize = 64;
    let next = AtomicUsize::new(0);
    let out = Mutex::new(vec![String::new(); files.len()]);
    let worker = || -> Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= files.len() {
                return Ok(());
            }
            if process::interrupted() {
                return Err(process::Stopped.into());
            }
            let chunk = &files[from..files.len().min(from + CHUNK)];
            let done = chunk
                .iter()
                .map(|f| {
                    content(&dir.join(f), &mut buffer)
                        .with_context(|| format!("reading {}", f.display()))
                })
                .collect::<Result<Vec<_>>>()?;
            out.lock().unwrap()[from..from + done.len()].clone_from_slice(&done);
        }
    };
    let threads = if files.len() > CHUNK {
        std::thread::available_parallelism().map_or(1, usize::from)
    } else {
        1
    };
    std::thread::scope(|s| {
        let handles: Vec<_> = (1..threads).map(|_| s.spawn(worker)).collect();
        let mine = worker();
        handles
            .into_iter()
            .map(|h| h.join().expect("hashing does not panic"))
            .fold(mine, Result::and)
    })?;
    Ok(out.into_inner().unwrap())
}

fn content(path: &Path, buffer: &mut [u8]) -> Result<String> {
    let meta = path.symlink_metadata()?;
    if meta.is_symlink() {
        return Ok(format!("-> {}", escape(&fs::read_link(path)?)));
    }
    let (mut file, mut hash, mut size) = (File::open(path)?, blake3::Hasher::new(), 0u64);
    loop {
        match file.read(buffer)? {
            0 => break,
            n => {
                hash.update(&buffer[..n]);
                size += n as u64;
            }
        }
    }
    Ok(format!("{} {size}", hash.finalize().to_hex()))
}

/// Paths are bytes; a line of text must hold any, without spaces or line ends.
fn escape(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().all(|b| b.is_ascii_graphic() && *b != b'\\') {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    bytes
        .iter()
        .map(|&b| {
            if b == b' ' {
                "\\x20".to_owned()
            } else {
                b.escape_ascii().to_string()
            }
        })
        .collect()
}

/// One hash over the names and contents of everything in `dir`.
pub fn identity(dir: &Path) -> Result<String> {
    let files = walk(dir)?;
    let mut hash = blake3::Hasher::new();
    for (content, path) in describe(dir, &files)?.iter().zip(&files) {
        hash.update(format!("{content} {}\n", escape(path)).as_bytes());
    }
    Ok(hash.finalize().to_hex().to_string())
}
