// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real repositories, made by the tests.

use std::{cell::Cell, collections::BTreeMap, fs};

use tempfile::TempDir;

use super::*;
use crate::core::{
    fault::exit_of,
    scenario::{Clock, Metric},
    search::{
        Ended, Patience, Question, Seen, Sought, Step, Symptom, Tested, Tester, Threshold, search,
    },
};

/// A repository `linux/` and a cache.
struct Lab {
    dir: TempDir,
    cache: Cache,
}

impl Lab {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let lab = Self {
            cache: Cache::at(&dir.path().join("cache")).unwrap(),
            dir,
        };
        fs::create_dir(lab.tree()).unwrap();
        lab.git(&["init", "--quiet", "--initial-branch=main"]);
        lab
    }
    fn tree(&self) -> PathBuf {
        self.dir.path().join("linux")
    }
    fn git(&self, args: &[&str]) -> String {
        ask(&self.tree(), &args.join(" "), args).unwrap()
    }
    fn write(&self, name: &str, text: &str) {
        fs::write(self.tree().join(name), text).unwrap();
    }
    fn commit(&self, name: &str, text: &str) -> String {
        self.write(name, text);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", &format!("{name}: {text}")]);
        self.git(&["rev-parse", "HEAD"])
    }
    fn history(&self, at: &str) -> History {
        History::open(&self.cache, &self.tree(), at, &|_| {}).unwrap()
    }
    /// Everything of the user's that must stay: refs, index, files.
    fn state(&self) -> String {
        let refs = self.git(&["for-each-ref"]);
        let head = fs::read_to_string(self.tree().join(".git/HEAD")).unwrap();
        let status = self.git(&["status", "--porcelain"]);
        let diff = self.git(&["diff", "HEAD"]);
        format!("{refs}\n{head}\n{status}\n{diff}")
    }
}

/// A tester for which a place is slow where its `speed` says so.
struct Reader<'a> {
    history: &'a History,
    tested: BTreeMap<String, u32>,
    steps: Vec<Step>,
    checkouts: Cell<u32>,
}

impl<'a> Reader<'a> {
    fn new(history: &'a History) -> Self {
        Self {
            history,
            tested: BTreeMap::new(),
            steps: Vec::new(),
            checkouts: Cell::new(0),
        }
    }
}

impl Tester for Reader<'_> {
    fn boot(&mut self, place: &str, boots: u32) -> Result<Tested> {
        self.tested.insert(place.to_owned(), boots);
        self.history.check_out(place)?;
        self.checkouts.set(self.checkouts.get() + 1);
        let read = |name: &str| {
            let text = fs::read_to_string(self.history.folder().join(name));
            text.unwrap_or_default()
        };
        if read("build-state").contains("broken") {
            return Ok(Tested::NotBuilt("error: broken".into()));
        }
        let seen = match (read("boot-state").as_str(), read("speed").trim()) {
            ("dead", _) => Seen::Nothing("panic: dead".into()),
            (_, speed) => Seen::Value(speed.parse::<u64>()?),
        };
        Ok(Tested::Booted(vec![seen; boots as usize]))
    }
    fn judged(&mut self, step: &Step) -> Result<()> {
        self.steps.push(step.clone());
        Ok(())
    }
}

fn question(sought: Sought) -> Question {
    Question {
        symptom: Symptom::Slow(Metric::DeviceShutdown, Threshold::Halfway),
        sought,
        clock: Clock::Virtual,
        patience: Patience::by(Clock::Virtual),
    }
}

const SLOW: u64 = 1_030_000_000;
const FAST: u64 = 1_000_000_000;

fn usage_error<T: std::fmt::Debug>(result: Result<T>, want: &[&str]) {
    let error = result.unwrap_err();
    let text = format!("{error:#}");
    assert_eq!(exit_of(&error), Exit::Usage, "{text}");
    for want in want {
        assert!(text.contains(want), "{want}: {text}");
    }
}

