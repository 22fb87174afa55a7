// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probing by a scripted guest: its times, its ideal, what became of devices, their names, and
//! what kernels lack.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;

use bootrig::core::{
    boot::{Outcome, TrialResult, interpret},
    event::Encoder,
    fault::Exit,
    ideal::Bound,
    machine::{End, RawBoot},
    oracle::Rule,
    plan::Trial,
    probing, report,
    scenario::{
        DeviceFault, Expectation, Metric, NodeKind, Order, Probing, Scenario, Strategy, Target,
        Tolerance,
    },
    summary::{self, Summary, summarise},
    units::{Fraction, Nanos},
};
use proptest::prelude::*;
use support::*;

/// Three cards of 1 ms, probed in one variant of each name.
fn cards(variants: &[(&str, Probing)]) -> Scenario {
    let all = variants.iter().map(|(name, probing)| {
        let mut variant = variant(name, Order::Serial);
        variant.probing = probing.clone();
        variant
    });
    Scenario {
        devices: (0..3)
            .map(|n| {
                let mut card = device(&format!("card.{n}"), None, NodeKind::Endpoint, Some("idle"));
                card.names = Some("eth".into());
                card
            })
            .collect(),
        variants: all.collect(),
        metrics: vec![Metric::Load, Metric::Probe, Metric::Bound],
        ..scenario()
    }
}

fn by(strategy: Strategy) -> Probing {
    Probing {
        strategy,
        ..Probing::default()
    }
}

/// A probe: device, begin, end if it returned, task, what it returned; in ms.
type Probe = (usize, u64, Option<u64>, u32, i32);

/// What such a guest leaves behind: attached from 100 to `attached` ms, loaded in 2 ms.
fn guest(probes: &[Probe], attached: Option<u64>, more: &[&str]) -> RawBoot {
    let mut e = Encoder::default();
    let ms = |t: u64| t * MS;
    e.line(
        'i',
        "hello boot=1 release=6.1.0 cpus=1 mono=50000000 tsc=50000000",
    );
    e.line(
        'i',
        &format!("loaded module=dummy_pci begin={} end={}", ms(99), ms(101)),
    );
    for line in more.iter().filter(|l| !l.starts_with("name")) {
        e.line('i', line);
    }
    e.line('k', "config hz=250 tsc_khz=1000000");
    e.line(
        'k',
        &format!("mark name=attach_begin mono={} tsc=1", ms(100)),
    );
    for (dev, begin, end, pid, ret) in probes {
        let end = end.map_or("-".into(), |e| ms(e).to_string());
        let begin = ms(*begin);
        e.line(
            'k',
            &format!(
                "cb dev={dev} op=probe begin={begin} locked={begin} end={end} cpu=0 pid={pid} ret={ret}"
            ),
        );
    }
    if let Some(at) = attached {
        e.line('k', &format!("mark name=attach_end mono={} tsc=2", ms(at)));
    }
    for line in more.iter().filter(|l| l.starts_with("name")) {
        e.line('k', line);
    }
    e.end('k');
    e.end('i');
    RawBoot {
        end: End::Finished,
        channel: e.bytes,
        console: vec![],
    }
}

const SERIAL: &[Probe] = &[
    (0, 100, Some(101), 1, 0),
    (1, 101, Some(102), 1, 0),
    (2, 102, Some(103), 1, 0),
];
const ASIDE: &[Probe] = &[
    (0, 100, Some(102), 7, 0),
    (1, 100, Some(101), 8, 0),
    (2, 100, Some(101), 9, 0),
];

fn only(scenario: Scenario) -> Trial {
    trials(scenario, 1).remove(0)
}

fn booted(probing: Probing, raw: &RawBoot) -> TrialResult {
    interpret(&only(cards(&[("v", probing)])), raw)
}

fn violations(result: &TrialResult) -> Vec<Rule> {
    result.oracle.violations.iter().map(|v| v.rule).collect()
}

