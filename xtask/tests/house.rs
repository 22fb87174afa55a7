// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that hold for every file of the repository.

#[path = "support/left_out.rs"]
mod left_out;

use std::{fs, path::Path, process::Command};

use left_out::left_out;

/// Every file that git tracks, by its path from the root. None where this is no checkout
/// (an unpacked archive), and then there is nothing to hold to.
fn tracked() -> Option<Vec<String>> {
    let root = root();
    if !root.join(".git").exists() {
        left_out("this is no checkout, and what is tracked is not known");
        return None;
    }
    let listing = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(&root)
        .output()
        .expect("git is needed anyway");
    assert!(
        listing.status.success(),
        "{}",
        String::from_utf8_lossy(&listing.stderr)
    );
    let names: Vec<String> = String::from_utf8(listing.stdout)
        .unwrap()
        .split_terminator('\0')
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 20, "only {} files are tracked", names.len());
    // A file that is about to be deleted is not there any more.
    Some(
        names
            .into_iter()
            .filter(|n| root.join(n).is_file())
            .collect(),
    )
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn read(name: &str) -> String {
    String::from_utf8_lossy(&fs::read(root().join(name)).unwrap()).into_owned()
}

/// What a file's kind says about its licence; `None`: it carries no line of its own.
fn licence(name: &str) -> Option<&'static str> {
    const OURS: &str = "MIT OR Apache-2.0";
    const KERNEL: &str = "GPL-2.0-only";
    const PLUGIN: &str = "GPL-2.0-or-later";
    let last = name.rsplit('/').next().unwrap_or(name);
    let kernel = name.starts_with("guest-drivers/")
        || last.ends_with(".config")
        || name.starts_with("images/kernels/patches/")
        || last.ends_with(".patch")
        || last == "series";
    match last {
        _ if name.starts_with("LICENSES/") || name.starts_with("results/baselines/") => None,
        "Cargo.lock" | ".gitignore" | ".gitattributes" => None,
        // It becomes a part of QEMU.
        _ if name.starts_with("tracer/") => Some(PLUGIN),
        _ if name.contains("/proptest-regressions/") || name.contains(".trycmd/") => None,
        _ if last.ends_with(".json")
            || last.ends_with(".csv")
            || last.ends_with(".svg")
            || last.ends_with(".stdout") =>
        {
            None
        }
        _ if last.ends_with(".md") && kernel => Some(OURS),
        _ if last.ends_with(".c") || last.ends_with(".h") || kernel => Some(KERNEL),
        _ if [".rs", ".toml", ".yaml", ".yml", ".md", ".sh", ".js", ".css"]
            .iter()
            .any(|e| last.ends_with(e))
            || name.starts_with(".ci/") =>
        {
            Some(OURS)
        }
        _ => None,
    }
}

/// Whether one of the first lines is the licence's. A script's first is its interpreter's,
/// and a patch begins with its subject.
fn carries(text: &str, licence: &str) -> bool {
    let line = format!("SPDX-License-Identifier: {licence}");
    text.lines().take(12).any(|l| {
        l.trim_end_matches("-->")
            .trim_end_matches("*/")
            .trim()
            .ends_with(&line)
    })
}

/// The first path of some developer's machine in `text`, as a whole word's beginning.
fn private_path(text: &str) -> Option<&str> {
    // Put together so that this file does not hold what it looks for.
    let roots = ["home", "root", "work", "Users"].map(|d| format!("/{d}/"));
    let found = roots
        .iter()
        .flat_map(|r| text.match_indices(r.as_str()))
        .find(|(at, _)| {
            // `docs/root/x` and `https://host/home/` are no absolute paths of a machine.
            !text[..*at].ends_with(|c: char| c.is_alphanumeric() || "._-/~}$)".contains(c))
        })?;
    text[found.0..].split_whitespace().next()
}

#[test]
fn every_source_file_names_its_licence() {
    let Some(files) = tracked() else { return };
    let wrong: Vec<_> = files
        .iter()
        .filter_map(|f| Some((f, licence(f)?)))
        .filter(|(f, l)| !carries(&read(f), l))
        .collect();
    assert!(wrong.is_empty(), "without their SPDX line: {wrong:#?}");
}

#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    let Some(files) = tracked() else { return };
    let named: Vec<_> = files
        .iter()
        .filter_map(|f| Some((f, private_path(&read(f))?.to_owned())))
        .collect();
    assert!(named.is_empty(), "machine paths: {named:#?}");
}

#[test]
fn the_checks_can_fail() {
    assert!(carries(
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n",
        "MIT OR Apache-2.0"
    ));
    assert!(carries(
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n",
        "MIT OR Apache-2.0"
    ));
    assert!(!carries(
        "// SPDX-License-Identifier: MIT\n",
        "MIT OR Apache-2.0"
    ));
    assert!(!carries(
        &format!("{}// SPDX-License-Identifier: MIT\n", "\n".repeat(20)),
        "MIT"
    ));
    for script in [".ci/run", ".ci/nightly", ".ci/below/any"] {
        assert_eq!(licence(script), Some("MIT OR Apache-2.0"), "{script}");
    }
    assert_eq!(licence("guest-drivers/marks.c"), Some("GPL-2.0-only"));
    assert_eq!(licence("xtask/src/lib.rs"), Some("MIT OR Apache-2.0"));
    assert_eq!(licence("tracer/src/lib.rs"), Some("GPL-2.0-or-later"));
    assert_eq!(licence("xtask/tests/x/0001-x.patch"), Some("GPL-2.0-only"));
    let path = |dir: &str| format!("see {}{dir}/x/y for it", '/');
    assert!(private_path(&path("home")).is_some() && private_path(&path("root")).is_some());
    assert!(
        private_path(&format!(
            "https://a.example{}",
            path("home").split(' ').nth(1).unwrap()
        ))
        .is_none()
    );
    assert!(private_path("the root / of it").is_none());
}
