// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scenario expands to, as text for people and as JSON.

use std::fmt::Write;

use serde_json::json;

use super::{
    event::Callback,
    ideal::{self, Bound, Ideal, Means},
    scenario::{
        Action, Device, DeviceFault, Metric, NodeKind, Order, Probing, Profile, Scenario, Step,
        Strategy, Target, Variant, group,
    },
    units::{Nanos, counted},
};

/// The phase whose ideal is worth showing: a machine that ends where its devices are probed
/// shuts nothing down.
fn phase(s: &Scenario) -> Metric {
    match s.variants.iter().all(|v| s.ends_when_probed(v)) {
        true => Metric::Bound,
        false => Metric::DeviceShutdown,
    }
}

/// The ideal of `phase` if the kernel granted exactly what profiles ask for.
fn nominal(s: &Scenario, variant: &Variant, phase: Metric) -> Ideal {
    let callback = match phase {
        Metric::Bound => Callback::Probe,
        _ => Callback::Shutdown,
    };
    let delays: Vec<Nanos> = (0..s.devices.len())
        .map(|i| {
            let profile = s.profile(variant, i).filter(|_| !s.stays_unbound(i));
            profile.map_or(Nanos(0), |p| p.nominal(callback))
        })
        .collect();
    if callback == Callback::Probe {
        return ideal::probing(s, variant, means(s), &delays);
    }
    match variant.order {
        Order::Serial => Ideal {
            time: delays.iter().copied().sum(),
            bound: Bound::Sum,
        },
        Order::Parallel => ideal::parallel(s, variant, means(s), &delays),
    }
}

fn means(s: &Scenario) -> Means {
    Means {
        clock: s.clock,
        cpus: s.machine.cpus,
    }
}

fn total(steps: &[Step]) -> Nanos {
    steps.iter().map(|s| s.nominal()).sum()
}

/// A scenario with its ideals by nominal delays, as one JSON document.
pub fn document(s: &Scenario) -> serde_json::Value {
    let phase = phase(s);
    let nominal: serde_json::Map<_, _> = s
        .variants
        .iter()
        .map(|v| (v.name.clone(), json!(nominal(s, v, phase))))
        .collect();
    json!({"scenario": s, format!("nominal_{}", phase.name()): nominal})
}

/// The same as text for people.
pub fn text(s: &Scenario) -> String {
    let mut out = format!("{}: {}\n\n", s.name, s.about);
    let m = &s.machine;
    let kind = format!("{:?}", m.kind).to_lowercase();
    line(&mut out, "kernel", &s.kernel);
    line(
        &mut out,
        "machine",
        &format!("{kind}, {}, {}", counted(m.cpus as usize, "CPU"), m.memory),
    );
    if let Some(memory) = s.memory {
        line(&mut out, "memory", &memory.to_string());
    }
    line(&mut out, "clock", &s.clock.to_string());
    line(
        &mut out,
        "boots",
        &format!(
            "{} of each variant, at most {} each",
            s.repeats_by(s.clock),
            short(s.timeout)
        ),
    );
    let metrics: Vec<_> = s.metrics.iter().map(|m| m.name()).collect();
    line(&mut out, "measures", &metrics.join(", "));
    if let Some(sweep) = &s.sweep {
        let sizes: Vec<_> = sweep.points.iter().map(|p| p.name.as_str()).collect();
        line(
            &mut out,
            "sweep",
            &format!("over {}: {}", sweep.over, sizes.join(", ")),
        );
    }
    line(&mut out, "hash", &s.hash);
    devices(&mut out, s);
    beside_the_tree(&mut out, s);
    variants(&mut out, s);
    reference(&mut out, s);
    expectations(&mut out, s);
    out
}

fn line(out: &mut String, what: &str, value: &str) {
    let _ = writeln!(out, "{what:9} {value}");
}

/// The tree, indented; equal neighbours of one group on one line.
fn devices(out: &mut String, s: &Scenario) {
    let count = s.devices.len();
    let _ = writeln!(out, "\ndevices ({count})");
    let mut children = vec![Vec::new(); count];
    let mut roots = Vec::new();
    for (index, device) in s.devices.iter().enumerate() {
        device
            .parent
            .map_or(&mut roots, |p| &mut children[p])
            .push(index);
    }
    subtree(out, s, &children, &roots, 1);
}

