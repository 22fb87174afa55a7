// SPDX-License-Identifier: MIT OR Apache-2.0
//! Anybody's patch series: mailboxes as they come, directories, single patches. Mails are
//! taken apart by git, which decodes them as `git am` does; what they hold becomes a quilt
//! series in the cache, named by its contents, that any kernel can be built with.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    sync::LazyLock,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::patch;
use crate::{
    core::{fault::Fault, need::not_installed, scenario::FOREIGN, units::counted},
    edge::{
        cache::{Cache, Check},
        files::read_file,
        process,
    },
};

/// Entries of the cache: quilt series by the hash of their contents.
const KIND: &str = "series";
/// The longest mailbox read.
const MAX_BYTES: u64 = 64 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// One patch of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// Where it came from, for messages: the file, and which mail of it.
    origin: String,
    /// The mail's subject; empty for a plain diff.
    subject: String,
    /// The mail's text, or what stands before a plain diff.
    message: String,
    diff: Vec<u8>,
}

/// Which of how many, and of which version: what a subject says in its brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    version: u32,
    number: u32,
    of: u32,
}

/// Takes `paths` (mailboxes, patches, directories of such) into the cache as one series and
/// returns the name that [`read`] knows it by.
///
/// # Errors
/// Usage errors: a path that cannot be read, no patch in all of it, numbers that are
/// missing or doubled, a patch that is no plain diff of a kernel's files.
pub fn import(cache: &Cache, paths: &[PathBuf], say: &dyn Fn(&str)) -> Result<String> {
    let mut pieces = Vec::new();
    for file in files(paths)? {
        pieces.extend(pieces_of(&file, say)?);
    }
    let pieces = in_order(pieces, say)?;
    let named = paths.iter().map(|p| p.display().to_string());
    let named = named.collect::<Vec<_>>().join(", ");
    if pieces.is_empty() {
        return Err(usage(format!(
            "there is no patch in {named}: a series is mails or files with unified diffs"
        )));
    }
    let (mut list, mut files) = (String::new(), BTreeMap::new());
    for (index, piece) in pieces.iter().enumerate() {
        patch::touched(&piece.diff).map_err(|why| usage(format!("{}: {why}", piece.origin)))?;
        let name = format!("{:04}-{}.patch", index + 1, slug(&piece.subject));
        let _ = writeln!(list, "{name}");
        let head = match piece.subject.as_str() {
            "" => piece.message.clone(),
            subject => format!("Subject: {subject}\n\n{}", piece.message),
        };
        files.insert(name, [head.as_bytes(), &piece.diff].concat());
    }
    files.insert("series".into(), list.into_bytes());
    let mut hash = blake3::Hasher::new();
    for (name, bytes) in &files {
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let key = hash.finalize().to_hex()[..16].to_owned();
    keep(cache, &key, &files, say)?;
    // A folder's name has no ending: `6.12` is no `6`.
    let name = paths.first().and_then(|p| match p.is_dir() {
        true => p.file_name(),
        false => p.file_stem(),
    });
    let name = slug(&name.unwrap_or_default().to_string_lossy());
    let patches = counted(pieces.len(), "patch");
    say(&format!("series {name}: {patches} from {named}"));
    Ok(format!("{name}{FOREIGN}{key}"))
}

/// The patches of an imported series, in order.
///
/// # Errors
/// Usage: it is no longer in the cache.
pub fn read(cache: &Cache, series: &str, say: &dyn Fn(&str)) -> Result<Vec<patch::Patch>> {
    let key = series.rsplit(FOREIGN).next().unwrap_or_default();
    let known = key.len() == 16 && key.bytes().all(|b| b.is_ascii_hexdigit());
    let dir = match known {
        true => cache.get(KIND, key, Check::Full, say)?,
        false => None,
    };
    let Some(dir) = dir else {
        return Err(usage(format!(
            "series {series} is no longer in the cache; begin a new run and name its files with --series"
        )));
    };
    patch::read_dir(&dir, &dir.display().to_string())
}

fn usage(message: String) -> anyhow::Error {
    Fault::usage(message).into()
}

fn keep(
    cache: &Cache,
    key: &str,
    files: &BTreeMap<String, Vec<u8>>,
    say: &dyn Fn(&str),
) -> Result<()> {
    let lock = cache.lock(KIND, key, "the patch series", say)?;
    if cache.get(KIND, key, Check::Full, say)?.is_some() {
        return Ok(());
    }
    let staged = cache.stage(&lock)?;
    for (name, bytes) in files {
        let to = staged.dir().join(name);
        fs::write(&to, bytes)
            .with_context(|| format!("writing {}", to.display()))
            .map_err(|e| cache.explain(e))?;
    }
    cache.put(&lock, staged).map_err(|e| cache.explain(e))?;
    Ok(())
}

/// The files to read, in order: a directory's by its `series`, else all that look like
/// patches or mailboxes, by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        if path.join("series").is_file() {
            let listed = patch::listed(&path.join("series"), &path.display().to_string())?;
            all.extend(listed.into_iter().map(|name| path.join(name)));
            continue;
        }
        let entries = fs::read_dir(path)
            .map_err(|e| usage(format!("reading the series in {}: {e}", path.display())))?;
        let like_patches = ["patch", "mbox", "mbx", "eml", "diff"];
        let mut found: Vec<_> = entries
            .filter_map(|e| Some(e.ok()?.path()))
            .filter(|p| {
                let ending = p.extension().and_then(|e| e.to_str());
                p.is_file() && ending.is_some_and(|e| like_patches.contains(&e))
            })
            .collect();
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

