// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches over invented histories: exact ones, ones with holes, ones behind noise.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::core::{
    scenario::Metric,
    stats::{random, tests::noisy},
    units::{Fraction, Nanos},
};

type Show = Box<dyn FnMut(usize, &mut Pcg64Mcg) -> Result<Seen, String>>;

/// A history whose places are numbers, and what boots of them show.
struct Lab {
    show: Show,
    random: Pcg64Mcg,
    seen: BTreeMap<usize, Vec<Seen>>,
    order: Vec<usize>,
    steps: Vec<Step>,
}

impl Lab {
    fn new(show: impl FnMut(usize, &mut Pcg64Mcg) -> Result<Seen, String> + 'static) -> Self {
        Self {
            show: Box::new(show),
            random: random(1),
            seen: BTreeMap::new(),
            order: Vec::new(),
            steps: Vec::new(),
        }
    }
    fn search(&mut self, places: usize, question: &Question) -> Ended {
        let mut list = List::new((0..places).map(|p| p.to_string()).collect()).unwrap();
        search(&mut list, self, question).unwrap()
    }
    fn boots(&self) -> usize {
        self.seen.values().map(Vec::len).sum()
    }
}

impl Tester for Lab {
    fn boot(&mut self, place: &str, boots: u32) -> Result<Tested> {
        let place: usize = place.parse()?;
        if !self.order.contains(&place) {
            self.order.push(place);
        }
        let seen = self.seen.entry(place).or_default();
        while (seen.len() as u32) < boots {
            match (self.show)(place, &mut self.random) {
                Ok(one) => seen.push(one),
                Err(why) => return Ok(Tested::NotBuilt(why)),
            }
        }
        Ok(Tested::Booted(seen.clone()))
    }
    fn judged(&mut self, step: &Step) -> Result<()> {
        self.steps.push(step.clone());
        Ok(())
    }
}

fn slow(threshold: Threshold) -> Symptom {
    Symptom::Slow(Metric::DeviceShutdown, threshold)
}

fn question(symptom: Symptom, sought: Sought, clock: Clock) -> Question {
    Question {
        symptom,
        sought,
        clock,
        patience: Patience::by(clock),
    }
}

fn exactly(symptom: Symptom) -> Question {
    question(symptom, Sought::Symptom, Clock::Virtual)
}

const SECOND: u64 = 1_000_000_000;

