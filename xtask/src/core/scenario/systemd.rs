// SPDX-License-Identifier: MIT OR Apache-2.0
//! All of a distribution's systemd in the guest: a boot to multi-user.target.

use std::fmt;

use serde::Serialize;

use super::{ImageSpec, Metric, Variant, diagnose::Sink, raw, tree::At, userspace, validate};
use crate::core::units::{Bytes, Nanos};

/// Guest time, where a scenario says none: three times what systemd gives a unit by default, and
/// half a minute.
const DEFAULT_LIMIT: Nanos = Nanos(300_000_000_000);
/// A limit in which nothing can be started is a mistake in the unit.
const SHORTEST: Nanos = Nanos(1_000_000);
/// The least RAM in which the kernel unpacks the image: 96 MiB are not enough (6.1, bookworm).
const UNPACKED: Bytes = Bytes(128 << 20);

/// systemd takes over from PID 1, is waited for until all is started, and shuts down again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Systemd {
    /// The suite that it is of.
    pub suite: String,
    /// How long a unit may take to start; `None`: as systemd has it, 90 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_timeout_start_sec: Option<Nanos>,
    /// The longest that it is waited for, in guest time.
    pub limit: Nanos,
}

impl Systemd {
    /// The image that it runs from.
    pub fn image(&self) -> ImageSpec {
        ImageSpec {
            image: "systemd",
            suite: self.suite.clone(),
        }
    }

    /// The limit of a unit's start in words: `5.000 s`, or `systemd's`, which has one of its own.
    pub fn timeout_text(&self) -> String {
        self.default_timeout_start_sec
            .map_or("systemd's".to_owned(), |limit| limit.to_string())
    }
}

impl fmt::Display for Systemd {
    /// `systemd of bookworm to multi-user.target, 5.000 s for a unit to start`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "systemd of {} to multi-user.target", self.suite)?;
        match self.default_timeout_start_sec {
            Some(limit) => write!(f, ", {limit} for a unit to start"),
            None => Ok(()),
        }
    }
}

/// Reads a variant's `systemd`.
pub(super) fn read(variant: &raw::Variant, at: &At<'_>, sink: &mut Sink) -> Option<Systemd> {
    let raw = variant.systemd.as_ref()?;
    let at = at.key("systemd");
    if variant.coldplug.is_some() {
        sink.add_with(at.position(), || {
            format!("{at}: systemd starts an udev of its own; leave `coldplug` out, or give it a variant")
        });
    }
    let timeout = raw.default_timeout_start_sec.as_ref().and_then(|limit| {
        let at = at.key("default_timeout_start_sec");
        let limit = validate::duration(limit, &at, sink)?;
        if limit < SHORTEST {
            sink.add_with(at.position(), || {
                format!("{at}: nothing starts within {limit}; give it {SHORTEST} or more")
            });
        }
        Some(limit)
    });
    Some(Systemd {
        suite: userspace::suite(raw.suite.as_ref(), &at, sink),
        default_timeout_start_sec: timeout,
        limit: limit(raw.limit.as_ref(), &at.key("limit"), sink),
    })
}

fn limit(raw: Option<&raw::Duration>, at: &At<'_>, sink: &mut Sink) -> Nanos {
    let limit = raw.and_then(|limit| validate::duration(limit, at, sink));
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if limit < Nanos(1_000_000_000) {
        sink.add_with(at.position(), || {
            format!("{at}: nothing boots within {limit}; give it 1 s or more")
        });
    }
    limit
}

/// Checks that what variants do is measured, and that what is measured is done.
pub(super) fn measured(variants: &[Variant], measured: &[Metric], at: &At<'_>, sink: &mut Sink) {
    let done = variants.iter().find(|v| v.systemd.is_some());
    let is_measured = measured.contains(&Metric::Systemd);
    match done {
        None if is_measured => sink.add_with(at.key("measure").position(), || {
            "`systemd` is measured, and no variant has a `systemd` that says how".into()
        }),
        Some(variant) if !is_measured => sink.add_with(at.key("measure").position(), || {
            let name = &variant.name;
            format!(
                "variant {name} boots systemd, which is not measured; add `systemd` to `measure`"
            )
        }),
        _ => {}
    }
}

/// Complains where the guest's `ram` does not hold the image of systemd.
pub(super) fn holds(variants: &[Variant], ram: Bytes, at: &At<'_>, sink: &mut Sink) {
    let booted = variants.iter().find(|v| v.systemd.is_some());
    // Where a number is wrong, that has been said.
    if let Some(variant) = booted
        && ram < UNPACKED
        && sink.is_empty()
    {
        let machine = at.key("machine");
        let at = machine.key("memory");
        sink.add_with(at.position(), || {
            format!(
                "{at}: {ram} do not hold the image that variant {} boots systemd from, packed and unpacked; give it {UNPACKED} or more",
                variant.name
            )
        });
    }
}
