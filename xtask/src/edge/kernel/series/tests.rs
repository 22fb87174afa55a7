// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::core::{
    fault::{Exit, exit_of},
    scenario::is_foreign,
};

const DIFF: &str = "---\n a.c | 2 +-\n 1 file changed\n\ndiff --git a/drivers/a.c b/drivers/a.c\n--- a/drivers/a.c\n+++ b/drivers/a.c\n@@ -1,2 +1,2 @@\n x\n-y = 1\n+y = 2\n-- \n2.39\n";

fn mail(subject: &str, body: &str) -> String {
    format!(
        "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A Tester <tester@example.org>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nMessage-Id: <{subject}@example.org>\nSubject: {subject}\n\n{body}\n"
    )
}

struct Bench {
    dir: tempfile::TempDir,
    said: std::cell::RefCell<Vec<String>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            said: Default::default(),
        }
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
    fn cache(&self) -> Cache {
        Cache::at(&self.dir.path().join("cache")).unwrap()
    }
    fn import(&self, paths: &[PathBuf]) -> Result<String> {
        import(&self.cache(), paths, &|l| {
            self.said.borrow_mut().push(l.into())
        })
    }
    fn names(&self, paths: &[PathBuf]) -> Vec<String> {
        let series = self.import(paths).unwrap();
        assert!(is_foreign(&series));
        let patches = read(&self.cache(), &series, &|_| ()).unwrap();
        patches.into_iter().map(|p| p.name).collect()
    }
    fn refused(&self, paths: &[PathBuf]) -> String {
        let error = self.import(paths).unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage, "{error:#}");
        format!("{error:#}")
    }
    fn heard(&self, what: &str) -> bool {
        self.said.borrow().iter().any(|l| l.contains(what))
    }
}

/// A box as a mailing list's archive gives it: out of order, with a cover letter and an
/// answer that quotes and suggests.
#[test]
fn a_mailbox_is_taken_as_it_comes() {
    let bench = Bench::new();
    let text = [
        mail("[PATCH v2 2/2] base: second", &format!("Why two.\n{DIFF}")),
        mail(
            "[PATCH v2 0/2] base: a series",
            "The whole.\n\n a.c | 2 +-\n",
        ),
        mail(
            "Re: [PATCH v2 2/2] base: second",
            &format!("> Why two.\nRather:\n{DIFF}"),
        ),
        mail("[PATCH v2 1/2] base: first", &format!("Why one.\n{DIFF}")),
    ]
    .concat();
    let path = bench.file("async-v2.mbox", &text);
    assert_eq!(
        bench.names(std::slice::from_ref(&path)),
        ["0001-base-first.patch", "0002-base-second.patch"]
    );
    assert!(bench.import(&[path]).unwrap().starts_with("async-v2@"));
    assert!(bench.heard("an answer, left out: Re:"));
    assert!(bench.heard("a mail without a patch, left out: [PATCH v2 0/2]"));
}

#[test]
fn mails_are_decoded() {
    let bench = Bench::new();
    let body = format!("It=E2=80=99s why.\n{}", DIFF.replace('=', "=3D"));
    let text = mail("=?UTF-8?q?[PATCH]_base:_caf=C3=A9?=", &body).replace(
        "\n\nIt",
        "\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: quoted-printable\n\nIt",
    );
    let series = bench.import(&[bench.file("x.eml", &text)]).unwrap();
    let patches = read(&bench.cache(), &series, &|_| ()).unwrap();
    let text = String::from_utf8(patches[0].bytes.clone()).unwrap();
    assert!(
        text.contains("base: caf\u{e9}") && text.contains("It\u{2019}s why."),
        "{text}"
    );
    assert!(text.contains("\n+y = 2\n"), "{text}");
    assert_eq!(
        patches[0].files,
        BTreeSet::from([PathBuf::from("drivers/a.c")])
    );
}

#[test]
fn of_several_versions_the_newest_is_taken() {
    let bench = Bench::new();
    let text = [
        mail("[PATCH 1/1] base: old", DIFF),
        mail("[PATCH v3 1/1] base: new", DIFF),
    ]
    .concat();
    assert_eq!(
        bench.names(&[bench.file("x.mbox", &text)]),
        ["0001-base-new.patch"]
    );
    assert!(bench.heard("v3 is taken"));
}

#[test]
fn directories_and_plain_diffs_are_taken_too() {
    let bench = Bench::new();
    let (_, diff) = DIFF.split_once("diff --git").unwrap();
    let plain = format!("From nobody.\n\ndiff --git{diff}");
    bench.file("q/b.patch", &plain);
    bench.file("q/a.patch", &plain);
    bench.file("q/series", "b.patch\na.patch # after b\n");
    bench.file("q/README", "no patch");
    bench.file("d/2.patch", &mail("[PATCH] two", DIFF));
    bench.file("d/1.patch", &mail("[PATCH] one", DIFF));
    bench.file("d/notes.txt", "no patch");
    let at = |name: &str| bench.dir.path().join(name);
    assert_eq!(
        bench.names(&[at("q")]),
        ["0001-patch.patch", "0002-patch.patch"]
    );
    assert_eq!(
        bench.names(&[at("d")]),
        ["0001-one.patch", "0002-two.patch"]
    );
    // A folder is called what it is called: a version's dot begins no ending.
    bench.file("6.12/1.patch", &mail("[PATCH] one", DIFF));
    assert!(bench.import(&[at("6.12")]).unwrap().starts_with("6-12@"));
    // The order given is kept, and the same contents are the same series.
    let (two, one) = (at("d/2.patch"), at("d/1.patch"));
    assert_eq!(
        bench.names(&[two, one]),
        ["0001-two.patch", "0002-one.patch"]
    );
    assert_eq!(
        bench.import(&[at("d")]).unwrap(),
        bench.import(&[at("d")]).unwrap()
    );
}

#[test]
fn what_is_no_series_is_refused() {
    let bench = Bench::new();
    let gap = [
        mail("[PATCH 1/3] base: one", DIFF),
        mail("[PATCH 3/3] base: three", DIFF),
    ]
    .concat();
    let twice = [
        mail("[PATCH 1/1] base: one", DIFF),
        mail("[PATCH 1/1] base: other", DIFF),
    ]
    .concat();
    let mixed = [
        mail("[PATCH 1/1] base: one", DIFF),
        mail("[PATCH] base: loose", DIFF),
    ]
    .concat();
    let outside = DIFF.replace("drivers/a.c", "../../etc/passwd");
    for (text, want) in [
        ("", "there is no patch in"),
        ("just words\n", "there is no patch in"),
        (
            &mail("[PATCH 0/1] only a cover", "words"),
            "there is no patch in",
        ),
        (&gap, "patch 2 of 3 is missing"),
        (&twice, "are both patch 1 of 1"),
        (&mixed, "has no number, others of the series have"),
        (
            &mail("[PATCH] base: x", &outside),
            "is no file of the kernel",
        ),
    ] {
        let path = bench.file("x.mbox", text);
        let error = bench.refused(&[path]);
        assert!(error.contains(want), "{want}: {error}");
    }
    assert!(
        bench
            .refused(&[bench.dir.path().join("none.mbox")])
            .contains("none.mbox")
    );
    let gone = read(&bench.cache(), "x@0123456789abcdef", &|_| ()).unwrap_err();
    assert!(gone.to_string().contains("name its files with --series"));
}