/// 200 commits: one makes it slow, one changes a comment, some do not build or boot.
#[test]
fn the_commit_is_found_and_the_user_sees_nothing() {
    let lab = Lab::new();
    let mut ids = vec![lab.commit("speed", &FAST.to_string())];
    for n in 1..200 {
        ids.push(match n {
            120 => lab.commit("speed", &SLOW.to_string()),
            60 => lab.commit("comment", "/* nothing */"),
            // On the way that halving takes.
            149 => lab.commit("build-state", "broken"),
            150 => lab.commit("build-state", "whole"),
            112 => lab.commit("boot-state", "dead"),
            113 => lab.commit("boot-state", "alive"),
            _ => lab.commit("other", &n.to_string()),
        });
    }
    // The user is amid something of their own.
    lab.write("other", "not committed");
    lab.write("new-file", "not known");
    let before = lab.state();
    let old = ids[0].clone();
    let new = ids[199].clone();
    let count = distance(&lab.tree(), [&old, &new], ["a", "b"], "").unwrap();
    assert_eq!(count, 199);
    assert_eq!(uncommitted(&lab.tree()).unwrap(), 1);
    let history = lab.history(&new);
    let log = lab.dir.path().join("bisect.log");
    let ends = [old.clone(), new.clone()];
    let begin =
        || Commits::begin(&history, ends.clone(), count, Sought::Symptom, log.clone()).unwrap();
    let mut reader = Reader::new(&history);
    let ended = search(&mut begin(), &mut reader, &question(Sought::Symptom)).unwrap();
    assert_eq!(ended, Ended::Found(ids[120].clone(), None));
    // Both ends, eight to halve 199, and one for the commit that does not build: its neighbour
    // halves as well, so none far away is tested in its place.
    assert!(reader.tested.len() <= 2 + 8 + 1, "{}", reader.tested.len());
    let place = |step: &Step| ids.iter().position(|id| *id == step.place).unwrap();
    let at = reader.steps.iter().position(|s| place(s) == 149).unwrap();
    assert_eq!(place(&reader.steps[at + 1]), 150);
    // What was left by a search that was killed is no obstacle, and the way is the same.
    let mut half = begin();
    let first = match crate::core::search::Line::next(&mut half).unwrap() {
        crate::core::search::Next::Test(id) => id,
        other => panic!("{other:?}"),
    };
    assert_eq!(first, reader.steps[2].place);
    let mut again = Reader::new(&history);
    let ended = search(&mut begin(), &mut again, &question(Sought::Symptom)).unwrap();
    assert_eq!(ended, Ended::Found(ids[120].clone(), None));
    assert_eq!(again.steps, reader.steps);
    // The proof by reverting: a commit that no ref names.
    let culprit = describe(&lab.tree(), &ids[120]).unwrap();
    assert_eq!(culprit.subject, format!("speed: {SLOW}"));
    assert!(culprit.stat.contains("speed"), "{}", culprit.stat);
    let without = history.without(&culprit, &new).unwrap().unwrap();
    history.check_out(&without).unwrap();
    let speed = fs::read_to_string(history.folder().join("speed")).unwrap();
    assert_eq!(speed, FAST.to_string());
    assert_eq!(
        history.without(&culprit, &new).unwrap().unwrap(),
        without,
        "the same each time"
    );
    assert_eq!(lab.state(), before);
    assert!(!lab.tree().join(".git/BISECT_LOG").exists());
    // git's log does it again in another clone.
    let clone = lab.dir.path().join("clone");
    lab.git(&[
        "clone",
        "--quiet",
        lab.tree().to_str().unwrap(),
        clone.to_str().unwrap(),
    ]);
    ask(
        &clone,
        "replay",
        &["bisect", "replay", log.to_str().unwrap()],
    )
    .unwrap();
    let said = ask(&clone, "log", &["bisect", "log"]).unwrap();
    assert!(
        said.contains(&format!("# first bad commit: [{}]", ids[120])),
        "{said}"
    );
}

