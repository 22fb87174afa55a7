// SPDX-License-Identifier: MIT OR Apache-2.0
//! A distribution's own user space in the guest: udev's coldplug.

use std::fmt;

use serde::Serialize;

use super::{Metric, Variant, diagnose::Sink, raw, tree::At, validate};
use crate::core::units::Nanos;

/// As udev itself takes it.
const MOST_CHILDREN: u32 = 65_536;
/// Guest time, where a scenario says none.
const DEFAULT_LIMIT: Nanos = Nanos(300_000_000_000);
const DEFAULT_SUITE: &str = "bookworm";

/// An image of user space (images/userspace/images.yaml).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageSpec {
    /// Which.
    pub image: &'static str,
    /// Of which suite of the distribution.
    pub suite: String,
}

impl fmt::Display for ImageSpec {
    /// `udev (bookworm)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.image, self.suite)
    }
}

/// udev starts, all devices are triggered, and it is waited for until all are handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coldplug {
    /// The suite that udev is of.
    pub suite: String,
    /// Events that udev handles at once; `None`: as many as it chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children_max: Option<u32>,
    /// Whether a rule runs two programs for each memory block.
    pub forking_rule: bool,
    /// The longest that each step may take, in guest time.
    pub limit: Nanos,
}

impl Coldplug {
    /// The image that it runs from.
    pub fn image(&self) -> ImageSpec {
        ImageSpec {
            image: "udev",
            suite: self.suite.clone(),
        }
    }
}

impl fmt::Display for Coldplug {
    /// `udev of bookworm, 16 children at most, a rule that forks`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udev of {}", self.suite)?;
        match self.children_max {
            Some(1) => f.write_str(", one child at a time")?,
            Some(most) => write!(f, ", {most} children at most")?,
            None => f.write_str(", as many children as it chooses")?,
        }
        f.write_str(if self.forking_rule {
            ", a rule that forks twice for each memory block"
        } else {
            ", no rule that forks"
        })
    }
}

/// Reads a variant's `coldplug`.
pub(super) fn coldplug(
    raw: Option<&raw::Coldplug>,
    at: &At<'_>,
    sink: &mut Sink,
) -> Option<Coldplug> {
    let raw = raw?;
    Some(Coldplug {
        suite: suite(raw.suite.as_ref(), at, sink),
        children_max: children_max(raw.children_max, at, sink),
        forking_rule: raw.forking_rule.unwrap_or(false),
        limit: limit(raw.limit.as_ref(), at, sink),
    })
}

pub(super) fn suite(raw: Option<&raw::Name>, at: &At<'_>, sink: &mut Sink) -> String {
    let Some(suite) = raw else {
        return DEFAULT_SUITE.into();
    };
    validate::name(&suite.0, &at.key("suite"), sink);
    suite.0.clone()
}

fn children_max(raw: Option<u32>, at: &At<'_>, sink: &mut Sink) -> Option<u32> {
    if let Some(most) = raw.filter(|n| !(1..=MOST_CHILDREN).contains(n)) {
        let at = at.key("children_max");
        sink.add_with(at.position(), || {
            format!("{at} must be 1 (udev takes 0 for its own choice: leave it out) to {MOST_CHILDREN}, not {most}")
        });
    }
    raw
}

fn limit(raw: Option<&raw::Duration>, at: &At<'_>, sink: &mut Sink) -> Nanos {
    let limit = raw.and_then(|limit| validate::duration(limit, &at.key("limit"), sink));
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if limit < Nanos(1_000_000_000) {
        let at = at.key("limit");
        sink.add_with(at.position(), || {
            format!("{at}: udev counts whole seconds; give it 1 s or more, not {limit}")
        });
    }
    limit
}

/// Checks that what variants do is measured, and that what is measured is done.
pub(super) fn measured(variants: &[Variant], measured: &[Metric], at: &At<'_>, sink: &mut Sink) {
    let done = variants.iter().find(|v| v.coldplug.is_some());
    let is_measured = measured.contains(&Metric::Coldplug);
    match done {
        None if is_measured => sink.add_with(at.key("measure").position(), || {
            "`coldplug` is measured, and no variant has a `coldplug` that says how".into()
        }),
        Some(variant) if !is_measured => sink.add_with(at.key("measure").position(), || {
            let name = &variant.name;
            format!(
                "variant {name} does a coldplug that is not measured; add `coldplug` to `measure`"
            )
        }),
        _ => {}
    }
}