#[test]
fn load_attach_and_bound_are_three_times() {
    let times = booted(by(Strategy::Sync), &guest(SERIAL, Some(103), &[]))
        .times
        .unwrap();
    assert_eq!(
        [times.load, times.probe, times.bound, times.ready],
        [2, 3, 3, 103].map(|t| Some(Nanos(t * MS)))
    );
    assert_eq!(times.bound_ideal.unwrap().bound, Bound::Sum);
    assert!(times.probe_ideal.is_some());
    assert_eq!(times.device_shutdown, None);

    let aside = booted(by(Strategy::AsyncPrefer), &guest(ASIDE, Some(100), &[]));
    assert_eq!(violations(&aside), []);
    let times = aside.times.unwrap();
    assert_eq!(
        [times.probe, times.bound],
        [0, 2].map(|t| Some(Nanos(t * MS)))
    );
    // The attach only queues: it has nothing to be as long as.
    assert_eq!(times.probe_ideal, None);
    let ideal = times.bound_ideal.unwrap();
    assert_eq!(ideal.time, Nanos(2 * MS));
    assert_eq!(ideal.bound, Bound::Path(vec!["card.0".into()]));
}

/// What became of each card, and whether that is what was done to it.
fn became(probing: Probing, raw: &RawBoot) -> (Vec<String>, Vec<Rule>) {
    let trial = only(cards(&[("v", probing)]));
    let result = interpret(&trial, raw);
    assert_eq!(result.outcome, Outcome::Completed);
    let log = result.log.as_ref().unwrap();
    let all = (0..3).map(|d| probing::outcome(trial.variant(), log, d).to_string());
    (all.collect(), violations(&result))
}

#[test]
fn every_fault_has_an_outcome() {
    let fault = |fault| Probing {
        faults: BTreeMap::from([(1, fault)]),
        ..Probing::default()
    };
    let second = |end, ret| vec![SERIAL[0], (1, 101, end, 1, ret), SERIAL[2]];
    for (kind, ret, want) in [
        (DeviceFault::NoFirmware, -2, "probe failed: ENOENT"),
        (DeviceFault::ShortFirmware, -22, "probe failed: EINVAL"),
        (DeviceFault::Error, -5, "probe failed: EIO"),
        (DeviceFault::Defer, -517, "deferred, 1 times"),
    ] {
        let raw = guest(&second(Some(102), ret), Some(103), &[]);
        let (all, wrong) = became(fault(kind), &raw);
        assert_eq!(all, ["bound", want, "bound"]);
        assert_eq!(wrong, []);
        // Bound all the same, it had no such fault.
        let sound = guest(SERIAL, Some(103), &[]);
        assert_eq!(became(fault(kind), &sound).1, [Rule::Bound]);
        // Nothing was to go wrong, and it did.
        assert_eq!(became(Probing::default(), &raw).1, [Rule::Bound]);
    }
    let raw = guest(
        &[SERIAL[0], (1, 101, None, 1, 0)],
        None,
        &["unsettled after=60000000000"],
    );
    let (all, wrong) = became(fault(DeviceFault::NeverReturns), &raw);
    assert_eq!(all, ["bound", "probe never returned", "never probed"]);
    assert_eq!(wrong, []);
    let times = booted(fault(DeviceFault::NeverReturns), &raw)
        .times
        .unwrap();
    assert_eq!((times.probe, times.bound, times.ready), (None, None, None));
    // Without that fault such a record is none.
    let lost = booted(Probing::default(), &raw).outcome;
    assert!(matches!(lost, Outcome::LostResult(_)), "{lost}");
}

/// The kernel's queue of asynchronous probes has an end: what comes after it is probed by the
/// loader, which is then told of each device.
#[test]
fn what_found_no_place_in_the_queue_is_told() {
    let told = |strategy, pid| {
        let scenario = cards(&[("v", by(strategy))]);
        let mut probes = ASIDE.to_vec();
        probes[2].3 = pid;
        let plan = trials(scenario.clone(), 1);
        let result = interpret(&plan[0], &guest(&probes, Some(101), &[]));
        assert_eq!(violations(&result), []);
        let results = BTreeMap::from([(plan[0].id.clone(), result)]);
        let summary = summarise("r", serde_json::Value::Null, vec![], &plan, &results);
        let became = summary.scenarios[0].variants[0].became.clone();
        let text = report::text(&summary, &[&scenario]);
        (
            became.into_iter().map(|b| b.became).collect::<Vec<_>>(),
            text,
        )
    };
    let (became, text) = told(Strategy::AsyncParam, 1);
    let full = "bound by the loader: the queue of asynchronous probes was full";
    assert_eq!(became, ["bound", "bound", full]);
    assert!(text.contains(full), "{text}");
    // A worker did it, or nobody else was to.
    assert!(told(Strategy::AsyncParam, 9).0.is_empty());
    assert!(told(Strategy::PerDeviceKthread, 1).0.is_empty());
}