fn halvings(candidates: usize) -> usize {
    (usize::BITS - (candidates - 1).leading_zeros()) as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// It finds whatever place it is, after both ends, in no more steps than halving takes.
    #[test]
    fn finds_the_first(places in 2..400usize, at in any::<prop::sample::Index>(), fix in any::<bool>()) {
        let first = 1 + at.index(places - 1);
        let sought = if fix { Sought::Fix } else { Sought::Symptom };
        for symptom in [
            slow(Threshold::Halfway),
            slow(Threshold::Time(Nanos(SECOND + 10_000_000))),
            slow(Threshold::Part(Fraction(10_000))),
            Symptom::Hang,
        ] {
            let mut lab = Lab::new(move |place, _| {
                let has = (place >= first) != fix;
                Ok(match (symptom, has) {
                    (Symptom::Slow(..), true) => Seen::Value(SECOND / 100 * 103),
                    (Symptom::Slow(..), false) => Seen::Value(SECOND),
                    (_, true) => Seen::Yes,
                    (_, false) => Seen::No,
                })
            });
            let ended = lab.search(places, &question(symptom, sought, Clock::Virtual));
            prop_assert_eq!(ended, Ended::Found(first.to_string(), None));
            prop_assert_eq!(&lab.order[..2], &[0, places - 1]);
            prop_assert!(lab.order.len() - 2 <= halvings(places - 1), "{:?}", lab.order);
            // One boot decides.
            prop_assert_eq!(lab.boots(), lab.order.len());
        }
    }

    /// What cannot be built or does not boot is skipped, and never blamed alone.
    #[test]
    fn goes_around_holes(
        places in 3..120usize,
        at in any::<prop::sample::Index>(),
        holes in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let first = 1 + at.index(places - 1);
        let inner = |i: &prop::sample::Index| 1 + i.index(places - 2);
        let holes: Vec<usize> = holes.iter().map(inner).collect();
        let holes_of = holes.clone();
        let mut lab = Lab::new(move |place, _| match holes_of.contains(&place) {
            true if place % 2 == 0 => Err("error: it is broken".into()),
            true => Ok(Seen::Nothing("panic: no init".into())),
            false => Ok(Seen::Value(if place >= first { 2 * SECOND } else { SECOND })),
        });
        let ended = lab.search(places, &exactly(slow(Threshold::Halfway)));
        let skipped = lab.steps.iter().filter(|s| matches!(s.answer, Answer::Skip(_))).count();
        // What is skipped costs a step, and leaves parts that are not halves.
        prop_assert!(lab.order.len() - 2 <= halvings(places - 1) + 2 * skipped);
        match ended {
            Ended::Found(place, None) => prop_assert_eq!(place, first.to_string()),
            Ended::OneOf(of) => {
                prop_assert!(of.contains(&first.to_string()));
                // All but the last were skipped.
                for place in &of[..of.len() - 1] {
                    prop_assert!(holes.contains(&place.parse().unwrap()));
                }
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// However noisy, no more is booted than allowed.
    #[test]
    fn keeps_to_the_bound(most in 0..200u32, seed in any::<u64>()) {
        let mut lab = Lab::new(|_, random| Ok(Seen::Value(noisy(random, 1, 1e9, 0.05)[0])));
        lab.random = random(seed);
        let mut q = question(slow(Threshold::Halfway), Sought::Symptom, Clock::Wall);
        q.patience.most_boots = most;
        lab.search(100, &q);
        prop_assert!(lab.boots() <= most as usize);
    }
}

/// The figures that are promised: a change of 3 % behind 2 % of noise, one of 200 places.
#[test]
fn noise_hides_a_change_in_less_than_one_of_twenty() {
    let (mut found, mut wrong) = (0, Vec::new());
    for seed in 0..20 {
        let first = 1 + (seed as usize * 37) % 199;
        let mut lab = Lab::new(move |place, random| {
            let mean = if place >= first { 1.03e9 } else { 1e9 };
            Ok(Seen::Value(noisy(random, 1, mean, 0.02)[0]))
        });
        lab.random = random(seed);
        let q = question(slow(Threshold::Halfway), Sought::Symptom, Clock::Wall);
        match lab.search(200, &q) {
            Ended::Found(place, confidence) if place == first.to_string() => {
                assert!(confidence.unwrap() >= 0.95, "{confidence:?}");
                found += 1;
            }
            other => wrong.push((seed, other)),
        }
    }
    assert!(found >= 19, "{found} of 20: {wrong:?}");
}

/// A symptom that only every second boot shows takes more boots where it does not show.
#[test]
fn what_shows_itself_rarely_is_found() {
    let mut found = 0;
    for seed in 0..20 {
        let first = 1 + (seed as usize * 61) % 199;
        let mut lab = Lab::new(move |place, random| {
            let shows = place >= first && random.random_range(0.0..1.0) < 0.5;
            Ok(if shows { Seen::Yes } else { Seen::No })
        });
        lab.random = random(seed);
        let ended = lab.search(200, &question(Symptom::Panic, Sought::Symptom, Clock::Wall));
        found += usize::from(matches!(ended, Ended::Found(place, _) if place == first.to_string()));
    }
    assert!(found >= 19, "{found} of 20");
}

/// An absolute limit by the wall clock: the sign test tells the sides.
#[test]
fn a_limit_is_held_against_noise() {
    let mut lab = Lab::new(|place, random| {
        let mean = if place >= 41 { 1.05e9 } else { 1e9 };
        Ok(Seen::Value(noisy(random, 1, mean, 0.02)[0]))
    });
    let limit = slow(Threshold::Time(Nanos(1_025_000_000)));
    let ended = lab.search(64, &question(limit, Sought::Symptom, Clock::Wall));
    assert!(
        matches!(&ended, Ended::Found(place, Some(sure)) if place == "41" && *sure >= 0.95),
        "{ended:?}"
    );
}

#[test]
fn ends_that_are_not_as_they_should_be_stop_it() {
    let value = |v: u64| Ok(Seen::Value(v));
    let two = |old: Result<Seen, String>, new: Result<Seen, String>, q: Question| {
        let mut lab = Lab::new(move |place, _| if place == 0 { old.clone() } else { new.clone() });
        let ended = lab.search(9, &q);
        assert!(
            lab.order.len() <= 2 && lab.steps.is_empty(),
            "{:?}",
            lab.order
        );
        ended
    };
    let halfway = || exactly(slow(Threshold::Halfway));
    // 50 us of a second are no change.
    let alike = two(value(SECOND), value(SECOND + 50_000), halfway());
    assert!(
        matches!(&alike, Ended::Alike(why) if why.contains("no change") && why.contains("100.0 us")),
        "{alike:?}"
    );
    let swapped = two(value(2 * SECOND), value(SECOND), halfway());
    assert!(
        matches!(&swapped, Ended::Swapped(why) if why.contains("the old end: 2.000 s")),
        "{swapped:?}"
    );
    let fix = Question {
        sought: Sought::Fix,
        ..halfway()
    };
    assert!(matches!(
        two(value(SECOND), value(2 * SECOND), fix),
        Ended::Swapped(_)
    ));
    let limit = exactly(slow(Threshold::Time(Nanos(5 * SECOND))));
    assert!(matches!(
        two(value(SECOND), value(2 * SECOND), limit),
        Ended::Alike(_)
    ));
    let hang = || exactly(Symptom::Hang);
    assert!(matches!(
        two(Ok(Seen::Yes), Ok(Seen::No), hang()),
        Ended::Swapped(_)
    ));
    assert!(matches!(
        two(Ok(Seen::No), Ok(Seen::No), hang()),
        Ended::Alike(_)
    ));
    assert!(matches!(
        two(Ok(Seen::Yes), Ok(Seen::Yes), hang()),
        Ended::Alike(_)
    ));
    let broken = two(value(SECOND), Err("a.c:1: error".into()), halfway());
    assert!(
        matches!(&broken, Ended::NoEnd(end, why) if end == "8" && why.contains("does not build: a.c:1")),
        "{broken:?}"
    );
    let dead = two(
        Ok(Seen::Nothing("panic: x".into())),
        value(SECOND),
        halfway(),
    );
    assert!(
        matches!(&dead, Ended::NoEnd(end, why) if end == "0" && why == "panic: x"),
        "{dead:?}"
    );
    // By the wall clock too: boots of the same thing do not differ.
    let mut lab = Lab::new(|_, random| Ok(Seen::Value(noisy(random, 1, 1e9, 0.02)[0])));
    let same = lab.search(
        9,
        &question(slow(Threshold::Halfway), Sought::Symptom, Clock::Wall),
    );
    assert!(matches!(same, Ended::Alike(_)), "{same:?}");
}

#[test]
fn a_list_has_two_ends_and_names_each_once() {
    let list = |names: &[&str]| List::new(names.iter().map(|n| (*n).to_owned()).collect());
    assert!(list(&["a"]).unwrap_err().contains("two places or more"));
    assert!(
        list(&["a", "b", "a"])
            .unwrap_err()
            .contains("`a` is named twice")
    );
    assert_eq!(
        list(&["a", "b"]).unwrap().next().unwrap(),
        Next::Found("b".into())
    );
}

#[test]
fn thresholds_are_read_with_their_units() {
    assert_eq!("3 %".parse(), Ok(Threshold::Part(Fraction(30_000))));
    assert_eq!("2.95s".parse(), Ok(Threshold::Time(Nanos(2_950_000_000))));
    assert!(
        "3".parse::<Threshold>()
            .unwrap_err()
            .contains("unit is missing")
    );
    assert!("x%".parse::<Threshold>().is_err());
}
