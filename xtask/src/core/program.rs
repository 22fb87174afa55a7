// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest is told: the files under `/bootrig` of its initramfs (docs/protocol.md).

use std::{collections::BTreeMap, fmt::Write};

use super::{
    event::Callback,
    layout::Layout,
    plan::Trial,
    scenario::{
        Action, Backend, Coldplug, DeviceFault, Firmware, How, Online, Probing, Profile, Restart,
        Scenario, Step, Strategy, Systemd, Variant, When,
    },
    units::Nanos,
};

mod firmware;
mod vpci;

/// What a kernel that checks itself is given to get into reboot(2) before anything happens to
/// the task that called it, in nanoseconds: 50 us, which PID 1 allows, were too few.
const DEBUG_HEAD_START: u64 = 2_000_000;

/// The kernel side's own records besides callbacks: marks, configuration.
const OTHER_RECORDS: usize = 64;

/// The plan of a guest that only shows that it can boot.
pub const PROBE_PLAN: &str = "bootrig-plan 1\nreboot\n";

/// Where PID 1 finds the kernel that kexec is to start.
pub const KEXEC_KERNEL: &str = "bootrig/kernel";

/// The module whose load is timed.
pub const DRIVER: &str = "dummy_pci";

/// The driver of the devices, as that module calls it.
pub const PCI_DRIVER: &str = "bootrig_dummy";

/// The module that makes devices like memory blocks.
const BLOCKS: &str = "memory_blocks";

/// A distribution's way to decide whether a memory block is to be onlined: it asks two programs.
const FORKING_RULE: &str = "\
SUBSYSTEM==\"memory\", ACTION==\"add\", PROGRAM=\"/usr/bin/uname -p\", RESULT!=\"s390*\", \
PROGRAM=\"/usr/bin/systemd-detect-virt\", ENV{BOOTRIG_VIRT}=\"%c\"
";

/// Leaves an entry in udev's database for each memory block, to be counted.
const SEEN_RULE: &str = "SUBSYSTEM==\"memory\", ENV{BOOTRIG_SEEN}=\"1\"\n";

/// What PID 1 does after it has loaded the modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Restart as the variant asks, report from the second boot, end the machine.
    Restart,
    /// Give the user a console.
    Shell,
}

/// The modules to load, in this order. The devices must be there before their driver, so
/// that what `probe` measures is the driver's attach.
pub fn modules(scenario: &Scenario, probing: &Probing) -> Vec<&'static str> {
    if probing.strategy == Strategy::BuiltIn {
        return vec![];
    }
    let synthetic = scenario.memory.is_some_and(|m| m.how == How::Synthetic);
    let guest = scenario.machine.backend == Backend::Guest;
    [
        (true, "marks"),
        (synthetic, BLOCKS),
        (guest, "vpci"),
        (true, DRIVER),
    ]
    .into_iter()
    .filter_map(|(needed, module)| needed.then_some(module))
    .collect()
}

/// How long a probe that never returns is waited for, beside what all others take: less than
/// after what time the kernel's own watchdog says that it is stuck.
const PATIENCE: Nanos = Nanos(60_000_000_000);

/// How long the probes of `trial` may take if none of them waits for ever: all, one after the
/// other, each sleep and pause granted twice over.
pub fn probe_limit(trial: &Trial) -> Nanos {
    let all = (0..trial.scenario.devices.len())
        .filter_map(|device| trial.scenario.profile(trial.variant(), device))
        .map(|profile| profile.nominal(Callback::Probe));
    let asked: Nanos = all.sum();
    PATIENCE + asked + asked
}

/// The command that loads the driver.
fn load_driver(trial: &Trial) -> String {
    let probing = &trial.variant().probing;
    let limit = probing.hangs().then(|| probe_limit(trial));
    let mut command = format!("load {DRIVER}");
    for (word, at) in [
        ("kill", probing.kill_loader),
        ("unload", probing.unload),
        ("limit", limit),
    ] {
        if let Some(at) = at {
            let _ = write!(command, " {word}={}", at.0);
        }
    }
    command
}

