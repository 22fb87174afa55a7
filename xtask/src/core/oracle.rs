// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a boot was *correct*, judged from its events: the stopwatch's conscience.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    event::{BootLog, Callback, CallbackEvent, Mark, Span, SystemdBoot},
    probing,
    scenario::{Online, Order, Scenario, Systemd, Variant, When},
};

/// What the oracle says of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// How many single facts were checked.
    pub checked: u64,
    /// What did not hold.
    pub violations: Vec<Violation>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// What was seen, naming the devices.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.what)
    }
}

/// The rules, in the order in which they are checked. That the machine did reboot is none
/// of them: a boot without the next PID 1's word has no result to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Every device with a profile is probed once, successfully.
    Bound,
    /// Every bound device is shut down exactly once, and that call returns.
    ShutDownOnce,
    /// Children end before their parents begin.
    ChildrenFirst,
    /// Consumers of device links that order end before their suppliers begin.
    ConsumersFirst,
    /// Serial means that no two callbacks overlap.
    NoOverlap,
    /// No more tasks run callbacks than the variant allows.
    TasksBounded,
    /// Devices that share a lock never hold it at once.
    LockHeldAlone,
    /// Callbacks lie within device_shutdown().
    InsideWindow,
    /// No device was hurried: each callback lasts as long as its profile asks.
    DelayRespected,
    /// There are as many memory blocks as the scenario asks for.
    MemoryBlocks,
    /// What was plugged in is there, all of it, and in the state that was asked for.
    Hotplug,
    /// udev's rules have seen every memory block.
    ColdplugComplete,
    /// Every unit that multi-user.target wants was started.
    SystemdUnits,
    /// A walk did all that it should, and each answer was right.
    WalkAnswers,
    /// What came and went did so as often as it should, and no walker saw what was not so.
    ChurnAnswers,
    /// No oops, warning or lockup on the console.
    NoSplat,
    /// PID 1 could do everything that it was told.
    Pid1,
}

impl Rule {
    /// The rule's name as printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::ShutDownOnce => "shut down once",
            Self::ChildrenFirst => "children first",
            Self::ConsumersFirst => "consumers first",
            Self::NoOverlap => "no overlap",
            Self::TasksBounded => "tasks bounded",
            Self::LockHeldAlone => "lock held alone",
            Self::InsideWindow => "inside window",
            Self::DelayRespected => "delay respected",
            Self::MemoryBlocks => "memory blocks",
            Self::Hotplug => "hotplug",
            Self::ColdplugComplete => "coldplug complete",
            Self::SystemdUnits => "systemd's units",
            Self::WalkAnswers => "walk's answers",
            Self::ChurnAnswers => "churn's answers",
            Self::NoSplat => "no splat",
            Self::Pid1 => "PID 1",
        }
    }
}

/// Judges one boot cycle: its log, the logs after it, and the console's splats.
pub fn judge(
    scenario: &Scenario,
    variant: &Variant,
    boots: &[BootLog],
    splats: &[String],
) -> Ruling {
    let mut judge = Judge {
        scenario,
        variant,
        ruling: Ruling::default(),
    };
    judge.console(splats);
    if let Some(first) = boots.first() {
        judge.pid1(boots);
        judge.memory_blocks(first);
        judge.hotplug(first);
        judge.coldplug(first);
        judge.systemd(first);
        judge.walk(first);
        judge.churn(first);
    }
    // Without records nothing is known of devices.
    if let Some(first) = boots.first().filter(|_| !variant.unrecorded) {
        judge.bound(first);
        judge.probes(first);
        let shutdowns = judge.shut_down_once(first);
        judge.children_first(&shutdowns);
        judge.consumers_first(&shutdowns);
        if variant.order == Order::Serial {
            judge.no_overlap(&shutdowns);
        }
        judge.tasks_bounded(first);
        judge.locks(&shutdowns);
        judge.inside_window(first, &shutdowns);
        judge.delays(first);
    }
    judge.ruling
}

/// `2 units were not started: x.device (timeout), y.service (dependency); ...`
fn not_started(asked: &Systemd, boot: &SystemdBoot) -> String {
    let named: Vec<_> = boot
        .broken
        .iter()
        .map(|b| format!("{} ({})", b.unit, b.result))
        .collect();
    let more = boot.broken_in_all.saturating_sub(named.len() as u64);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let late = boot.broken.iter().any(|b| b.result == "timeout");
    let limit = asked.default_timeout_start_sec.filter(|_| late);
    let limit = limit.map(|limit| format!("; default_timeout_start_sec is {limit}"));
    format!(
        "{} of systemd's units were not started: {}{more}{}",
        boot.broken_in_all,
        named.join(", "),
        limit.unwrap_or_default()
    )
}

