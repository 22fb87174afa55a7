// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is searched: commits, or one of four kinds of lists.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Args;
use crate::{
    core::{
        fault::{Exit, Fault},
        nearest::hint,
        plan::{Overrides, plan},
        scenario::Scenario,
        search::{Blamed, Line, List, Sought},
        units::counted,
    },
    edge::{
        cache::Cache,
        history::{self, History},
        kernel,
    },
    rig::places::{Commits, Options, Patches, Sources, Subject, Words},
};

/// What is searched.
pub enum Over {
    /// Commits of a repository, between two: which, and what the user calls them.
    Commits {
        tree: PathBuf,
        ends: [String; 2],
        asked: [String; 2],
        count: usize,
    },
    /// The patches of a series, by name.
    Patches(Vec<String>),
    /// Keys of images/kernels/sources.yaml.
    Sources(Vec<String>),
    /// Configuration options.
    Options(Vec<String>),
    /// Words of the command line.
    Words(Vec<String>),
}

/// What every kind stands on.
pub struct Ground<'a> {
    pub root: &'a Path,
    pub cache: &'a Cache,
    /// Whose patches and configuration a commit gets.
    pub like: &'a str,
    pub say: &'a dyn Fn(&str),
}

/// A search's line, and how its places are made.
pub struct Places<'a> {
    pub line: &'a mut dyn Line,
    pub subject: &'a dyn Subject,
    /// The worktree, where places are commits.
    pub history: Option<&'a History>,
}

fn usage(message: String) -> anyhow::Error {
    Fault::usage(message).into()
}

impl Over {
    /// What `args` ask for; `stored` are the ends of a search that goes on.
    ///
    /// # Errors
    /// Usage: not exactly one thing, or one that cannot be searched.
    pub fn new(
        args: &Args,
        root: &Path,
        cache: &Cache,
        scenario: &Scenario,
        stored: Option<[String; 2]>,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let kinds = [
            args.tree.is_some(),
            args.patches,
            !args.sources.is_empty(),
            !args.options.is_empty(),
            !args.words.is_empty(),
        ];
        if kinds.iter().filter(|k| **k).count() != 1 {
            return Err(usage(
                "name one thing to search: --tree DIR --good REV --bad REV, --patches, --sources, --options or --words".into(),
            ));
        }
        if let (Some(tree), Some(good), Some(bad)) = (&args.tree, &args.good, &args.bad) {
            return commits(args, tree, [good, bad], stored, say);
        }
        if args.patches {
            let variant = &scenario.variants[0];
            if variant.series.is_none() {
                let next = match args.asked.series.is_empty() {
                    true => "name another, or a series with --series",
                    false => "the one with --series is --variant patched",
                };
                return Err(usage(format!(
                    "--patches: variant {} of {} has no series: {next}",
                    variant.name, scenario.name
                )));
            }
            let trial = &plan(&[scenario.clone().into()], Overrides::default())[0];
            let names = kernel::patch_names(root, cache, &trial.kernel, say)?;
            return Ok(Self::Patches(names));
        }
        if !args.sources.is_empty() {
            let known = kernel::names(root)?;
            if let Some(wrong) = args.sources.iter().find(|s| !known.contains(s)) {
                let hint = hint(wrong, known.iter().map(String::as_str));
                return Err(usage(format!(
                    "--sources: unknown kernel `{}`{hint}",
                    wrong.escape_debug()
                )));
            }
            List::new(args.sources.clone()).map_err(|why| usage(format!("--sources: {why}")))?;
            return Ok(Self::Sources(args.sources.clone()));
        }
        if !args.options.is_empty() {
            kernel::check_options(&args.options)?;
            return Ok(Self::Options(args.options.clone()));
        }
        scenario
            .with_words(&args.words)
            .map_err(|why| usage(format!("--words: {why}")))?;
        Ok(Self::Words(args.words.clone()))
    }