/// The files for `trial`, by path, beside its [`modules`]; [`KEXEC_KERNEL`], which is no
/// text, is not among them. `layout` is of the trial's devices.
pub fn files(trial: &Trial, layout: &Layout, finish: Finish) -> BTreeMap<String, Vec<u8>> {
    let probing = &trial.variant().probing;
    let end = match (finish, trial.variant().restart) {
        (Finish::Shell, _) => "shell",
        (Finish::Restart, _) if trial.ends_when_probed() => "stop",
        (Finish::Restart, Restart::Reset) => "reboot",
        (Finish::Restart, Restart::Kexec) => "kexec",
    };
    let scenario = &trial.scenario;
    let mut plan = String::from("bootrig-plan 1\n");
    let (found, plugged) = hotplug_lines(trial, finish);
    plan.push_str(&found);
    // Before what is timed begins; PID 1's own clock has begun long since.
    let phase = match trial.phase() {
        0 => String::new(),
        phase => format!("wait {phase}\n"),
    };
    for module in modules(scenario, probing) {
        if module == DRIVER {
            plan.push_str(&phase);
        }
        let _ = match module {
            DRIVER => writeln!(plan, "{}", load_driver(trial)),
            other => writeln!(plan, "load {other}"),
        };
    }
    let _ = match probing.hangs() {
        true => writeln!(plan, "flush {}", probe_limit(trial).0),
        false => writeln!(plan, "flush"),
    };
    plan.push_str(&plugged);
    if scenario.memory.is_some() || trial.variant().image().is_some() {
        plan.push_str("memory\n");
    }
    if let Some(coldplug) = &trial.variant().coldplug {
        plan.push_str(&coldplug_line(coldplug));
    }
    if let Some(systemd) = &trial.variant().systemd {
        let _ = writeln!(plan, "systemd limit={}", systemd.limit.0);
    }
    if let Some(walk) = scenario.walk {
        let _ = writeln!(
            plan,
            "walk threads={} rounds={} blocks={} paths={} do={}",
            walk.threads,
            walk.rounds,
            walk.blocks,
            walk.paths.name(),
            walk.operation.name()
        );
    }
    if let Some(churn) = scenario.churn {
        let _ = writeln!(
            plan,
            "churn walkers={} blocks={} rounds={} do={}",
            churn.walkers,
            churn.blocks,
            churn.rounds,
            churn.operation.name()
        );
    }
    // A console is for looking around in: nothing happens behind the user's back.
    if finish == Finish::Restart {
        for meanwhile in &scenario.meanwhile {
            let after = meanwhile.after.0
                + if trial.kernel.debug {
                    DEBUG_HEAD_START
                } else {
                    0
                };
            let _ = match meanwhile.action {
                Action::Remove(device) => {
                    writeln!(plan, "meanwhile {after} remove {}", layout.paths[device])
                }
                Action::Rescan => writeln!(plan, "meanwhile {after} rescan"),
                Action::Kill => writeln!(plan, "meanwhile {after} kill"),
            };
        }
        for (name, value) in &scenario.sysctl {
            let _ = writeln!(plan, "set {name} {value}");
        }
    }
    plan.push_str(&phase);
    let _ = writeln!(plan, "{end}");
    let records = match trial.variant().unrecorded {
        true => format!("records={OTHER_RECORDS}\ncallbacks=0\n"),
        false => format!("records={}\n", records(trial)),
    };
    let mut files = BTreeMap::from([
        ("bootrig/plan".to_owned(), plan.into_bytes()),
        ("bootrig/marks.params".to_owned(), records.into_bytes()),
        (
            "bootrig/dummy_pci.params".to_owned(),
            device_table(trial, &layout.paths).into_bytes(),
        ),
    ]);
    files.extend(firmware::files(trial));
    if trial.variant().image().is_some() {
        files.extend(rules(trial.variant()));
    }
    if let Some(systemd) = &trial.variant().systemd {
        files.extend(settings(systemd, finish));
    }
    if let Some(memory) = scenario.memory.filter(|m| m.how == How::Synthetic) {
        let blocks = format!("blocks={}\n", memory.blocks).into_bytes();
        files.insert(format!("bootrig/{BLOCKS}.params"), blocks);
    }
    if layout.backend == Backend::Guest {
        let domain = vpci::domain(trial, layout).into_bytes();
        files.insert("bootrig/vpci.params".to_owned(), domain);
    }
    files
}

