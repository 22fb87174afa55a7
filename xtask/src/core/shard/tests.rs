// SPDX-License-Identifier: MIT OR Apache-2.0

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::core::{
    boot::{Outcome, interpret},
    machine::{End, RawBoot},
    plan::{Overrides, plan, with_same},
    scenario::{Known, parse},
};

fn planned(scenarios: usize, repeats: u32, clock: Clock) -> Vec<Trial> {
    let one = |number| {
        let text = "about: x\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 256 MiB}\nvariants:\n  a: {order: serial}\n  b: {order: serial}\nmeasure: [boot]\n";
        let name = format!("s{number}.yaml");
        Arc::new(parse(&name, text, &Known::default()).unwrap())
    };
    let all: Vec<_> = (0..scenarios).map(one).collect();
    let overrides = Overrides {
        clock: Some(clock),
        repeats: Some(repeats),
        debug: false,
    };
    with_same(plan(&all, overrides))
}

fn shard(number: u32, of: u32) -> Shard {
    Shard { number, of }
}

#[test]
fn only_what_is_there_is_a_shard() {
    let said = |text: &str| text.parse::<Shard>().map_err(|e| e.to_string());
    assert_eq!(said("2/4"), Ok(shard(2, 4)));
    for (text, why) in [
        ("5/4", "there are only 4 shards: 1/4 to 4/4"),
        ("0/4", "shards are counted from 1: 1/4 to 4/4"),
        ("1/0", "a plan is cut into 1 to 1024 shards, not 0"),
        ("1/5000", "a plan is cut into 1 to 1024 shards, not 5000"),
        ("4", "it is K/N, such as 2/4"),
        ("+1/4", "it is K/N, such as 2/4"),
        ("1/4/2", "it is K/N, such as 2/4"),
        ("/", "it is K/N, such as 2/4"),
    ] {
        assert_eq!(said(text), Err(why.into()), "{text}");
    }
}

#[test]
fn the_longest_is_not_joined_by_others() {
    let plan = planned(4, 1, Clock::Virtual);
    let took: BTreeMap<String, u64> = [("s1/b/0".to_owned(), 70_000)]
        .into_iter()
        .chain(
            plan.iter()
                .filter(|t| t.id != "s1/b/0")
                .map(|t| (t.id.clone(), 10_000)),
        )
        .collect();
    let ids = |number| -> Vec<_> {
        let own = cut(&plan, shard(number, 2), &took);
        own.into_iter().map(|t| t.id).collect()
    };
    assert_eq!(ids(1), ["s1/b/0"]);
    assert_eq!(ids(2).len(), 7);
    // Without times they are dealt out one by one.
    let none = BTreeMap::new();
    let counts = [1, 2, 3].map(|n| cut(&plan, shard(n, 3), &none).len());
    assert_eq!(counts, [3, 3, 2]);
}

#[test]
fn by_the_wall_clock_a_scenario_is_not_torn_apart() {
    let plan = planned(3, 5, Clock::Wall);
    for number in 1..=2 {
        let own = cut(&plan, shard(number, 2), &BTreeMap::new());
        for part in own.chunk_by(stay_together) {
            let whole = plan
                .iter()
                .filter(|t| t.scenario.name == part[0].scenario.name);
            let ids: Vec<_> = whole.map(|t| &t.id).collect();
            assert_eq!(part.iter().map(|t| &t.id).collect::<Vec<_>>(), ids);
        }
    }
}

proptest! {
    /// Whatever is known of its boots, each is in exactly one shard, in the plan's order.
    #[test]
    fn every_boot_is_in_one_shard(
        of in 1u32..9,
        repeats in 1u32..5,
        times in proptest::collection::vec(proptest::option::of(0u64..100_000), 24),
    ) {
        let plan = planned(3, repeats, Clock::Virtual);
        let took: BTreeMap<String, u64> = plan
            .iter()
            .zip(times)
            .filter_map(|(t, ms)| Some((t.id.clone(), ms?)))
            .collect();
        let mut dealt = Vec::new();
        for number in 1..=of {
            let own = cut(&plan, shard(number, of), &took);
            prop_assert!(own.iter().enumerate().all(|(i, t)| t.index == i));
            let boots: Vec<_> = own.iter().map(|t| t.id.clone()).collect();
            let again = only(&plan, &Cut { number, of, boots: boots.clone() }).unwrap();
            prop_assert_eq!(again.into_iter().map(|t| t.id).collect::<Vec<_>>(), boots.clone());
            dealt.extend(boots);
        }
        dealt.sort();
        let mut all: Vec<_> = plan.iter().map(|t| t.id.clone()).collect();
        all.sort();
        prop_assert_eq!(dealt, all);
    }
}

