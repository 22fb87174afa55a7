// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits as a [`Line`]: git bisect says which is next, as it does for everybody, so merges
//! and skipped commits are what they are there, and its log can be replayed. Only after a
//! first skipped commit its neighbour is taken, where git goes far away at once: most broken
//! commits are mended by the next, and halving loses nothing.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{History, ask, git};
use crate::{
    core::search::{Answer, Line, Next, Sought},
    edge::{files::write_whole, process},
};

/// A bisection between two commits.
#[derive(Debug)]
pub struct Commits<'a> {
    history: &'a History,
    ends: [String; 2],
    candidates: usize,
    /// What git is told of a commit that is as the old end, or the new end, is.
    terms: [&'static str; 2],
    log: PathBuf,
    /// Commits skipped since the last that could be judged.
    skipped: u32,
}

impl<'a> Commits<'a> {
    /// Begins one in `history`'s worktree; git's log of it is kept in `log`.
    ///
    /// # Errors
    /// git's own.
    pub fn begin(
        history: &'a History,
        ends: [String; 2],
        candidates: usize,
        sought: Sought,
        log: PathBuf,
    ) -> Result<Self> {
        let terms = match sought {
            Sought::Symptom => ["good", "bad"],
            Sought::Fix => ["broken", "fixed"],
        };
        let commits = Self {
            history,
            ends,
            candidates,
            terms,
            log,
            skipped: 0,
        };
        // What a stopped search left.
        commits.git(&["bisect", "reset", "HEAD"])?;
        let [old, new] = &commits.ends;
        let terms = [
            format!("--term-old={}", terms[0]),
            format!("--term-new={}", terms[1]),
        ];
        commits.git(&[
            "bisect",
            "start",
            "--no-checkout",
            &terms[0],
            &terms[1],
            new,
            old,
        ])?;
        commits.keep_log()?;
        Ok(commits)
    }

    /// git's answer; 2 is its status where only skipped commits are left.
    fn git(&self, args: &[&str]) -> Result<()> {
        let mut command = git(self.history.folder());
        command.args(args);
        let what = format!("git {}", args.join(" "));
        match process::read(&what, command, super::ASK_LIMIT) {
            Ok(_) => Ok(()),
            Err(e) => match e.downcast_ref::<process::Failed>() {
                Some(failed) if failed.status.code() == Some(2) => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// The commit that halves best what is left, of those not skipped.
    fn best(&self) -> Result<Option<String>> {
        let ask = |what: &str, args: &[&str]| ask(self.history.folder(), what, args);
        let skipped = ask(
            "asking git what was skipped",
            &[
                "for-each-ref",
                "--format=%(objectname)",
                "refs/bisect/skip-*",
            ],
        )?;
        let new = format!("refs/bisect/{}", self.terms[1]);
        let old = format!("--glob=refs/bisect/{}-*", self.terms[0]);
        let left = ask(
            "asking git what halves best",
            &["rev-list", "--bisect-all", &new, "--not", &old],
        )?;
        let new = ask("asking git for the new end", &["rev-parse", &new])?;
        let ids = left.lines().filter_map(|l| l.split_whitespace().next());
        let mut fit = ids.filter(|id| *id != new && !skipped.lines().any(|s| s == *id));
        Ok(fit.next().map(str::to_owned))
    }

    fn keep_log(&self) -> Result<String> {
        let log = ask(
            self.history.folder(),
            "reading git's log",
            &["bisect", "log"],
        )?;
        write_whole(&self.log, format!("{log}\n").as_bytes())?;
        Ok(log)
    }
}

/// What git's log ends in.
fn ended(log: &str) -> Option<Next> {
    let named = |line: &str| {
        Some(
            line.split_once(" commit: [")?
                .1
                .split_once(']')?
                .0
                .to_owned(),
        )
    };
    let first = log.lines().filter(|l| l.starts_with("# first "));
    if let Some(id) = first.filter_map(named).next_back() {
        return Some(Next::Found(id));
    }
    let possible = log.lines().filter(|l| l.starts_with("# possible first "));
    let possible: Vec<_> = possible.filter_map(named).collect();
    (!possible.is_empty()).then_some(Next::OneOf(possible))
}

impl Line for Commits<'_> {
    fn ends(&self) -> [String; 2] {
        self.ends.clone()
    }

    fn candidates(&self) -> usize {
        self.candidates
    }

    fn next(&mut self) -> Result<Next> {
        if let Some(next) = ended(&self.keep_log()?) {
            return Ok(next);
        }
        if self.skipped == 1
            && let Some(id) = self.best()?
        {
            return Ok(Next::Test(id));
        }
        let args = ["rev-parse", "--verify", "BISECT_HEAD"];
        let id = ask(
            self.history.folder(),
            "asking git for the next commit",
            &args,
        )
        .context("git bisect neither names a commit nor ends")?;
        Ok(Next::Test(id))
    }

    fn answer(&mut self, place: &str, answer: &Answer) -> Result<()> {
        let term = match answer {
            Answer::Old => self.terms[0],
            Answer::New => self.terms[1],
            Answer::Skip(_) => "skip",
        };
        self.skipped = match answer {
            Answer::Skip(_) => self.skipped + 1,
            _ => 0,
        };
        self.git(&["bisect", term, place])?;
        self.keep_log().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_how_it_ended() {
        let id = "a".repeat(40);
        let other = "b".repeat(40);
        let found =
            format!("git bisect start\n# bad: [{other}] x\n# first bad commit: [{id}] y ] z\n");
        assert_eq!(ended(&found), Some(Next::Found(id.clone())));
        let fixed = format!("# first fixed commit: [{id}] y\n");
        assert_eq!(ended(&fixed), Some(Next::Found(id.clone())));
        let skipped = format!(
            "# only skipped commits left to test\n# possible first bad commit: [{other}] a\n# possible first bad commit: [{id}] b\n"
        );
        assert_eq!(ended(&skipped), Some(Next::OneOf(vec![other, id])));
        assert_eq!(
            ended("# status: waiting for both good and bad commits\n"),
            None
        );
    }
}
