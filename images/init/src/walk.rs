// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks over paths in sysfs from many threads, each operation timed and its answer checked.

use std::{
    fs::{self, File},
    hint::black_box,
    io::{self, ErrorKind, Read},
    sync::Barrier,
    thread,
};

use crate::{
    channel, clock,
    failure::{Failure, during},
    histogram::Histogram,
    memory, pci, sys,
};

/// Most threads.
const MOST_THREADS: u64 = 256;
/// Most rounds, and most paths.
const MOST: u64 = 1 << 20;

/// What is done with each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// open, read, close of a block's `state`.
    Read,
    /// lstat of it.
    Stat,
    /// opening the block's folder and reading all its names.
    Readdir,
}

/// Which paths are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// They are there.
    Existing,
    /// They are not, below folders that are.
    Missing,
    /// One and the other in turn.
    Mixed,
}

/// A walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Threads that walk at once, each over all paths.
    pub threads: u64,
    /// How often.
    pub rounds: u64,
    /// Over how many blocks' paths.
    pub blocks: u64,
    /// Which paths.
    pub paths: Paths,
    /// What is done.
    pub operation: Operation,
}

/// Reads `threads=N rounds=N blocks=N paths=WORD do=WORD`, in this order.
pub fn parse(text: &str) -> Option<Walk> {
    let mut words = text.split(' ');
    let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let number = |text: &str, most| pci::number(text).filter(|n| (1..=most).contains(n));
    let walk = Walk {
        threads: number(value("threads")?, MOST_THREADS)?,
        rounds: number(value("rounds")?, MOST)?,
        blocks: number(value("blocks")?, MOST)?,
        paths: match value("paths")? {
            "existing" => Paths::Existing,
            "missing" => Paths::Missing,
            "mixed" => Paths::Mixed,
            _ => return None,
        },
        operation: operation(value("do")?)?,
    };
    words.next().is_none().then_some(walk)
}

/// `read`, `stat` or `readdir`.
pub fn operation(word: &str) -> Option<Operation> {
    Some(match word {
        "read" => Operation::Read,
        "stat" => Operation::Stat,
        "readdir" => Operation::Readdir,
        _ => return None,
    })
}

/// A path, and whether it is there.
type Path = (String, bool);

/// What one thread found.
struct Found {
    times: Histogram,
    wrong: u64,
    end: u64,
}

/// Walks, and reports.
pub fn run(walk: &Walk) -> Result<(), Failure> {
    let folders = memory::folders(walk.blocks).map_err(during("walk"))?;
    if (folders.len() as u64) < walk.blocks {
        return Err(Failure::new("walk:too_few_blocks", sys::EINVAL));
    }
    let paths = paths(&folders, walk);
    // Threads are there before the clock starts: making them is not what is measured.
    let ready = Barrier::new(walk.threads as usize + 1);
    let (begin, found) = thread::scope(|scope| {
        let threads: Vec<_> = (0..walk.threads)
            .map(|number| {
                let first = (number as usize * paths.len()) / walk.threads as usize;
                let (paths, ready) = (&paths, &ready);
                thread::Builder::new().spawn_scoped(scope, move || {
                    ready.wait();
                    round(walk, paths, first)
                })
            })
            .collect();
        if let Some(Err(error)) = threads.iter().find(|t| t.is_err()) {
            // Those that were made wait for ever: there is no way on.
            let failure = Failure::new("walk:thread", error.raw_os_error().unwrap_or(0));
            crate::give_up(&failure)
        }
        let begin = clock::mono();
        ready.wait();
        let found: Vec<_> = threads.into_iter().flatten().map(|t| t.join()).collect();
        (begin, found)
    });
    let mut times = Histogram::new();
    let (mut wrong, mut end) = (0, begin);
    for found in found {
        let found = found.map_err(|_| Failure::new("walk:panic", 0))?;
        times.merge(&found.times);
        wrong += found.wrong;
        end = end.max(found.end);
    }
    channel::say(&format!(
        "walk threads={} operations={} begin={begin} end={end} p50={} p99={} longest={} wrong={wrong}",
        walk.threads,
        times.total(),
        times.quantile(50),
        times.quantile(99),
        times.largest()
    ));
    Ok(())
}

fn paths(folders: &[String], walk: &Walk) -> Vec<Path> {
    let path = |(index, folder): (usize, &String)| {
        let there = match walk.paths {
            Paths::Existing => true,
            Paths::Missing => false,
            Paths::Mixed => index % 2 == 0,
        };
        let path = match (walk.operation, there) {
            (Operation::Readdir, true) => folder.clone(),
            (_, true) => format!("{folder}/state"),
            (_, false) => format!("{folder}/missing"),
        };
        (path, there)
    };
    folders.iter().enumerate().map(path).collect()
}

/// All rounds of one thread, beginning with the path `first`.
fn round(walk: &Walk, paths: &[Path], first: usize) -> Found {
    let mut times = Histogram::new();
    let mut wrong = 0;
    for _ in 0..walk.rounds {
        for (path, there) in paths[first..].iter().chain(&paths[..first]) {
            let begin = clock::mono();
            let answer = act(walk.operation, path);
            times.add(clock::mono() - begin);
            wrong += u64::from(!is_right(&answer, *there));
        }
    }
    Found {
        times,
        wrong,
        end: clock::mono(),
    }
}

/// How much there was: a missing path has an error, one that is there more than nothing.
pub fn act(operation: Operation, path: &str) -> io::Result<usize> {
    match operation {
        Operation::Stat => fs::symlink_metadata(path).map(|m| black_box(m).len().max(1) as usize),
        Operation::Read => File::open(path)?.read(&mut [0; 64]),
        Operation::Readdir => {
            let mut names = 0;
            for entry in fs::read_dir(path)? {
                black_box(entry?);
                names += 1;
            }
            Ok(names)
        }
    }
}

fn is_right(answer: &io::Result<usize>, there: bool) -> bool {
    match answer {
        Ok(much) => there && *much > 0,
        Err(error) => !there && error.kind() == ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_protocol_calls_a_walk() {
        let good = "threads=8 rounds=2 blocks=100 paths=mixed do=readdir";
        assert_eq!(
            parse(good),
            Some(Walk {
                threads: 8,
                rounds: 2,
                blocks: 100,
                paths: Paths::Mixed,
                operation: Operation::Readdir
            })
        );
        for (from, to) in [
            ("=8", "=0"),
            ("=8", "=257"),
            ("=2", "=-2"),
            ("=100", "=1048577"),
            ("mixed", "all"),
            ("readdir", "open"),
            ("threads", "thread"),
            ("do=readdir", "do=readdir x"),
            (" do=readdir", ""),
        ] {
            assert_eq!(parse(&good.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn answers_are_checked() {
        let dir = std::env::temp_dir().join(format!("bootrig-walk-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("state"), "online\n").unwrap();
        let folder = dir.to_str().unwrap().to_owned();
        for operation in [Operation::Read, Operation::Stat, Operation::Readdir] {
            let walk = Walk {
                threads: 1,
                rounds: 3,
                blocks: 2,
                paths: Paths::Mixed,
                operation,
            };
            let mut paths = paths(&[folder.clone(), folder.clone()], &walk);
            let found = round(&walk, &paths, 1);
            assert_eq!((found.times.total(), found.wrong), (6, 0), "{operation:?}");
            paths.iter_mut().for_each(|p| p.1 = !p.1);
            assert_eq!(round(&walk, &paths, 0).wrong, 6, "{operation:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
