// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest is told: the files under `/bootrig` of its initramfs (docs/protocol.md).

use std::{collections::BTreeMap, fmt::Write};

use super::{
    layout::Layout,
    plan::Trial,
    scenario::{Action, Backend, MachineSpec, Profile, Restart, Step},
};

mod vpci;

/// The kernel side's own records besides callbacks: marks, configuration.
const OTHER_RECORDS: usize = 64;

/// The plan of a guest that only shows that it can boot.
pub const PROBE_PLAN: &str = "bootrig-plan 1\nreboot\n";

/// Where PID 1 finds the kernel that kexec is to start.
pub const KEXEC_KERNEL: &str = "bootrig/kernel";

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
pub fn modules(machine: &MachineSpec) -> &'static [&'static str] {
    match machine.backend {
        Backend::Qemu => &["marks", "dummy_pci"],
        Backend::Guest => &["marks", "vpci", "dummy_pci"],
    }
}

/// The files for `trial`, by path, beside its [`modules`]; [`KEXEC_KERNEL`], which is no
/// text, is not among them. `layout` is of the trial's devices.
pub fn files(trial: &Trial, layout: &Layout, finish: Finish) -> BTreeMap<String, Vec<u8>> {
    let end = match (finish, trial.variant().restart) {
        (Finish::Shell, _) => "shell",
        (Finish::Restart, Restart::Reset) => "reboot",
        (Finish::Restart, Restart::Kexec) => "kexec",
    };
    let scenario = &trial.scenario;
    let mut plan = String::from("bootrig-plan 1\n");
    for module in modules(&scenario.machine) {
        let _ = writeln!(plan, "load {module}");
    }
    plan.push_str("flush\n");
    // A console is for looking around in: nothing happens behind the user's back.
    if finish == Finish::Restart {
        for meanwhile in &scenario.meanwhile {
            let after = meanwhile.after.0;
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
    let _ = writeln!(plan, "{end}");
    // Probe, shutdown and remove of each device.
    let records = 3 * trial.scenario.devices.len() + OTHER_RECORDS;
    let mut files = BTreeMap::from([
        ("bootrig/plan".to_owned(), plan.into_bytes()),
        (
            "bootrig/marks.params".to_owned(),
            format!("records={records}\n").into_bytes(),
        ),
        (
            "bootrig/dummy_pci.params".to_owned(),
            device_table(trial, &layout.paths).into_bytes(),
        ),
    ]);
    if layout.backend == Backend::Guest {
        let domain = vpci::domain(trial, layout).into_bytes();
        files.insert("bootrig/vpci.params".to_owned(), domain);
    }
    files
}

/// The parameters of `dummy_pci`: profiles, then the devices that use them.
fn device_table(trial: &Trial, paths: &[String]) -> String {
    let (scenario, variant) = (&trial.scenario, trial.variant());
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut locks: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut profiles, mut devices) = (String::new(), String::new());
    for (index, path) in paths.iter().enumerate() {
        let Some(profile) = scenario.profile(variant, index) else {
            continue;
        };
        let next = numbers.len();
        let number = *numbers.entry(&profile.name).or_insert_with(|| {
            let _ = writeln!(
                profiles,
                "profile={next}:{}",
                profile_value(profile, &mut locks)
            );
            next
        });
        let _ = writeln!(devices, "dev={index}:{path}:{number}");
    }
    for link in &scenario.links {
        let kind = if link.orders { 'o' } else { 's' };
        let _ = writeln!(devices, "link={}:{}:{kind}", link.consumer, link.supplier);
    }
    for device in &scenario.first {
        let _ = writeln!(devices, "first={device}");
    }
    profiles + &devices
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
    let words = steps.iter().map(|step| match step {
        Step::Sleep(d) => format!("s{}", d.0),
        Step::Wait(d) => format!("w{}", d.0),
        Step::Poll { total, every } => format!("p{}/{}", total.0, every.0),
        Step::Busy(d) => format!("b{}", d.0),
        Step::Compute(d) => format!("c{}", d.0),
    });
    words.collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests;