struct Judge<'a> {
    scenario: &'a Scenario,
    variant: &'a Variant,
    ruling: Ruling,
}

impl Judge<'_> {
    fn check(&mut self, rule: Rule, holds: bool, what: impl FnOnce() -> String) {
        self.ruling.checked += 1;
        if !holds {
            self.ruling
                .violations
                .push(Violation { rule, what: what() });
        }
    }

    fn name(&self, device: usize) -> String {
        self.scenario.devices.get(device).map_or_else(
            || format!("device {device} (not in the scenario)"),
            |d| d.name.clone(),
        )
    }

    fn console(&mut self, splats: &[String]) {
        self.check(Rule::NoSplat, splats.is_empty(), || splats.join("; "));
    }

    fn pid1(&mut self, boots: &[BootLog]) {
        let errors: Vec<_> = boots
            .iter()
            .flat_map(|b| &b.errors)
            .map(|(what, errno)| format!("{what} (errno {errno})"))
            .collect();
        self.check(Rule::Pid1, errors.is_empty(), || errors.join("; "));
    }

    fn walk(&mut self, log: &BootLog) {
        let (Some(asked), Some(walked)) = (self.scenario.walk, &log.walk) else {
            return;
        };
        let operations = asked.operations();
        self.check(Rule::WalkAnswers, walked.operations == operations, || {
            let done = walked.operations;
            format!("{operations} operations were to be done, {done} were")
        });
        // One fact an operation.
        self.ruling.checked += walked.operations.saturating_sub(1);
        self.check(Rule::WalkAnswers, walked.wrong == 0, || {
            let wrong = walked.wrong;
            format!("{wrong} of {operations} answers were wrong: {asked}")
        });
    }

    fn churn(&mut self, log: &BootLog) {
        let (Some(asked), Some(done)) = (self.scenario.churn, &log.churn) else {
            return;
        };
        let changes = asked.changes();
        self.check(Rule::ChurnAnswers, done.changes == changes, || {
            let done = done.changes;
            format!("{changes} changes were to be made, {done} were")
        });
        // One fact an answer of which it is known what it had to be.
        self.ruling.checked += done.certain.saturating_sub(1);
        let right = done.wrong == 0 && done.certain > 0;
        self.check(Rule::ChurnAnswers, right, || match done.certain {
            0 => format!("of no answer it was certain what it had to be: {asked}"),
            certain => {
                let (wrong, all) = (done.wrong, done.answers);
                format!("{wrong} of {all} answers ({certain} of them certain) were wrong: {asked}")
            }
        });
    }

    fn coldplug(&mut self, log: &BootLog) {
        let seen = match (&log.coldplug, &log.systemd) {
            (Some(done), _) => done.seen,
            (None, Some(boot)) => boot.seen,
            (None, None) => return,
        };
        let Some((blocks, _)) = log.memory else {
            return;
        };
        // One fact a block.
        self.ruling.checked += blocks.saturating_sub(1);
        self.check(Rule::ColdplugComplete, seen == blocks, || {
            format!("{blocks} memory blocks are there, udev's rules saw {seen}")
        });
    }

    fn hotplug(&mut self, log: &BootLog) {
        let memory = self.scenario.memory;
        let asked = memory.and_then(|m| Some((m.hotplug()?, u64::from(m.blocks))));
        let (Some((asked, blocks)), Some(done)) = (asked, &log.hotplug) else {
            return;
        };
        let early = asked.when == When::Later && done.before > 0;
        self.check(Rule::Hotplug, !early, || {
            let before = done.before;
            format!("{before} memory blocks were there before anything was plugged in")
        });
        self.check(Rule::Hotplug, done.blocks == blocks, || {
            let there = done.blocks;
            format!("{blocks} memory blocks were plugged in ({asked}), {there} are there")
        });
        // One fact a block.
        self.ruling.checked += done.blocks.saturating_sub(1);
        let good = match asked.online {
            Online::Offline => done.offline,
            Online::Online => done.kernel + done.movable,
            Online::OnlineKernel => done.kernel,
            Online::OnlineMovable => done.movable,
        };
        self.check(Rule::Hotplug, good == done.blocks, || {
            format!(
                "of {} memory blocks that were plugged in {} are offline, {} online for the kernel and {} for what is movable; all were to be {}",
                done.blocks, done.offline, done.kernel, done.movable, asked.online.name()
            )
        });
    }

    fn systemd(&mut self, log: &BootLog) {
        let (Some(asked), Some(boot)) = (&self.variant.systemd, &log.systemd) else {
            return;
        };
        // One fact a unit.
        self.ruling.checked += boot.units.saturating_sub(1);
        let good = boot.broken_in_all == 0 && boot.broken.is_empty();
        self.check(Rule::SystemdUnits, good, || not_started(asked, boot));
    }

    fn memory_blocks(&mut self, log: &BootLog) {
        let Some(memory) = self.scenario.memory else {
            return;
        };
        let wanted = memory.wanted(self.scenario.machine.memory);
        let holds = log
            .memory
            .is_some_and(|(blocks, size)| wanted.fits(blocks, size));
        self.check(Rule::MemoryBlocks, holds, || match log.memory {
            Some((blocks, size)) => format!("{wanted} were wanted, {blocks} of {size} are there"),
            None => format!("{wanted} were wanted, and PID 1 did not say what is there"),
        });
    }

    fn events<'e>(&self, log: &'e BootLog, callback: Callback) -> Vec<Vec<&'e CallbackEvent>> {
        let mut by_device = vec![Vec::new(); self.scenario.devices.len()];
        for event in log.callbacks.iter().filter(|e| e.callback == callback) {
            if let Some(list) = by_device.get_mut(event.device) {
                list.push(event);
            }
        }
        by_device
    }

    fn bound(&mut self, log: &BootLog) {
        for (device, probes) in self.events(log, Callback::Probe).iter().enumerate() {
            let unbound = self.scenario.stays_unbound(device);
            if unbound || self.scenario.profile(self.variant, device).is_none() {
                let name = self.name(device);
                self.check(Rule::Bound, probes.is_empty(), || {
                    format!("{name} was probed and has nothing to be bound for")
                });
                continue;
            }
            if let Some(good) = probing::as_disturbed(self.variant, log, device) {
                let name = self.name(device);
                self.check(Rule::Bound, good, || {
                    let became = probing::outcome(self.variant, log, device);
                    format!("{name} became: {became}, which is not what was done to it")
                });
                continue;
            }
            let name = self.name(device);
            // One that was taken away may have come back.
            let again = self.scenario.is_removed(device) && !probes.is_empty();
            let good = matches!(probes[..], [p] if p.end.is_some() && p.ret == 0)
                || (again && probes.iter().all(|p| p.end.is_some() && p.ret == 0));
            self.check(Rule::Bound, good, || match probes[..] {
                [] => format!("{name} was never probed"),
                [p] if p.end.is_none() => format!("{name}'s probe never returned"),
                [p] => format!("{name}'s probe failed with {}", p.ret),
                _ => format!("{name} was probed {} times", probes.len()),
            });
        }
    }

    /// One by one where nothing probes side by side, and each shared lock held by one.
    fn probes(&mut self, log: &BootLog) {
        let probes = log
            .callbacks
            .iter()
            .filter(|e| e.callback == Callback::Probe && e.device < self.scenario.devices.len());
        let mut spans: Vec<Span> = probes.filter_map(CallbackEvent::span).collect();
        spans.sort_by_key(|s| (s.begin, s.end, s.device));
        let probing = &self.variant.probing;
        // What is deferred or cut short is taken up again beside what goes on.
        if !probing.strategy.is_parallel() && !probing.is_disturbed() {
            self.no_overlap(&spans);
        }
        self.locks(&spans);
    }

    fn shut_down_once(&mut self, log: &BootLog) -> Vec<Span> {
        let probes = self.events(log, Callback::Probe);
        let shutdowns = self.events(log, Callback::Shutdown);
        let removes = self.events(log, Callback::Remove);
        let mut spans = Vec::new();
        for (device, calls) in shutdowns.iter().enumerate() {
            let bound = probes[device].iter().any(|p| p.ret == 0);
            let name = self.name(device);
            // One whose driver is gone, or a machine that ends before it goes down.
            let unloaded = self.variant.probing.unload.is_some() && !removes[device].is_empty();
            let down = log.marks.contains_key(&Mark::ShutdownBegin);
            let expected = usize::from(bound && down && !unloaded);
            // One that is taken away meanwhile may go before its turn.
            let gone = self.scenario.is_removed(device) && !removes[device].is_empty();
            let good = calls.len() == expected || (gone && calls.is_empty());
            self.check(Rule::ShutDownOnce, good, || {
                format!(
                    "{name} was shut down {} times, expected {expected}",
                    calls.len()
                )
            });
            for call in calls {
                match call.span() {
                    Some(span) => spans.push(span),
                    None => self.check(Rule::ShutDownOnce, false, || {
                        format!("{name}'s shutdown never returned")
                    }),
                }
            }
        }
        spans.sort_by_key(|s| (s.begin, s.end, s.device));
        spans
    }

    fn children_first(&mut self, spans: &[Span]) {
        let mut begin_of = vec![None; self.scenario.devices.len()];
        for span in spans {
            begin_of[span.device].get_or_insert(span.begin);
        }
        for span in spans {
            let mut above = self.scenario.devices[span.device].parent;
            while let Some(parent) = above {
                if let Some(begin) = begin_of[parent] {
                    let (child, parent_name) = (self.name(span.device), self.name(parent));
                    self.check(Rule::ChildrenFirst, span.end <= begin, || {
                        format!(
                            "{parent_name} began at {} while its child {child} ended at {}",
                            begin.0, span.end.0
                        )
                    });
                    // What is above that parent is checked against it in its own turn.
                    break;
                }
                above = self.scenario.devices[parent].parent;
            }
        }
    }

    fn consumers_first(&mut self, spans: &[Span]) {
        let of = |device| spans.iter().filter(move |s| s.device == device);
        for link in self.scenario.links.iter().filter(|l| l.orders) {
            for (consumer, supplier) in
                of(link.consumer).flat_map(|c| of(link.supplier).map(move |s| (c, s)))
            {
                let names = (self.name(link.consumer), self.name(link.supplier));
                self.check(Rule::ConsumersFirst, consumer.end <= supplier.begin, || {
                    format!(
                        "{} began at {} while its consumer {} ended at {}",
                        names.1, supplier.begin.0, names.0, consumer.end.0
                    )
                });
            }
        }
    }

    fn tasks_bounded(&mut self, log: &BootLog) {
        let Some(most) = self.variant.max_tasks else {
            return;
        };
        let tasks = log.shutdown_tasks();
        self.check(Rule::TasksBounded, tasks <= most as usize, || {
            format!("{tasks} tasks ran callbacks, the limit is {most}")
        });
    }

    fn no_overlap(&mut self, spans: &[Span]) {
        for pair in spans.windows(2) {
            let names = (self.name(pair[0].device), self.name(pair[1].device));
            self.check(Rule::NoOverlap, pair[0].end <= pair[1].begin, || {
                format!(
                    "{} began at {} before {} ended at {}",
                    names.1, pair[1].begin.0, names.0, pair[0].end.0
                )
            });
        }
    }

    fn locks(&mut self, spans: &[Span]) {
        let mut held: Vec<(String, Span)> = spans
            .iter()
            .filter_map(|s| {
                Some((
                    self.scenario
                        .profile(self.variant, s.device)?
                        .lock
                        .clone()?,
                    *s,
                ))
            })
            .collect();
        held.sort_by(|a, b| (&a.0, a.1.locked, a.1.end).cmp(&(&b.0, b.1.locked, b.1.end)));
        for pair in held.windows(2).filter(|p| p[0].0 == p[1].0) {
            let names = (self.name(pair[0].1.device), self.name(pair[1].1.device));
            self.check(
                Rule::LockHeldAlone,
                pair[0].1.end <= pair[1].1.locked,
                || format!("{} and {} held {} at once", names.0, names.1, pair[0].0),
            );
        }
    }

    fn inside_window(&mut self, log: &BootLog, spans: &[Span]) {
        let (Some(begin), Some(end)) = (
            log.marks.get(&Mark::ShutdownBegin),
            log.marks.get(&Mark::ShutdownEnd),
        ) else {
            return;
        };
        for span in spans {
            let name = self.name(span.device);
            self.check(
                Rule::InsideWindow,
                span.begin >= begin.mono && span.end <= end.mono,
                || {
                    format!(
                        "{name} ran from {} to {}, device_shutdown from {} to {}",
                        span.begin.0, span.end.0, begin.mono.0, end.mono.0
                    )
                },
            );
        }
    }

    fn delays(&mut self, log: &BootLog) {
        for event in &log.callbacks {
            let (Some(end), true) = (event.end, event.device < self.scenario.devices.len()) else {
                continue;
            };
            let Some(profile) = self.scenario.profile(self.variant, event.device) else {
                continue;
            };
            // A probe that failed has not done all of it.
            if event.ret != 0 {
                continue;
            }
            let asked = profile.nominal(event.callback);
            let granted = end - event.locked;
            let name = self.name(event.device);
            self.check(Rule::DelayRespected, granted >= asked, || {
                format!(
                    "{name}'s {:?} took {granted}, its profile asks for {asked}",
                    event.callback
                )
            });
        }
    }
}