/// As git does it: what a merge brought is searched on the side branch; a merge whose parents
/// are both well is itself to blame.
#[test]
fn merges_are_searched_as_git_does() {
    for in_merge in [false, true] {
        let lab = Lab::new();
        let old = lab.commit("speed", &FAST.to_string());
        lab.git(&["checkout", "--quiet", "-b", "side"]);
        let mut culprit = String::new();
        for n in 0..6 {
            match n == 3 && !in_merge {
                true => culprit = lab.commit("speed", &SLOW.to_string()),
                false => drop(lab.commit("side", &n.to_string())),
            }
        }
        lab.git(&["checkout", "--quiet", "main"]);
        for n in 0..6 {
            lab.commit("main", &n.to_string());
        }
        lab.git(&["merge", "--quiet", "--no-ff", "--no-commit", "side"]);
        if in_merge {
            lab.write("speed", &SLOW.to_string());
            lab.git(&["add", "."]);
        }
        lab.git(&["commit", "--quiet", "-m", "merge"]);
        if in_merge {
            culprit = lab.git(&["rev-parse", "HEAD"]);
        }
        let new = lab.commit("main", "last");
        let count = distance(&lab.tree(), [&old, &new], ["a", "b"], "").unwrap();
        let history = lab.history(&new);
        let log = lab.dir.path().join("bisect.log");
        let ends = [old, new.clone()];
        let mut line = Commits::begin(&history, ends, count, Sought::Symptom, log).unwrap();
        let mut reader = Reader::new(&history);
        let ended = search(&mut line, &mut reader, &question(Sought::Symptom)).unwrap();
        assert_eq!(ended, Ended::Found(culprit.clone(), None));
        let described = describe(&lab.tree(), &culprit).unwrap();
        assert_eq!(described.parents.len(), 1 + usize::from(in_merge));
        let without = history.without(&described, &new).unwrap().unwrap();
        history.check_out(&without).unwrap();
        let speed = fs::read_to_string(history.folder().join("speed")).unwrap();
        assert_eq!(speed, FAST.to_string());
    }
}

#[test]
fn a_fix_is_found_and_skipped_commits_are_told() {
    let lab = Lab::new();
    let mut ids = vec![lab.commit("speed", &SLOW.to_string())];
    ids.push(lab.commit("build-state", "broken"));
    ids.push(lab.commit("speed", &FAST.to_string()));
    ids.push(lab.commit("build-state", "whole"));
    ids.push(lab.commit("other", "x"));
    let history = lab.history(&ids[4]);
    let search_from = |old: usize| {
        let ends = [ids[old].clone(), ids[4].clone()];
        let log = lab.dir.path().join("bisect.log");
        let mut line = Commits::begin(&history, ends, 4, Sought::Fix, log).unwrap();
        search(
            &mut line,
            &mut Reader::new(&history),
            &question(Sought::Fix),
        )
        .unwrap()
    };
    let Ended::OneOf(mut of) = search_from(0) else {
        panic!("three commits cannot be told apart");
    };
    of.sort();
    let mut want = ids[1..4].to_vec();
    want.sort();
    assert_eq!(of, want);
    lab.git(&["checkout", "--quiet", "--detach", &ids[0]]);
    ids[1] = lab.commit("speed", &FAST.to_string());
    ids[4] = lab.commit("other", "y");
    let ends = [ids[0].clone(), ids[4].clone()];
    let log = lab.dir.path().join("bisect.log");
    let mut line = Commits::begin(&history, ends, 2, Sought::Fix, log).unwrap();
    let ended = search(
        &mut line,
        &mut Reader::new(&history),
        &question(Sought::Fix),
    )
    .unwrap();
    assert_eq!(ended, Ended::Found(ids[1].clone(), None));
}

#[test]
fn a_revert_that_conflicts_is_said_to() {
    let lab = Lab::new();
    let _ = lab.commit("speed", "1");
    let culprit = lab.commit("speed", "2");
    let new = lab.commit("speed", "3");
    let history = lab.history(&new);
    let culprit = describe(&lab.tree(), &culprit).unwrap();
    let why = history.without(&culprit, &new).unwrap().unwrap_err();
    assert!(why.contains("conflict in speed"), "{why}");
    // The worktree is whole again.
    let status = ask(history.folder(), "status", &["status", "--porcelain"]).unwrap();
    assert_eq!(status, "");
    let undone = lab.commit("speed", "1");
    let why = history.without(&culprit, &undone).unwrap().unwrap_err();
    assert!(
        why.contains("nothing is left") || why.contains("conflict"),
        "{why}"
    );
}

