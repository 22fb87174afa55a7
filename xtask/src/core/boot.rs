// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a machine left behind to what a boot means: outcome and times.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    blame, console,
    event::{self, BootLog, Mark, Stamp},
    fault::{Exit, is_obeyed},
    ideal::{self, Ideal, Means},
    machine::{End, RawBoot},
    oracle,
    plan::Trial,
    probing,
    scenario::{Memory, Metric},
    units::Nanos,
};

/// How a trial ended. A failure is an outcome, never a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "why", rename_all = "snake_case")]
pub enum Outcome {
    /// Everything was reported and the machine came back.
    Completed,
    /// The guest's kernel died.
    Panic(String),
    /// A deadline passed, or the kernel reported a lockup.
    Hang(String),
    /// The guest ended, but its record is missing, cut, doubled or contradicts itself.
    LostResult(String),
    /// The machine failed; nothing is known about the guest.
    Infrastructure(String),
    /// The kernel has no such thing, so that nothing was booted: what it would take.
    NotAvailable(String),
}

impl Outcome {
    /// Whether something went wrong: what a kernel has no means for did not.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Completed | Self::NotAvailable(_))
    }
    /// The exit code that a run with this outcome comes to.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Completed | Self::NotAvailable(_) => Exit::Done,
            Self::Panic(_) | Self::Hang(_) | Self::LostResult(_) => Exit::Guest,
            Self::Infrastructure(_) => Exit::Infrastructure,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::Completed => return f.write_str("completed"),
            Self::Panic(why) => ("panic", why),
            Self::Hang(why) => ("hang", why),
            Self::LostResult(why) => ("lost result", why),
            Self::Infrastructure(why) => ("infrastructure", why),
            Self::NotAvailable(why) => ("not available", why),
        };
        // One line, whatever a guest or an edited file says.
        let why = why.replace('\n', " ").replace(is_obeyed, "\u{fffd}");
        write!(f, "{what}: {why}")
    }
}

/// The reboot and its parts; they add up to `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootSplit {
    /// From PID 1's decision to the next PID 1; without the time that the rig itself took
    /// to write its records.
    pub total: Nanos,
    /// PID 1 ends the other processes, syncs, unmounts.
    pub user_space: Nanos,
    /// The kernel from reboot(2) to device_shutdown().
    pub kernel: Nanos,
    /// device_shutdown().
    pub device_shutdown: Nanos,
    /// From the last mark (syscore shutdown) to the start of the next kernel's clock:
    /// machine_restart(), firmware, unpacking of the kernel.
    pub firmware: Nanos,
    /// From the start of the next kernel's clock to PID 1.
    pub next_boot: Nanos,
}

impl RebootSplit {
    /// Its parts, by the names of [`REBOOT_PARTS`](super::metric::REBOOT_PARTS).
    pub fn parts(&self) -> [Nanos; 5] {
        [
            self.user_space,
            self.kernel,
            self.device_shutdown,
            self.firmware,
            self.next_boot,
        ]
    }
}

/// The numbers of one completed boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Kernel start to PID 1.
    pub boot: Nanos,
    /// Loading the driver, if it was loaded, as its loader saw it.
    #[serde(default)]
    pub load: Option<Nanos>,
    /// The driver's attach, if there was one.
    pub probe: Option<Nanos>,
    /// Its ideal; `None` where a probe never returned, or is not waited for.
    pub probe_ideal: Option<Ideal>,
    /// From the driver's attach to its last device that was bound.
    #[serde(default)]
    pub bound: Option<Nanos>,
    /// Its ideal; `None` where a probe never returned.
    #[serde(default)]
    pub bound_ideal: Option<Ideal>,
    /// From the kernel's start to the last device that was bound.
    #[serde(default)]
    pub ready: Option<Nanos>,
    /// device_shutdown(); `None`: the machine ended before it.
    pub device_shutdown: Option<Nanos>,
    /// Its ideal; `None` where a device's shutdown never returned.
    pub shutdown_ideal: Option<Ideal>,
    /// What fills it beyond its devices' delays, largest first.
    #[serde(default)]
    pub shutdown_blame: Vec<blame::Share>,
    /// How many tasks ran its callbacks.
    #[serde(default)]
    pub tasks: u64,
    /// The reboot, where it is measured.
    pub reboot: Option<RebootSplit>,
}

/// What is known about one trial after it was run; stored as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialResult {
    /// The trial's id.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The numbers, when completed.
    pub times: Option<Times>,
    /// What the oracle says of it, when completed.
    pub oracle: oracle::Ruling,
    /// The first boot's log, when completed.
    pub log: Option<BootLog>,
}

