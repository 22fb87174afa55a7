// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons of sides that were made up, of scripted noise and of injected changes.

use proptest::prelude::*;

use super::*;
use crate::core::{
    parts::{Kernel, Parts},
    stats::{random, tests::noisy},
};

const MS: u64 = 1_000_000;

fn basis(clock: Clock) -> Basis {
    let kernel = Kernel {
        source: "linux 6.1.1".into(),
        key: "k".into(),
        modules: "m".into(),
        compiler: Some("gcc 12".into()),
        image: Some("b".into()),
    };
    let wall = clock == Clock::Wall;
    Basis {
        scenario: "h".into(),
        clock,
        host: wall.then(|| "here".into()),
        debug: false,
        parts: Parts {
            qemu: "10.0.2".into(),
            command: 1,
            accelerator: wall.then(|| "KVM".into()),
            init: "i".into(),
            images: [("udev (bookworm)".to_owned(), "u".to_owned())].into(),
            kernels: [("6.1".to_owned(), kernel)].into(),
        },
    }
}

fn side(label: &str, basis: Basis, metrics: BTreeMap<String, Vec<u64>>) -> Side {
    let values = Values {
        metrics,
        ..Values::default()
    };
    let measured = Measured {
        basis,
        variants: [("serial".to_owned(), values)].into(),
    };
    Side {
        label: label.into(),
        scenarios: [("s".to_owned(), measured)].into(),
        growth: vec![],
    }
}

/// Where a driver takes longer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    BeforeItSleeps,
    AfterItSlept,
}

/// A serial shutdown of `count` devices, each of another length, every other one of which
/// sleeps to a tick; `longer`: a device, by how much, and where.
fn serial(count: u64, longer: Option<(u64, u64, Place)>) -> Side {
    const TICK: u64 = 4 * MS;
    let (mut now, mut metrics) = (137_000, BTreeMap::new());
    let mut spans = Spans {
        ticks: Ticks { length: TICK },
        ..Spans::default()
    };
    for device in 0..count {
        let begin = now;
        let more = |place| longer.filter(|l| (l.0, l.2) == (device, place));
        let more = |place| more(place).map_or(0, |l| l.1);
        now += 300_000 + device * 7_000 + more(Place::BeforeItSleeps);
        if device % 2 == 1 {
            now = (now + device % 5 * TICK).next_multiple_of(TICK) + 3_000;
        }
        now += more(Place::AfterItSlept);
        let metric = format!("device_shutdown/nic.{device}");
        metrics.insert(metric.clone(), vec![now - begin]);
        spans.of.insert(metric, [begin, now]);
    }
    metrics.insert("device_shutdown".into(), vec![now]);
    let mut side = side("run", basis(Clock::Virtual), metrics);
    let values = side.scenarios.get_mut("s").unwrap();
    values.variants.get_mut("serial").unwrap().spans = spans;
    side
}

#[test]
fn a_millisecond_on_one_device_of_200_is_named_every_time() {
    let before = serial(200, None);
    let times = |side: &Side| side.scenarios["s"].variants["serial"].metrics.clone();
    let mut swallowed = 0;
    for (device, place) in
        (0..200).flat_map(|d| [Place::BeforeItSleeps, Place::AfterItSlept].map(|place| (d, place)))
    {
        let after = serial(200, Some((device, MS, place)));
        let found = compare(&before, &after, &Wishes::default()).unwrap();
        // What is done before a sleep may end with the tick that it ended with anyway. Then
        // the boot is the same to the nanosecond, and there is nothing that could be found.
        if times(&before) == times(&after) {
            assert!(device % 2 == 1 && place == Place::BeforeItSleeps);
            assert_eq!(found.exit(), Exit::Done);
            assert!(found.changed_devices().is_empty());
            swallowed += 1;
            continue;
        }
        let name = format!("nic.{device}");
        let at = format!("{device} {place:?}");
        assert_eq!(found.changed_devices(), [name.as_str()].into(), "{at}");
        assert_eq!(found.exit(), Exit::Failed, "{at}");
        let first = found.rows.iter().find(|r| r.kind == Kind::Device).unwrap();
        assert_eq!(first.metric, format!("device_shutdown/{name}"));
        // And the way back is as fast.
        let back = compare(&after, &before, &Wishes::default()).unwrap();
        assert_eq!(back.changed_devices(), [name.as_str()].into(), "{at}");
    }
    assert!((1..100).contains(&swallowed), "{swallowed}");
    let same = compare(&before, &before, &Wishes::default()).unwrap();
    assert_eq!(same.exit(), Exit::Done);
    assert!(
        same.rows
            .iter()
            .all(|r| r.judgement.verdict == Verdict::NoChange)
    );
}

