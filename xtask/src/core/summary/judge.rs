// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges expectations, and says which exit code a summary stands for.

use super::{Judged, Summary, VariantSummary};
use crate::core::{
    boot::Outcome,
    fault::Exit,
    scenario::{Expectation, Target, Tolerance},
    units::Nanos,
};

/// Whether `expectation` holds among the variants of its scenario.
pub(super) fn judge(expectation: &Expectation, variants: &[VariantSummary]) -> Judged {
    let metric = expectation.metric.name();
    let value = |variant: &str| {
        variants
            .iter()
            .find(|v| v.name == variant && v.completed())?
            .metrics
            .get(metric)
    };
    let own = value(&expectation.variant);
    let (label, target) = match &expectation.of {
        Target::Value(nanos) => (nanos.to_string(), Some(nanos.0)),
        Target::Ideal => {
            let ideal = own.and_then(|m| m.ideal);
            (
                format!(
                    "the ideal{}",
                    ideal.map_or(String::new(), |i| format!(" ({})", Nanos(i)))
                ),
                ideal,
            )
        }
        Target::Variant(name) => {
            let other = value(name).map(|m| m.median);
            (
                format!(
                    "{name}{}",
                    other.map_or(String::new(), |o| format!(" ({})", Nanos(o)))
                ),
                other,
            )
        }
    };
    let (got, ok) = match (own, target) {
        (Some(own), Some(target)) if target > 0 => {
            let off = own.median as f64 / target as f64 - 1.0;
            let good = match expectation.tolerance {
                Tolerance::Within { part, or } => {
                    let limit = (target as f64 * part.factor()).max(or.0 as f64);
                    own.median.abs_diff(target) as f64 <= limit
                }
                Tolerance::AtMost(part) => own.median as f64 <= target as f64 * part.factor(),
            };
            (
                format!("{} ({:+.2} %)", Nanos(own.median), off * 100.0),
                Some(good),
            )
        }
        (None, _) => (
            format!("no value: {} did not complete", expectation.variant),
            None,
        ),
        _ => ("no value to compare with".into(), None),
    };
    Judged {
        what: format!("{}.{metric}", expectation.variant),
        want: format!("{} {label}", expectation.tolerance),
        got,
        ok,
    }
}

/// The exit code that a summary stands for: what could not be measured weighs more than
/// what was measured and found wanting.
pub fn exit(summary: &Summary) -> Exit {
    let variants = || summary.scenarios.iter().flat_map(|s| &s.variants);
    let judged = || {
        let expected = summary
            .scenarios
            .iter()
            .flat_map(|s| &s.expectations)
            .map(|e| e.ok);
        let grown = summary
            .growth
            .iter()
            .filter(|g| g.at_most.is_some())
            .map(|g| g.ok);
        expected.chain(grown)
    };
    let expected = |ok: Option<bool>| judged().any(|judged| judged == ok);
    let outcome = |v: &VariantSummary| v.outcome.as_ref().map_or(Exit::Guest, Outcome::exit);
    let worst = variants().map(outcome).max().unwrap_or(Exit::Done);
    if worst != Exit::Done {
        worst
    } else if variants().any(|v| !v.oracle.violations.is_empty()) || expected(Some(false)) {
        Exit::Failed
    } else if expected(None) {
        Exit::Inconclusive
    } else {
        Exit::Done
    }
}