impl TrialResult {
    /// The median-able value of `metric`, and its ideal where one is known.
    pub fn metric(&self, metric: Metric) -> Option<(Nanos, Option<&Ideal>)> {
        let times = self.times.as_ref()?;
        Some(match metric {
            Metric::Boot => (times.boot, None),
            Metric::Load => (times.load?, None),
            Metric::Probe => (times.probe?, times.probe_ideal.as_ref()),
            Metric::Bound => (times.bound?, times.bound_ideal.as_ref()),
            Metric::Ready => (times.ready?, None),
            Metric::DeviceShutdown => (times.device_shutdown?, times.shutdown_ideal.as_ref()),
            Metric::Reboot => (times.reboot?.total, None),
            Metric::Walk => {
                let walk = self.log.as_ref()?.walk.as_ref()?;
                (walk.end - walk.begin, None)
            }
            Metric::Churn => {
                let churn = self.log.as_ref()?.churn.as_ref()?;
                (churn.end - churn.begin, None)
            }
            Metric::Hotplug => {
                let hotplug = self.log.as_ref()?.hotplug.as_ref()?;
                (hotplug.end - hotplug.begin, None)
            }
            Metric::Coldplug => {
                let coldplug = self.log.as_ref()?.coldplug.as_ref()?;
                (coldplug.end - coldplug.begin, None)
            }
            Metric::Systemd => {
                let systemd = self.log.as_ref()?.systemd.as_ref()?;
                (systemd.finish - systemd.start, None)
            }
        })
    }
}

/// Interprets what `trial`'s machine left behind. Never fails: whatever is wrong becomes
/// the outcome.
pub fn interpret(trial: &Trial, raw: &RawBoot) -> TrialResult {
    let failed = |outcome| TrialResult {
        id: trial.id.clone(),
        outcome,
        times: None,
        oracle: oracle::Ruling::default(),
        log: None,
    };
    if let Some(outcome) = bad_end(raw) {
        return failed(outcome);
    }
    let boots = match event::decode(&raw.channel) {
        Ok(boots) => boots,
        Err(lost) => return failed(Outcome::LostResult(lost.to_string())),
    };
    let times = match times(trial, &boots) {
        Ok(times) => times,
        Err(why) => return failed(Outcome::LostResult(why)),
    };
    let splats = console::splats(&raw.console);
    TrialResult {
        id: trial.id.clone(),
        outcome: Outcome::Completed,
        times: Some(times),
        oracle: oracle::judge(&trial.scenario, trial.variant(), &boots, &splats),
        log: boots.into_iter().next(),
    }
}

fn bad_end(raw: &RawBoot) -> Option<Outcome> {
    // A panic explains whatever came after it, however the machine then ended.
    let panic = console::panic_line(&raw.console);
    Some(match (&raw.end, panic) {
        (End::NotAvailable(why), _) => Outcome::NotAvailable(why.clone()),
        (End::Machine(why), _) => Outcome::Infrastructure(why.clone()),
        (_, Some(line)) => Outcome::Panic(line),
        (End::Finished, None) => return None,
        (End::Early(why), None) => Outcome::LostResult(told(why, &raw.channel)),
        (End::Splat(line), None) => Outcome::Hang(line.clone()),
        (End::Deadline(why), None) => Outcome::Hang(told(why, &raw.channel)),
    })
}

/// What PID 1 says when a step was not done in time.
const ETIMEDOUT: i32 = 110;

/// `why`, with what PID 1 said it could not do, if its record is whole.
fn told(why: &str, channel: &[u8]) -> String {
    let boots = event::decode(channel).unwrap_or_default();
    let errors: Vec<_> = boots.iter().flat_map(|b| &b.errors).collect();
    let mut told = why.to_owned();
    for (what, errno) in &errors {
        told += &format!("; PID 1: {what} (errno {errno})");
    }
    let late = errors.iter().find(|(_, errno)| *errno == ETIMEDOUT);
    if let Some((user_space @ ("coldplug" | "systemd"), _)) =
        late.and_then(|(what, _)| what.split_once(':'))
    {
        told += &format!(": give `{user_space}` a longer `limit`");
    }
    told
}

/// # Errors
/// Says which part of the record is missing.
fn times(trial: &Trial, boots: &[BootLog]) -> Result<Times, String> {
    let wanted = if trial.boots_again() { 2 } else { 1 };
    let (Some(first), true) = (boots.first(), boots.len() == wanted) else {
        return Err(format!("{} boots were reported, not {wanted}", boots.len()));
    };
    let known = trial.scenario.devices.len();
    let named = first.callbacks.iter().map(|e| e.device);
    let mut named = named.chain(first.names.iter().map(|n| n.0));
    if let Some(device) = named.find(|d| *d >= known) {
        return Err(format!(
            "an event names device {device}, the scenario has {known}"
        ));
    }
    if trial.scenario.walk.is_some() && first.walk.is_none() {
        return Err("the guest did not say how its walk went".into());
    }
    if trial.scenario.churn.is_some() && first.churn.is_none() {
        return Err("the guest did not say how its churn went".into());
    }
    let plugged = trial.scenario.memory.and_then(Memory::hotplug);
    if plugged.is_some() && first.hotplug.is_none() {
        return Err("the guest did not say how its hotplug went".into());
    }
    if trial.variant().coldplug.is_some() && first.coldplug.is_none() {
        return Err("the guest did not say how its coldplug went".into());
    }
    if trial.variant().systemd.is_some() && first.systemd.is_none() {
        return Err("the guest did not say how its boot of systemd went".into());
    }
    let means = Means {
        clock: trial.clock,
        cpus: first.cpus,
    };
    let times = probe_times(trial, means, first)?;
    if trial.ends_when_probed() {
        return match first.leave {
            None => Ok(times),
            Some(_) => Err("the guest left, and should have stopped before".into()),
        };
    }
    down_times(trial, means, boots, times)
}

