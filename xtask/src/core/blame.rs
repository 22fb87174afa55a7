// SPDX-License-Identifier: MIT OR Apache-2.0
//! What fills a device_shutdown beyond its devices' own delays, from the events alone, and
//! the critical path of it and of probing.
//!
//! From the end of the window back to its beginning: what ended last, what that had waited
//! for, and so on. What the devices on this way needed is delay; what lies between them, and
//! before and after, is what the kernel took, or what somebody had to wait for without need.
//! Delays and shares add up to the window, to the nanosecond.

use serde::{Deserialize, Serialize};

use super::{
    event::{BootLog, Callback, CallbackEvent, Mark, Span},
    ideal::{self, Ideal},
    scenario::{Order, Scenario, Variant},
    units::Nanos,
};

/// A part of the time beyond the ideal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// What was waited for.
    pub what: Wait,
    /// How long, in all.
    pub time: Nanos,
    /// How often.
    pub times: u32,
    /// The device that had most of it, or the lock that was handed on longest.
    pub most: Option<String>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// From the window's beginning to the first callback.
    FirstCallback,
    /// From the last child or consumer to a device's own turn.
    Turn,
    /// From one callback of a task to its next one.
    Task,
    /// From a lock's release to the next one's hold of it.
    Lock,
    /// A callback lasted longer than it needs: others had the CPU.
    Cpu,
    /// Devices one after another that nothing orders: the way is longer than the ideal's.
    Order,
    /// From the last callback to the window's end.
    LastCallback,
}

impl Wait {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::FirstCallback,
        Self::Turn,
        Self::Task,
        Self::Lock,
        Self::Cpu,
        Self::Order,
        Self::LastCallback,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::FirstCallback => "before the first callback",
            Self::Turn => "from the last child or consumer to a device's turn",
            Self::Task => "from one callback of a task to the next",
            Self::Lock => "from a lock's release to the next hold",
            Self::Cpu => "waiting for a CPU",
            Self::Order => "one after another without need",
            Self::LastCallback => "after the last callback",
        }
    }
}

/// A callback on the way from the window's beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// When, and by whom.
    pub span: Span,
    /// What it waited for before it held its lock, or before it began where it has none.
    pub after: Wait,
    /// How long that took.
    pub waited: Nanos,
}

/// The critical path of a phase: what ended last, what that had waited for, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// From the last to the first.
    pub legs: Vec<Leg>,
    /// From the last callback to the window's end.
    pub rest: Nanos,
}

/// Where a phase lies: between its marks; where probes go on after the driver's attach has
/// returned, to the last of them. `None`: a mark is missing, or there is no such phase.
pub fn window(log: &BootLog, phase: Callback) -> Option<(Nanos, Nanos)> {
    let mark = |m| log.marks.get(&m).map(|s| s.mono);
    match phase {
        Callback::Shutdown => Some((mark(Mark::ShutdownBegin)?, mark(Mark::ShutdownEnd)?)),
        Callback::Probe => {
            let probes = log.callbacks.iter().filter(|e| e.callback == phase);
            let last = probes.filter_map(|e| e.end).max();
            let attached = mark(Mark::AttachEnd)?;
            Some((
                mark(Mark::AttachBegin)?,
                last.unwrap_or(attached).max(attached),
            ))
        }
        Callback::Remove => None,
    }
}

/// The critical path of a phase of one boot; `None` where a mark or a callback's end is
/// missing, or the phase has no callback.
pub fn way(scenario: &Scenario, variant: &Variant, log: &BootLog, phase: Callback) -> Option<Way> {
    let (begin, end) = window(log, phase)?;
    let of_phase = log.callbacks.iter().filter(|e| e.callback == phase);
    let spans: Option<Vec<Span>> = of_phase.map(CallbackEvent::span).collect();
    let finder = Finder::new(scenario, variant, spans?, phase);
    let mut at = finder.by_end.len().checked_sub(1)?;
    let rest = end - finder.by_end[at].end;
    let mut legs = Vec::new();
    // Callbacks that took no time may each have ended before the other began.
    let mut seen = vec![false; finder.by_end.len()];
    loop {
        seen[at] = true;
        let span = finder.by_end[at];
        let found = finder.before(&span, &seen);
        let (after, since) = found.map_or((Wait::FirstCallback, begin), |(wait, place)| {
            (wait, finder.by_end[place].end)
        });
        legs.push(Leg {
            span,
            after,
            waited: span.locked - since,
        });
        match found {
            Some((_, place)) => at = place,
            None => break,
        }
    }
    Some(Way { legs, rest })
}