    /// What is searched, for people.
    pub fn text(&self) -> String {
        match self {
            Self::Commits {
                ends, asked, count, ..
            } => {
                let [old, new] = [0, 1].map(|end| match ends[end] == asked[end] {
                    true => history::short(&ends[end]).to_owned(),
                    false => format!("{} ({})", asked[end], history::short(&ends[end])),
                });
                format!("{} from {old} to {new}", counted(*count, "commit"))
            }
            Self::Patches(names) => counted(names.len(), "patch"),
            Self::Sources(names) => format!("the kernels {}", names.join(", ")),
            Self::Options(all) => counted(all.len(), "option"),
            Self::Words(all) => counted(all.len(), "word"),
        }
    }

    /// The repository.
    pub fn tree(&self) -> Option<&Path> {
        match self {
            Self::Commits { tree, .. } => Some(tree),
            _ => None,
        }
    }

    /// The ends, where they are commits.
    pub fn commits(&self) -> Option<[String; 2]> {
        match self {
            Self::Commits { ends, .. } => Some(ends.clone()),
            _ => None,
        }
    }

    /// What to do about ends that are the other way around.
    pub fn offer(&self, args: &Args) -> String {
        match (self, &args.good, &args.bad) {
            (Self::Commits { .. }, Some(good), Some(bad)) => offer(args.fixed, good, bad),
            _ if args.fixed => "if you look for what made it worse, leave --fixed out".into(),
            _ => "if you look for what made it better, add --fixed".into(),
        }
    }

    /// The places of a list, the old end first.
    fn names(&self) -> Vec<String> {
        let numbered = |name: &str, n: usize| (0..=n).map(|i| format!("{name}-{i}")).collect();
        match self {
            Self::Commits { ends, .. } => ends.to_vec(),
            Self::Patches(all) => numbered("patch", all.len()),
            Self::Sources(all) => all.clone(),
            Self::Options(all) => numbered("option", all.len()),
            Self::Words(all) => numbered("word", all.len()),
        }
    }

    /// Calls `then` with the line and with what makes its places; `dir` is the search's folder.
    ///
    /// # Errors
    /// What `then` returns; git's own.
    pub fn with(
        &self,
        ground: &Ground,
        dir: &Path,
        sought: Sought,
        then: &mut dyn FnMut(&mut Places) -> Result<Exit>,
    ) -> Result<Exit> {
        let &Ground {
            root,
            cache,
            like,
            say,
        } = ground;
        let mut list = List::new(self.names()).map_err(usage)?;
        let mut on = |subject: &dyn Subject| {
            then(&mut Places {
                line: &mut list,
                subject,
                history: None,
            })
        };
        match self {
            Self::Commits {
                tree, ends, count, ..
            } => {
                let history = History::open(cache, tree, &ends[1], say)?;
                let subject = Commits {
                    root,
                    cache,
                    history: &history,
                    tree,
                    like,
                    say,
                };
                let log = dir.join("bisect.log");
                let mut line =
                    history::Commits::begin(&history, ends.clone(), *count, sought, log)?;
                say(&format!(
                    "git's own view of it: git -C {} bisect visualize",
                    history.folder().display()
                ));
                then(&mut Places {
                    line: &mut line,
                    subject: &subject,
                    history: Some(&history),
                })
            }
            Self::Patches(names) => on(&Patches {
                root,
                cache,
                names: names.clone(),
                say,
            }),
            Self::Sources(_) => on(&Sources { root, cache, say }),
            Self::Options(all) => on(&Options {
                root,
                cache,
                all: all.clone(),
                say,
            }),
            Self::Words(all) => on(&Words {
                root,
                cache,
                all: all.clone(),
                say,
            }),
        }
    }