/// Four metrics and 200 devices by the wall clock, each around a second with 2 % of noise;
/// `slower` of the metric `reboot`.
fn noisy_side(random: &mut rand_pcg::Pcg64Mcg, slower: f64) -> Side {
    let mut metrics = BTreeMap::new();
    for metric in ["boot", "probe", "device_shutdown", "reboot"] {
        let mean = if metric == "reboot" {
            1e9 * slower
        } else {
            1e9
        };
        metrics.insert(metric.to_owned(), noisy(random, 10, mean, 0.02));
    }
    side("run", basis(Clock::Wall), metrics)
}

#[test]
fn whole_comparisons_of_the_same_rarely_err_and_find_five_percent() {
    let mut random = random(9);
    let (mut wrong, mut found) = (0, 0);
    for _ in 0..20 {
        let before = noisy_side(&mut random, 1.0);
        let after = noisy_side(&mut random, 1.05);
        let rows = compare(&before, &after, &Wishes::default()).unwrap().rows;
        let called = |r: &Row| matches!(r.judgement.verdict, Verdict::Slower | Verdict::Faster);
        wrong += rows
            .iter()
            .filter(|r| r.metric != "reboot" && called(r))
            .count();
        found += rows
            .iter()
            .filter(|r| r.metric == "reboot" && r.judgement.verdict == Verdict::Slower)
            .count();
    }
    assert_eq!(wrong, 0, "false verdicts in 20 comparisons");
    assert!(found >= 18, "{found} of 20");
}