fn subtree(out: &mut String, s: &Scenario, children: &[Vec<usize>], of: &[usize], depth: usize) {
    let alike = |a: &Device, b: &Device| {
        a.kind == b.kind && a.profile == b.profile && group(&a.name) == group(&b.name)
    };
    let runs = of.chunk_by(|&a, &b| {
        let leaves = children[a].is_empty() && children[b].is_empty();
        leaves && alike(&s.devices[a], &s.devices[b])
    });
    for run in runs {
        let (first, last) = (&s.devices[run[0]], &s.devices[run[run.len() - 1]]);
        let name = match run.len() {
            1 => first.name.clone(),
            n => format!("{} to {} ({n})", first.name, last.name),
        };
        let what = match (first.kind, &first.profile) {
            (NodeKind::Endpoint, _) => "",
            (NodeKind::Bridge, _) => "[bridge] ",
            (NodeKind::RootPort, _) => "[root port] ",
        };
        let indent = 2 * depth;
        let width = 34usize.saturating_sub(indent);
        let delays = first
            .profile
            .as_ref()
            .and_then(|p| s.profiles.get(p))
            .map_or_else(|| "no profile: the kernel's own driver".into(), describe);
        let _ = writeln!(out, "{:indent$}{name:width$} {what}{delays}", "");
        subtree(out, s, children, &children[run[0]], depth + 1);
    }
}

/// `mlx4: probe 1 s, shutdown 1.12 s (sleep 1 s + wait 120 ms)`
fn describe(profile: &Profile) -> String {
    let mut parts = Vec::new();
    for (name, steps) in [
        ("probe", &profile.probe),
        ("shutdown", &profile.shutdown),
        ("remove", &profile.remove),
    ] {
        if !steps.is_empty() {
            let steps_text: Vec<_> = steps.iter().map(step).collect();
            let steps_text = steps_text.join(" + ");
            parts.push(match steps.len() {
                1 => format!("{name} {steps_text}"),
                _ => format!("{name} {} ({steps_text})", short(total(steps))),
            });
        }
    }
    if let Some(f) = &profile.firmware {
        parts.push(format!(
            "firmware {} (sectors of {}: {}; pages of {}: {})",
            f.size,
            f.sector,
            step(&f.erase),
            f.page,
            step(&f.program)
        ));
    }
    parts.extend(profile.lock.as_ref().map(|l| format!("under lock {l}")));
    if parts.is_empty() {
        parts.push("no delay".into());
    }
    format!("{}: {}", profile.name, parts.join(", "))
}

fn step(step: &Step) -> String {
    match *step {
        Step::Sleep(d) => format!("sleep {}", short(d)),
        Step::Wait(d) => format!("wait {}", short(d)),
        Step::Busy(d) => format!("busy {}", short(d)),
        Step::Compute(d) => format!("compute {}", short(d)),
        Step::Thread => "start a thread".into(),
        Step::Poll { total, every } => format!("poll {} every {}", short(total), short(every)),
    }
}

/// Links, the order of the list, settings, and what happens during the shutdown.
fn beside_the_tree(out: &mut String, s: &Scenario) {
    let name = |device: usize| &s.devices[device].name;
    let mut lines: Vec<String> = s
        .links
        .iter()
        .map(|l| {
            let only = if l.orders { "" } else { " (sync_state only)" };
            format!("{} depends on {}{only}", name(l.consumer), name(l.supplier))
        })
        .collect();
    if !s.first.is_empty() {
        let names: Vec<_> = s.first.iter().map(|d| name(*d).as_str()).collect();
        lines.push(format!("first in the kernel's order: {}", names.join(", ")));
    }
    lines.extend(
        s.sysctl
            .iter()
            .map(|(k, v)| format!("{k} = {v} before the shutdown")),
    );
    lines.extend(s.meanwhile.iter().map(|m| {
        let what = match m.action {
            Action::Remove(device) => format!("{} is taken away", name(device)),
            Action::Rescan => "all buses are scanned".into(),
            Action::Kill => "the task that reboots gets SIGKILL".into(),
        };
        format!("{} after reboot(2): {what}", short(m.after))
    }));
    if !lines.is_empty() {
        out.push_str("\nbeside the tree\n");
    }
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}