    /// What `place` is, when it is to blame, and what comes right before it.
    ///
    /// # Errors
    /// git's own.
    pub fn blame(&self, place: &str) -> Result<(Blamed, Vec<String>)> {
        let names = self.names();
        let at = names.iter().position(|n| n == place).unwrap_or(0);
        let before = |at: usize| at.checked_sub(1).map(|at| names[at].clone());
        let listed = |all: &[String], about: &str| {
            let name = at.checked_sub(1).and_then(|n| all.get(n)).cloned();
            Blamed {
                name: name.unwrap_or_default(),
                about: vec![format!("{about} {at} of {}", all.len())],
            }
        };
        let blamed = match self {
            Self::Commits { tree, .. } => {
                let commit = history::describe(tree, place)?;
                let mut about = vec![commit.subject, commit.author, commit.date];
                about.extend(commit.stat.lines().map(|l| l.trim().to_owned()));
                let name = format!("commit {}", commit.id);
                return Ok((Blamed { name, about }, commit.parents));
            }
            Self::Patches(all) => listed(all, "patch"),
            Self::Options(all) => listed(all, "option"),
            Self::Words(all) => listed(all, "word"),
            Self::Sources(all) => Blamed {
                name: format!("kernel {place}"),
                about: vec![format!("after {}", all[at.saturating_sub(1)])],
            },
        };
        Ok((blamed, before(at).into_iter().collect()))
    }

    /// The new end without what `place` brought; or, in words, why there is no such thing.
    ///
    /// # Errors
    /// git's own.
    pub fn without(
        &self,
        place: &str,
        history: Option<&History>,
    ) -> Result<Result<String, String>> {
        let number = || place.rsplit('-').next().unwrap_or_default();
        match (self, history) {
            (Self::Commits { tree, ends, .. }, Some(history)) => {
                history.without(&history::describe(tree, place)?, &ends[1])
            }
            (Self::Sources(_), _) | (Self::Commits { .. }, None) => Ok(Err(
                "a whole version cannot be taken out of a later one".into(),
            )),
            _ => Ok(Ok(format!("without-{}", number()))),
        }
    }

    /// The new end.
    pub fn new_end(&self) -> String {
        let mut names = self.names();
        names.pop().unwrap_or_default()
    }
}

/// Ends that are the other way around: nothing is exchanged unasked.
fn offer(fixed: bool, good: &str, bad: &str) -> String {
    match fixed {
        false => format!(
            "if you look for what made it better, say so: --fixed, with the older commit as --bad \
             and the newer as --good; if the two were exchanged by mistake: --good {bad} --bad {good}"
        ),
        true => format!(
            "if you look for what made it worse, leave --fixed out, with the older commit as --good; \
             if the two were exchanged by mistake: --good {bad} --bad {good}"
        ),
    }
}

fn commits(
    args: &Args,
    tree: &Path,
    [good, bad]: [&String; 2],
    stored: Option<[String; 2]>,
    say: &dyn Fn(&str),
) -> Result<Over> {
    let tree = std::path::absolute(tree)?;
    if !tree.is_dir() {
        return Err(usage(format!(
            "--tree {}: there is no such folder",
            tree.display()
        )));
    }
    history::check(&tree)?;
    let asked = match args.fixed {
        false => [good.clone(), bad.clone()],
        true => [bad.clone(), good.clone()],
    };
    let ends = match stored {
        Some(ends) => ends,
        None => [
            history::resolve(&tree, &asked[0])?,
            history::resolve(&tree, &asked[1])?,
        ],
    };
    let count = history::distance(
        &tree,
        [&ends[0], &ends[1]],
        [&asked[0], &asked[1]],
        &offer(args.fixed, good, bad),
    )?;
    match history::uncommitted(&tree)? {
        0 => {}
        n => say(&format!(
            "note: {} of {} differ from its commit; that is of no commit and is left out, and stays as it is",
            match n {
                1 => "1 file".into(),
                n => format!("{n} files"),
            },
            tree.display()
        )),
    }
    Ok(Over::Commits {
        tree,
        ends,
        asked,
        count,
    })
}
