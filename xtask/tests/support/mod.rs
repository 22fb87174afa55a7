// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scripted machine: simulates a guest's boot, with its delays, and writes the channel
//! that such a guest would write; faults can be injected by trial.
#![allow(dead_code, missing_docs)]

pub mod benched;
pub mod defects;
pub mod python;
pub mod runs;
pub mod told;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bootrig::core::{
    event::Encoder,
    fault::Stopped,
    machine::{End, Machine, RawBoot},
    plan::{Overrides, Trial, plan},
    scenario::{
        Backend, Clock, Device, MachineKind, MachineSpec, Metric, NodeKind, Order, Probing,
        Profile, Restart, Scenario, Step, Variant,
    },
    units::{Bytes, Nanos},
};

pub const MS: u64 = 1_000_000;

pub fn profile(name: &str, shutdown_ms: u64, lock: Option<&str>) -> Profile {
    Profile {
        name: name.into(),
        id: (0x1b36, 0x11),
        class: None,
        about: String::new(),
        source: String::new(),
        firmware: None,
        probe: vec![Step::Wait(Nanos(MS))],
        shutdown: vec![Step::Wait(Nanos(shutdown_ms * MS))],
        remove: vec![],
        lock: lock.map(Into::into),
    }
}

pub fn device(name: &str, parent: Option<usize>, kind: NodeKind, profile: Option<&str>) -> Device {
    Device {
        name: name.into(),
        parent,
        kind,
        profile: profile.map(Into::into),
        names: None,
    }
}

pub fn variant(name: &str, order: Order) -> Variant {
    Variant {
        name: name.into(),
        series: None,
        patches: None,
        cmdline: vec![],
        probing: Probing::default(),
        order,
        restart: Restart::Reset,
        max_tasks: None,
        unrecorded: false,
        options: Vec::new(),
        coldplug: None,
        systemd: None,
        swap: BTreeMap::new(),
    }
}

/// A bridge (30 ms) over two devices (100 ms, 50 ms), two devices sharing a lock (40 ms
/// each), and one that does nothing.
pub fn scenario() -> Scenario {
    let profiles = [
        profile("bridge", 30, None),
        profile("slow", 100, None),
        profile("quick", 50, None),
        profile("locked", 40, Some("rtnl")),
        profile("idle", 0, None),
    ];
    Scenario {
        name: "scripted".into(),
        about: String::new(),
        kernel: "6.1".into(),
        clock: Clock::Virtual,
        machine: MachineSpec {
            kind: MachineKind::Microvm,
            cpus: 1,
            memory: Bytes(256 << 20),
            backend: Backend::Qemu,
        },
        memory: None,
        walk: None,
        churn: None,
        devices: vec![
            device("sw", None, NodeKind::Bridge, Some("bridge")),
            device("slow", Some(0), NodeKind::Endpoint, Some("slow")),
            device("quick", Some(0), NodeKind::Endpoint, Some("quick")),
            device("nic.0", None, NodeKind::Endpoint, Some("locked")),
            device("nic.1", None, NodeKind::Endpoint, Some("locked")),
            device("idle", None, NodeKind::Endpoint, Some("idle")),
        ],
        profiles: profiles.into_iter().map(|p| (p.name.clone(), p)).collect(),
        links: vec![],
        first: vec![],
        meanwhile: vec![],
        sysctl: vec![],
        variants: vec![
            variant("serial", Order::Serial),
            variant("parallel", Order::Parallel),
        ],
        metrics: vec![
            Metric::Boot,
            Metric::Probe,
            Metric::DeviceShutdown,
            Metric::Reboot,
        ],
        repeats: None,
        sweep: None,
        point: None,
        reference: None,
        expect: vec![],
        timeout: Nanos(60_000 * MS),
        hash: "0".repeat(64),
    }
}

pub fn trials(scenario: Scenario, repeats: u32) -> Vec<Trial> {
    plan(
        &[Arc::new(scenario)],
        Overrides {
            clock: None,
            repeats: Some(repeats),
            debug: false,
        },
    )
}

/// A callback of the simulated guest: device, begin, locked, end.
pub type Call = (usize, u64, u64, u64);

/// The shutdowns of a correct guest, from time `start` on.
pub fn shutdowns(trial: &Trial, start: u64) -> Vec<Call> {
    let (scenario, variant) = (&trial.scenario, trial.variant());
    let delay = |d: usize| {
        scenario
            .profile(variant, d)
            .map_or(0, |p| p.shutdown.iter().map(|s| s.nominal().0).sum::<u64>())
    };
    let mut calls: Vec<Call> = Vec::new();
    let mut now = start;
    let mut free_at: BTreeMap<&str, u64> = BTreeMap::new();
    // Children have higher indices than their parents.
    for d in (0..scenario.devices.len()).rev() {
        let Some(profile) = scenario.profile(variant, d) else {
            continue;
        };
        let children = calls
            .iter()
            .filter(|c| scenario.wait_for(c.0).any(|later| later == d))
            .map(|c| c.3)
            .max();
        let begin = match variant.order {
            Order::Serial => now,
            Order::Parallel => children.unwrap_or(start),
        };
        let free = profile
            .lock
            .as_deref()
            .map(|l| free_at.entry(l).or_default());
        let locked = free.as_ref().map_or(begin, |f| begin.max(**f));
        let end = locked + delay(d);
        if let Some(free) = free {
            *free = end;
        }
        calls.push((d, begin, locked, end));
        now = now.max(end);
    }
    calls
}

