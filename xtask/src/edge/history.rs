// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history of a kernel in git: what lies between two commits, searched by `git bisect`
//! itself, in a worktree of its own.
//!
//! The user's worktree, index, branches and bisection stay as they are: refs of a bisection
//! belong to their worktree. What is added to the repository is the worktree's entry and, for
//! the proof by reverting, commits that no ref names.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

pub use self::commits::Commits;
use super::{
    cache::{Cache, Lock},
    files, process,
};
use crate::core::{
    fault::{Exit, Fault},
    need::not_installed,
};

mod commits;
#[cfg(test)]
mod tests;

/// Folders of the cache with a repository's worktree and its output.
const KIND: &str = "bisect";
const ASK_LIMIT: Duration = Duration::from_secs(120);
const CHECKOUT_LIMIT: Duration = Duration::from_secs(1800);
/// What is in a worktree and not in its commit, and stays.
const KEPT: &str = "/build";

/// A repository, and a worktree of it that nobody else uses.
#[derive(Debug)]
pub struct History {
    /// The user's folder.
    tree: PathBuf,
    /// Ours.
    work: PathBuf,
    /// Of whom it is.
    _lock: Lock,
}

/// What a commit says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name, 40 hex digits.
    pub id: String,
    /// Who wrote it, and when.
    pub author: String,
    /// Same.
    pub date: String,
    /// Its first line.
    pub subject: String,
    /// Its parents' names; the first is the branch that it was merged into.
    pub parents: Vec<String>,
    /// Files that it touches, with how much.
    pub stat: String,
}

fn usage(message: String) -> anyhow::Error {
    Fault::usage(message).into()
}

/// git, in `dir`. Neither the user's hooks nor what turns the contents of files may come in
/// between.
fn git(dir: &Path) -> Command {
    let mut git = process::tool("git");
    git.arg("-C").arg(dir);
    for setting in [
        "core.hooksPath=/dev/null",
        "core.autocrlf=false",
        "core.sparseCheckout=false",
        "core.fsmonitor=false",
        "advice.detachedHead=false",
        "gc.auto=0",
    ] {
        git.args(["-c", setting]);
    }
    git.env("GIT_TERMINAL_PROMPT", "0");
    // Commits that no ref names: the same each time.
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "bootrig")
            .env(format!("GIT_{who}_EMAIL"), "bootrig@localhost")
            .env(format!("GIT_{who}_DATE"), "@0 +0000");
    }
    git
}

fn ask<A: AsRef<OsStr>>(dir: &Path, what: &str, args: &[A]) -> Result<String> {
    let mut command = git(dir);
    command.args(args);
    Ok(process::read(what, command, ASK_LIMIT)?.trim().to_owned())
}

/// Whether git says yes to a question that it answers by its exit status.
fn says(dir: &Path, what: &str, args: &[&str]) -> Result<bool> {
    match ask(dir, what, args) {
        Ok(_) => Ok(true),
        Err(e) => match e.downcast_ref::<process::Failed>() {
            Some(failed) if failed.status.code() == Some(1) => Ok(false),
            _ => Err(e),
        },
    }
}

/// The commit that `rev` names in the repository `tree`.
///
/// # Errors
/// Usage: there is none.
pub fn resolve(tree: &Path, rev: &str) -> Result<String> {
    if rev.is_empty() || rev.starts_with('-') {
        return Err(usage(format!(
            "`{}` is no name of a commit, tag or branch",
            rev.escape_debug()
        )));
    }
    let args = [
        "rev-parse".to_owned(),
        "--verify".into(),
        "--quiet".into(),
        "--end-of-options".into(),
        format!("{rev}^{{commit}}"),
    ];
    match ask(tree, &format!("looking for {rev}"), &args) {
        Ok(id) => Ok(id),
        Err(e) if e.is::<process::Failed>() => Err(usage(format!(
            "{} has no commit `{}`{}",
            tree.display(),
            rev.escape_debug(),
            match is_shallow(tree)? {
                true =>
                    ": it is a shallow clone; `git fetch --unshallow` gets the rest of its history",
                false => "",
            }
        ))),
        Err(e) => Err(e),
    }
}

fn is_shallow(tree: &Path) -> Result<bool> {
    let args = ["rev-parse", "--is-shallow-repository"];
    Ok(ask(tree, "asking whether the history is whole", &args)? == "true")
}

/// Checks that `tree` is a repository with a kernel in it.
///
/// # Errors
/// Usage: it is none, or git is not there.
pub fn check(tree: &Path) -> Result<()> {
    if process::which("git").is_none() {
        return Err(Fault {
            exit: Exit::Infrastructure,
            message: not_installed("git"),
        }
        .into());
    }
    match ask(
        tree,
        "asking for the repository",
        &["rev-parse", "--git-dir"],
    ) {
        Ok(_) => Ok(()),
        Err(e) if e.is::<process::Failed>() => Err(usage(format!(
            "{} is no git repository: {e:#}",
            tree.display()
        ))),
        Err(e) => Err(e),
    }
}