/// Nobody loads a driver that is a part of the kernel.
#[test]
fn a_built_in_driver_has_no_load() {
    let raw = guest(SERIAL, Some(103), &[]);
    let channel = String::from_utf8(raw.channel.clone()).unwrap();
    let loaded = channel.lines().find(|l| l.contains("loaded")).unwrap();
    assert!(loaded.contains("module=dummy_pci"));
    let mut e = Encoder::default();
    for line in channel.lines().filter(|l| *l != loaded) {
        let mut words = line.splitn(4, ' ');
        let (source, body) = (words.nth(1).unwrap(), words.nth(1).unwrap());
        let body = body.rsplit_once(" #").unwrap().0;
        match body.starts_with("end ") {
            true => e.end(source.chars().next().unwrap()),
            false => e.line(source.chars().next().unwrap(), body),
        }
    }
    let raw = RawBoot {
        channel: e.bytes,
        ..raw
    };
    let times = booted(by(Strategy::BuiltIn), &raw).times.unwrap();
    assert_eq!((times.load, times.bound), (None, Some(Nanos(3 * MS))));
    assert_eq!(times.bound_ideal.unwrap().bound, Bound::Sum);
}

/// Without records there are the phases, and nothing that would say more.
#[test]
fn without_records_only_phases_are_known() {
    let mut scenario = cards(&[("silent", by(Strategy::Sync))]);
    scenario.variants[0].unrecorded = true;
    let result = interpret(&only(scenario), &guest(&[], Some(103), &[]));
    assert_eq!(violations(&result), []);
    let times = result.times.unwrap();
    assert_eq!(
        (times.probe, times.bound, times.ready),
        (Some(Nanos(3 * MS)), None, None)
    );
    assert_eq!((times.probe_ideal, times.bound_ideal), (None, None));
}

#[test]
fn a_killed_loader_fails_what_it_still_has_to_do() {
    let killed = || Probing {
        kill_loader: Some(Nanos(2 * MS)),
        ..Probing::default()
    };
    let word = ["killed module=dummy_pci begin=99000000 at=101500000 end=104000000"];
    let probes = [SERIAL[0], (1, 101, Some(102), 1, -4), SERIAL[2]];
    let (all, wrong) = became(killed(), &guest(&probes, Some(103), &word));
    assert_eq!(all[1], "probe failed once its task was killed: EINTR");
    let times = booted(killed(), &guest(&probes, Some(103), &word))
        .times
        .unwrap();
    assert_eq!(times.bound, Some(Nanos(3 * MS)));
    assert_eq!(times.bound_ideal, None, "not all were bound");
    assert_eq!(wrong, []);
    // Before the kill there is no excuse.
    let early = [(0, 100, Some(101), 1, -4), SERIAL[1], SERIAL[2]];
    let (all, wrong) = became(killed(), &guest(&early, Some(103), &word));
    assert_eq!(
        (all[0].as_str(), wrong),
        ("probe failed: EINTR", vec![Rule::Bound])
    );
}