/// The shares of one boot, largest first; empty where there is no [`way`].
pub fn shutdown(
    scenario: &Scenario,
    variant: &Variant,
    ideal: &Ideal,
    log: &BootLog,
) -> Vec<Share> {
    let Some(way) = way(scenario, variant, log, Callback::Shutdown) else {
        return vec![];
    };
    let mut shares = Shares::default();
    let mut long = Nanos(0);
    let name = |s: &Span| scenario.devices.get(s.device).map(|d| d.name.clone());
    let last = way.legs.first().and_then(|l| name(&l.span));
    shares.add(Wait::LastCallback, way.rest, last);
    for leg in &way.legs {
        let took = leg.span.end - leg.span.locked;
        let needed = match variant.order {
            Order::Serial => took,
            Order::Parallel => {
                let device = leg.span.device;
                ideal::needed(scenario, variant, Callback::Shutdown, device, took)
            }
        };
        shares.add(Wait::Cpu, took - needed, name(&leg.span));
        long = long + needed;
        shares.add(leg.after, leg.waited, name(&leg.span));
    }
    if long > ideal.time {
        shares.add(Wait::Order, long - ideal.time, None);
    }
    shares.ranked()
}

#[derive(Default)]
struct Shares(std::collections::BTreeMap<Wait, (Share, Nanos)>);

impl Shares {
    fn add(&mut self, what: Wait, time: Nanos, of: Option<String>) {
        if time == Nanos(0) {
            return;
        }
        let empty = Share {
            what,
            time: Nanos(0),
            times: 0,
            most: None,
        };
        let (share, most) = self.0.entry(what).or_insert((empty, Nanos(0)));
        share.time = share.time + time;
        share.times += 1;
        if time > *most {
            (*most, share.most) = (time, of);
        }
    }

    fn ranked(self) -> Vec<Share> {
        let mut all: Vec<_> = self.0.into_values().map(|(share, _)| share).collect();
        all.sort_by_key(|s| std::cmp::Reverse(s.time));
        all
    }
}

/// Finds what a callback waited for.
struct Finder<'a> {
    scenario: &'a Scenario,
    variant: &'a Variant,
    /// By end; what is found is a place in it.
    by_end: Vec<Span>,
    /// Of each device those that come before it.
    before: Vec<Vec<usize>>,
    /// Whether every callback comes after all others that ended before it began.
    one_by_one: bool,
}

impl<'a> Finder<'a> {
    fn new(
        scenario: &'a Scenario,
        variant: &'a Variant,
        spans: Vec<Span>,
        phase: Callback,
    ) -> Self {
        let mut by_end = spans;
        by_end.sort_by_key(|s| (s.end, s.device));
        let one_by_one = match phase {
            Callback::Probe => !variant.probing.strategy.is_parallel(),
            _ => variant.order == Order::Serial,
        };
        let mut finder = Self {
            scenario,
            variant,
            by_end,
            before: vec![Vec::new(); scenario.devices.len()],
            one_by_one,
        };
        // Devices are probed side by side without regard to the tree.
        if phase == Callback::Shutdown && !one_by_one {
            finder.find_turns();
        }
        finder
    }

    fn find_turns(&mut self) {
        for (place, span) in self.by_end.iter().enumerate() {
            // Through devices that no driver of ours has, up to the next one that it has.
            let mut next: Vec<usize> = self.scenario.wait_for(span.device).collect();
            while let Some(later) = next.pop() {
                self.before[later].push(place);
                if self.scenario.profile(self.variant, later).is_none() {
                    next.extend(self.scenario.wait_for(later));
                }
            }
        }
    }

    /// What `at` waited for last, and in which way; `None`: for nothing that is known.
    /// Those `seen` are no answer.
    fn before(&self, at: &Span, seen: &[bool]) -> Option<(Wait, usize)> {
        if at.locked > at.begin
            && let Some(lock) = self.lock(at.device)
        {
            let holder = self.latest(at.locked, |place, s| {
                !seen[place] && self.lock(s.device) == Some(lock)
            });
            // Taking a free lock takes a moment too: that is no waiting for who had it last.
            if let Some(holder) = holder.filter(|h| self.by_end[*h].end > at.begin) {
                return Some((Wait::Lock, holder));
            }
        }
        let waited = self.before[at.device].iter().rev();
        let mut waited = waited.filter(|p| self.by_end[**p].end <= at.begin && !seen[**p]);
        if let Some(child) = waited.next() {
            return Some((Wait::Turn, *child));
        }
        let same = |place: usize, s: &Span| (self.one_by_one || s.task == at.task) && !seen[place];
        Some((Wait::Task, self.latest(at.begin, same)?))
    }

    fn lock(&self, device: usize) -> Option<&str> {
        self.scenario.profile(self.variant, device)?.lock.as_deref()
    }

    /// The last that ended by `time`, of those that `is` takes.
    fn latest(&self, time: Nanos, is: impl Fn(usize, &Span) -> bool) -> Option<usize> {
        let until = self.by_end.partition_point(|s| s.end <= time);
        (0..until)
            .rev()
            .find(|place| is(*place, &self.by_end[*place]))
    }
}
