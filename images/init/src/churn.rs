// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory blocks come and go while threads walk over their paths. Each walker knows what the
//! answer must be wherever nothing was under way, and says how often it was another.

use std::{
    fs,
    io::{self, ErrorKind},
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    channel, clock,
    failure::{Failure, during},
    memory, pci, sys,
    walk::{self, Operation},
};

/// Writing a block's number here takes it away, and brings it back.
const REMOVE: &str = "/sys/module/memory_blocks/parameters/remove";
const ADD: &str = "/sys/module/memory_blocks/parameters/add";
/// Number of the first block that the module made.
const FIRST: &str = "/sys/module/memory_blocks/parameters/first";
const MOST_WALKERS: u64 = 256;
const MOST_BLOCKS: u64 = 4096;
const MOST_ROUNDS: u64 = 1 << 20;

/// What comes and goes, and who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Churn {
    /// Threads that walk.
    pub walkers: u64,
    /// Blocks that come and go; as many others are walked over as well.
    pub blocks: u64,
    /// How often each goes and comes back.
    pub rounds: u64,
    /// What the walkers do.
    pub operation: Operation,
}

/// Reads `walkers=N blocks=N rounds=N do=WORD`, in this order.
pub fn parse(text: &str) -> Option<Churn> {
    let mut words = text.split(' ');
    let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
    let number = |text: &str, most| pci::number(text).filter(|n| (1..=most).contains(n));
    let churn = Churn {
        walkers: number(value("walkers")?, MOST_WALKERS)?,
        blocks: number(value("blocks")?, MOST_BLOCKS)?,
        rounds: number(value("rounds")?, MOST_ROUNDS)?,
        operation: walk::operation(value("do")?)?,
    };
    words.next().is_none().then_some(churn)
}

/// Where a block is on its way round: it is there, it is being taken away, it is gone, it is
/// being brought back. Counts on, so that a whole turn does not look like none.
#[derive(Default)]
struct Turn(AtomicU64);

impl Turn {
    fn advance(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether it was there throughout, if it was the same throughout.
    fn was_there(before: u64, after: u64) -> Option<bool> {
        match (before == after, before % 4) {
            (true, 0) => Some(true),
            (true, 2) => Some(false),
            _ => None,
        }
    }
}

/// A path that is walked over, and what is known of it; a block that stays has no turn.
struct Target<'t> {
    name: String,
    path: String,
    turn: Option<&'t Turn>,
}

impl Target<'_> {
    fn now(&self) -> u64 {
        self.turn.map_or(0, Turn::now)
    }
}

/// What walkers found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    /// Answers in all.
    answers: u64,
    /// Those of which it was certain what they had to be.
    certain: u64,
    /// Those that were wrong.
    wrong: u64,
}

impl Found {
    /// Counts an answer: what had to be, where that is known, and what was seen; `None`: an
    /// answer that can never be.
    fn add(&mut self, must: Option<bool>, seen: Option<bool>) {
        self.answers += 1;
        self.certain += u64::from(must.is_some());
        let right = seen.is_some() && (must.is_none() || must == seen);
        self.wrong += u64::from(!right);
    }
}

/// Has blocks come and go while walkers walk, and reports.
pub fn run(churn: &Churn) -> Result<(), Failure> {
    let first = fs::read_to_string(FIRST).map_err(during("churn:first"))?;
    let first =
        pci::number(first.trim_end()).ok_or_else(|| Failure::new("churn:first", sys::EINVAL))?;
    let turns: Vec<Turn> = (0..churn.blocks).map(|_| Turn::default()).collect();
    // Those of the module's that do not come and go follow those that do.
    let targets: Vec<Target> = (0..2 * churn.blocks)
        .map(|index| Target {
            name: format!("memory{}", first + index),
            path: memory::folder(first + index),
            turn: turns.get(index as usize),
        })
        .collect();
    if let Some(lost) = targets.iter().find(|t| fs::metadata(&t.path).is_err()) {
        return Err(Failure::new(format!("churn:no:{}", lost.name), sys::ENODEV));
    }
    let over = AtomicBool::new(false);
    let ready = Barrier::new(churn.walkers as usize + 1);
    let outcome = thread::scope(|scope| {
        let walkers: Vec<_> = (0..churn.walkers)
            .map(|number| {
                let first = (number as usize * targets.len()) / churn.walkers as usize;
                let (targets, ready, over) = (&targets, &ready, &over);
                thread::Builder::new().spawn_scoped(scope, move || {
                    ready.wait();
                    look(churn.operation, targets, first, over)
                })
            })
            .collect();
        if let Some(Err(error)) = walkers.iter().find(|w| w.is_err()) {
            // Those that were made wait for ever: there is no way on.
            let failure = Failure::new("churn:thread", error.raw_os_error().unwrap_or(0));
            crate::give_up(&failure)
        }
        ready.wait();
        let begin = clock::mono();
        let turned = turn_all(churn, first, &turns);
        let end = clock::mono();
        over.store(true, Ordering::SeqCst);
        let mut all = Found::default();
        for walker in walkers.into_iter().flatten() {
            let found = walker.join().map_err(|_| Failure::new("churn:panic", 0))?;
            all.answers += found.answers;
            all.certain += found.certain;
            all.wrong += found.wrong;
        }
        turned.map(|()| (begin, end, all))
    });
    let (begin, end, all) = outcome?;
    channel::say(&format!(
        "churn walkers={} changes={} begin={begin} end={end} answers={} certain={} wrong={}",
        churn.walkers,
        2 * churn.blocks * churn.rounds,
        all.answers,
        all.certain,
        all.wrong
    ));
    Ok(())
}