#[test]
fn lines_that_are_none_are_refused_with_what_to_do() {
    let lab = Lab::new();
    let first = lab.commit("speed", "1");
    let second = lab.commit("speed", "2");
    let third = lab.commit("speed", "3");
    lab.git(&["checkout", "--quiet", "-b", "side", &first]);
    let side = lab.commit("other", "1");
    let tree = lab.tree();
    let of = |old: &str, new: &str| distance(&tree, [old, new], ["v1", "v2"], "add --fixed");
    assert_eq!(of(&first, &third).unwrap(), 2);
    usage_error(of(&third, &first), &["v1 comes after v2", "add --fixed"]);
    usage_error(of(&first, &first), &["are the same commit"]);
    usage_error(
        of(&second, &side),
        &["v1 is no ancestor of v2", "two branches", short(&first)],
    );
    usage_error(resolve(&tree, "nowhere"), &["has no commit `nowhere`"]);
    usage_error(resolve(&tree, "--all"), &["is no name of a commit"]);
    usage_error(check(lab.dir.path()), &["is no git repository"]);
    // A shallow clone.
    let shallow = lab.dir.path().join("shallow");
    let url = format!("file://{}", tree.display());
    lab.git(&["checkout", "--quiet", "main"]);
    lab.git(&[
        "clone",
        "--quiet",
        "--depth=2",
        &url,
        shallow.to_str().unwrap(),
    ]);
    usage_error(
        resolve(&shallow, &first),
        &["has no commit", "shallow clone", "git fetch --unshallow"],
    );
    assert_eq!(
        distance(&shallow, [&second, &third], ["v1", "v2"], "").unwrap(),
        1,
        "what is there can be searched"
    );
    ask(
        &shallow,
        "fetch",
        &["fetch", "--quiet", "--depth=1", &url, "side"],
    )
    .unwrap();
    usage_error(
        distance(&shallow, [&second, &side], ["v1", "v2"], ""),
        &["shallow clone", "git fetch --unshallow"],
    );
}

#[test]
fn what_is_not_committed_can_be_judged() {
    let lab = Lab::new();
    let head = lab.commit("speed", "1");
    assert_eq!(snapshot(&lab.tree()).unwrap(), head);
    lab.write("speed", "2");
    let before = lab.state();
    let made = snapshot(&lab.tree()).unwrap();
    assert_ne!(made, head);
    assert_eq!(snapshot(&lab.tree()).unwrap(), made, "the same each time");
    assert_eq!(lab.state(), before);
    let history = lab.history(&made);
    let speed = fs::read_to_string(history.folder().join("speed")).unwrap();
    assert_eq!(speed, "2");
}

/// Whatever a step did to it, the next one begins with its commit and the output.
#[test]
fn the_worktree_is_brought_back() {
    let lab = Lab::new();
    lab.write(".gitignore", "*.o\n");
    let first = lab.commit("speed", "1");
    let second = lab.commit("speed", "2");
    let hooked = lab.dir.path().join("hooked");
    let hook = lab.tree().join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", hooked.display())).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    {
        let history = lab.history(&first);
        let at = |name: &str| history.folder().join(name);
        fs::create_dir(at("build")).unwrap();
        fs::write(at("build/a.o"), "object").unwrap();
        fs::write(at("speed"), "patched").unwrap();
        fs::write(at("patched-in"), "new").unwrap();
        fs::write(at("ignored.o"), "new").unwrap();
        fs::write(history.note(), "built").unwrap();
        history.check_out(&second).unwrap();
        assert!(!history.note().exists());
        assert_eq!(fs::read_to_string(at("speed")).unwrap(), "2");
        assert!(
            at("build/a.o").exists() && !at("patched-in").exists() && !at("ignored.o").exists()
        );
    }
    assert!(!hooked.exists(), "the user's hooks are not run");
    // A git that was killed leaves its locks.
    let own = lab.tree().join(".git/worktrees/tree");
    fs::write(own.join("index.lock"), "").unwrap();
    lab.history(&first).check_out(&first).unwrap();
    // The next search finds it; one whose folder was lost makes it anew.
    let folder = lab.history(&first).folder().to_owned();
    assert!(folder.join("build/a.o").exists());
    fs::remove_dir_all(&folder).unwrap();
    let history = lab.history(&first);
    assert_eq!(
        fs::read_to_string(history.folder().join("speed")).unwrap(),
        "1"
    );
}
