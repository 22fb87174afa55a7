// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest kernel's command line. Pure.

use super::command::{Accelerator, Host};
use crate::core::{
    event::Callback,
    fault::Fault,
    plan::Trial,
    program,
    scenario::{Clock, Memory, Strategy},
    units::Nanos,
};

/// x86 kernels cut what is longer (COMMAND_LINE_SIZE, with its end mark).
const LONGEST: usize = 2047;

/// In every boot.
const ALWAYS: &[&str] = &[
    "console=ttyS0",
    // Warnings and worse, which is what the console is watched for. Each byte costs slow
    // port accesses inside the time measured, and 1,024 devices are announced with 230 KB
    // at the level of information.
    "loglevel=5",
    // A panic stays where it is, so that its text is whole and no second boot can look
    // like a success; the host sees it within a tenth of a second and ends the machine.
    "panic=0",
    // What follows an oops is worth nothing: end there.
    "oops=panic",
    // Addresses, and with them caches and hashes, are the same in each boot.
    "nokaslr",
];

/// In virtual time one tick of the time stamp counter is one nanosecond. Told so, the
/// kernel need not measure it, which would also be a little wrong.
const VIRTUAL_TSC_KHZ: u32 = 1_000_000;

/// The hung-task watchdog's own limit is 120 s of waiting.
const PATIENT_FROM: Nanos = Nanos(100_000_000_000);

/// The words for `trial`.
///
/// # Errors
/// A usage error when they are longer than a kernel reads.
pub(super) fn command_line(host: &Host, trial: &Trial) -> Result<String, Fault> {
    let mut words: Vec<String> = ALWAYS.iter().map(|w| (*w).to_owned()).collect();
    match (trial.clock, &host.accelerator) {
        (Clock::Virtual, _) => words.extend(clock_words(Some(VIRTUAL_TSC_KHZ))),
        // Calibrating against a timer on a busy host goes wrong at times; its IO-APIC test
        // too.
        (Clock::Wall, Accelerator::Tcg { .. }) => {
            words.extend(clock_words(host.tsc_khz));
            words.push("no_timer_check".into());
        }
        // KVM has a clock of its own and tells its frequency.
        (Clock::Wall, Accelerator::Kvm) => {}
    }
    // The kernel's watchdog would report devices that are slow on purpose.
    let longest = longest_wait(trial);
    if longest >= PATIENT_FROM {
        words.push(format!(
            "sysctl.kernel.hung_task_timeout_secs={}",
            longest.0 / 1_000_000_000 * 2
        ));
    }
    words.extend(strategy_words(trial));
    // What becomes of a block that is plugged in; left to itself each kernel has its own way.
    let plugged = trial.scenario.memory.and_then(Memory::hotplug);
    words.extend(plugged.map(|h| format!("memhp_default_state={}", h.online.name())));
    words.extend(trial.variant().cmdline.iter().cloned());
    let line = words.join(" ");
    if line.len() > LONGEST {
        return Err(Fault::usage(format!(
            "variant {} of scenario {}: the kernel command line has {} bytes and a kernel reads {LONGEST}: shorten `cmdline`",
            trial.variant().name,
            trial.scenario.name,
            line.len()
        )));
    }
    if let Some(bad) = line.chars().find(|c| c.is_control()) {
        return Err(Fault::usage(format!(
            "variant {}: {bad:?} in the kernel command line",
            trial.variant().name
        )));
    }
    Ok(line)
}

/// Without these the kernel compares the counter with timers that are worse than it.
fn clock_words(tsc_khz: Option<u32>) -> impl Iterator<Item = String> {
    ["tsc=reliable".to_owned()]
        .into_iter()
        .chain(tsc_khz.map(|khz| format!("tsc_early_khz={khz}")))
}

/// What the kernel itself is told of who probes.
fn strategy_words(trial: &Trial) -> Vec<String> {
    match trial.variant().probing.strategy {
        Strategy::AsyncCmdline => vec![format!("driver_async_probe={}", program::PCI_DRIVER)],
        Strategy::AsyncCmdlineAll => vec!["driver_async_probe=*".into()],
        _ => vec![],
    }
}

/// No task can wait longer than for all devices, one after the other; for one that never
/// returns, as long as PID 1 does.
fn longest_wait(trial: &Trial) -> Nanos {
    if trial.variant().probing.hangs() {
        return program::probe_limit(trial) + program::probe_limit(trial);
    }
    let sum = |callback: Callback| -> Nanos {
        let profiles = (0..trial.scenario.devices.len())
            .filter_map(|i| trial.scenario.profile(trial.variant(), i));
        profiles.map(|p| p.nominal(callback)).sum()
    };
    sum(Callback::Shutdown).max(sum(Callback::Probe))
}
