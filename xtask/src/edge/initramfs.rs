// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's initramfs: a deterministic cpio archive ("newc"), and PID 1 for it
//! ([`init_binary`]).
//!
//! Not compressed: unpacking would cost the guest more than reading does. Times and owners
//! are zero and inode numbers count up, so equal contents are equal bytes.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

mod init;
pub mod userspace;

pub use init::init_binary;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_000;
const LINK: u32 = 0o120_000;

/// Files for an initramfs. Parents are made by themselves; /dev/console is always there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Type and permission bits.
    mode: u32,
    /// Contents; of a link, where it leads.
    bytes: Vec<u8>,
    /// Major and minor number of a device node.
    device: (u32, u32),
}

impl Entry {
    fn folder() -> Self {
        Self {
            mode: DIRECTORY | 0o755,
            bytes: Vec::new(),
            device: (0, 0),
        }
    }
}

impl Archive {
    /// An archive that holds only /dev/console, which the kernel opens for PID 1.
    pub fn new() -> Self {
        let mut archive = Self::default();
        let console = Entry {
            mode: CHARACTER | 0o600,
            bytes: Vec::new(),
            device: (5, 1),
        };
        archive
            .add("dev/console", console)
            .expect("an empty archive takes it");
        archive
    }

    /// Adds a file with these permission bits (0o755, 0o644).
    ///
    /// # Errors
    /// When the path is not plain and relative, or is taken by something else.
    pub fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Result<&mut Self> {
        let bytes = bytes.into();
        ensure!(
            u32::try_from(bytes.len()).is_ok(),
            "{path} is too large for an initramfs"
        );
        self.add(
            path,
            Entry {
                mode: REGULAR | mode & 0o7777,
                bytes,
                device: (0, 0),
            },
        )
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// As [`Archive::file`].
    pub fn link(&mut self, path: &str, target: &str) -> Result<&mut Self> {
        let link = Entry {
            mode: LINK | 0o777,
            bytes: target.into(),
            device: (0, 0),
        };
        self.add(path, link)
    }

    /// Adds a folder, which need not hold anything.
    ///
    /// # Errors
    /// As [`Archive::file`].
    pub fn folder(&mut self, path: &str) -> Result<&mut Self> {
        self.add(path, Entry::folder())
    }

    fn add(&mut self, path: &str, entry: Entry) -> Result<&mut Self> {
        let plain = path
            .split('/')
            .all(|c| !c.is_empty() && c != "." && c != "..");
        ensure!(
            plain && !path.contains('\0') && path.len() < 4096 && path != "TRAILER!!!",
            "`{path}` is no path for an initramfs: it must be relative and plain"
        );
        for (i, _) in path.match_indices('/') {
            let parent = path[..i].to_owned();
            let there = self.entries.entry(parent).or_insert_with(Entry::folder);
            ensure!(
                there.mode & 0o170_000 == DIRECTORY,
                "{path}: {} is no directory",
                &path[..i]
            );
        }
        match self.entries.get(path) {
            Some(there) if *there != entry => bail!("{path} is in the initramfs already"),
            _ => self.entries.insert(path.to_owned(), entry),
        };
        Ok(self)
    }

    /// The archive's bytes; equal contents give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.values().map(|e| e.bytes.len() + 256).sum());
        // Parents sort before what is in them.
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            record(&mut out, number as u32 + 1, path, entry);
        }
        record(
            &mut out,
            0,
            "TRAILER!!!",
            &Entry {
                mode: 0,
                bytes: Vec::new(),
                device: (0, 0),
            },
        );
        // Whole blocks, as cpio writes them.
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }
}

