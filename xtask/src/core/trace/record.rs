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
use crate::core::{fault::Stopped, scenario::Point};

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

/// A trace's record, and the flame graphs' stacks of the windows named in `drawn`. A large
/// trace takes a while: before each window it asks whether to go on.
///
/// # Errors
/// `stopped` said yes.
pub fn record(
    [boot, kernel, qemu]: [String; 3],
    point: Option<Point>,
    trace: &Trace,
    names: &Names,
    drawn: &[String],
    stopped: &dyn Fn() -> bool,
) -> Result<(Record, Vec<(String, String)>), Stopped> {
    let found = windows(trace, names);
    let tree = Tree::new(trace, names);
    let profiled = !trace.intervals.is_empty();
    let kept = |w: &&Window| {
        let one_of_many = w.name.starts_with("initcall:") || w.name.contains('#');
        drawn.contains(&w.name) || !one_of_many || w.length() >= WORTH_KEEPING
    };
    let (mut profiles, mut folded) = (Vec::new(), Vec::new());
    for window in found.iter().filter(kept).filter(|_| profiled) {
        if stopped() {
            return Err(Stopped);
        }
        profiles.push(tree.profile(window));
        if drawn.contains(&window.name) {
            folded.push((window.name.clone(), tree.folded(window)));
        }
    }
    let record = Record {
        schema: SCHEMA,
        boot,
        point,
        kernel,
        qemu,
        stacks: trace.stacks,
        complete: trace.complete,
        windows: profiles,
        marks: marks(trace, names),
    };
    Ok((record, folded))
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{super::parse::parse, *};

    #[test]
    fn adding_up_stops_before_the_next_window() {
        let trace = parse(
            "bootrig-trace 1\nbegin api=4 cpus=1 mode=Profile stacks=true shift=1\nb 0\ns 10\ne 1 10 0 0 - -\ns 20\nr 1 20\ns 30\nend 8\n",
        )
        .unwrap();
        let known = ["device_shutdown".to_owned()];
        let names = Names {
            known: &known,
            modules: &[],
            symbols: None,
        };
        let asked = Cell::new(0);
        let adding = |most: u32| {
            asked.set(0);
            let stopped = || {
                asked.set(asked.get() + 1);
                asked.get() > most
            };
            let what = ["a", "b", "c"].map(str::to_owned);
            record(what, None, &trace, &names, &known, &stopped)
        };
        let (whole, folded) = adding(2).unwrap();
        let windows: Vec<_> = whole.windows.iter().map(|w| w.window.as_str()).collect();
        assert_eq!(windows, ["all", "device_shutdown"]);
        assert_eq!((folded.len(), asked.get()), (1, 2));
        assert_eq!(adding(1).unwrap_err(), Stopped);
        assert_eq!(asked.get(), 2, "the first was added up");
    }
}
