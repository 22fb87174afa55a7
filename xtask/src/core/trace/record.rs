// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of a traced boot: everything by name, so that it can be read and compared
//! without the kernel that ran.

use serde::{Deserialize, Serialize};

use super::{
    names::Names,
    parse::{Argument, Key, Trace},
    tally::{Profile, Tree},
    window::{Window, windows},
};
use crate::core::scenario::Point;

/// Version of the record.
pub const SCHEMA: u32 = 2;
/// Calls of one function out of many, like initcalls, are kept from this length on, ns.
const WORTH_KEEPING: i64 = 100_000;

/// A traced boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario and variant: `shutdown-2018/parallel`.
    pub boot: String,
    /// Which size of a sweep it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
    /// The kernel: its specification, as a scenario names it.
    pub kernel: String,
    /// QEMU's version.
    pub qemu: String,
    /// Whether calls were followed.
    pub stacks: bool,
    /// The whole boot was seen.
    pub complete: bool,
    /// In order of their beginning; empty where only marks were made.
    pub windows: Vec<Profile>,
    /// In order of entry.
    pub marks: Vec<Mark>,
}

/// A call of a marked function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The function.
    pub function: String,
    /// What it was called for: a device, or an initcall's function. Empty: nothing noted.
    pub what: String,
    /// The task; empty: not known.
    pub task: String,
    /// The CPU.
    pub cpu: u32,
    /// When it was entered: ns of virtual time since the machine was switched on.
    pub entered: i64,
    /// When it returned; `None`: never in this boot.
    pub left: Option<i64>,
}

/// A trace's record, and the flame graphs' stacks of the windows named in `drawn`.
pub fn record(
    [boot, kernel, qemu]: [String; 3],
    point: Option<Point>,
    trace: &Trace,
    names: &Names,
    drawn: &[String],
) -> (Record, Vec<(String, String)>) {
    let found = windows(trace, names);
    let tree = Tree::new(trace, names);
    let profiled = !trace.intervals.is_empty();
    let kept = |w: &&Window| {
        let one_of_many = w.name.starts_with("initcall:") || w.name.contains('#');
        drawn.contains(&w.name) || !one_of_many || w.length() >= WORTH_KEEPING
    };
    let profiles = found.iter().filter(kept).map(|w| tree.profile(w));
    let folded = found
        .iter()
        .filter(|w| drawn.contains(&w.name))
        .map(|w| (w.name.clone(), tree.folded(w)));
    let record = Record {
        schema: SCHEMA,
        boot,
        point,
        kernel,
        qemu,
        stacks: trace.stacks,
        complete: trace.complete,
        windows: if profiled {
            profiles.collect()
        } else {
            Vec::new()
        },
        marks: marks(trace, names),
    };
    (
        record,
        if profiled {
            folded.collect()
        } else {
            Vec::new()
        },
    )
}

/// All marks of a trace, by name.
pub fn marks(trace: &Trace, names: &Names) -> Vec<Mark> {
    let mark = |visit: &super::parse::Visit| Mark {
        function: names.of(Key::Known(visit.function)).unwrap_or_default(),
        what: match &visit.argument {
            Argument::None => String::new(),
            Argument::Device(name) => name.clone(),
            Argument::Code(at) => names.at_any(*at).unwrap_or_else(|| format!("{at:#x}")),
        },
        task: visit.task.clone(),
        cpu: visit.cpu,
        entered: visit.entered,
        left: visit.left,
    };
    trace.visits.iter().map(mark).collect()
}

impl Record {
    /// The profile of the window of this name.
    pub fn window(&self, name: &str) -> Option<&Profile> {
        self.windows.iter().find(|w| w.window == name)
    }
}
