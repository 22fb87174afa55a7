// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives a plan over a machine, hands each result on as it comes, and knows when to stop.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
};

use super::{
    boot::{self, Outcome, TrialResult},
    fault::Stopped,
    machine::{Machine, RawBoot},
    plan::Trial,
};

/// Receives results as they come; called from one thread, in order of completion.
pub trait Sink {
    /// `trial` starts now.
    fn started(&mut self, trial: &Trial);
    /// The machine, not the guest, failed, and `trial` is made again.
    fn again(&mut self, trial: &Trial, why: &str);
    /// `trial` is over: store it before returning.
    ///
    /// # Errors
    /// What could not be stored; measuring stops.
    fn finished(
        &mut self,
        trial: &Trial,
        raw: &RawBoot,
        result: &TrialResult,
    ) -> anyhow::Result<()>;
}

/// How often a boot is made again, as a rule, when QEMU, not the guest, failed.
pub const RETRIES: u32 = 2;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Trials side by side; more than one only in virtual time.
    pub jobs: NonZeroUsize,
    /// Go on after a trial that failed.
    pub keep_going: bool,
    /// How often a trial is made again when the machine, not the guest, failed.
    pub retries: u32,
}

/// How measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every trial was made.
    Complete,
    /// A trial failed and `keep_going` was off; some were not made.
    GaveUp,
    /// The user asked to stop.
    Stopped,
}

enum Message<'a> {
    Started(&'a Trial),
    Again(&'a Trial, String),
    Finished(&'a Trial, RawBoot, Box<TrialResult>),
    Stopped,
}

impl Message<'_> {
    /// Whether no trial may begin after this.
    fn ends_it(&self, keep_going: bool) -> bool {
        match self {
            Self::Started(_) | Self::Again(..) => false,
            Self::Finished(_, _, result) => result.outcome.is_failure() && !keep_going,
            Self::Stopped => true,
        }
    }
}

/// Makes every trial of `plan`. Which thread runs which trial, and when, changes no digit
/// of a virtual-time result.
///
/// # Errors
/// Only what `sink` returned.
pub fn measure(
    plan: &[Trial],
    machine: &dyn Machine,
    options: Options,
    sink: &mut dyn Sink,
) -> anyhow::Result<Ended> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let send_slot = Mutex::new(send);
        for number in 0..options.jobs.get().min(plan.len()) {
            let send = send_slot.lock().expect("no holder panics").clone();
            let (next, stop) = (&next, &stop);
            let worker = std::thread::Builder::new().spawn_scoped(scope, move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(trial) = plan.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let _ = send.send(Message::Started(trial));
                    let message = match boot_until_known(trial, machine, options.retries, &send) {
                        Ok((raw, result)) => Message::Finished(trial, raw, Box::new(result)),
                        Err(Stopped) => Message::Stopped,
                    };
                    // Here, not where the message is read: no other trial may begin meanwhile.
                    if message.ends_it(options.keep_going) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if send.send(message).is_err() {
                        break;
                    }
                }
            });
            match worker {
                Ok(_) => {}
                // Those that there are make all trials.
                Err(_) if number > 0 => break,
                Err(error) => {
                    return Err(anyhow::Error::from(error).context("starting a thread to boot in"));
                }
            }
        }
        drop(send_slot);
        let mut ended = Ended::Complete;
        for message in &receive {
            match message {
                Message::Started(trial) => sink.started(trial),
                Message::Again(trial, why) => sink.again(trial, &why),
                Message::Stopped => ended = Ended::Stopped,
                Message::Finished(trial, raw, result) => {
                    if let Err(error) = sink.finished(trial, &raw, &result) {
                        stop.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                    if result.outcome.is_failure()
                        && !options.keep_going
                        && ended == Ended::Complete
                    {
                        ended = Ended::GaveUp;
                    }
                }
            }
        }
        Ok(ended)
    })
}

fn boot_until_known<'a>(
    trial: &'a Trial,
    machine: &dyn Machine,
    retries: u32,
    send: &mpsc::Sender<Message<'a>>,
) -> Result<(RawBoot, TrialResult), Stopped> {
    let mut left = retries;
    loop {
        let raw = machine.boot(trial)?;
        let result = boot::interpret(trial, &raw);
        match &result.outcome {
            Outcome::Infrastructure(why) if left > 0 => {
                // Without a reader nobody waits for the result either.
                let _ = send.send(Message::Again(trial, why.clone()));
                left -= 1;
            }
            _ => return Ok((raw, result)),
        }
    }
}
