// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether every program of an image finds its libraries in it.

use std::collections::BTreeSet;

use object::{
    Endianness, elf,
    read::elf::{Dyn, ElfFile64, FileHeader},
};

use super::super::{Archive, REGULAR};

/// The first library that a program or library of the archive needs and that is not in it.
pub fn lacking(archive: &Archive) -> Option<String> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let there: BTreeSet<String> = archive.entries.keys().map(|p| last(p)).collect();
    archive
        .entries
        .iter()
        .filter(|(_, e)| e.mode & 0o170_000 == REGULAR)
        .find_map(|(path, entry)| {
            let mut needed = needed(&entry.bytes).unwrap_or_default().into_iter();
            let library = needed.find(|l| !there.contains(l))?;
            Some(format!(
                "/{path} needs {library}, which no package of the list has"
            ))
        })
}

/// The names of the libraries that a program is linked with; `None`: it is no ELF file.
fn needed(bytes: &[u8]) -> Option<Vec<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let names = entries
        .iter()
        .filter(|e| e.d_tag(endian) == elf::DT_NEEDED)
        .filter_map(|e| e.string(endian, strings).ok());
    Some(
        names
            .map(|n| String::from_utf8_lossy(n).into_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        // This test is a program, and has a C library.
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut libraries = needed(&program).unwrap();
        assert!(
            libraries.iter().any(|l| l.starts_with("libc.so")),
            "{libraries:?}"
        );
        let mut archive = Archive::new();
        archive.file("usr/bin/test", 0o755, program).unwrap();
        archive
            .file("usr/bin/script", 0o755, "#!/bin/sh\n")
            .unwrap();
        let lack = lacking(&archive).unwrap();
        assert!(lack.starts_with("/usr/bin/test needs lib"), "{lack}");
        for library in libraries.drain(..) {
            archive
                .file(&format!("usr/lib/{library}"), 0o644, "")
                .unwrap();
        }
        assert_eq!(lacking(&archive), None);
    }
}