fn pieces_of(path: &Path, say: &dyn Fn(&str)) -> Result<Vec<Piece>> {
    let shown = path.display().to_string();
    let bytes = read_file(path, MAX_BYTES).map_err(|e| usage(format!("series {shown}: {e}")))?;
    if !is_mail(&bytes) {
        return Ok(plain(&shown, &bytes).into_iter().collect());
    }
    let scratch = process::scratch("bootrig-series-")?;
    let mut pieces = Vec::new();
    for (index, mail) in split(path, scratch.path())?.iter().enumerate() {
        let origin = format!("{shown} (mail {})", index + 1);
        let piece = take_apart(&origin, mail, scratch.path())?;
        match why_not(&piece) {
            None => pieces.push(piece),
            Some(why) => say(&format!(
                "note: {origin}: {why}, left out: {}",
                piece.subject
            )),
        }
    }
    Ok(pieces)
}

/// Whether a file is one mail or a box of them: a `From ` line, or headers with a subject.
fn is_mail(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64 << 10)]);
    let mut headers = text.lines().take_while(|l| !l.trim().is_empty());
    text.starts_with("From ") || headers.any(|l| l.starts_with("Subject:"))
}

/// A diff without a mail around it; nothing where there is no diff.
fn plain(origin: &str, bytes: &[u8]) -> Option<Piece> {
    let text = String::from_utf8_lossy(bytes);
    let starts = |l: &str| l.starts_with("diff ") || l.starts_with("--- ");
    let at = text.lines().position(starts)?;
    let before: usize = bytes
        .split_inclusive(|b| *b == b'\n')
        .take(at)
        .map(<[u8]>::len)
        .sum();
    Some(Piece {
        origin: origin.into(),
        subject: String::new(),
        message: String::from_utf8_lossy(&bytes[..before]).into_owned(),
        diff: bytes[before..].to_vec(),
    })
}

/// The mails of a box, one file each.
fn split(mailbox: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let mails = dir.join("mails");
    fs::create_dir(&mails).with_context(|| format!("creating {}", mails.display()))?;
    let absolute =
        std::path::absolute(mailbox).with_context(|| format!("finding {}", mailbox.display()))?;
    let mut git = git()?;
    let mut into = std::ffi::OsString::from("-o");
    into.push(&mails);
    git.args(["mailsplit", "-b", "-d6"])
        .arg(into)
        .arg("--")
        .arg(absolute);
    process::read(&format!("splitting {}", mailbox.display()), git, LIMIT)?;
    let mut found: Vec<_> = fs::read_dir(&mails)
        .with_context(|| format!("listing {}", mails.display()))?
        .filter_map(|e| Some(e.ok()?.path()))
        .collect();
    found.sort();
    Ok(found)
}

