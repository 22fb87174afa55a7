// SPDX-License-Identifier: MIT OR Apache-2.0
//! From unpacked packages to an archive: one `/usr`, nothing that no guest reads, and the
//! few files that programs of the packages would have made when they were installed.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, Result, ensure};

use super::{super::Archive, recipe::Recipe};

/// Folders of the root that are a part of /usr.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// What no guest reads; of the hardware's names only their sources are in a package, the
/// database is made where it is installed.
const LEFT_OUT: [&str; 17] = [
    "etc/udev/hwdb.d",
    "usr/include",
    "usr/lib/udev/hwdb.d",
    // Plugins for security tokens, with libraries of their own.
    "usr/lib/x86_64-linux-gnu/cryptsetup",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/doc-base",
    "usr/share/i18n",
    "usr/share/info",
    "usr/share/initramfs-tools",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/pkgconfig",
    "usr/share/zsh",
];

/// Adds what is below the folder `unpacked`; of it only `only`, where that is given.
///
/// # Errors
/// When two packages have the same file, when one that `only` asks for is not there, when it
/// cannot be read.
pub fn add(archive: &mut Archive, unpacked: &Path, only: Option<&Vec<String>>) -> Result<()> {
    let mut taken = 0;
    let mut take = |path: &str, place: &Path, kind: fs::FileType| -> Result<()> {
        let path = merged(path);
        if is_left_out(&path) {
            return Ok(());
        }
        if only.is_some_and(|only| !only.contains(&path)) {
            return Ok(());
        }
        taken += 1;
        if kind.is_symlink() {
            let target = fs::read_link(place)?;
            let target = target.to_str().context("a link's target is no text")?;
            archive.link(&path, target)?;
        } else if kind.is_dir() {
            archive.folder(&path)?;
        } else {
            let mode = place.metadata()?.permissions().mode();
            // As packed, but for who may write: what unpacks them has a mask of its own.
            let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
            archive.file(&path, mode, fs::read(place)?)?;
        }
        Ok(())
    };
    walk(unpacked, "", &mut take)?;
    let wanted = only.map_or(0, Vec::len);
    ensure!(
        only.is_none() || taken == wanted,
        "it has {taken} of the {wanted} files asked for: {}",
        only.map_or(String::new(), |o| o.join(", "))
    );
    Ok(())
}

/// Adds what every image has.
///
/// # Errors
/// When a package has one of these.
pub fn finish(archive: &mut Archive, recipe: &Recipe) -> Result<()> {
    for name in MERGED {
        archive.link(name, &format!("usr/{name}"))?;
    }
    for folder in [
        "dev", "proc", "root", "run", "sys", "tmp", "var/lib", "var/tmp",
    ] {
        archive.folder(folder)?;
    }
    archive.link("var/run", "/run")?;
    let mut users = String::from("root:x:0:0:root:/root:/bin/sh\n");
    let mut groups = String::from("root:x:0:\n");
    let nobody = ("nobody".to_owned(), 65534);
    for (user, id) in recipe.users.iter().chain([(&nobody.0, &nobody.1)]) {
        users += &format!("{user}:x:{id}:{id}:{user}:/nonexistent:/usr/sbin/nologin\n");
    }
    let nogroup = ("nogroup".to_owned(), 65534);
    let all = recipe.groups.iter().chain(&recipe.users);
    for (group, id) in all.chain([(&nogroup.0, &nogroup.1)]) {
        groups += &format!("{group}:x:{id}:\n");
    }
    archive.file("etc/passwd", 0o644, users)?;
    archive.file("etc/group", 0o644, groups)?;
    for (path, text) in &recipe.files {
        archive.file(path, 0o644, text.as_bytes())?;
    }
    for (path, target) in &recipe.links {
        archive.link(path, target)?;
    }
    Ok(())
}