/// One newc record: header of hexadecimal fields, name and contents, each padded to 4 bytes.
fn record(out: &mut Vec<u8>, inode: u32, path: &str, entry: &Entry) {
    let links = if entry.mode & 0o170_000 == DIRECTORY {
        2
    } else {
        1
    };
    let (owner, group, time, device) = (0, 0, 0, 0);
    let fields = [
        inode,
        entry.mode,
        owner,
        group,
        links,
        time,
        entry.bytes.len() as u32,
        device,
        device,
        entry.device.0,
        entry.device.1,
        path.len() as u32 + 1,
        0,
    ];
    out.extend(b"070701");
    for field in fields {
        out.extend(format!("{field:08x}").bytes());
    }
    out.extend(path.bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(&entry.bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::MetadataExt,
        path::Path,
        process::{Command, Stdio},
    };

    use proptest::prelude::*;

    use super::*;

    /// Files of odd paths and sizes.
    fn contents() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        let name = "[a-z.+ é-]{1,9}".prop_filter("plain", |n| n != "." && n != "..");
        let path = prop::collection::vec(name, 1..4).prop_map(|p| p.join("/"));
        prop::collection::vec((path, prop::collection::vec(any::<u8>(), 0..70)), 0..12)
    }

    fn built(contents: &[(String, Vec<u8>)]) -> (Archive, Vec<(String, Vec<u8>)>) {
        let mut archive = Archive::new();
        let taken =
            |(path, bytes): &&(String, Vec<u8>)| archive.file(path, 0o640, bytes.clone()).is_ok();
        let kept = contents.iter().filter(taken).cloned().collect();
        (archive, kept)
    }

    fn cpio(args: &[&str], dir: &Path, archive: &Path) -> String {
        let out = Command::new("cpio")
            .args(args)
            .current_dir(dir)
            .stdin(fs::File::open(archive).unwrap())
            .stderr(Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "cpio {args:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        #[ignore = "needs the program cpio; `cargo xtask test` runs it where there is one"]
        fn cpio_finds_exactly_what_went_in(contents in contents()) {
            let (archive, kept) = built(&contents);
            prop_assert_eq!(archive.to_bytes(), built(&contents).0.to_bytes());
            let dir = tempfile::tempdir().unwrap();
            let (file, out) = (dir.path().join("a.cpio"), dir.path().join("out"));
            fs::create_dir(&out).unwrap();
            fs::write(&file, archive.to_bytes()).unwrap();
            let listed = cpio(&["--list", "--quiet"], &out, &file);
            prop_assert_eq!(listed.lines().collect::<Vec<_>>(), archive.entries.keys().collect::<Vec<_>>());
            // A device node takes root to make.
            cpio(&["--extract", "--quiet", "--nonmatching", "dev/console"], &out, &file);
            for (path, bytes) in &kept {
                let path = out.join(path);
                prop_assert_eq!(&fs::read(&path).unwrap(), bytes);
                prop_assert_eq!(path.symlink_metadata().unwrap().mode() & 0o7777, 0o640);
            }
        }

        #[test]
        fn order_of_adding_does_not_show(contents in contents()) {
            let (archive, kept) = built(&contents);
            let mut reversed = kept.clone();
            reversed.reverse();
            let (other, also) = built(&reversed);
            prop_assume!(also.len() == kept.len());
            prop_assert_eq!(archive.to_bytes(), other.to_bytes());
        }
    }

    #[test]
    fn the_console_is_a_device_and_odd_paths_are_refused() {
        let bytes = Archive::new().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("070701") && text.contains("dev/console\0"));
        // Mode, owners, links, time, size, device, node 5:1, name size.
        assert!(text.contains(
            "00002180000000000000000000000001000000000000000000000000000000000000000500000001"
        ));
        assert_eq!(bytes.len() % 512, 0);
        let mut archive = Archive::new();
        for bad in [
            "",
            "/etc/x",
            "a//b",
            "../x",
            "a/./b",
            "a/",
            "x\0y",
            "TRAILER!!!",
            "dev/console",
            "dev/console/x",
            "dev",
        ] {
            assert!(archive.file(bad, 0o644, "x").is_err(), "{bad:?}");
        }
        archive.file("same", 0o644, "x").unwrap();
        archive.file("same", 0o644, "x").unwrap();
        assert!(archive.file("same", 0o644, "y").is_err());
    }
}