/// The channel of a guest that behaves, with `calls` as its shutdowns.
pub fn channel(trial: &Trial, calls: &[Call]) -> Vec<u8> {
    let scenario = &trial.scenario;
    let stamp = |t: u64| format!("mono={t} tsc={}", t + 7);
    let mut e = Encoder::default();
    e.line(
        'i',
        &format!("hello boot=1 release=6.1.0 cpus=1 {}", stamp(280 * MS)),
    );
    e.line(
        'i',
        &format!("loaded module=marks begin={} end={}", 281 * MS, 282 * MS),
    );
    e.line('k', "config hz=250 tsc_khz=1000000");
    let mut now = 290 * MS;
    e.line('k', &format!("mark name=attach_begin {}", stamp(now)));
    for d in 0..scenario.devices.len() {
        if let Some(profile) = scenario.profile(trial.variant(), d) {
            let takes: u64 = profile.probe.iter().map(|s| s.nominal().0).sum();
            e.line(
                'k',
                &format!(
                    "cb dev={d} op=probe begin={now} locked={now} end={} cpu=0 pid=1 ret=0",
                    now + takes
                ),
            );
            now += takes;
        }
    }
    e.line('k', &format!("mark name=attach_end {}", stamp(now)));
    e.line(
        'i',
        &format!("leave how=reboot {}", stamp(SHUTDOWN - 2 * MS)),
    );
    e.line('i', &format!("enter {}", stamp(SHUTDOWN - MS)));
    e.end('i');
    e.line(
        'k',
        &format!("mark name=shutdown_begin {}", stamp(SHUTDOWN)),
    );
    for (d, begin, locked, end) in calls {
        e.line(
            'k',
            &format!(
                "cb dev={d} op=shutdown begin={begin} locked={locked} end={end} cpu=0 pid=1 ret=0"
            ),
        );
    }
    let over = calls.iter().map(|c| c.3).max().unwrap_or(SHUTDOWN);
    e.line('k', &format!("mark name=shutdown_end {}", stamp(over)));
    e.line('k', &format!("mark name=dump_end {}", stamp(over + MS)));
    e.end('k');
    if !trial.boots_again() {
        return e.bytes;
    }
    let next = 280 * MS;
    e.line(
        'i',
        &format!(
            "hello boot=2 release=6.1.0 cpus=1 mono={next} tsc={}",
            over + 7 + 11 * MS + next
        ),
    );
    e.end('i');
    e.bytes
}

/// When the simulated device_shutdown() begins.
pub const SHUTDOWN: u64 = 1_000 * MS;

/// What a correct guest leaves behind.
pub fn good(trial: &Trial) -> RawBoot {
    RawBoot {
        end: End::Finished,
        channel: channel(trial, &shutdowns(trial, SHUTDOWN)),
        console: b"reboot: machine restart\n".to_vec(),
    }
}

/// Ten thousand devices, one by one and side by side, in groups and under bridges.
pub fn ten_thousand() -> Scenario {
    let mut big = scenario();
    big.devices.clear();
    for bridge in 0..40 {
        let name = format!("bridge.{bridge}");
        big.devices
            .push(device(&name, None, NodeKind::Bridge, Some("bridge")));
    }
    for number in 0..9960 {
        let (kind, profile) = [("disk", "slow"), ("nic", "locked"), ("other", "quick")][number % 3];
        let name = format!("{kind}.{number}");
        big.devices.push(device(
            &name,
            Some(number % 40),
            NodeKind::Endpoint,
            Some(profile),
        ));
    }
    big
}

/// What a correct guest of [`ten_thousand`] leaves behind; [`shutdowns`] takes its time.
pub fn many(trial: &Trial) -> RawBoot {
    let devices = &trial.scenario.devices;
    let delay = |d: usize| -> u64 {
        let profile = trial.scenario.profile(trial.variant(), d).unwrap();
        profile.shutdown.iter().map(|s| s.nominal().0).sum()
    };
    let mut calls = Vec::new();
    let (mut now, mut free) = (SHUTDOWN, SHUTDOWN);
    let mut below = vec![SHUTDOWN; devices.len()];
    for d in (0..devices.len()).rev() {
        let serial = trial.variant().name != "parallel";
        let begin = if serial { now } else { below[d] };
        let has_lock = devices[d].name.starts_with("nic");
        let locked = if has_lock { begin.max(free) } else { begin };
        let end = locked + delay(d);
        if has_lock {
            free = end;
        }
        now = end;
        if let Some(parent) = devices[d].parent {
            below[parent] = below[parent].max(end);
        }
        calls.push((d, begin, locked, end));
    }
    calls.sort_by_key(|c| (c.1, c.0));
    RawBoot {
        end: End::Finished,
        channel: channel(trial, &calls),
        console: Vec::new(),
    }
}

type Script = Box<dyn Fn(&Trial, u32) -> Result<RawBoot, Stopped> + Sync + Send>;

/// A machine that does what its script says; the script is given the trial and how often
/// that trial was booted before.
pub struct Scripted {
    script: Script,
    pub boots: Mutex<BTreeMap<String, u32>>,
}

impl Scripted {
    pub fn new(
        script: impl Fn(&Trial, u32) -> Result<RawBoot, Stopped> + Sync + Send + 'static,
    ) -> Self {
        Self {
            script: Box::new(script),
            boots: Mutex::default(),
        }
    }
    pub fn good() -> Self {
        Self::new(|trial, _| Ok(good(trial)))
    }
}

impl Machine for Scripted {
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Stopped> {
        let before = {
            let mut boots = self.boots.lock().unwrap();
            let count = boots.entry(trial.id.clone()).or_default();
            *count += 1;
            *count - 1
        };
        (self.script)(trial, before)
    }
}
