// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::core::fault::{Exit, exit_of};

/// A checkout with one series `s` for 6.1, of one patch.
fn checkout(patch: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join(DIR).join("s/6.1");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("series"), "# comment\none.patch # why\n").unwrap();
    fs::write(at.join("one.patch"), patch).unwrap();
    dir
}

const FILE: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const PATCH: &str = "Why.\n---\n drivers/a.c | 2 +-\n\n--- a/drivers/a.c\n+++ b/drivers/a.c\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n";

fn tried(patch: &str, file: &str) -> (Result<()>, String, Vec<String>) {
    let root = checkout(patch);
    let cache = Cache::at(&root.path().join("cache")).unwrap();
    let tree = root.path().join("tree");
    fs::create_dir_all(tree.join("drivers")).unwrap();
    fs::write(root.path().join("original"), file).unwrap();
    fs::hard_link(root.path().join("original"), tree.join("drivers/a.c")).unwrap();
    let said = std::cell::RefCell::new(Vec::new());
    let result = read(root.path(), "s", "6.1")
        .and_then(|p| apply(&cache, &p, &tree, &|s| said.borrow_mut().push(s.to_owned())));
    assert_eq!(
        fs::read_to_string(root.path().join("original")).unwrap(),
        file,
        "the shared original was written to"
    );
    (
        result,
        fs::read_to_string(tree.join("drivers/a.c")).unwrap(),
        said.into_inner(),
    )
}

#[test]
fn applies_without_touching_the_shared_original() {
    let (result, text, said) = tried(PATCH, FILE);
    result.unwrap();
    assert_eq!(text, FILE.replace('5', "five"));
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn an_offset_is_said_and_fuzz_refused() {
    let (result, _, said) = tried(PATCH, &format!("0\n0\n{FILE}"));
    result.unwrap();
    assert!(
        said.len() == 1
            && said[0].contains("one.patch: drivers/a.c: Hunk #1 succeeded at 6 (offset 2 lines)"),
        "{said:?}"
    );
    let (result, ..) = tried(PATCH, &FILE.replace('4', "four"));
    let error = result.unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage);
    let error = error.to_string();
    assert!(
        error.contains("s/6.1/one.patch does not apply: drivers/a.c:4: hunk 1"),
        "{error}"
    );
}

#[test]
fn a_patch_applied_before_or_to_nothing_is_refused() {
    let (result, ..) = tried(PATCH, &FILE.replace('5', "five"));
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("one.patch does not apply")
    );
    let (result, ..) = tried(&PATCH.replace("a.c", "b.c"), FILE);
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("does not apply")
            && error.contains("drivers/b.c: the kernel has no such file"),
        "{error}"
    );
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for (from, to) in [
        ("b/drivers/a.c", "b/../../etc/x"),
        ("a/drivers/a.c", "/etc/x"),
        ("b/drivers/a.c", "\"b/dri\\056.c\""),
        ("b/drivers/a.c", "b/.git/hooks/x"),
    ] {
        let root = checkout(&PATCH.replace(from, to));
        let error = read(root.path(), "s", "6.1").unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage);
        let error = error.to_string();
        assert!(
            error.contains("one.patch:5:") || error.contains("one.patch:6:"),
            "{error}"
        );
    }
    let root = checkout(PATCH);
    for bad in [
        "../one.patch",
        "/etc/passwd",
        "one.patch -p0",
        "missing.patch",
        "# none",
    ] {
        fs::write(
            root.path().join(DIR).join("s/6.1/series"),
            format!("\n{bad}\n"),
        )
        .unwrap();
        let error = read(root.path(), "s", "6.1").unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage, "{bad}");
        assert!(error.to_string().contains("s/6.1/series"), "{error}");
    }
    for bad in ["../s", "", "s/6.1", "/s"] {
        assert_eq!(
            exit_of(&read(root.path(), bad, "6.1").unwrap_err()),
            Exit::Usage,
            "{bad}"
        );
    }
}

#[test]
fn a_removed_line_that_looks_like_a_header_is_none() {
    let patch =
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- ../../etc/passwd\n+++ ../../etc/passwd\n x\n";
    assert_eq!(
        touched(patch.as_bytes()).unwrap(),
        BTreeSet::from([PathBuf::from("x")])
    );
}

#[test]
fn a_missing_series_or_version_names_those_there_are() {
    let root = checkout(PATCH);
    let error = read(root.path(), "t", "6.1").unwrap_err().to_string();
    assert!(
        error.contains("no patch series `t`") && error.ends_with("has s"),
        "{error}"
    );
    let error = read(root.path(), "s", "5.10").unwrap_err().to_string();
    assert!(
        error.contains("not made for 5.10; it is for 6.1"),
        "{error}"
    );
}

#[test]
fn a_file_that_the_kernel_lacks_is_named() {
    let said = "can't find file to patch at input line 3\nPerhaps you used the wrong -p or --strip option?\nThe text leading up to this was:\n--------------------------\n|--- a/drivers/base/none.c\t2024\n|+++ b/drivers/base/none.c\n--------------------------\nNo file to patch.  Skipping patch.\n1 out of 1 hunk ignored\n";
    assert_eq!(
        failures(said),
        ["drivers/base/none.c: the kernel has no such file"]
    );
    let bare = "can't find file to patch at input line 3\ncan't find file to patch at input line 9\n|--- a/x/y.c\n";
    assert_eq!(
        failures(bare),
        [
            "can't find file to patch at input line 3",
            "x/y.c: the kernel has no such file"
        ]
    );
}
