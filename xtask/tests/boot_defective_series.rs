// SPDX-License-Identifier: MIT OR Apache-2.0
//! One defective series for each way to find one out (a rule of the oracle about devices, one
//! about their order, the deadline), and ours in all their scenarios. Run by `cargo xtask test`;
//! nightly_defective_series.rs has the rest.
#![allow(missing_docs)]

mod support;

use std::{fs, path::Path};

use support::defects::{bench, breaks, fixtures, hangs};

#[test]
#[ignore = "real boot"]
fn racy_counter_hangs() {
    hangs("racy-counter", "siblings");
}

#[test]
#[ignore = "real boot"]
fn links_ignored_break_consumers_first() {
    breaks("links-ignored", "ordering-links", "consumers first");
}

#[test]
#[ignore = "real boot"]
fn skips_devices_breaks_shut_down_once() {
    breaks("skips-devices", "no-threads", "shut down once");
}

/// Ours, in every scenario that a defective one fails.
#[test]
#[ignore = "real boot"]
fn our_series_passes_where_the_defective_fail() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let series = root.join("images/kernels/patches/parallel-shutdown/6.1");
    let entries = fs::read_dir(fixtures().join("scenarios")).unwrap();
    let mut scenarios: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    scenarios.sort();
    let (code, summary) = bench(&series, &scenarios);
    for part in &summary.scenarios {
        for variant in &part.variants {
            let violations = &variant.oracle.violations;
            assert!(
                variant.completed() && violations.is_empty() && variant.oracle.checked > 0,
                "{}/{}: {}, {violations:?}",
                part.name,
                variant.name,
                variant.outcome_text()
            );
        }
        assert!(
            part.expectations.iter().all(|e| e.ok == Some(true)),
            "{}: {:?}",
            part.name,
            part.expectations
        );
    }
    assert_eq!(summary.scenarios.len(), scenarios.len());
    assert_eq!(code, Some(0));
}
