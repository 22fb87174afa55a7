// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches whose places are booted on the scripted machine, through the real measuring, with
//! noise as a host has it.
#![allow(missing_docs)]

mod support;

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, anyhow};
use bootrig::core::{
    boot::{TrialResult, interpret},
    machine::{End, RawBoot},
    measure::{Options, Sink, measure},
    plan::Trial,
    scenario::{Clock, Metric, Order, Scenario},
    search::{
        Answer, Blamed, Ended, List, Patience, Proof, Question, Report, Sought, Step, Symptom,
        Tested, Tester, Threshold, gantt, search, window,
    },
};
use support::*;

const PLACES: usize = 200;

/// What a place's boots do: the trial, the place, and a number that differs each time.
type Play = fn(&Trial, usize, u64) -> RawBoot;

struct Host {
    scenario: Scenario,
    symptom: Symptom,
    play: Play,
    first: usize,
    seed: u64,
    boots: u64,
    results: BTreeMap<usize, Vec<TrialResult>>,
    steps: Vec<Step>,
}

struct Take(Vec<TrialResult>);

impl Sink for Take {
    fn started(&mut self, _: &Trial) {}
    fn again(&mut self, _: &Trial, _: &str) {}
    fn finished(&mut self, _: &Trial, _: &RawBoot, result: &TrialResult) -> Result<()> {
        self.0.push(result.clone());
        Ok(())
    }
}

/// A good mixing of numbers (SplitMix64).
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Around 1, with a standard deviation of `part`: the sum of twelve.
fn noise(number: u64, part: f64) -> f64 {
    let unit = |i: u64| mixed(number.wrapping_mul(31).wrapping_add(i)) as f64 / u64::MAX as f64;
    1.0 + part * ((0..12).map(unit).sum::<f64>() - 6.0)
}

/// A boot whose shutdowns take `factor` times as long as they should.
fn stretched(trial: &Trial, factor: f64) -> RawBoot {
    let mut calls = shutdowns(trial, SHUTDOWN);
    for (_, begin, locked, end) in &mut calls {
        for time in [begin, locked, end] {
            *time = SHUTDOWN + ((*time - SHUTDOWN) as f64 * factor) as u64;
        }
    }
    RawBoot {
        channel: channel(trial, &calls),
        ..good(trial)
    }
}

impl Host {
    fn new(symptom: Symptom, play: Play, first: usize, seed: u64) -> Self {
        let mut one = scenario();
        one.variants = vec![variant("serial", Order::Serial)];
        one.clock = Clock::Wall;
        Self {
            scenario: one,
            symptom,
            play,
            first,
            seed,
            boots: 0,
            results: BTreeMap::new(),
            steps: Vec::new(),
        }
    }
    fn search(&mut self) -> Ended {
        let mut list = List::new((0..PLACES).map(|p| p.to_string()).collect()).unwrap();
        let question = Question {
            symptom: self.symptom,
            sought: Sought::Symptom,
            clock: Clock::Wall,
            patience: Patience::by(Clock::Wall),
        };
        search(&mut list, self, &question).unwrap()
    }
}

impl Tester for Host {
    fn boot(&mut self, place: &str, boots: u32) -> Result<Tested> {
        let place: usize = place.parse()?;
        let have = self.results.entry(place).or_default();
        let plan = trials(self.scenario.clone(), boots - have.len() as u32);
        let number = AtomicU64::new(self.seed.wrapping_mul(1 << 32) + self.boots);
        let (play, first) = (self.play, self.first);
        let machine = Scripted::new(move |trial, _| {
            let number = number.fetch_add(1, Ordering::Relaxed);
            Ok(play(trial, usize::from(place >= first), mixed(number)))
        });
        self.boots += plan.len() as u64;
        let options = Options {
            jobs: NonZeroUsize::MIN,
            keep_going: true,
            retries: 0,
        };
        let mut take = Take(Vec::new());
        measure(&plan, &machine, options, &mut take)?;
        have.extend(take.0);
        let seen = have
            .iter()
            .map(|r| self.symptom.see(r).map_err(|why| anyhow!(why)));
        Ok(Tested::Booted(seen.collect::<Result<_>>()?))
    }
    fn judged(&mut self, step: &Step) -> Result<()> {
        self.steps.push(step.clone());
        Ok(())
    }
}

/// 3 % behind 2 % of noise, one boot in twenty a panic for no reason of the place.
#[test]
fn a_change_behind_noise_is_found_in_19_of_20_seeds() {
    let play: Play = |trial, slow, number| match number.is_multiple_of(20) {
        true => RawBoot {
            end: End::Early("reset".into()),
            ..RawBoot::default()
        },
        false => stretched(trial, noise(number, 0.02) * [1.0, 1.03][slow]),
    };
    let symptom = Symptom::Slow(Metric::DeviceShutdown, Threshold::Halfway);
    let (mut found, mut boots) = (0, Vec::new());
    for seed in 0..20 {
        let first = 1 + (mixed(seed + 7) % 199) as usize;
        let mut host = Host::new(symptom, play, first, seed);
        let ended = host.search();
        if let Ended::Found(place, Some(sure)) = &ended {
            assert!(*sure >= 0.95);
            found += usize::from(*place == first.to_string());
        }
        boots.push(host.boots);
    }
    assert!(found >= 19, "{found} of 20; boots: {boots:?}");
    assert!(boots.iter().all(|b| *b <= 1000), "{boots:?}");
}

