// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots of a scripted guest: what they mean, what the oracle says, what the ideal is.
#![allow(missing_docs)]

mod support;

use bootrig::core::{
    blame::Wait,
    boot::{Outcome, TrialResult, interpret},
    ideal::{self, Bound, Means},
    machine::{End, RawBoot},
    oracle::Rule,
    plan::Trial,
    scenario::{Clock, Link, Metric, NodeKind, Order, Scenario, Step, Strategy as Probing},
    units::Nanos,
};
use proptest::prelude::*;
use support::*;

fn trial(order: Order) -> Trial {
    trials(scenario(), 1)
        .into_iter()
        .find(|t| t.variant().order == order)
        .unwrap()
}

fn result_of(trial: &Trial, calls: &[Call]) -> TrialResult {
    interpret(
        trial,
        &RawBoot {
            channel: channel(trial, calls),
            ..good(trial)
        },
    )
}

fn rules(result: &TrialResult) -> Vec<Rule> {
    let mut rules: Vec<_> = result.oracle.violations.iter().map(|v| v.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

fn index(s: &Scenario, name: &str) -> usize {
    s.devices.iter().position(|d| d.name == name).unwrap()
}

#[test]
fn good_boots_have_exact_times_and_no_violation() {
    let serial = interpret(&trial(Order::Serial), &good(&trial(Order::Serial)));
    assert_eq!(serial.outcome, Outcome::Completed);
    assert_eq!(rules(&serial), []);
    let times = serial.times.unwrap();
    // 30 + 100 + 50 + 40 + 40 + 0 ms, one after another.
    assert_eq!(times.device_shutdown, Some(Nanos(260 * MS)));
    assert_eq!(times.shutdown_ideal.as_ref().unwrap().time, Nanos(260 * MS));
    assert_eq!(times.shutdown_ideal.as_ref().unwrap().bound, Bound::Sum);

    let parallel = interpret(&trial(Order::Parallel), &good(&trial(Order::Parallel)));
    assert_eq!(rules(&parallel), []);
    let times = parallel.times.unwrap();
    // The slow device, then its bridge.
    assert_eq!(times.device_shutdown, Some(Nanos(130 * MS)));
    assert_eq!(times.shutdown_ideal.as_ref().unwrap().time, Nanos(130 * MS));
    assert_eq!(
        times.shutdown_ideal.as_ref().unwrap().bound,
        Bound::Path(vec!["slow".into(), "sw".into()])
    );
}

#[test]
fn reboot_parts_add_up_and_leave_out_the_dump() {
    let times = interpret(&trial(Order::Serial), &good(&trial(Order::Serial)))
        .times
        .unwrap();
    let r = times.reboot.unwrap();
    assert_eq!(
        r.total,
        r.user_space + r.kernel + r.device_shutdown + r.firmware + r.next_boot
    );
    // 1 ms user space, 1 ms kernel, 260 ms, 10 ms of firmware, 280 ms; the dump took 1 ms.
    assert_eq!(r.total, Nanos(552 * MS));
    assert_eq!(r.firmware, Nanos(10 * MS));
}

#[test]
fn without_a_second_boot_there_is_no_reboot_figure() {
    let mut s = scenario();
    s.metrics = vec![Metric::DeviceShutdown];
    for trial in trials(s, 1) {
        let result = interpret(&trial, &good(&trial));
        assert_eq!(result.outcome, Outcome::Completed);
        assert_eq!(rules(&result), []);
        assert_eq!(result.times.unwrap().reboot, None);
        // A second boot that nobody asked for is no completed trial either.
        let again = RawBoot {
            channel: good(&trials(scenario(), 1)[0]).channel,
            ..good(&trial)
        };
        assert!(matches!(
            interpret(&trial, &again).outcome,
            Outcome::LostResult(_)
        ));
    }
}

#[test]
fn a_lock_bounds_the_ideal() {
    let mut s = scenario();
    s.devices.extend((2..6).map(|n| {
        device(
            &format!("nic.{n}"),
            None,
            NodeKind::Endpoint,
            Some("locked"),
        )
    }));
    let trial = trials(s, 1)
        .into_iter()
        .find(|t| t.variant().order == Order::Parallel)
        .unwrap();
    let result = interpret(&trial, &good(&trial));
    assert_eq!(rules(&result), []);
    let times = result.times.unwrap();
    assert_eq!(
        times.shutdown_ideal.as_ref().unwrap().bound,
        Bound::Lock("rtnl".into())
    );
    assert_eq!(
        (
            times.shutdown_ideal.as_ref().unwrap().time,
            times.device_shutdown
        ),
        (Nanos(240 * MS), Some(Nanos(240 * MS)))
    );
}

#[test]
fn each_rule_finds_its_fault() {
    let parallel = trial(Order::Parallel);
    let right = shutdowns(&parallel, SHUTDOWN);
    let at = |d: usize| right.iter().position(|c| c.0 == d).unwrap();
    let with = |change: &dyn Fn(&mut Vec<Call>)| {
        let mut calls = right.clone();
        change(&mut calls);
        rules(&result_of(&parallel, &calls))
    };
    assert_eq!(with(&|_| {}), []);
    // A parent in the middle of its child.
    assert_eq!(with(&|c| c[at(0)].1 = SHUTDOWN), [Rule::ChildrenFirst]);
    // A device left out, and one done twice.
    assert_eq!(
        with(&|c| {
            c.remove(at(5));
        }),
        [Rule::ShutDownOnce]
    );
    assert_eq!(with(&|c| c.push(c[at(5)])), [Rule::ShutDownOnce]);
    // Hurried.
    assert_eq!(with(&|c| c[at(1)].3 -= 1), [Rule::DelayRespected]);
    // Before the window.
    assert_eq!(
        with(&|c| {
            c[at(5)].1 -= 5;
            c[at(5)].2 -= 5;
        }),
        [Rule::InsideWindow]
    );
    // A lock held by two.
    assert_eq!(
        with(&|c| {
            let b = c[at(3)].1;
            c[at(3)] = (3, b, b, b + 40 * MS);
        }),
        [Rule::LockHeldAlone]
    );
    // An event of a device that does not exist: nothing of this record can be trusted.
    let mut calls = right.clone();
    calls.push((77, SHUTDOWN, SHUTDOWN, SHUTDOWN));
    assert!(matches!(
        result_of(&parallel, &calls).outcome,
        Outcome::LostResult(_)
    ));

    let serial = trial(Order::Serial);
    let mut calls = shutdowns(&serial, SHUTDOWN);
    calls[3].1 -= 1;
    calls[3].2 -= 1;
    assert_eq!(rules(&result_of(&serial, &calls)), [Rule::NoOverlap]);
}

#[test]
fn console_and_pid1_are_judged() {
    let trial = trial(Order::Serial);
    let raw = good(&trial);
    let splat = RawBoot {
        console: b"[1.0] WARNING: CPU: 0 PID: 1 at drivers/base/core.c:1\n".to_vec(),
        ..raw.clone()
    };
    assert_eq!(rules(&interpret(&trial, &splat)), [Rule::NoSplat]);
}

/// The channel of a good boot with one line's body changed, checks and all.
fn with_body(trial: &Trial, from: &str, to: &str) -> TrialResult {
    let text = String::from_utf8(good(trial).channel).unwrap();
    assert!(text.contains(from), "{from}");
    let mut lines = String::new();
    for line in text.lines() {
        let content = line.rsplit_once(" #").unwrap().0.replacen(from, to, 1);
        let sum = bootrig::core::event::check(content.as_bytes());
        lines += &format!("{content} #{sum:08x}\n");
    }
    let raw = RawBoot {
        channel: lines.into_bytes(),
        ..good(trial)
    };
    interpret(trial, &raw)
}

#[test]
fn probes_and_pid1_are_judged() {
    let trial = trial(Order::Serial);
    let failed = with_body(&trial, "cb dev=1 op=probe", "cb dev=1 op=remove");
    assert!(rules(&failed).contains(&Rule::Bound), "{:?}", failed.oracle);
    let error = with_body(
        &trial,
        "loaded module=marks begin=281000000 end=282000000",
        "error what=mount errno=2",
    );
    assert_eq!(rules(&error), [Rule::Pid1]);
}

/// Probes one by one do not overlap; those side by side may.
#[test]
fn probes_take_turns_unless_they_are_side_by_side() {
    let begin_of = |trial: &Trial, device: usize| {
        let text = String::from_utf8(good(trial).channel).unwrap();
        let what = format!("cb dev={device} op=probe begin=");
        let rest = text.split_once(&what).unwrap().1;
        rest.split_once(' ').unwrap().0.to_owned()
    };
    for strategy in [Probing::Sync, Probing::Kthread, Probing::AsyncPrefer] {
        let mut scenario = scenario();
        scenario.variants.truncate(1);
        scenario.variants[0].probing.strategy = strategy;
        let trial = trials(scenario, 1).remove(0);
        let (first, second) = (begin_of(&trial, 0), begin_of(&trial, 1));
        let to = |begin: &str| format!("cb dev=1 op=probe begin={begin} locked={begin}");
        let overlapping = rules(&with_body(&trial, &to(&second), &to(&first)));
        match strategy.is_parallel() {
            true => assert_eq!(overlapping, []),
            false => assert_eq!(overlapping, [Rule::NoOverlap], "{strategy:?}"),
        }
    }
}

#[test]
fn failures_are_outcomes_not_numbers() {
    let trial = trial(Order::Serial);
    let raw = good(&trial);
    let outcome = |raw: RawBoot| {
        let result = interpret(&trial, &raw);
        assert!(result.times.is_none());
        result.outcome
    };
    let with = |end: End| RawBoot { end, ..raw.clone() };
    assert!(matches!(
        outcome(with(End::Machine("killed".into()))),
        Outcome::Infrastructure(_)
    ));
    assert!(matches!(
        outcome(with(End::Deadline("shutdown".into()))),
        Outcome::Hang(_)
    ));
    assert!(matches!(
        outcome(with(End::Splat("soft lockup".into()))),
        Outcome::Hang(_)
    ));
    assert!(matches!(
        outcome(with(End::Early("status 0".into()))),
        Outcome::LostResult(_)
    ));
    // A panic explains what came after it, whatever that was.
    for end in [
        End::Finished,
        End::Early(String::new()),
        End::Deadline(String::new()),
    ] {
        let console = b"Kernel panic - not syncing: x\n".to_vec();
        assert!(matches!(
            outcome(RawBoot {
                end,
                console,
                ..raw.clone()
            }),
            Outcome::Panic(_)
        ));
    }
    let garbage = RawBoot {
        channel: vec![0xff; 300],
        ..raw.clone()
    };
    assert!(matches!(outcome(garbage), Outcome::LostResult(_)));
    // Rebooted before the marks: the kernel side never spoke.
    let text = String::from_utf8(raw.channel.clone()).unwrap();
    let quiet: String = text
        .lines()
        .filter(|l| !l.starts_with("bootrig1 k"))
        .map(|l| format!("{l}\n"))
        .collect();
    let Outcome::LostResult(why) = outcome(RawBoot {
        channel: quiet.into_bytes(),
        ..raw.clone()
    }) else {
        panic!()
    };
    assert!(why.contains("without the mark"), "{why}");
}

/// Random trees with random delays and locks.
fn any_scenario() -> impl Strategy<Value = Scenario> {
    let node = (
        any::<prop::sample::Index>(),
        0u64..200,
        prop::option::of(0..3u8),
        prop::option::of(any::<prop::sample::Index>()),
    );
    proptest::collection::vec(node, 1..30).prop_map(|nodes| {
        let mut s = scenario();
        s.devices.clear();
        s.profiles.clear();
        for (n, (above, ms, lock, supplier)) in nodes.into_iter().enumerate() {
            let parent = above.index(n + 1).checked_sub(1);
            let lock = lock.map(|l| format!("lock{l}"));
            s.profiles.insert(
                format!("p{n}"),
                profile(&format!("p{n}"), ms, lock.as_deref()),
            );
            s.devices.push(device(
                &format!("d.{n}"),
                parent,
                NodeKind::Bridge,
                Some(&format!("p{n}")),
            ));
            // Suppliers come earlier, as parents do, so that there is no cycle.
            if let Some(supplier) = supplier.filter(|_| n > 0) {
                s.links.push(Link {
                    consumer: n,
                    supplier: supplier.index(n),
                    orders: true,
                });
            }
        }
        s
    })
}

/// The shares of a parallel boot in which device by device begins `late` after it could.
#[test]
fn blame_names_where_the_time_goes() {
    let mut s = scenario();
    s.links.push(Link {
        consumer: index(&s, "idle"),
        supplier: index(&s, "nic.1"),
        orders: true,
    });
    let trial = trials(s, 1).pop().unwrap();
    assert_eq!(trial.variant().order, Order::Parallel);
    let of = |name: &str| index(&trial.scenario, name);
    let at = |begin: u64, locked: u64, end: u64| {
        (
            SHUTDOWN + begin * MS,
            SHUTDOWN + locked * MS,
            SHUTDOWN + end * MS,
        )
    };
    let call = |name: &str, (begin, locked, end): (u64, u64, u64)| (of(name), begin, locked, end);
    let calls = [
        call("slow", at(5, 5, 105)),
        call("quick", at(0, 0, 50)),
        call("sw", at(112, 112, 142)),
        call("nic.0", at(0, 0, 40)),
        call("nic.1", at(1, 43, 83)),
        call("idle", at(0, 0, 0)),
    ];
    let result = result_of(&trial, &calls);
    assert!(
        result.oracle.violations.is_empty(),
        "{:?}",
        result.oracle.violations
    );
    let times = result.times.unwrap();
    let shares: Vec<_> = times
        .shutdown_blame
        .iter()
        .map(|s| (s.what, s.time.0 / MS, s.most.clone().unwrap_or_default()))
        .collect();
    // The path is slow, then bridge: 130 ms of 142.
    assert_eq!(times.shutdown_ideal.unwrap().time, Nanos(130 * MS));
    assert_eq!(
        shares,
        [
            (Wait::Turn, 7, "sw".to_owned()),
            (Wait::Task, 5, "slow".to_owned()),
        ]
    );
}

/// One by one, nobody waits for a lock, however long ago its last holder let go of it.
#[test]
fn a_free_lock_is_not_blamed() {
    let trial = trial(Order::Serial);
    let of = |name: &str| index(&trial.scenario, name);
    let at = |ms: u64| SHUTDOWN + ms * MS;
    let calls = [
        (of("nic.1"), at(0), at(0), at(40)),
        (of("slow"), at(40), at(40), at(140)),
        (of("quick"), at(140), at(140), at(190)),
        (of("sw"), at(190), at(190), at(220)),
        (of("nic.0"), at(220), at(220) + 100, at(260) + 100),
        (of("idle"), at(260) + 100, at(260) + 100, at(260) + 100),
    ];
    let times = result_of(&trial, &calls).times.unwrap();
    let shares: Vec<_> = times
        .shutdown_blame
        .iter()
        .map(|s| (s.what, s.time))
        .collect();
    assert_eq!(shares, [(Wait::Task, Nanos(100))]);
}

/// What an order that links ask for costs when it is broken.
#[test]
fn consumers_come_before_their_suppliers() {
    let mut s = scenario();
    let (consumer, supplier) = (index(&s, "nic.1"), index(&s, "quick"));
    s.links.push(Link {
        consumer,
        supplier,
        orders: true,
    });
    let trial = trials(s, 1).pop().unwrap();
    let good = shutdowns(&trial, SHUTDOWN);
    assert_eq!(rules(&result_of(&trial, &good)), []);
    let bad: Vec<_> = good
        .iter()
        .map(|c| {
            if c.0 == supplier {
                (c.0, SHUTDOWN, SHUTDOWN, SHUTDOWN + 50 * MS)
            } else {
                *c
            }
        })
        .collect();
    assert!(rules(&result_of(&trial, &bad)).contains(&Rule::ConsumersFirst));
}

/// In virtual time computing adds up over all CPUs; spinning only over those there are.
#[test]
fn the_ideal_knows_what_needs_a_cpu() {
    let ideal = |step: fn(Nanos) -> Step, clock, cpus| {
        let mut s = scenario();
        for profile in s.profiles.values_mut() {
            profile.lock = None;
            profile.shutdown = vec![step(Nanos(100 * MS))];
        }
        let (granted, means) = (
            vec![Nanos(100 * MS); s.devices.len()],
            Means { clock, cpus },
        );
        let parallel = &s.variants[1];
        ideal::parallel(&s, parallel, means, &granted).time.0 / MS
    };
    // Six devices; the longest path has two.
    for (step, clock, cpus, want) in [
        (Step::Sleep as fn(Nanos) -> Step, Clock::Virtual, 1, 200),
        (Step::Busy, Clock::Virtual, 1, 600),
        (Step::Busy, Clock::Virtual, 2, 300),
        (Step::Busy, Clock::Virtual, 8, 200),
        (Step::Compute, Clock::Virtual, 8, 600),
        (Step::Compute, Clock::Wall, 2, 300),
        (Step::Compute, Clock::Wall, 8, 200),
    ] {
        assert_eq!(ideal(step, clock, cpus), want, "{clock} {cpus}");
    }
}

proptest! {
    /// A correct guest never breaks a rule, and nothing is faster than the ideal; serial
    /// is the sum exactly.
    #[test]
    fn correct_guests_are_never_accused_and_never_beat_the_ideal(s in any_scenario()) {
        for trial in trials(s, 1) {
            let result = interpret(&trial, &good(&trial));
            prop_assert_eq!(&result.outcome, &Outcome::Completed);
            prop_assert!(result.oracle.violations.is_empty(), "{:?}", result.oracle.violations);
            let times = result.times.unwrap();
            let took = times.device_shutdown.unwrap();
            prop_assert!(took >= times.shutdown_ideal.as_ref().unwrap().time);
            let ideal = times.shutdown_ideal.as_ref().unwrap().time;
            let blamed: Nanos = times.shutdown_blame.iter().map(|s| s.time).sum();
            // What is blamed explains all that lies beyond the ideal.
            prop_assert!(ideal + blamed >= took);
            prop_assert!(blamed <= took);
            if trial.variant().order == Order::Serial {
                prop_assert_eq!(took, ideal);
                prop_assert_eq!(blamed, Nanos(0));
            }
        }
    }

    /// Whatever single call is left out of a correct guest, the oracle notices.
    #[test]
    fn a_missing_shutdown_is_always_found(s in any_scenario(), which in any::<prop::sample::Index>()) {
        let trial = trials(s, 1).pop().unwrap();
        let mut calls = shutdowns(&trial, SHUTDOWN);
        calls.remove(which.index(calls.len()));
        prop_assert!(rules(&result_of(&trial, &calls)).contains(&Rule::ShutDownOnce));
    }
}