#[test]
fn names_that_move_are_a_finding_and_no_failure() {
    let names = |order: [u32; 3]| order.map(|d| format!("name dev={d} number=N"));
    let scenario = cards(&[
        ("one", by(Strategy::Sync)),
        ("all", by(Strategy::AsyncParam)),
        ("again", by(Strategy::Sync)),
    ]);
    let summary = |orders: [[u32; 3]; 3]| -> (Summary, String) {
        let plan = trials(scenario.clone(), 1);
        let results = plan.iter().map(|t| {
            let lines: Vec<String> = names(orders[t.variant])
                .iter()
                .enumerate()
                .map(|(n, l)| l.replace('N', &n.to_string()))
                .collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            (
                t.id.clone(),
                interpret(t, &guest(SERIAL, Some(103), &lines)),
            )
        });
        let summary = summarise(
            "r",
            serde_json::Value::Null,
            vec![],
            &plan,
            &results.collect(),
        );
        let text = report::text(&summary, &[&scenario]);
        (summary, text)
    };
    let (moved, text) = summary([[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    assert_eq!(
        moved.scenarios[0].findings,
        [
            "names of devices: in all 2 of 3 are other devices' than in one: eth0 is card.2, not card.0, eth2 is card.0, not card.2"
        ]
    );
    assert!(text.contains("finding: names of devices: in all"), "{text}");
    assert_eq!(summary::exit(&moved), Exit::Done);
    let (same, text) = summary([[0, 1, 2]; 3]);
    assert!(same.scenarios[0].findings.is_empty());
    assert!(text.contains("the same in all 3 variants"), "{text}");
}

#[test]
fn what_a_kernel_lacks_is_told_and_judges_nothing() {
    let wild = || by(Strategy::AsyncCmdlineAll);
    let lack = |probing: Probing, release: &str, ready| {
        probing::lacks(&only(cards(&[("v", probing)])), release, ready)
    };
    assert_eq!(
        lack(wild(), "5.10.262-bootrig", false).unwrap(),
        "driver_async_probe=* takes Linux 5.19 or newer, this is 5.10.262-bootrig"
    );
    for release in ["5.19.0", "6.1.192-bootrig", "7.3.4-bootrig"] {
        assert_eq!(lack(wild(), release, false), None, "{release}");
    }
    let faster = Probing {
        hz: Some(1000),
        ..Probing::default()
    };
    assert_eq!(lack(faster.clone(), "6.1.0", false), None);
    let ready = lack(faster, "6.1.0", true).unwrap();
    assert!(ready.contains("leave --kernel out"), "{ready}");

    let mut scenario = cards(&[("sync", by(Strategy::Sync)), ("wild", wild())]);
    let expect = |variant: &str, of| Expectation {
        variant: variant.into(),
        metric: Metric::Bound,
        tolerance: Tolerance::AtMost(Fraction(1_000_000)),
        of,
    };
    scenario.expect = vec![
        expect("sync", Target::Value(Nanos(3 * MS))),
        expect("wild", Target::Ideal),
        expect("sync", Target::Variant("wild".into())),
    ];
    let plan = trials(scenario.clone(), 1);
    let missing = RawBoot {
        end: End::NotAvailable("it takes a newer one".into()),
        ..RawBoot::default()
    };
    let raw = |t: &Trial| match t.variant {
        0 => guest(SERIAL, Some(103), &[]),
        _ => missing.clone(),
    };
    let results = plan.iter().map(|t| (t.id.clone(), interpret(t, &raw(t))));
    let summary = summarise(
        "r",
        serde_json::Value::Null,
        vec![],
        &plan,
        &results.collect(),
    );
    assert_eq!(summary.scenarios[0].expectations.len(), 1);
    assert_eq!(summary::exit(&summary), Exit::Done);
    let text = report::text(&summary, &[&scenario]);
    assert!(
        text.contains("- scripted/wild: not available: it takes a newer one"),
        "{text}"
    );
}

proptest! {
    /// Side by side never beats its ideal, and one by one is the sum, whatever it takes.
    #[test]
    fn nothing_is_quicker_than_the_ideal(takes in proptest::collection::vec(1u64..1000, 3)) {
        let aside: Vec<Probe> = takes.iter().enumerate()
            .map(|(d, t)| (d, 100, Some(100 + t), 5 + d as u32, 0)).collect();
        let times = booted(by(Strategy::PerDeviceKthread), &guest(&aside, Some(2000), &[])).times.unwrap();
        prop_assert_eq!(times.bound, Some(times.bound_ideal.unwrap().time));
        let mut now = 100;
        let serial: Vec<Probe> = takes.iter().enumerate()
            .map(|(d, t)| { now += t; (d, now - t, Some(now), 1, 0) }).collect();
        let times = booted(by(Strategy::Kthread), &guest(&serial, Some(now), &[])).times.unwrap();
        prop_assert_eq!(times.bound, Some(times.bound_ideal.unwrap().time));
        prop_assert_eq!(times.probe, times.bound);
    }
}