/// A panic in one boot of three; the boots of well places are those that take long.
#[test]
fn a_rare_panic_is_found_in_19_of_20_seeds() {
    let play: Play = |trial, bad, number| match bad == 1 && number.is_multiple_of(3) {
        true => RawBoot {
            console: b"Kernel panic - not syncing: now and then\n".to_vec(),
            ..good(trial)
        },
        false => good(trial),
    };
    let mut found = 0;
    for seed in 0..20 {
        let first = 1 + (mixed(seed + 70) % 199) as usize;
        let mut host = Host::new(Symptom::Panic, play, first, seed);
        let ended = host.search();
        found +=
            usize::from(matches!(&ended, Ended::Found(place, _) if *place == first.to_string()));
    }
    assert!(found >= 19, "{found} of 20");
}

/// An oracle's finding, and boots that say nothing of it.
#[test]
fn a_violation_is_found_around_kernels_that_do_not_boot() {
    let play: Play = |trial, bad, _| stretched(trial, [1.0, 0.5][bad]);
    let mut host = Host::new(Symptom::Violation, play, 77, 1);
    assert!(matches!(host.search(), Ended::Found(place, _) if place == "77"));
    let dead: Play = |_, _, _| RawBoot {
        end: End::Deadline("boot: 60 s".into()),
        ..RawBoot::default()
    };
    let mut host = Host::new(Symptom::Violation, dead, 77, 1);
    assert!(matches!(host.search(), Ended::NoEnd(end, why) if end == "0" && why.contains("hang")));
    assert!(!host.steps.iter().any(|s| s.answer == Answer::New));
}

/// A boot as text: who ran when, on one scale.
#[test]
fn a_boot_is_drawn_as_text() {
    let trial = &trials(
        Host::new(Symptom::Hang, |t, _, _| good(t), 1, 1).scenario,
        1,
    )[0];
    let log = interpret(trial, &good(trial)).log.unwrap();
    let metric = Metric::DeviceShutdown;
    let scale = window(&log, metric).unwrap();
    assert_eq!(scale, 260 * MS);
    let picture = gantt(&trial.scenario, &log, metric, scale).unwrap();
    let row = |name: &str| {
        let mut rows = picture
            .lines()
            .filter(|l| l.starts_with(&format!("{name} ")));
        let row = rows.next().unwrap().split('|').nth(1).unwrap();
        (row.find('#').unwrap(), row.matches('#').count(), row.len())
    };
    assert_eq!(row("nic.1"), (0, 9, 60), "{picture}");
    assert_eq!(row("slow"), (30, 23, 60), "{picture}");
    assert_eq!(row("sw"), (53, 7, 60), "{picture}");
    assert!(picture.contains("| 100.0 ms"), "{picture}");
    // On the scale of a longer one it is as much shorter.
    let half = gantt(&trial.scenario, &log, metric, 2 * scale).unwrap();
    assert!(half.lines().all(|l| l.matches('#').count() <= 12), "{half}");
    assert_eq!(gantt(&trial.scenario, &log, metric, 0), None);
}

/// The report says what to blame, why, and how to do it again; a proof that does not hold is
/// not hidden.
#[test]
fn a_report_is_ready_to_be_mailed() {
    let step = |place: &str, answer| Step {
        place: place.into(),
        answer,
        boots: 1,
        shows: "1.000 s".into(),
    };
    let mut report = Report {
        found: "device_shutdown: 1.000 s before commit abc, 1.030 s with it (+3.00 %)".into(),
        blamed: Some(Blamed {
            name: "commit abc".into(),
            about: vec!["driver core: wait".into()],
        }),
        asked: "Scenario x.".into(),
        confidence: Some(0.954),
        proofs: vec![Proof {
            tried: "The new end without it".into(),
            result: "1.000 s instead of 1.030 s".into(),
            holds: Some(true),
        }],
        steps: vec![
            ("abc a|b".into(), step("abc", Answer::New)),
            (
                "def".into(),
                step("def", Answer::Skip("does not build: x".into())),
            ),
        ],
        again: vec!["cargo xtask bisect x".into()],
        ..Report::default()
    };
    assert!(report.confirmed());
    let text = report.text();
    for want in [
        "# device_shutdown: 1.000 s before commit abc",
        "    driver core: wait\n",
        "at least 95.4 %",
        "1. The new end without it: holds: 1.000 s instead of 1.030 s",
        "skipped: does not build: x",
        "    cargo xtask bisect x\n",
    ] {
        assert!(text.contains(want), "{want}: {text}");
    }
    assert!(!text.contains("a|b"), "no cell may end a column: {text}");
    report.proofs[0].holds = None;
    assert!(
        report.confirmed(),
        "what cannot be tried speaks against nothing"
    );
    report.proofs[0].holds = Some(false);
    assert!(!report.confirmed() && report.text().contains("DOES NOT HOLD"));
}