fn variants(out: &mut String, s: &Scenario) {
    let phase = phase(s);
    let has_ideal = !s.devices.is_empty();
    out.push_str("\nvariants");
    if has_ideal {
        let _ = write!(
            out,
            ", with the ideal of {} by nominal delays",
            phase.name()
        );
    }
    out.push('\n');
    let width = s.variants.iter().map(|v| v.name.len()).max().unwrap_or(0);
    for v in &s.variants {
        let _ = write!(out, "  {:width$}  ", v.name);
        if has_ideal {
            out.push_str(&ideal(s, v, phase));
        }
        out.push_str(v.series.as_deref().unwrap_or("unpatched"));
        if !v.cmdline.is_empty() {
            let _ = write!(out, "; {}", v.cmdline.join(" "));
        }
        out.push_str(&probing(s, &v.probing));
        if let Some(coldplug) = &v.coldplug {
            let _ = write!(out, "; {coldplug}");
        }
        if let Some(systemd) = &v.systemd {
            let _ = write!(out, "; {systemd}");
        }
        for (from, to) in &v.swap {
            let _ = write!(out, "; {to} in place of {from}");
        }
        out.push('\n');
    }
}

/// The ideal of a variant, and what sets it: `4.528 s parallel (all under lock rtnl); `.
fn ideal(s: &Scenario, v: &Variant, phase: Metric) -> String {
    let ideal = nominal(s, v, phase);
    let order = match (phase, v.probing.strategy.is_parallel()) {
        (Metric::Bound, true) => "side by side".into(),
        (Metric::Bound, false) => "one by one".into(),
        _ => format!("{:?}", v.order).to_lowercase(),
    };
    let bound = match &ideal.bound {
        Bound::Sum => "the sum".into(),
        Bound::Path(names) if names.is_empty() => "nothing to wait for".into(),
        Bound::Path(names) => names.join(", then "),
        Bound::Lock(lock) => format!("all under lock {lock}"),
        Bound::Cpu => "all that keeps CPUs busy".into(),
    };
    format!("{:>8} {order} ({bound}); ", short(ideal.time))
}

/// What a variant says of probing, if anything: `; probed by kthread; at 1000 Hz`.
fn probing(s: &Scenario, p: &Probing) -> String {
    let mut said = Vec::new();
    if p.strategy != Strategy::default() {
        said.push(format!("probed by {}", p.strategy.name()));
    }
    said.extend(p.hz.map(|hz| format!("at {hz} Hz")));
    if p.firmware_fallback {
        said.push("user space is asked for firmware".into());
    }
    said.extend(p.faults.iter().map(|(device, fault)| {
        let fault = match fault {
            DeviceFault::NoFirmware => "without its firmware",
            DeviceFault::ShortFirmware => "with half its firmware",
            DeviceFault::Error => "fails",
            DeviceFault::Defer => "defers",
            DeviceFault::NeverReturns => "never returns",
        };
        format!("{} {fault}", s.devices[*device].name)
    }));
    said.extend(
        p.kill_loader
            .map(|at| format!("its loader is killed after {}", short(at))),
    );
    said.extend(
        p.unload
            .map(|at| format!("its driver is unloaded after {}", short(at))),
    );
    said.iter().map(|what| format!("; {what}")).collect()
}

fn reference(out: &mut String, s: &Scenario) {
    let Some(r) = &s.reference else { return };
    let _ = writeln!(out, "\npublished: {}", r.source);
    for (variant, metric, value) in &r.values {
        let _ = writeln!(out, "  {} of {variant}: {}", metric.name(), short(*value));
    }
    for (group, value) in &r.devices {
        let _ = writeln!(out, "  device_shutdown of each {group}: {}", short(*value));
    }
}

fn expectations(out: &mut String, s: &Scenario) {
    if !s.expect.is_empty() {
        out.push_str("\nexpectations\n");
    }
    for e in &s.expect {
        let of = match &e.of {
            Target::Value(d) => short(*d),
            Target::Ideal => "its ideal".into(),
            Target::Variant(v) => format!("that of {v}"),
        };
        let _ = writeln!(
            out,
            "  {} of {} {} {of}",
            e.metric.name(),
            e.variant,
            e.tolerance
        );
    }
}

