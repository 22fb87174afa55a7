// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache entries as one file, to be kept where several machines reach it.
//!
//! ```text
//! bootrig-pack 1 <name>
//! entry <kind> <key>
//! file <size> <path>          and so many bytes
//! ...
//! end <proof>                 blake3 of all before it
//! ```
//!
//! Whoever can write there can replace an entry by one with a proof of its own, unless the
//! proof is made with a secret ([`Secret`]), which only those have whose entries are to be
//! trusted.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use crate::edge::files::read_file;

/// The longest file of an entry.
const MOST_BYTES: u64 = 1 << 30;
/// The first word, and the version of the format.
const MAGIC: &str = "bootrig-pack 1";

/// What proofs are made with, if the user has given it.
#[derive(Clone)]
pub struct Secret(Option<[u8; 32]>);

impl Secret {
    /// One out of any text; none.
    pub fn new(text: Option<&str>) -> Self {
        Self(text.map(|t| blake3::derive_key("bootrig shared cache 1", t.as_bytes())))
    }

    fn proof(&self, bytes: &[u8]) -> String {
        let hash = match &self.0 {
            Some(key) => blake3::keyed_hash(key, bytes),
            None => blake3::hash(bytes),
        };
        hash.to_hex().to_string()
    }
}

/// An entry out of a pack.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'b> {
    /// Its kind.
    pub kind: &'b str,
    /// Its key.
    pub key: &'b str,
    /// Its files, by their path in it.
    pub files: Vec<(PathBuf, &'b [u8])>,
}

/// Packs the entries `kind`, `key`, folder as `name`.
///
/// # Errors
/// One cannot be read, or has something else than files.
pub fn write(name: &str, entries: &[(&str, &str, PathBuf)], secret: &Secret) -> Result<Vec<u8>> {
    let mut out = format!("{MAGIC} {name}\n").into_bytes();
    for (kind, key, dir) in entries {
        out.extend(format!("entry {kind} {key}\n").bytes());
        files(dir, Path::new(""), &mut out)
            .with_context(|| format!("packing cache entry {}", dir.display()))?;
    }
    let proof = secret.proof(&out);
    out.extend(format!("end {proof}\n").bytes());
    Ok(out)
}

fn files(dir: &Path, below: &Path, out: &mut Vec<u8>) -> Result<()> {
    let mut all: Vec<_> = fs::read_dir(dir.join(below))?.collect::<Result<_, _>>()?;
    all.sort_by_key(fs::DirEntry::file_name);
    for entry in all {
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files(dir, &path, out)?;
            continue;
        }
        // It is written anew where the entry is unpacked.
        if path.as_os_str() == super::manifest::NAME {
            continue;
        }
        let name = path.to_str().filter(|p| is_plain(p));
        let name = name.with_context(|| format!("{} cannot be packed", path.display()))?;
        ensure!(kind.is_file(), "{name} is no file");
        let bytes = read_file(&dir.join(&path), MOST_BYTES)?;
        out.extend(format!("file {} {name}\n", bytes.len()).bytes());
        out.extend(bytes);
    }
    Ok(())
}

/// The entries of the pack `name`.
///
/// # Errors
/// It was cut or altered, was made with another secret, or is another's.
pub fn read<'b>(bytes: &'b [u8], name: &str, secret: &Secret) -> Result<Vec<Entry<'b>>> {
    const PROOF: usize = "end ".len() + 64 + 1;
    let at = bytes.len().checked_sub(PROOF);
    let at = at.context("it is cut: it has no end")?;
    let (body, end) = bytes.split_at(at);
    let end = std::str::from_utf8(end).ok();
    let proof = end.and_then(|e| e.strip_prefix("end ")?.strip_suffix('\n'));
    let proof = proof.context("it is cut: it has no end")?;
    if proof != secret.proof(body) {
        match &secret.0 {
            Some(_) if proof == Secret(None).proof(body) => {
                bail!("it was made without the secret that is asked for here")
            }
            Some(_) => bail!("it was altered, or made with another secret"),
            None => bail!("it was altered, or made with a secret"),
        }
    }
    let mut rest = body;
    let first = line(&mut rest)?;
    let own = first.strip_prefix(MAGIC).map(str::trim);
    let own = own.with_context(|| format!("it is no `{MAGIC}`"))?;
    ensure!(own == name, "it is of {own}, not of {name}");
    let mut entries: Vec<Entry<'b>> = Vec::new();
    while !rest.is_empty() {
        let words: Vec<_> = line(&mut rest)?.splitn(3, ' ').collect();
        match (words.as_slice(), entries.last_mut()) {
            (["entry", kind, key], _) if super::valid_name(kind) && super::valid_name(key) => {
                entries.push(Entry {
                    kind,
                    key,
                    files: Vec::new(),
                });
            }
            (["file", size, path], Some(entry)) if is_plain(path) => {
                let size: usize = size.parse().context("a file's size is no number")?;
                ensure!(size <= rest.len(), "the file {path} is cut");
                let (bytes, after) = rest.split_at(size);
                entry.files.push((path.into(), bytes));
                rest = after;
            }
            (words, _) => bail!("`{}` has no place in it", words.join(" ").escape_debug()),
        }
    }
    Ok(entries)
}

