// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loading and flushing in a task of its own, for what may not come back by itself: PID 1
//! waits no longer than it is told, and does to the loader and to the module what is asked.

use crate::{
    channel, clock,
    failure::Failure,
    module,
    plan::Apart,
    sys::{self, Forked, State},
};

/// Loads a module in a child, which may be killed, find its module unloaded, or be left alone.
pub fn load(name: &str, and: &Apart) -> Result<(), Failure> {
    let (file, parameters) = module::open(name)?;
    let begin = clock::mono();
    let loader = child(|| sys::load_module(&file, &parameters))?;
    let mut until: Vec<(u64, Act)> = [
        (and.kill, Act::Kill),
        (and.unload, Act::Unload),
        (and.limit, Act::Leave),
    ]
    .into_iter()
    .filter_map(|(at, act)| Some((begin + at?, act)))
    .collect();
    until.sort_by_key(|(at, _)| *at);
    let (mut ended, mut killed) = (None, None);
    for (at, act) in until {
        if ended.is_none() {
            ended = wait(loader, at)?;
        }
        match act {
            Act::Kill if ended.is_none() => {
                killed = Some(clock::mono());
                sys::kill(loader, sys::SIGKILL);
            }
            Act::Unload => {
                sys::sleep_until(at);
                unload(name);
            }
            Act::Leave if ended.is_none() => {
                channel::say(&format!(
                    "left module={name} begin={begin} at={}",
                    clock::mono()
                ));
                return Ok(());
            }
            Act::Kill | Act::Leave => {}
        }
    }
    let (state, end) = match ended {
        Some(ended) => ended,
        None => wait(loader, u64::MAX)?.expect("it waits for ever"),
    };
    match (state, killed) {
        (State::Killed, Some(at)) => channel::say(&format!(
            "killed module={name} begin={begin} at={at} end={end}"
        )),
        (State::Ended(0), _) => {
            channel::say(&format!("loaded module={name} begin={begin} end={end}"));
        }
        (State::Ended(errno), _) => return Err(Failure::new(format!("load:{name}"), errno)),
        _ => return Err(Failure::new(format!("load:{name}:killed"), 0)),
    }
    Ok(())
}

/// Flushes in a child, for which is waited so many nanoseconds.
pub fn flush(limit: u64) -> Result<(), Failure> {
    let flusher = child(|| module::flush().map_err(|_| ()))?;
    match wait(flusher, clock::mono() + limit)? {
        None => channel::say(&format!("unsettled after={limit}")),
        Some((State::Ended(0), _)) => {}
        Some((State::Ended(errno), _)) => return Err(Failure::new("flush", errno)),
        Some(_) => return Err(Failure::new("flush:killed", 0)),
    }
    Ok(())
}

enum Act {
    Kill,
    Unload,
    Leave,
}

/// Has a child do something; it ends with the error's number.
fn child(work: impl FnOnce() -> Result<(), ()>) -> Result<i32, Failure> {
    match sys::fork().map_err(|()| Failure::last("fork"))? {
        Forked::Child => sys::exit(work().map_or_else(|()| sys::errno(), |()| 0)),
        Forked::Parent(child) => Ok(child),
    }
}

/// Waits for a child's end, no longer than to `until`: how it ended, and when that was seen.
pub fn wait(child: i32, until: u64) -> Result<Option<(State, u64)>, Failure> {
    loop {
        let state = sys::look(child);
        let now = clock::mono();
        match state {
            State::Running if now >= until => return Ok(None),
            State::Running => {
                sys::await_end(child, until).map_err(|()| Failure::last("wait"))?;
            }
            state => return Ok(Some((state, now))),
        }
    }
}

/// That it is refused, as while it is still being loaded, is a finding and no failure.
fn unload(name: &str) {
    let begin = clock::mono();
    let errno = sys::unload_module(name).map_or_else(|()| sys::errno(), |()| 0);
    channel::say(&format!(
        "unloaded module={name} begin={begin} end={} errno={errno}",
        clock::mono()
    ));
}