/// What PID 1 waits for of a block that is plugged in, beside what all blocks take.
const PLUG_PATIENCE: Nanos = Nanos(60_000_000_000);
/// What a block takes at most: its page structures are written one by one.
const PLUG_BLOCK: Nanos = Nanos(1_000_000_000);
/// As PID 1 takes it.
const LONGEST_PLUG: Nanos = Nanos(3_600_000_000_000);

/// The commands that wait for memory which was plugged in before the machine booted, and that
/// have it plugged in; one of them is empty. On a console nobody plugs in anything.
fn hotplug_lines(trial: &Trial, finish: Finish) -> (String, String) {
    let scenario = &trial.scenario;
    let memory = scenario.memory;
    let Some((hotplug, blocks)) = memory.and_then(|m| Some((m.hotplug()?, m.blocks))) else {
        return Default::default();
    };
    let line = |when: &str| {
        let state = match hotplug.online {
            Online::Offline => "offline",
            Online::Online | Online::OnlineKernel | Online::OnlineMovable => "online",
        };
        let limit = PLUG_PATIENCE.0 + u64::from(blocks) * PLUG_BLOCK.0;
        format!(
            "hotplug when={when} first={} blocks={blocks} state={state} limit={}\n",
            hotplug.first_block(scenario.machine.memory),
            limit.min(LONGEST_PLUG.0)
        )
    };
    match hotplug.when {
        When::Boot => (line("boot"), String::new()),
        When::Later if finish == Finish::Shell => Default::default(),
        When::Later => (String::new(), line("now")),
    }
}

/// The command that has udev handle all devices.
fn coldplug_line(coldplug: &Coldplug) -> String {
    let children = coldplug.children_max.map(|n| format!(" children_max={n}"));
    format!(
        "coldplug limit={}{}\n",
        coldplug.limit.0,
        children.unwrap_or_default()
    )
}

/// What systemd is told beside what the distribution tells it.
fn settings(systemd: &Systemd, finish: Finish) -> impl Iterator<Item = (String, Vec<u8>)> {
    // Up to systemd 251 the limit of a service was that of a device as well; since then there
    // are two, and the one for devices is what many of them run into.
    let limits = systemd.default_timeout_start_sec.map(|limit| {
        let us = limit.0.div_ceil(1000);
        let text =
            format!("[Manager]\nDefaultTimeoutStartSec={us}us\nDefaultDeviceTimeoutSec={us}us\n");
        ("etc/systemd/system.conf.d/bootrig.conf", text)
    });
    // Empty, and so no unit: two would read from the one console.
    let alone = (finish == Finish::Shell).then(|| {
        let path = "etc/systemd/system/serial-getty@ttyS0.service";
        (path, String::new())
    });
    let files = limits.into_iter().chain(alone);
    files.map(|(path, text)| (path.to_owned(), text.into_bytes()))
}

/// Rules of udev's beside the distribution's.
fn rules(variant: &Variant) -> impl Iterator<Item = (String, Vec<u8>)> {
    let forks = variant.coldplug.as_ref().is_some_and(|c| c.forking_rule);
    [
        (forks, "40-bootrig-forks", FORKING_RULE),
        (true, "99-bootrig-seen", SEEN_RULE),
    ]
    .into_iter()
    .filter(|(wanted, ..)| *wanted)
    .map(|(_, name, rule)| {
        let path = format!("usr/lib/udev/rules.d/{name}.rules");
        (path, rule.as_bytes().to_vec())
    })
}

/// Room for the records of `trial`: probe, shutdown, remove and name of each device. A probe
/// that is deferred is tried again whenever another device was bound.
pub fn records(trial: &Trial) -> usize {
    let devices = trial.scenario.devices.len();
    let faults = trial.variant().probing.faults.values();
    let deferred = faults.filter(|f| **f == DeviceFault::Defer).count();
    let named = trial.scenario.devices.iter();
    let named = named.filter(|d| d.names.is_some()).count();
    3 * devices + named + deferred * (devices + 1) + OTHER_RECORDS
}