/// The times up to where the devices are probed; there are none of the way down yet.
fn probe_times(trial: &Trial, means: Means, log: &BootLog) -> Result<Times, String> {
    let (scenario, variant) = (&trial.scenario, trial.variant());
    let begin = log.marks.get(&Mark::AttachBegin).map(|m| m.mono);
    let probe = match (begin, log.marks.get(&Mark::AttachEnd)) {
        (Some(from), Some(to)) => Some(to.mono - from),
        (None, _) => None,
        (Some(_), None) if variant.probing.hangs() => None,
        (Some(_), None) => return Err("the driver's attach began and never ended".into()),
    };
    let last_bound = probing::last_bound(log);
    let bound = begin.and_then(|begin| Some(last_bound? - begin));
    let recorded = |_: &Ideal| !variant.unrecorded;
    let ideal = ideal::probe(scenario, variant, means, log).filter(recorded);
    let waits = !variant.probing.strategy.is_async();
    Ok(Times {
        boot: log.hello.mono,
        load: probing::load(log),
        probe,
        probe_ideal: ideal.clone().filter(|_| probe.is_some() && waits),
        bound,
        // Where a device was not bound, the last that was says nothing of them all.
        bound_ideal: ideal.filter(|_| bound.is_some() && probing::all_bound(log)),
        ready: last_bound,
        device_shutdown: None,
        shutdown_ideal: None,
        shutdown_blame: vec![],
        tasks: 0,
        reboot: None,
    })
}

/// Completes `times` with those of the way down.
fn down_times(
    trial: &Trial,
    means: Means,
    boots: &[BootLog],
    times: Times,
) -> Result<Times, String> {
    let first = &boots[0];
    let mark = |mark: Mark| {
        first
            .marks
            .get(&mark)
            .copied()
            .ok_or_else(|| format!("the guest rebooted without the mark {mark:?}"))
    };
    let (begin, end, dump_end) = (
        mark(Mark::ShutdownBegin)?,
        mark(Mark::ShutdownEnd)?,
        mark(Mark::DumpEnd)?,
    );
    let leave = first
        .leave
        .ok_or("the guest rebooted before PID 1 asked it to")?;
    let enter = first
        .enter
        .ok_or("the guest rebooted before PID 1 called reboot(2)")?;
    let (_, khz) = first
        .config
        .ok_or("the kernel side did not say its clock's frequency")?;
    for (earlier, later, what) in [
        (leave, enter, "enter"),
        (enter, begin, "shutdown_begin"),
        (begin, end, "shutdown_end"),
        (end, dump_end, "dump_end"),
    ] {
        if later.tsc < earlier.tsc || later.mono < earlier.mono {
            return Err(format!("the guest's clocks ran backwards before {what}"));
        }
    }
    let recorded = |_: &Ideal| !trial.variant().unrecorded;
    let shutdown_ideal =
        ideal::shutdown(&trial.scenario, trial.variant(), means, first).filter(recorded);
    Ok(Times {
        device_shutdown: Some(end.mono - begin.mono),
        shutdown_blame: shutdown_ideal.as_ref().map_or(vec![], |ideal| {
            blame::shutdown(&trial.scenario, trial.variant(), ideal, first)
        }),
        shutdown_ideal,
        tasks: first.shutdown_tasks() as u64,
        reboot: match boots.get(1) {
            Some(second) => Some(reboot(
                [leave, enter, begin, end, dump_end],
                second.hello,
                khz,
            )?),
            None => None,
        },
        ..times
    })
}

/// Splits a reboot by the time stamp counter, the one clock that runs on across a reset.
/// Under KVM the counter starts anew; then what lies between the last mark and the reset
/// is not seen.
fn reboot(
    [leave, enter, begin, end, dump_end]: [Stamp; 5],
    next: Stamp,
    khz: u64,
) -> Result<RebootSplit, String> {
    if khz == 0 {
        return Err("the guest says that its clock stands still".into());
    }
    let nanos = |ticks: u64| {
        Nanos(
            (u128::from(ticks) * 1_000_000 / u128::from(khz))
                .try_into()
                .unwrap_or(u64::MAX),
        )
    };
    let reset = if next.tsc >= dump_end.tsc {
        dump_end.tsc
    } else {
        0
    };
    let firmware = nanos(next.tsc - reset) - next.mono;
    let parts = RebootSplit {
        total: Nanos(0),
        user_space: nanos(enter.tsc - leave.tsc),
        kernel: nanos(begin.tsc - enter.tsc),
        device_shutdown: nanos(end.tsc - begin.tsc),
        firmware,
        next_boot: next.mono,
    };
    let total = parts.parts().into_iter().sum();
    Ok(RebootSplit { total, ..parts })
}