/// Checks that there is a line from `old` to `new` to be searched, and returns how many commits
/// it has beyond `old`. `asked` is what the user calls the two; `offer`, what to do where they
/// are the other way around.
///
/// # Errors
/// Usage: they are the same, the other way around, not of one line, or the line is cut.
pub fn distance(
    tree: &Path,
    [old, new]: [&str; 2],
    asked: [&str; 2],
    offer: &str,
) -> Result<usize> {
    let ancestor = |of: &str, to: &str| {
        let args = ["merge-base", "--is-ancestor", of, to];
        says(
            tree,
            &format!("asking whether {to} comes after {of}"),
            &args,
        )
    };
    let [old_asked, new_asked] = asked;
    if old == new {
        return Err(usage(format!(
            "{old_asked} and {new_asked} are the same commit ({}): there is nothing between them",
            short(old)
        )));
    }
    if ancestor(old, new)? {
        let range = format!("{old}..{new}");
        let count = ask(tree, "counting commits", &["rev-list", "--count", &range])?;
        let count = count.parse().context("git counts commits")?;
        if is_shallow(tree)? {
            cut(tree, &range)?;
        }
        return Ok(count);
    }
    if ancestor(new, old)? {
        return Err(usage(format!(
            "{old_asked} comes after {new_asked}: {offer}"
        )));
    }
    let base = ask(
        tree,
        "looking for a common commit",
        &["merge-base", old, new],
    );
    let shallow = is_shallow(tree)?;
    Err(usage(match base {
        Ok(base) => format!(
            "{old_asked} is no ancestor of {new_asked}: they are of two branches, which part at \
             {}; search {new_asked}'s own branch from there ({}), or name an end on it",
            short(&base),
            short(&base)
        ),
        Err(_) if shallow => format!(
            "{} is a shallow clone that does not reach from {new_asked} back to {old_asked}: \
             `git fetch --unshallow` gets the rest of its history",
            tree.display()
        ),
        Err(_) => format!("{old_asked} and {new_asked} have no history in common"),
    }))
}

/// A shallow clone looks as if its oldest commits had no parents.
fn cut(tree: &Path, range: &str) -> Result<()> {
    let args = ["rev-list", "--max-parents=0", range];
    let roots = ask(tree, "looking for where the history is cut", &args)?;
    match roots.lines().next() {
        None => Ok(()),
        Some(root) => Err(usage(format!(
            "{} is a shallow clone, whose history is cut at {} between the ends: `git fetch \
             --unshallow` gets the rest",
            tree.display(),
            short(root)
        ))),
    }
}

/// How many files of the user's tree differ from its commit; they are no part of any commit.
pub fn uncommitted(tree: &Path) -> Result<usize> {
    let args = ["status", "--porcelain", "--untracked-files=no"];
    match ask(tree, "looking for uncommitted changes", &args) {
        Ok(out) => Ok(out.lines().count()),
        // A bare repository has no tree.
        Err(e) if e.is::<process::Failed>() => Ok(0),
        Err(e) => Err(e),
    }
}

/// A commit of what lies in the worktree `tree`, with what is not committed yet, though not
/// what git does not know; no ref names it, and neither tree nor index change.
pub fn snapshot(tree: &Path) -> Result<String> {
    let made = ask(tree, "keeping uncommitted changes", &["stash", "create"])?;
    match made.is_empty() {
        true => resolve(tree, "HEAD"),
        // A stash's commit has the index and HEAD as parents; its tree is the worktree's.
        false => commit_of_tree(tree, &format!("{made}^{{tree}}"), "HEAD", "uncommitted"),
    }
}

fn commit_of_tree(dir: &Path, tree: &str, parent: &str, message: &str) -> Result<String> {
    let args = ["commit-tree", tree, "-p", parent, "-m", message];
    ask(dir, "keeping a tree", &args)
}

/// What `id` says of itself.
pub fn describe(tree: &Path, id: &str) -> Result<Commit> {
    let format = "--format=%H%n%an <%ae>%n%ad%n%P%n%s";
    let said = ask(
        tree,
        &format!("reading commit {id}"),
        &["show", "--no-patch", format, id],
    )?;
    let mut lines = said.lines().map(str::to_owned);
    let mut line = || lines.next().unwrap_or_default();
    let (id, author, date, parents, subject) = (line(), line(), line(), line(), line());
    let stat = ["show", "--first-parent", "--stat", "--format=", &id];
    Ok(Commit {
        stat: ask(tree, "reading what a commit touches", &stat)?,
        parents: parents.split_whitespace().map(str::to_owned).collect(),
        id,
        author,
        date,
        subject,
    })
}

/// A commit's name, short enough for people and file names.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