/// The parameters of `dummy_pci`: how it probes, profiles, the devices that use them.
fn device_table(trial: &Trial, paths: &[String]) -> String {
    let (scenario, variant) = (&trial.scenario, trial.variant());
    // Devices of one profile whose firmware differs are two kinds of devices.
    let mut numbers: BTreeMap<(&str, Option<DeviceFault>), usize> = BTreeMap::new();
    let mut locks: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut profiles, mut devices) = (String::new(), String::new());
    for (index, path) in paths.iter().enumerate() {
        let Some(profile) = scenario.profile(variant, index) else {
            continue;
        };
        let fault = variant.probing.faults.get(&index).copied();
        let of_firmware = fault.filter(|f| firmware::is_about(*f));
        let next = numbers.len();
        let number = *numbers
            .entry((&profile.name, of_firmware))
            .or_insert_with(|| {
                let value = profile_value(profile, &mut locks);
                let _ = writeln!(profiles, "profile={next}:{value}");
                if let Some(firmware) = &profile.firmware {
                    let file = firmware::file(&profile.name, of_firmware);
                    let value = firmware_value(firmware, &file);
                    let _ = writeln!(profiles, "firmware={next}:{value}");
                }
                next
            });
        let _ = writeln!(devices, "dev={index}:{path}:{number}");
        if let Some(fault) = fault.and_then(fault_word) {
            let _ = writeln!(devices, "fault={index}:{fault}");
        }
        if let Some(prefix) = &scenario.devices[index].names {
            let _ = writeln!(devices, "name={index}:{prefix}");
        }
    }
    for link in &scenario.links {
        let kind = if link.orders { 'o' } else { 's' };
        let _ = writeln!(devices, "link={}:{}:{kind}", link.consumer, link.supplier);
    }
    for device in &scenario.first {
        let _ = writeln!(devices, "first={device}");
    }
    strategy_words(variant.probing.strategy).to_owned() + &profiles + &devices
}

/// What the driver is told of who probes; the rest is the kernel's command line.
fn strategy_words(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Kthread => "probe=kthread\n",
        Strategy::Workqueue => "probe=workqueue\n",
        Strategy::AsyncPrefer => "probe=async-prefer\n",
        Strategy::PerDeviceKthread => "probe=per-device-kthread\n",
        // The kernel's own parameter of every module.
        Strategy::AsyncParam => "async_probe=1\n",
        Strategy::Sync | Strategy::AsyncCmdline | Strategy::AsyncCmdlineAll | Strategy::BuiltIn => {
            ""
        }
    }
}

fn fault_word(fault: DeviceFault) -> Option<&'static str> {
    match fault {
        DeviceFault::Error => Some("error"),
        DeviceFault::Defer => Some("defer"),
        DeviceFault::NeverReturns => Some("never-returns"),
        DeviceFault::NoFirmware | DeviceFault::ShortFirmware => None,
    }
}

fn firmware_value(firmware: &Firmware, file: &str) -> String {
    format!(
        "{file}:{}:{}:{}:{}:{}",
        firmware.size.0,
        firmware.sector.0,
        step(&firmware.erase),
        firmware.page.0,
        step(&firmware.program)
    )
}

fn profile_value<'a>(profile: &'a Profile, locks: &mut BTreeMap<&'a str, usize>) -> String {
    let lock = profile.lock.as_deref().map(|name| {
        let next = locks.len();
        *locks.entry(name).or_insert(next)
    });
    let lock = lock.map_or_else(|| "-".to_owned(), |n| n.to_string());
    format!(
        "{}:{}:{}:{lock}",
        steps(&profile.probe),
        steps(&profile.shutdown),
        steps(&profile.remove)
    )
}

fn steps(steps: &[Step]) -> String {
    if steps.is_empty() {
        return "-".into();
    }
    steps.iter().map(step).collect::<Vec<_>>().join("+")
}

fn step(step: &Step) -> String {
    match step {
        Step::Sleep(d) => format!("s{}", d.0),
        Step::Wait(d) => format!("w{}", d.0),
        Step::Poll { total, every } => format!("p{}/{}", total.0, every.0),
        Step::Busy(d) => format!("b{}", d.0),
        Step::Compute(d) => format!("c{}", d.0),
        Step::Thread => "t".into(),
    }
}

#[cfg(test)]
mod tests;
