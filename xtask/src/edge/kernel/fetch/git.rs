// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits of git repositories, near or far.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{Identity, run, unpack};
use crate::edge::{cache::Cache, files, kernel::sources::Place, process};

const ASK_LIMIT: Duration = Duration::from_secs(60);
const FETCH_LIMIT: Duration = Duration::from_secs(2 * 3600);

/// `git commit <40 hex digits>`: the same commit is the same source wherever it is from.
pub fn identity(
    cache: &Cache,
    from: &Place,
    reference: &str,
    say: &dyn Fn(&str),
) -> Result<String> {
    let commit = match from {
        Place::Path(path) => near(path, reference)?,
        Place::Url(url) => far(cache, url, reference, say)?,
    };
    Ok(format!("git commit {commit}"))
}

fn is_commit(text: &str) -> bool {
    (text.len() == 40 || text.len() == 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn git(dir: &Path) -> Command {
    let mut git = process::tool("git");
    git.arg("-C").arg(dir);
    // No question on the terminal, and none of the transports that run programs.
    git.env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOW_PROTOCOL", "https:http:git:ssh:file");
    git
}

fn near(path: &Path, reference: &str) -> Result<String> {
    let mut command = git(path);
    command
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
        .arg(format!("{reference}^{{commit}}"));
    let out = process::read(
        &format!("looking for {reference} in {}", path.display()),
        command,
        ASK_LIMIT,
    )?;
    Ok(out.trim().to_owned())
}

/// Branches move and tags can: the repository is asked each time, and when it cannot be
/// reached its last answer is used.
fn far(cache: &Cache, url: &str, reference: &str, say: &dyn Fn(&str)) -> Result<String> {
    if is_commit(reference) {
        return Ok(reference.to_ascii_lowercase());
    }
    let last = cache.root().join("download").join(format!(
        "ref-{}",
        blake3::hash(format!("{url} {reference}").as_bytes()).to_hex()
    ));
    let mut command = git(cache.root());
    command
        .args(["ls-remote", "--", url, reference])
        .arg(format!("{reference}^{{}}"));
    match process::read(&format!("asking {url} for {reference}"), command, ASK_LIMIT) {
        Ok(out) => {
            let commit = pick(&out, reference)
                .with_context(|| format!("{url} has no tag or branch {reference}"))?;
            files::write_whole(&last, commit.as_bytes())?;
            Ok(commit)
        }
        Err(e) if e.is::<process::Stopped>() => Err(e),
        Err(e) => match fs::read_to_string(&last) {
            Ok(commit) if is_commit(&commit) => {
                say(&format!(
                    "warning: {e:#}; using {commit}, which {reference} was last time"
                ));
                Ok(commit)
            }
            _ => Err(e),
        },
    }
}

/// Of ls-remote's lines: the commit that a tag points to, else the tag, else the branch.
fn pick(lines: &str, reference: &str) -> Option<String> {
    let of = |name: String| {
        lines
            .lines()
            .filter_map(|l| l.split_once('\t'))
            .find(|(_, n)| *n == name)
            .map(|(c, _)| c.to_owned())
    };
    let short = reference
        .trim_start_matches("refs/tags/")
        .trim_start_matches("refs/heads/");
    of(format!("refs/tags/{short}^{{}}"))
        .or_else(|| of(format!("refs/tags/{short}")))
        .or_else(|| of(format!("refs/heads/{short}")))
        .filter(|c| is_commit(c))
}

/// Unpacks the commit to `dir`/tree.
pub fn fetch(
    cache: &Cache,
    from: &Place,
    identity: &Identity,
    dir: &Path,
    say: &dyn Fn(&str),
) -> Result<()> {
    let commit = identity
        .text
        .rsplit(' ')
        .next()
        .filter(|c| is_commit(c))
        .context("a git source's identity ends in its commit")?;
    let log = cache.log(&format!("fetch-{commit}"))?;
    let repository: PathBuf = match from {
        Place::Path(path) => path.clone(),
        Place::Url(url) => {
            let repository = dir.join("git");
            say(&format!("fetching {commit} from {url}"));
            let mut init = git(dir);
            init.args(["init", "--quiet", "--bare"]).arg(&repository);
            run("making a repository", init, &log, ASK_LIMIT)?;
            let mut fetch = git(&repository);
            fetch.args([
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                "--",
                url,
                commit,
            ]);
            run(
                &format!("fetching {commit} from {url}"),
                fetch,
                &log,
                FETCH_LIMIT,
            )?;
            repository
        }
    };
    say(&format!("unpacking {commit}"));
    let archive = dir.join("source.tar");
    let mut pack = git(&repository);
    pack.args(["archive", "--format=tar", "--output"])
        .arg(&archive)
        .arg(commit);
    run(&format!("reading {commit}"), pack, &log, FETCH_LIMIT)?;
    if !archive.is_file() {
        bail!("git archive left nothing for {commit}");
    }
    unpack(&archive, &dir.join("tree"), 0, &log)?;
    files::remove(&archive);
    files::remove(&dir.join("git"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotated_tag_gives_its_commit() {
        let (tag, commit, branch) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let lines = format!(
            "{branch}\trefs/heads/v1\n{tag}\trefs/tags/v1\n{commit}\trefs/tags/v1^{{}}\n{tag}\trefs/tags/other/v1\n"
        );
        assert_eq!(pick(&lines, "v1").unwrap(), commit);
        assert_eq!(pick(&lines, "refs/tags/v1").unwrap(), commit);
        assert_eq!(
            pick(&format!("{branch}\trefs/heads/main\n"), "main").unwrap(),
            branch
        );
        assert_eq!(pick("x\trefs/heads/main\n", "main"), None);
        assert_eq!(pick("", "main"), None);
    }
}
