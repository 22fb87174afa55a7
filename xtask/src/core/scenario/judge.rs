// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands beside the results and what must hold of them: `measure`, `reference`,
//! `expect`.

use std::collections::{BTreeSet, HashSet};

use super::{
    Expectation, Metric, Reference, Target, Tolerance,
    diagnose::Sink,
    raw,
    tree::At,
    validate::{duration, prose, quantity},
};
use crate::core::{
    nearest::hint,
    units::{Fraction, Nanos},
};

pub(super) fn metrics(raw: &[Metric], at: &At<'_>, sink: &mut Sink) -> Vec<Metric> {
    if raw.is_empty() {
        sink.add_with(at.position(), || {
            format!("{at} is empty; name what to record")
        });
    }
    let mut seen = HashSet::new();
    for (index, metric) in raw.iter().enumerate() {
        if !seen.insert(metric) {
            let at = at.item(index);
            sink.add_with(at.position(), || {
                format!("{at}: `{}` is measured already", metric.name())
            });
        }
    }
    raw.to_vec()
}

/// Complains of expectations that say the same twice.
pub(super) fn repeated(expect: &[Expectation], at: &At<'_>, sink: &mut Sink) {
    let mut seen = HashSet::new();
    for (index, e) in expect.iter().enumerate() {
        if !seen.insert((&e.variant, e.metric, format!("{:?}", e.of))) {
            let at = at.item(index);
            sink.add_with(at.position(), || {
                format!("{at} says of the same values what an earlier one says")
            });
        }
    }
}

fn tolerance(raw: &raw::Expectation, at: &At<'_>, sink: &mut Sink) -> Option<Tolerance> {
    match (&raw.within, &raw.at_most, &raw.or) {
        (Some(within), None, or) => {
            let or = or.as_ref().map(|or| duration(or, &at.key("or"), sink));
            let at = at.key("within");
            let part: Fraction = quantity(&within.0, &at, sink)?;
            if part > Fraction(1_000_000) {
                sink.add_with(at.position(), || {
                    format!("{at}: more than 100 % holds of everything")
                });
            }
            let or = or.unwrap_or(Some(Nanos(0)))?;
            Some(Tolerance::Within { part, or })
        }
        (None, Some(part), None) => {
            quantity(&part.0, &at.key("at_most"), sink).map(Tolerance::AtMost)
        }
        _ => {
            sink.add_with(at.position(), || {
                format!("{at} must have exactly one of within (with or without `or`) and at_most")
            });
            None
        }
    }
}

/// What references and expectations may name.
pub(super) struct Context<'r> {
    /// The variants' names.
    pub variants: BTreeSet<&'r str>,
    /// What is measured.
    pub measured: Vec<Metric>,
}

impl Context<'_> {
    /// Complains of a `variant` or a `metric` at `at` that there is none of.
    pub fn names(&self, variant: &str, metric: Metric, at: &At<'_>, sink: &mut Sink) {
        self.variant(variant, &at.key("variant"), sink);
        self.metric(metric, &at.key("metric"), sink);
    }

    fn variant(&self, name: &str, at: &At<'_>, sink: &mut Sink) {
        if !self.variants.contains(name) {
            sink.add_with(at.position(), || {
                format!(
                    "unknown variant `{name}` in {at}{}",
                    hint(name, self.variants.iter().copied())
                )
            });
        }
    }

    fn metric(&self, metric: Metric, at: &At<'_>, sink: &mut Sink) {
        // An empty `measure` has an error of its own.
        if !self.measured.is_empty() && !self.measured.contains(&metric) {
            sink.add_with(at.position(), || {
                let measured = self
                    .measured
                    .iter()
                    .map(|m| m.name())
                    .collect::<Vec<_>>()
                    .join(", ");
                format!(
                    "{at}: `{}` is not measured; add it to `measure` (now {measured})",
                    metric.name()
                )
            });
        }
    }

    pub fn reference(
        &self,
        raw: &raw::Reference,
        at: &At<'_>,
        groups: &BTreeSet<&str>,
        sink: &mut Sink,
    ) -> Reference {
        let mut values = Vec::new();
        for (metric, figures) in [
            (Metric::Boot, &raw.boot),
            (Metric::Load, &raw.load),
            (Metric::Probe, &raw.probe),
            (Metric::Bound, &raw.bound),
            (Metric::Ready, &raw.ready),
            (Metric::DeviceShutdown, &raw.device_shutdown),
            (Metric::Reboot, &raw.reboot),
            (Metric::Walk, &raw.walk),
            (Metric::Churn, &raw.churn),
            (Metric::Hotplug, &raw.hotplug),
            (Metric::Coldplug, &raw.coldplug),
            (Metric::Systemd, &raw.systemd),
        ] {
            let at = at.key(metric.name());
            if !figures.is_empty() {
                self.metric(metric, &at, sink);
            }
            for (index, (variant, value)) in figures.0.iter().enumerate() {
                let at = at.entry(index);
                self.variant(variant, &at, sink);
                if let Some(value) = duration(value, &at.value(), sink) {
                    values.push((variant.clone(), metric, value));
                }
            }
        }
        let at_devices = at.key("devices");
        let mut devices = Vec::new();
        for (index, (group, value)) in raw.devices.0.iter().enumerate() {
            let at = at_devices.entry(index);
            if !groups.is_empty() && !groups.contains(group.as_str()) {
                sink.add_with(at.position(), || {
                    format!(
                        "no device is called `{group}` as {at} says{}",
                        hint(group, groups.iter().copied())
                    )
                });
            }
            if let Some(value) = duration(value, &at.value(), sink) {
                devices.push((group.clone(), value));
            }
        }
        Reference {
            source: prose(&raw.source, &at.key("source"), sink),
            note: raw.note.as_ref().map(|n| prose(n, &at.key("note"), sink)),
            values,
            devices,
        }
    }

    pub fn expectation(
        &self,
        raw: &raw::Expectation,
        at: &At<'_>,
        sink: &mut Sink,
    ) -> Option<Expectation> {
        self.names(&raw.variant.0, raw.metric, at, sink);
        let tolerance = tolerance(raw, at, sink);
        let of = self.target(raw, &at.key("of"), sink);
        Some(Expectation {
            variant: raw.variant.0.clone(),
            metric: raw.metric,
            tolerance: tolerance?,
            of: of?,
        })
    }

    fn target(&self, raw: &raw::Expectation, at: &At<'_>, sink: &mut Sink) -> Option<Target> {
        let text = raw.of.0.as_str();
        if text == "ideal" {
            if !matches!(
                raw.metric,
                Metric::DeviceShutdown | Metric::Probe | Metric::Bound
            ) {
                sink.add_with(at.position(), || {
                    format!(
                        "{at}: `{}` has no ideal; only device_shutdown, probe and bound do",
                        raw.metric.name()
                    )
                });
            }
            return Some(Target::Ideal);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return duration(&raw::Duration(text.into()), at, sink).map(Target::Value);
        }
        if text == raw.variant.0 {
            sink.add_with(at.position(), || {
                format!("{at} compares `{text}` with itself")
            });
        } else if !self.variants.contains(text) {
            sink.add_with(at.position(), || {
                let valid = self
                    .variants
                    .iter()
                    .copied()
                    .filter(|v| *v != raw.variant.0)
                    .chain(["ideal"]);
                format!(
                    "{at} takes ideal, a duration or a variant, not `{text}`{}",
                    hint(text, valid)
                )
            });
        }
        Some(Target::Variant(text.into()))
    }
}