impl History {
    /// Opens the worktree that the cache has for the repository `tree`, or makes it, at
    /// `commit`. Waits while somebody else uses it.
    ///
    /// # Errors
    /// git's own; the disk is full.
    pub fn open(cache: &Cache, tree: &Path, commit: &str, say: &dyn Fn(&str)) -> Result<Self> {
        let common = ask(
            tree,
            "asking for the repository",
            &["rev-parse", "--path-format=absolute", "--git-common-dir"],
        )?;
        let key = blake3::hash(common.as_bytes()).to_hex()[..16].to_owned();
        let what = format!("a search in {}", tree.display());
        let lock = cache.lock(KIND, &key, &what, say)?;
        let folder = cache.root().join(KIND).join(key);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        let history = Self {
            tree: tree.to_owned(),
            work: folder.join("tree"),
            _lock: lock,
        };
        history
            .make(commit, &common, say)
            .map_err(|e| cache.explain(e))?;
        Ok(history)
    }

    fn make(&self, commit: &str, common: &str, say: &dyn Fn(&str)) -> Result<()> {
        let args = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let whose = ask(&self.work, "looking at the kept worktree", &args);
        if self.work.join(".git").is_file() && whose.is_ok_and(|c| c == common) {
            // A git that was killed leaves these, and whose they were is over: we hold the lock.
            let own = ask(
                &self.work,
                "looking at the kept worktree",
                &["rev-parse", "--absolute-git-dir"],
            )?;
            for stale in ["index.lock", "HEAD.lock"] {
                files::remove(&Path::new(&own).join(stale));
            }
            return Ok(());
        }
        files::remove(&self.work);
        ask(
            &self.tree,
            "forgetting lost worktrees",
            &["worktree", "prune"],
        )?;
        say(&format!(
            "checking {} out into {}",
            short(commit),
            self.work.display()
        ));
        let mut add = git(&self.tree);
        add.args(["worktree", "add", "--quiet", "--force", "--detach"])
            .arg(&self.work)
            .arg(commit);
        process::read("making a worktree", add, CHECKOUT_LIMIT)?;
        Ok(())
    }

    /// Where the worktree is.
    pub fn folder(&self) -> &Path {
        &self.work
    }

    /// A file for whoever builds there to say what was built: it goes when the worktree moves.
    pub fn note(&self) -> PathBuf {
        self.work.with_file_name("built")
    }

    /// Brings the worktree to `commit`, whatever was done to it: only files that differ are
    /// written. Its output stays.
    pub fn check_out(&self, commit: &str) -> Result<()> {
        files::remove(&self.note());
        // Else git writes files anew whose times alone are not those that it knows.
        let mut refresh = git(&self.work);
        refresh.args(["update-index", "-q", "--refresh"]);
        if let Err(error) = process::read("looking at the worktree", refresh, CHECKOUT_LIMIT)
            && !error.is::<process::Failed>()
        {
            return Err(error);
        }
        let mut checkout = git(&self.work);
        checkout.args(["checkout", "--quiet", "--force", "--detach", commit, "--"]);
        process::read(&format!("checking {commit} out"), checkout, CHECKOUT_LIMIT)?;
        let mut clean = git(&self.work);
        clean.args(["clean", "-dfxq", "-e", KEPT]);
        process::read("cleaning the worktree", clean, CHECKOUT_LIMIT)?;
        Ok(())
    }

    /// A commit of `on` without what `culprit` did; or, in words, why there can be none.
    pub fn without(&self, culprit: &Commit, on: &str) -> Result<Result<String, String>> {
        self.check_out(on)?;
        let mut args = vec!["revert", "--no-commit"];
        if culprit.parents.len() > 1 {
            args.extend(["-m", "1"]);
        }
        args.push(&culprit.id);
        let what = format!("reverting {} on {}", short(&culprit.id), short(on));
        let reverted = ask(&self.work, &what, &args);
        let outcome = match reverted {
            Ok(_) => {
                let tree = ask(&self.work, "keeping the revert", &["write-tree"])?;
                let was = ask(
                    &self.work,
                    "reading a tree",
                    &["rev-parse", &format!("{on}^{{tree}}")],
                )?;
                match tree == was {
                    true => Err("nothing is left of it there".into()),
                    false => Ok(commit_of_tree(&self.work, &tree, on, &what)?),
                }
            }
            Err(e) if e.is::<process::Failed>() => {
                let args = ["diff", "--name-only", "--diff-filter=U"];
                let files = ask(&self.work, "looking for conflicts", &args)?;
                Err(match files.is_empty() {
                    true => format!("{e:#}"),
                    false => format!("later commits conflict in {}", files.replace('\n', ", ")),
                })
            }
            Err(e) => return Err(e),
        };
        let _ = ask(&self.work, "ending the revert", &["revert", "--quit"]);
        self.check_out(on)?;
        Ok(outcome)
    }
}
