// SPDX-License-Identifier: MIT OR Apache-2.0
//! The defective series that boot_defective_series.rs leaves out. A kernel is built for each.
//! Run by `cargo xtask test --nightly`.
#![allow(missing_docs)]

mod support;

use support::defects::{breaks, caught, hangs};

#[test]
#[ignore = "real boot"]
fn ignored_thread_failure_hangs() {
    hangs("ignored-thread-failure", "no-threads");
    hangs("ignored-thread-failure", "killed");
}

#[test]
#[ignore = "real boot"]
fn children_by_index_miss_the_expectation() {
    let (code, part) = caught("children-by-index", "many-idle");
    assert_eq!(code, Some(1));
    for variant in &part.variants {
        assert!(variant.completed(), "{}", variant.outcome_text());
        assert!(variant.oracle.violations.is_empty());
    }
    let missed: Vec<_> = part.expectations.iter().map(|e| (&*e.what, e.ok)).collect();
    assert_eq!(missed, [("tested.device_shutdown", Some(false))]);
    // Not by a little, as a series without the defect could by its threads.
    let time = |i: usize| part.variants[i].metrics["device_shutdown"].median;
    assert!(time(1) > 5 * time(0), "{} and {}", time(1), time(0));
}

#[test]
#[ignore = "real boot"]
fn parent_before_children_breaks_children_first() {
    breaks(
        "parent-before-children",
        "bridge-of-its-own",
        "children first",
    );
}

#[test]
#[ignore = "real boot"]
fn shutdown_twice_breaks_shut_down_once() {
    breaks("shutdown-twice", "siblings", "shut down once");
}

#[test]
#[ignore = "real boot"]
fn unbounded_threads_break_tasks_bounded() {
    breaks("unbounded-threads", "hundreds", "tasks bounded");
}

#[test]
#[ignore = "real boot"]
fn dead_device_is_found_in_freed_memory() {
    let (code, part) = caught("dead-device", "removed-card");
    let outcome = part.variants[0].outcome_text();
    assert_eq!(code, Some(4), "{outcome}");
    // What freed memory is overwritten with.
    assert!(
        outcome.starts_with("panic: ") && outcome.contains("0x6b6b6b6b"),
        "{outcome}"
    );
}