/// The shards of `plan` with results as `outcome` has them, and what is said of those `kept`.
fn accounted(
    plan: &[Trial],
    kept: &[u32],
    made: impl Fn(&Trial) -> bool,
    end: impl Fn(&Trial) -> End,
) -> Account {
    let shards: Vec<_> = kept
        .iter()
        .map(|&number| {
            let own = cut(plan, shard(number, 3), &BTreeMap::new());
            let boots = own.iter().map(|t| t.id.clone()).collect();
            let results: BTreeMap<_, _> = own
                .iter()
                .filter(|t| made(t))
                .map(|t| {
                    let raw = RawBoot {
                        end: end(t),
                        ..RawBoot::default()
                    };
                    let mut result = interpret(t, &raw);
                    if raw.end == End::Finished {
                        result.outcome = Outcome::Completed;
                    }
                    (t.id.clone(), result)
                })
                .collect();
            (
                Cut {
                    number,
                    of: 3,
                    boots,
                },
                results,
            )
        })
        .collect();
    let parts: Vec<_> = shards
        .iter()
        .enumerate()
        .map(|(index, (cut, results))| Part {
            run: ["one", "two", "three", "four"][index],
            cut,
            results,
        })
        .collect();
    account(plan, &parts)
}

#[test]
fn what_is_missing_doubled_or_failed_is_named() {
    let plan = planned(3, 1, Clock::Virtual);
    let good = |_: &Trial| End::Finished;
    let whole = accounted(&plan, &[1, 2, 3], |_| true, good);
    assert_eq!(
        (whole.clone(), whole.is_whole()),
        (Account::default(), true)
    );

    let lost = accounted(&plan, &[1, 3], |_| true, good);
    assert!(!lost.is_whole());
    assert_eq!(
        lost.to_string(),
        "missing: shard 2/3: there is no run of it\nmissing: boots in no run: 2: s0/b/0, s2/a/0\n"
    );
    let cut_short = accounted(&plan, &[1, 2, 3], |t| t.id != "s2/a/0", good);
    assert_eq!(
        cut_short.to_string(),
        "unfinished: shard 2/3 (run two) lacks 1 of its 2 boots: s2/a/0; `cargo xtask bench --resume` makes them\n"
    );
    let twice = accounted(&plan, &[1, 2, 2, 3], |_| true, good);
    assert_eq!(
        twice.to_string(),
        "doubled: shard 2/3 is in runs two, three\n"
    );
    let failed = accounted(
        &plan,
        &[1, 2, 3],
        |_| true,
        |t| match t.id.as_str() {
            "s0/b/0" => End::Machine("QEMU is gone".into()),
            _ => End::Finished,
        },
    );
    assert!(failed.is_whole());
    let said = failed.to_string();
    assert!(
        said.starts_with("failed: shard 2/3 (run two): 1 of its boots failed: s0/b/0: ")
            && said.contains("QEMU is gone"),
        "{said}"
    );
}

#[test]
fn shards_that_were_cut_by_different_times_are_found_out() {
    let plan = planned(2, 1, Clock::Virtual);
    let results = BTreeMap::new();
    let cut_of = |number, boots: &[&str]| Cut {
        number,
        of: 2,
        boots: boots.iter().map(|b| (*b).to_owned()).collect(),
    };
    let cuts = [
        cut_of(1, &["s0/a/0", "s0/b/0"]),
        cut_of(2, &["s0/b/0", "s1/a/0"]),
    ];
    let parts: Vec<_> = cuts
        .iter()
        .map(|cut| Part {
            run: if cut.number == 1 { "one" } else { "two" },
            cut,
            results: &results,
        })
        .collect();
    let found = account(&plan, &parts);
    assert_eq!(found.missing, ["boots in no run: 1: s1/b/0"]);
    assert!(
        found.doubled[0].starts_with(
            "boots in several runs (one, two): 1: s0/b/0; the shards were cut by different times"
        ),
        "{found:?}"
    );
}