#[test]
fn refuses_other_things_unless_forced_and_says_so() {
    let metrics = || [("boot".to_owned(), vec![5 * MS])].into();
    let before = side("a", basis(Clock::Virtual), metrics());
    let with = |change: &dyn Fn(&mut Basis)| {
        let mut basis = basis(Clock::Virtual);
        change(&mut basis);
        side("b", basis, metrics())
    };
    let kernel = |b: &mut Basis, change: &dyn Fn(&mut Kernel)| {
        change(b.parts.kernels.get_mut("6.1").unwrap());
    };
    type Change<'a> = &'a dyn Fn(&mut Basis);
    let cases: [(&str, Change); 11] = [
        ("virtual time against wall time", &|b| b.clock = Clock::Wall),
        ("the scenario has changed", &|b| b.scenario = "x".into()),
        ("QEMU 10.0.2 against 9", &|b| b.parts.qemu = "9".into()),
        ("command line", &|b| b.parts.command = 2),
        ("PID 1", &|b| b.parts.init = "x".into()),
        ("user space udev (bookworm) is another", &|b| {
            let images = &mut b.parts.images;
            images.insert("udev (bookworm)".into(), "x".into());
        }),
        ("was recorded on one side only", &|b| b.parts.images.clear()),
        ("--debug", &|b| b.debug = true),
        ("built by gcc 12 against gcc 13", &|b| {
            kernel(b, &|k| {
                k.key = "x".into();
                k.compiler = Some("gcc 13".into());
            });
        }),
        ("its compiler was not recorded", &|b| {
            kernel(b, &|k| {
                k.key = "x".into();
                k.compiler = None;
            });
        }),
        ("guest modules", &|b| kernel(b, &|k| k.modules = "x".into())),
    ];
    for (want, change) in cases {
        let after = with(change);
        let refused = compare(&before, &after, &Wishes::default()).unwrap_err();
        assert!(refused[0].contains(want), "{want}: {refused:?}");
        let force = Wishes {
            force: true,
            ..Wishes::default()
        };
        let forced = compare(&before, &after, &force).unwrap();
        assert_eq!(forced.forced, refused);
        let text = forced.text();
        assert!(text.contains("FORCED") && text.contains(want), "{text}");
    }
    // Another kernel by the same compiler is what one compares.
    let after = with(&|b| {
        kernel(b, &|k| {
            k.key = "x".into();
            k.source = "linux 6.1.2".into();
        });
    });
    let compared = compare(&before, &after, &Wishes::default()).unwrap();
    assert_eq!(
        compared.notes,
        ["s: kernel 6.1 is linux 6.1.2 instead of linux 6.1.1"]
    );
    // Another host does not matter to virtual time, and does to wall time.
    let host = |name: &str| {
        let mut basis = basis(Clock::Wall);
        basis.host = Some(name.into());
        side(name, basis, metrics())
    };
    let refused = compare(&host("here"), &host("there"), &Wishes::default()).unwrap_err();
    assert_eq!(refused, ["s: another machine: here against there"]);
    let mut tcg = basis(Clock::Wall);
    tcg.parts.accelerator = Some("TCG".into());
    let tcg = side("tcg", tcg, metrics());
    let refused = compare(&host("here"), &tcg, &Wishes::default()).unwrap_err();
    assert_eq!(refused, ["s: KVM against TCG"]);
}

#[test]
fn failures_are_shown_and_never_compared() {
    let metrics = || [("boot".to_owned(), vec![5 * MS])].into();
    let before = side("a", basis(Clock::Virtual), metrics());
    let mut after = side("b", basis(Clock::Virtual), metrics());
    let broken = after
        .scenarios
        .get_mut("s")
        .unwrap()
        .variants
        .get_mut("serial");
    broken.unwrap().failed = Some("panic: dead".into());
    let found = compare(&before, &after, &Wishes::default()).unwrap();
    assert!(found.rows.is_empty());
    assert_eq!(found.exit(), Exit::Failed);
    assert!(
        found
            .text()
            .contains("FAILED s/serial: before: completed; after: panic: dead")
    );
    // What failed before cannot have become worse.
    let back = compare(&after, &before, &Wishes::default()).unwrap();
    assert_eq!(back.exit(), Exit::Inconclusive);
    // Nothing in common is no comparison.
    let empty = Side::default();
    assert!(compare(&before, &empty, &Wishes::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// A side compared with itself changes nothing; two sides exchanged exchange their
    /// verdicts; the order of rows is by importance.
    #[test]
    fn laws_of_comparing(values in proptest::collection::btree_map("[a-d]", (1..1000u64, 1..1000u64), 1..5)) {
        let of = |pick: &dyn Fn(&(u64, u64)) -> u64| {
            let metrics = values.iter().map(|(k, v)| (k.clone(), vec![pick(v) * MS])).collect();
            side("x", basis(Clock::Virtual), metrics)
        };
        let (a, b) = (of(&|v| v.0), of(&|v| v.1));
        let same = compare(&a, &a, &Wishes::default()).unwrap();
        prop_assert_eq!(same.exit(), Exit::Done);
        let (there, back) = (
            compare(&a, &b, &Wishes::default()).unwrap(),
            compare(&b, &a, &Wishes::default()).unwrap(),
        );
        let count = |c: &Comparison, v| c.rows.iter().filter(|r| r.judgement.verdict == v).count();
        prop_assert_eq!(count(&there, Verdict::Slower), count(&back, Verdict::Faster));
        prop_assert!(there.rows.is_sorted_by_key(|r| r.judgement.verdict));
    }
}