fn line<'b>(rest: &mut &'b [u8]) -> Result<&'b str> {
    let end = rest.iter().take(4096).position(|b| *b == b'\n');
    let end = end.context("a line has no end")?;
    let text = std::str::from_utf8(&rest[..end]).context("a line is no text")?;
    *rest = &rest[end + 1..];
    Ok(text)
}

/// Whether a path leads to a file within an entry.
fn is_plain(path: &str) -> bool {
    let name = |c: Component<'_>| matches!(c, Component::Normal(_));
    let sound = |b: u8| b.is_ascii_graphic() && b != b'\\';
    !path.is_empty() && Path::new(path).components().all(name) && path.bytes().all(sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(secret: &Secret) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        for (name, text) in [
            ("bzImage", "an image\n"),
            ("sub/meta", ""),
            ("MANIFEST", "x"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let entries = [("kernel", "k1", dir.path().to_owned())];
        write("n1", &entries, secret).unwrap()
    }

    #[test]
    fn what_was_packed_comes_out() {
        for secret in [Secret::new(None), Secret::new(Some("s"))] {
            let bytes = packed(&secret);
            let entries = read(&bytes, "n1", &secret).unwrap();
            let files: Vec<(PathBuf, &[u8])> =
                vec![("bzImage".into(), b"an image\n"), ("sub/meta".into(), b"")];
            let (kind, key) = ("kernel", "k1");
            assert_eq!(entries, [Entry { kind, key, files }]);
        }
    }

    #[test]
    fn no_byte_can_be_changed_or_left_out() {
        let none = Secret::new(None);
        let good = packed(&none);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(read(&bad, "n1", &none).is_err(), "byte {at}");
            assert!(read(&good[..at], "n1", &none).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_foreign_pack_is_told_from_an_altered_one() {
        let (none, ours, theirs) = (
            Secret::new(None),
            Secret::new(Some("ours")),
            Secret::new(Some("theirs")),
        );
        let why = |bytes: &[u8], name: &str, secret: &Secret| {
            read(bytes, name, secret).unwrap_err().to_string()
        };
        assert_eq!(why(&packed(&none), "n2", &none), "it is of n1, not of n2");
        assert_eq!(
            why(&packed(&none), "n1", &ours),
            "it was made without the secret that is asked for here"
        );
        assert_eq!(
            why(&packed(&theirs), "n1", &ours),
            "it was altered, or made with another secret"
        );
        assert_eq!(
            why(&packed(&theirs), "n1", &none),
            "it was altered, or made with a secret"
        );
    }

    /// With a proof that fits: what a writer without manners may put there.
    #[test]
    fn a_pack_writes_nowhere_but_into_its_entries() {
        let none = Secret::new(None);
        for bad in [
            "file 0 a\n",
            "entry kernel k\nfile 0 ../a\n",
            "entry kernel k\nfile 0 /a\n",
            "entry kernel k\nfile 9 a\n",
            "entry kernel k\nfile x a\n",
            "entry kernel ../k\n",
            "entry ../kernel k\n",
            "entry kernel\n",
            "link a b\n",
            "entry kernel k",
        ] {
            let mut bytes = format!("{MAGIC} n1\n{bad}").into_bytes();
            let proof = none.proof(&bytes);
            bytes.extend(format!("end {proof}\n").bytes());
            assert!(read(&bytes, "n1", &none).is_err(), "{bad}");
        }
    }
}