/// `1.14 s`, `5.5 ms`: as people write it.
fn short(time: Nanos) -> String {
    let text = time.to_string();
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!(
                "{} {unit}",
                number.trim_end_matches('0').trim_end_matches('.')
            )
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::scenario::{Known, parse, parse_profiles};
    use expect_test::expect;

    #[test]
    fn shows_trees_locks_and_swaps() {
        let profiles = parse_profiles(
            "profiles.yaml",
            r#"
quick: {id: "1b36:0011", about: x, source: x}
slow: {id: "1b36:0011", about: x, source: x, probe: [{busy: 300 us}],
  shutdown: [{sleep: 1 s}, {poll: 132 ms, every: 5.5 ms}], lock: rtnl}
"#,
        )
        .unwrap();
        let scenario = parse(
            "deep.yaml",
            r#"
about: A tree.
kernel: "6.1"
machine: {cpus: 1, memory: 256 MiB}
devices:
  - {name: port, type: root-port, devices: [{name: nic, profile: slow, count: 2}]}
  - {name: sw, type: bridge, profile: slow, devices: [
      {name: low, type: bridge, devices: [{name: a, profile: quick}]},
      {name: b, profile: slow}]}
variants:
  one: {order: serial, swap: {slow: quick}}
  two: {order: parallel, series: some-series, cmdline: [a=1, b]}
measure: [device_shutdown]
reference: {source: a report, device_shutdown: {one: 1 s}, devices: {nic: 900 ms}}
expect:
  - {variant: one, metric: device_shutdown, within: 2.5 %, of: two}
  - {variant: two, metric: device_shutdown, within: 1 %, of: ideal}
"#,
            &Known::from(profiles),
        )
        .unwrap();
        let shown: Vec<String> = text(&scenario)
            .lines()
            .filter(|l| !l.starts_with("hash"))
            .map(|l| format!("{l}\n"))
            .collect();
        expect![[r#"
            deep: A tree.

            kernel    6.1
            machine   microvm, 1 CPU, 256 MiB
            clock     virtual
            boots     1 of each variant, at most 300 s each
            measures  device_shutdown

            devices (7)
              port                             [root port] no profile: the kernel's own driver
                nic.0 to nic.1 (2)             slow: probe busy 300 us, shutdown 1.132 s (sleep 1 s + poll 132 ms every 5.5 ms), under lock rtnl
              sw                               [bridge] slow: probe busy 300 us, shutdown 1.132 s (sleep 1 s + poll 132 ms every 5.5 ms), under lock rtnl
                low                            [bridge] no profile: the kernel's own driver
                  a                            quick: no delay
                b                              slow: probe busy 300 us, shutdown 1.132 s (sleep 1 s + poll 132 ms every 5.5 ms), under lock rtnl

            variants, with the ideal of device_shutdown by nominal delays
              one      0 ns serial (the sum); unpatched; quick in place of slow
              two   4.528 s parallel (all under lock rtnl); some-series; a=1 b

            published: a report
              device_shutdown of one: 1 s
              device_shutdown of each nic: 900 ms

            expectations
              device_shutdown of one within 2.5 % of that of two
              device_shutdown of two within 1 % of its ideal
        "#]].assert_eq(&shown.concat());
        let json = document(&scenario);
        assert_eq!(json["nominal_device_shutdown"]["one"]["time"], "0 ns");
        assert_eq!(json["scenario"]["devices"][2]["name"], "nic.1");
    }

    /// A machine that ends where its devices are probed has no ideal of a shutdown.
    #[test]
    fn shows_the_ideal_of_what_is_measured() {
        let scenario = parse(
            "probed.yaml",
            r#"
about: Probing.
kernel: "6.1"
machine: {cpus: 1, memory: 256 MiB}
profiles:
  card: {id: "1b36:0011", about: x, source: x, probe: [{sleep: 1 s}], shutdown: [{sleep: 5 s}]}
devices: [{name: card, profile: card, count: 3}]
variants:
  one: {order: serial}
  all: {order: serial, probe: async-prefer}
measure: [bound]
"#,
            &Known::default(),
        )
        .unwrap();
        let text = text(&scenario);
        let shown = text.split("\nvariants").nth(1).unwrap();
        expect![[r#"
            , with the ideal of bound by nominal delays
              one       3 s one by one (the sum); unpatched
              all       1 s side by side (card.0); unpatched; probed by async-prefer
        "#]]
        .assert_eq(shown);
        let json = document(&scenario);
        assert_eq!(json["nominal_bound"]["all"]["time"], "1 s");
        assert_eq!(json["nominal_device_shutdown"], json!(null));
    }
}