/// Takes each block away and brings it back: some are always gone while others come, half a
/// round apart.
fn turn_all(churn: &Churn, first: u64, turns: &[Turn]) -> Result<(), Failure> {
    let change = |file: &str, what: &str, index: u64| {
        let turn = &turns[index as usize];
        turn.advance();
        fs::write(file, (first + index).to_string()).map_err(during(format!("churn:{what}")))?;
        turn.advance();
        Ok(())
    };
    let half = churn.blocks / 2;
    for _ in 0..churn.rounds {
        for index in 0..churn.blocks {
            change(REMOVE, "remove", index)?;
            if index >= half {
                change(ADD, "add", index - half)?;
            }
        }
        for index in churn.blocks - half..churn.blocks {
            change(ADD, "add", index)?;
        }
    }
    Ok(())
}

/// Walks over all targets, beginning with the one at `first`, until it is over: once at least.
fn look(operation: Operation, targets: &[Target], first: usize, over: &AtomicBool) -> Found {
    let mut found = Found::default();
    loop {
        match operation {
            Operation::Readdir => list(targets, &mut found),
            _ => {
                for target in targets[first..].iter().chain(&targets[..first]) {
                    let before = target.now();
                    let answer = walk::act(operation, &format!("{}/state", target.path));
                    found.add(Turn::was_there(before, target.now()), seen(&answer));
                }
            }
        }
        if over.load(Ordering::SeqCst) {
            return found;
        }
    }
}

/// Reads the names of all blocks: each must be among them once, or not at all.
fn list(targets: &[Target], found: &mut Found) {
    let before: Vec<u64> = targets.iter().map(Target::now).collect();
    let names = match memory::names() {
        Ok(names) => names,
        Err(_) => return found.add(None, None),
    };
    for (target, before) in targets.iter().zip(before) {
        let seen = match names.get(&target.name) {
            None => Some(false),
            Some(1) => Some(true),
            Some(_) => None,
        };
        found.add(Turn::was_there(before, target.now()), seen);
    }
}

/// Whether an answer says that the block is there; `None`: it says what can never be.
fn seen(answer: &io::Result<usize>) -> Option<bool> {
    match answer {
        Ok(much) => (*much > 0).then_some(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(false),
        // Opened while it was there, read when it was gone.
        Err(error) if error.raw_os_error() == Some(sys::ENODEV) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_protocol_calls_a_churn() {
        let good = "walkers=4 blocks=16 rounds=10 do=stat";
        assert_eq!(
            parse(good),
            Some(Churn {
                walkers: 4,
                blocks: 16,
                rounds: 10,
                operation: Operation::Stat
            })
        );
        for (from, to) in [
            ("=4", "=0"),
            ("=4", "=257"),
            ("=16", "=4097"),
            ("=10", "=0"),
            ("stat", "open"),
            ("do=stat", "do=stat x"),
            ("walkers", "threads"),
        ] {
            assert_eq!(parse(&good.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn an_answer_is_judged_only_where_nothing_was_under_way() {
        let turn = Turn::default();
        let must = Turn::was_there;
        assert_eq!(must(turn.now(), turn.now()), Some(true));
        turn.advance();
        assert_eq!(must(0, turn.now()), None, "it was being taken away");
        assert_eq!(must(1, 1), None);
        turn.advance();
        assert_eq!(must(turn.now(), 2), Some(false));
        assert_eq!(must(0, 4), None, "it went and came back meanwhile");
        let mut found = Found::default();
        for (must, seen, wrong) in [
            (Some(true), Some(true), 0),
            (Some(false), Some(false), 0),
            (None, Some(true), 0),
            (None, Some(false), 0),
            (Some(true), Some(false), 1),
            (Some(false), Some(true), 2),
            (None, None, 3),
        ] {
            found.add(must, seen);
            assert_eq!(found.wrong, wrong, "{must:?} {seen:?}");
        }
        assert_eq!((found.answers, found.certain), (7, 4));
    }

    #[test]
    fn no_error_but_that_it_is_gone_is_an_answer() {
        let error = |number| Err(io::Error::from_raw_os_error(number));
        assert_eq!(seen(&Ok(7)), Some(true));
        assert_eq!(seen(&Ok(0)), None);
        assert_eq!(seen(&error(sys::ENOENT)), Some(false));
        assert_eq!(seen(&error(sys::ENODEV)), Some(false));
        assert_eq!(seen(&error(sys::EINVAL)), None);
    }
}