/// Everything below `dir`, whose path in the archive is `at`, folders before what is in them.
fn walk(
    dir: &Path,
    at: &str,
    take: &mut dyn FnMut(&str, &Path, fs::FileType) -> Result<()>,
) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().context("a file's name is no text")?;
        let path = if at.is_empty() {
            name.to_owned()
        } else {
            format!("{at}/{name}")
        };
        let kind = entry.file_type()?;
        take(&path, &entry.path(), kind)?;
        if kind.is_dir() {
            walk(&entry.path(), &path, take)?;
        }
    }
    Ok(())
}

/// The path below a merged /usr.
fn merged(path: &str) -> String {
    let top = path.split('/').next().unwrap_or(path);
    if MERGED.contains(&top) {
        format!("usr/{path}")
    } else {
        path.to_owned()
    }
}

fn is_left_out(path: &str) -> bool {
    LEFT_OUT.iter().any(|folder| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn package(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text.strip_prefix("-> ") {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, text).unwrap(),
            }
        }
        dir
    }

    #[test]
    fn there_is_one_usr_and_nothing_that_no_guest_reads() {
        let one = package(&[
            ("lib/systemd/systemd-udevd", "-> /bin/udevadm"),
            ("bin/udevadm", "program"),
            ("usr/share/doc/udev/copyright", "text"),
            ("usr/share/docs", "no documentation"),
        ]);
        let program = one.path().join("bin/udevadm");
        fs::set_permissions(program, fs::Permissions::from_mode(0o4775)).unwrap();
        let two = package(&[("usr/bin/uname", "u"), ("usr/bin/ls", "l")]);
        let built = || {
            let mut archive = Archive::new();
            add(&mut archive, one.path(), None).unwrap();
            add(
                &mut archive,
                two.path(),
                Some(&vec!["usr/bin/uname".into()]),
            )
            .unwrap();
            let recipe = Recipe {
                archives: vec![],
                packages: vec![],
                parts: Default::default(),
                users: [("messagebus".to_owned(), 101)].into(),
                groups: [("tty".to_owned(), 5)].into(),
                files: [("etc/machine-id".to_owned(), "1\n".to_owned())].into(),
                links: [("etc/x/y".to_owned(), "/usr/y".to_owned())].into(),
            };
            finish(&mut archive, &recipe).unwrap();
            archive
        };
        let archive = built();
        let entry = |path: &str| archive.entries.get(path);
        assert_eq!(entry("usr/bin/udevadm").unwrap().mode, 0o100_755);
        assert_eq!(
            entry("usr/lib/systemd/systemd-udevd").unwrap().bytes,
            b"/bin/udevadm"
        );
        assert_eq!(
            entry("usr/lib/systemd/systemd-udevd").unwrap().mode,
            0o120_777
        );
        assert_eq!(entry("bin").unwrap().bytes, b"usr/bin");
        assert!(entry("usr/share/docs").is_some() && entry("usr/share/doc").is_none());
        assert!(entry("usr/bin/uname").is_some() && entry("usr/bin/ls").is_none());
        let groups = String::from_utf8_lossy(&entry("etc/group").unwrap().bytes);
        assert_eq!(
            groups,
            "root:x:0:\ntty:x:5:\nmessagebus:x:101:\nnogroup:x:65534:\n"
        );
        assert_eq!(entry("etc/machine-id").unwrap().bytes, b"1\n");
        assert_eq!(entry("etc/x/y").unwrap().bytes, b"/usr/y");
        assert_eq!(archive.to_bytes(), built().to_bytes());
    }

    #[test]
    fn what_is_not_in_a_package_or_in_two_is_an_error() {
        let one = package(&[("usr/bin/uname", "u")]);
        let two = package(&[("bin/uname", "other")]);
        let mut archive = Archive::new();
        let wanted = vec!["usr/bin/arch".to_owned()];
        let error = add(&mut archive, one.path(), Some(&wanted)).unwrap_err();
        assert!(error.to_string().contains("usr/bin/arch"), "{error}");
        add(&mut archive, one.path(), None).unwrap();
        let error = add(&mut archive, two.path(), None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("usr/bin/uname is in the initramfs already"),
            "{error}"
        );
    }
}
