// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario's one canonical form: its hash, and a self-contained file.

use super::{
    Expectation, FOREIGN, Memory, MemoryDevice, NodeKind, Plugged, Profile, Scenario, Step, Target,
    Tolerance, is_foreign,
    raw::{self, ClassCode, Duration, Name, Named, Of, PciId, Prose, Share, Size},
};

/// Hash over what a scenario means: neither comments, nor the order of keys, nor the way
/// the tree and the durations are written, nor texts for people change it. The order of
/// devices and of variants does: it decides numbers in the guest and the order of boots.
pub(super) fn hash(scenario: &Scenario) -> String {
    let mut meaning = scenario.clone();
    let silent = String::new;
    meaning.about = silent();
    meaning.hash = silent();
    // The sizes have hashes of their own, which say what they are.
    meaning.point = None;
    let sweep = meaning.sweep.take();
    // The default, spelled out or not.
    meaning.repeats = Some(scenario.repeats_by(scenario.clock));
    if let Some(r) = &mut meaning.reference {
        r.source = silent();
        r.note = None;
        r.values.sort();
        r.devices.sort();
    }
    // Whose series is under test is no part of the experiment: it is what one compares.
    for variant in &mut meaning.variants {
        variant.series = variant.series.take().map(|s| match is_foreign(&s) {
            true => FOREIGN.to_string(),
            false => s,
        });
    }
    for profile in meaning.profiles.values_mut() {
        profile.about = silent();
        profile.source = silent();
    }
    let mut text = serde_json::to_string(&meaning).expect("plain data with text keys is JSON");
    if let Some(sweep) = sweep {
        let points: Vec<_> = sweep.points.iter().map(|p| &p.hash).collect();
        text += &format!("{:?}{points:?}{:?}", sweep.over, sweep.limits);
    }
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// A file that says the same as `scenario` and needs no profiles.yaml: each device on its
/// own with its `parent`, everything optional spelled out. Of a sweep it is the one size that
/// `scenario` itself has.
pub fn to_yaml(scenario: &Scenario) -> String {
    let body = serde_yaml::to_string(&raw(scenario)).expect("plain data with text keys is YAML");
    format!("# SPDX-License-Identifier: MIT OR Apache-2.0\n{body}")
}

fn raw(s: &Scenario) -> raw::Scenario {
    raw::Scenario {
        about: Prose(s.about.clone()),
        kernel: Name(s.kernel.clone()),
        clock: Some(s.clock),
        repeats: s.repeats,
        timeout: Some(Duration(s.timeout.exact())),
        machine: raw::Machine {
            kind: Some(s.machine.kind),
            cpus: s.machine.cpus,
            memory: match s.memory.and_then(Memory::ram) {
                Some(_) => None,
                None => Some(Size(s.machine.memory.to_string())),
            },
            backend: Some(s.machine.backend),
        },
        memory: s.memory.map(memory),
        walk: s.walk.map(|w| raw::Walk {
            threads: w.threads,
            rounds: w.rounds,
            blocks: w.blocks,
            paths: w.paths,
            operation: w.operation,
        }),
        churn: s.churn.map(|c| raw::Churn {
            walkers: c.walkers,
            blocks: c.blocks,
            rounds: c.rounds,
            operation: c.operation,
        }),
        devices: s.devices.iter().map(|d| device(s, d)).collect(),
        links: s.links.iter().map(|l| link(s, l)).collect(),
        first: s.first.iter().map(|d| device_name(s, *d)).collect(),
        meanwhile: s.meanwhile.iter().map(|m| meanwhile(s, m)).collect(),
        sysctl: Named(s.sysctl.clone()),
        profiles: Named(
            s.profiles
                .iter()
                .map(|(name, p)| (name.clone(), profile(p)))
                .collect(),
        ),
        variants: Named(
            s.variants
                .iter()
                .map(|v| {
                    let swap = v
                        .swap
                        .iter()
                        .map(|(a, b)| (a.clone(), Name(b.clone())))
                        .collect();
                    let variant = raw::Variant {
                        series: v.series.clone().map(Name),
                        patches: v.patches,
                        options: v.options.clone(),
                        cmdline: v.cmdline.clone(),
                        probe: Some(v.probing.strategy),
                        hz: v.probing.hz,
                        firmware_fallback: Some(v.probing.firmware_fallback),
                        faults: Named(faults(s, v)),
                        kill_loader: v.probing.kill_loader.map(|t| Duration(t.exact())),
                        unload: v.probing.unload.map(|t| Duration(t.exact())),
                        order: v.order,
                        restart: Some(v.restart),
                        max_tasks: v.max_tasks,
                        record: Some(!v.unrecorded),
                        coldplug: v.coldplug.as_ref().map(coldplug),
                        systemd: v.systemd.as_ref().map(systemd),
                        swap: Named(swap),
                    };
                    (v.name.clone(), variant)
                })
                .collect(),
        ),
        measure: s.metrics.clone(),
        sweep: None,
        reference: s.reference.as_ref().map(reference),
        expect: s.expect.iter().map(expectation).collect(),
    }
}

fn memory(m: Memory) -> raw::Memory {
    let hotplug = m.hotplug();
    let size = |b: crate::core::units::Bytes| Size(b.to_string());
    raw::Memory {
        blocks: m.blocks,
        how: m.how.word(),
        device: hotplug.map(|h| match h.plugged {
            Plugged::PcDimm(_) => MemoryDevice::PcDimm,
            Plugged::VirtioMem => MemoryDevice::VirtioMem,
        }),
        dimm: hotplug.and_then(|h| match h.plugged {
            Plugged::PcDimm(each) => Some(size(each)),
            Plugged::VirtioMem => None,
        }),
        block: hotplug.map(|h| size(h.block)),
        when: hotplug.map(|h| h.when),
        online: hotplug.map(|h| h.online),
    }
}

fn faults(s: &Scenario, v: &super::Variant) -> Vec<(String, super::DeviceFault)> {
    let faults = v.probing.faults.iter();
    faults.map(|(d, f)| (device_name(s, *d).0, *f)).collect()
}

fn device_name(s: &Scenario, device: usize) -> Name {
    Name(s.devices[device].name.clone())
}

fn link(s: &Scenario, link: &super::Link) -> raw::Link {
    raw::Link {
        consumer: device_name(s, link.consumer),
        supplier: device_name(s, link.supplier),
        sync_state_only: (!link.orders).then_some(true),
    }
}

fn meanwhile(s: &Scenario, meanwhile: &super::Meanwhile) -> raw::Action {
    let is = |action| (meanwhile.action == action).then_some(true);
    raw::Action {
        after: Duration(meanwhile.after.exact()),
        remove: match meanwhile.action {
            super::Action::Remove(d) => Some(device_name(s, d)),
            _ => None,
        },
        rescan: is(super::Action::Rescan),
        kill: is(super::Action::Kill),
    }
}

fn device(s: &Scenario, d: &super::Device) -> raw::Device {
    raw::Device {
        name: Name(d.name.clone()),
        kind: Some(match d.kind {
            NodeKind::Endpoint => raw::DeviceKind::Endpoint,
            NodeKind::Bridge => raw::DeviceKind::Bridge,
            NodeKind::RootPort => raw::DeviceKind::RootPort,
        }),
        profile: d.profile.clone().map(Name),
        names: d.names.clone().map(raw::Prefix),
        draw: None,
        count: None,
        parent: d.parent.map(|p| Name(s.devices[p].name.clone())),
        devices: Vec::new(),
    }
}

fn profile(p: &Profile) -> raw::Profile {
    let steps = |steps: &[Step]| steps.iter().map(step).collect();
    raw::Profile {
        id: PciId(format!("{:04x}:{:04x}", p.id.0, p.id.1)),
        class: p.class.map(|c| ClassCode(format!("{c:06x}"))),
        about: Prose(p.about.clone()),
        source: Prose(p.source.clone()),
        firmware: p.firmware.as_ref().map(firmware),
        probe: steps(&p.probe),
        shutdown: steps(&p.shutdown),
        remove: steps(&p.remove),
        lock: p.lock.clone().map(Name),
    }
}

fn firmware(f: &super::Firmware) -> raw::Firmware {
    let size = |b: crate::core::units::Bytes| Size(b.to_string());
    raw::Firmware {
        flash: size(f.flash),
        size: size(f.size),
        sector: size(f.sector),
        erase: step(&f.erase),
        page: size(f.page),
        program: step(&f.program),
    }
}

fn step(step: &Step) -> raw::Step {
    let time = |d: crate::core::units::Nanos| Some(Duration(d.exact()));
    let none = raw::Step::default();
    match *step {
        Step::Sleep(d) => raw::Step {
            sleep: time(d),
            ..none
        },
        Step::Wait(d) => raw::Step {
            wait: time(d),
            ..none
        },
        Step::Busy(d) => raw::Step {
            busy: time(d),
            ..none
        },
        Step::Compute(d) => raw::Step {
            compute: time(d),
            ..none
        },
        Step::Thread => raw::Step {
            thread: Some(true),
            ..none
        },
        Step::Poll { total, every } => raw::Step {
            poll: time(total),
            every: time(every),
            ..none
        },
    }
}

fn reference(r: &super::Reference) -> raw::Reference {
    let of = |metric| {
        let figures = r.values.iter().filter(|v| v.1 == metric);
        Named(
            figures
                .map(|(variant, _, v)| (variant.clone(), Duration(v.exact())))
                .collect(),
        )
    };
    raw::Reference {
        source: Prose(r.source.clone()),
        note: r.note.clone().map(Prose),
        boot: of(super::Metric::Boot),
        load: of(super::Metric::Load),
        probe: of(super::Metric::Probe),
        bound: of(super::Metric::Bound),
        ready: of(super::Metric::Ready),
        device_shutdown: of(super::Metric::DeviceShutdown),
        reboot: of(super::Metric::Reboot),
        walk: of(super::Metric::Walk),
        churn: of(super::Metric::Churn),
        hotplug: of(super::Metric::Hotplug),
        coldplug: of(super::Metric::Coldplug),
        systemd: of(super::Metric::Systemd),
        devices: Named(
            r.devices
                .iter()
                .map(|(g, v)| (g.clone(), Duration(v.exact())))
                .collect(),
        ),
    }
}

fn coldplug(c: &super::Coldplug) -> raw::Coldplug {
    raw::Coldplug {
        suite: Some(Name(c.suite.clone())),
        children_max: c.children_max,
        forking_rule: Some(c.forking_rule),
        limit: Some(Duration(c.limit.exact())),
    }
}

fn systemd(s: &super::Systemd) -> raw::Systemd {
    let timeout = s.default_timeout_start_sec;
    raw::Systemd {
        suite: Some(Name(s.suite.clone())),
        default_timeout_start_sec: timeout.map(|t| Duration(t.exact())),
        limit: Some(Duration(s.limit.exact())),
    }
}

fn expectation(e: &Expectation) -> raw::Expectation {
    raw::Expectation {
        variant: Name(e.variant.clone()),
        metric: e.metric,
        within: match e.tolerance {
            Tolerance::Within { part, .. } => Some(Share(part.to_string())),
            Tolerance::AtMost(_) => None,
        },
        or: match e.tolerance {
            Tolerance::Within { or, .. } if or.0 > 0 => Some(Duration(or.exact())),
            _ => None,
        },
        at_most: match e.tolerance {
            Tolerance::AtMost(part) => Some(Share(part.to_string())),
            Tolerance::Within { .. } => None,
        },
        of: Of(match &e.of {
            Target::Value(d) => d.exact(),
            Target::Ideal => "ideal".into(),
            Target::Variant(v) => v.clone(),
        }),
    }
}