fn take_apart(origin: &str, mail: &Path, dir: &Path) -> Result<Piece> {
    let (message, diff) = (dir.join("message"), dir.join("diff"));
    let mut git = git()?;
    // -k: the subject whole, with the brackets that say which patch it is.
    git.args(["mailinfo", "-k", "--encoding=UTF-8"])
        .arg(&message)
        .arg(&diff);
    git.stderr(Stdio::null());
    let input = File::open(mail).with_context(|| format!("opening {}", mail.display()))?;
    let mut subject = String::new();
    let status = process::stream(
        &format!("reading {origin}"),
        git,
        input.into(),
        LIMIT,
        |line| {
            if let Some(text) = line.strip_prefix("Subject: ") {
                subject = text.to_owned();
            }
        },
    )?;
    // It fails for a mail without a patch too, once it has told its headers.
    let read = |path: &Path| match status.success() {
        true => fs::read(path).with_context(|| format!("reading {} of {origin}", path.display())),
        false => Ok(Vec::new()),
    };
    Ok(Piece {
        origin: origin.into(),
        subject,
        message: String::from_utf8_lossy(&read(&message)?).into_owned(),
        diff: read(&diff)?,
    })
}

fn git() -> Result<std::process::Command> {
    ensure!(
        process::which("git").is_some(),
        "taking mails apart needs git: {}",
        not_installed("git")
    );
    let mut git = process::tool("git");
    // The user's settings (scissors, say) must not change what a mail holds.
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    Ok(git)
}

/// Why a mail is no patch of the series.
fn why_not(piece: &Piece) -> Option<&'static str> {
    let answer = piece.subject.trim_start().to_lowercase().starts_with("re:");
    let diff = String::from_utf8_lossy(&piece.diff);
    let hunk = |l: &str| {
        l.starts_with("@@ -") || l.starts_with("rename from ") || l.starts_with("GIT binary")
    };
    match (answer, diff.lines().any(hunk)) {
        (true, _) => Some("an answer"),
        (_, false) => Some("a mail without a patch"),
        _ => None,
    }
}

fn place(subject: &str) -> Option<Place> {
    static NUMBERS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|\s)0*(\d{1,4})/0*(\d{1,4})$").expect("a valid pattern"));
    static VERSION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i)\bv(\d{1,4})\b").expect("a valid pattern"));
    let inside = subject.strip_prefix('[')?.split_once(']')?.0.trim();
    let number = |m: Option<regex::Match>| m.and_then(|m| m.as_str().parse().ok());
    let numbers = NUMBERS.captures(inside)?;
    let version = VERSION.captures(inside).and_then(|c| number(c.get(1)));
    Some(Place {
        version: version.unwrap_or(1),
        number: number(numbers.get(1))?,
        of: number(numbers.get(2))?,
    })
}

/// Mailboxes keep the order of arrival: the numbers in the subjects are the order. Of
/// several versions the newest is meant. What has no numbers stays as it is given.
fn in_order(pieces: Vec<Piece>, say: &dyn Fn(&str)) -> Result<Vec<Piece>> {
    let places: Vec<_> = pieces.iter().map(|p| place(&p.subject)).collect();
    let Some(newest) = places.iter().flatten().map(|p| p.version).max() else {
        return Ok(pieces);
    };
    let mut numbered: BTreeMap<u32, Piece> = BTreeMap::new();
    let (mut versions, mut of) = (BTreeSet::new(), 0);
    for (piece, place) in pieces.into_iter().zip(places) {
        let Some(place) = place else {
            return Err(usage(format!(
                "{}: `{}` has no number, others of the series have: name the files in their order without it, or number it",
                piece.origin, piece.subject
            )));
        };
        versions.insert(place.version);
        if place.version != newest {
            continue;
        }
        of = of.max(place.of);
        let origin = piece.origin.clone();
        if let Some(before) = numbered.insert(place.number, piece) {
            return Err(usage(format!(
                "{origin} and {} are both patch {} of {}: give one series only",
                before.origin, place.number, place.of
            )));
        }
    }
    if versions.len() > 1 {
        say(&format!(
            "note: the series is there in several versions; v{newest} is taken"
        ));
    }
    let missing: Vec<_> = (1..=of)
        .filter(|n| !numbered.contains_key(n))
        .map(|n| n.to_string())
        .collect();
    if !missing.is_empty() {
        return Err(usage(format!(
            "patch {} of {of} is missing: the series is not whole",
            missing.join(", ")
        )));
    }
    Ok(numbered.into_values().collect())
}

/// A file name out of a subject: `[PATCH v2 1/3] driver core: x` is `driver-core-x`.
fn slug(subject: &str) -> String {
    let text = match subject.strip_prefix('[').and_then(|s| s.split_once(']')) {
        Some((_, rest)) => rest,
        None => subject,
    };
    let mut slug = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.trim_end_matches('-').chars().take(48).collect();
    if slug.is_empty() {
        "patch".into()
    } else {
        slug
    }
}

#[cfg(test)]
mod tests;
