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

/// The greatest figure that a record may have: 13 days in ns. Times [`MOST_NS`] it is far from what
/// a number holds.
const MOST: u128 = 1 << 50;
/// The greatest sum of a window's figures of one kind; callers count what they called again.
const MOST_TOGETHER: u128 = 1 << 60;
/// The most ns that an instruction takes: QEMU's own limit.
const MOST_NS: u128 = 1 << 10;
/// The most entries of a list, and the most functions and waits of all windows.
const MOST_ENTRIES: usize = 1 << 22;
/// The longest name; kernels allow 512 bytes for a symbol.
const LONGEST: usize = 512;
/// A kernel is called by all options that were asked for.
const LONGEST_KERNEL: usize = 4096;

/// Figures of one kind are added up.
#[derive(Default)]
struct Together(u128);

impl Together {
    fn add(&mut self, what: &str, figure: i128) -> Result<(), String> {
        self.0 += sane(what, figure)?;
        match self.0 > MOST_TOGETHER {
            true => Err(format!("the {what} of its functions are more than can be")),
            false => Ok(()),
        }
    }
}

fn sane(what: &str, figure: i128) -> Result<u128, String> {
    let size = figure.unsigned_abs();
    match size > MOST {
        true => Err(format!("{what} is {figure}, which no boot comes to")),
        false => Ok(size),
    }
}

fn short(what: &str, text: &str, longest: usize) -> Result<(), String> {
    match text.len() > longest {
        true => Err(format!("{what} has {} bytes", text.len())),
        false => Ok(()),
    }
}

fn few(what: &str, entries: usize) -> Result<(), String> {
    match entries > MOST_ENTRIES {
        true => Err(format!("it has {entries} {what}")),
        false => Ok(()),
    }
}

impl Profile {
    fn check(&self) -> Result<(), String> {
        short("the name of a window", &self.window, LONGEST)?;
        let ns = i128::from(self.ns_per_instruction);
        if ns.unsigned_abs() > MOST_NS {
            return Err(format!("ns_per_instruction is {ns}, which no QEMU has"));
        }
        for (what, figure) in [
            ("length", self.length),
            ("tasks", self.tasks),
            ("interrupts", self.interrupts),
            ("user", self.user),
            ("firmware", self.firmware),
            ("idle", self.idle),
            ("unaccounted", self.unaccounted),
            ("nameless", self.nameless),
        ] {
            sane(what, figure.into())?;
        }
        let [mut own, mut below, mut calls] = [(); 3].map(|()| Together::default());
        for (name, function) in &self.functions {
            short("the name of a function", name, LONGEST)?;
            own.add("own", function.own.into())?;
            below.add("with_callees", function.with_callees.into())?;
            calls.add("calls", function.calls.into())?;
        }
        let [mut ns, mut times] = [(); 2].map(|()| Together::default());
        for wait in &self.waits {
            ns.add("ns", wait.ns.into())?;
            times.add("times", wait.times.into())?;
            for name in wait.stack.iter().chain([&wait.task, &wait.device]) {
                short("a name in a wait", name, LONGEST)?;
            }
        }
        Ok(())
    }
}

impl Record {
    /// Whether this can be of a boot: files are edited and damaged, and what is shown is added
    /// up and multiplied.
    ///
    /// # Errors
    /// The figure that is too large, the text that is too long, or the list that is.
    pub fn check(&self) -> Result<(), String> {
        short("the name of the boot", &self.boot, LONGEST)?;
        short("the name of the kernel", &self.kernel, LONGEST_KERNEL)?;
        short("QEMU's version", &self.qemu, LONGEST)?;
        if let Some(point) = &self.point {
            short("the name of the sweep", &point.of, LONGEST)?;
            sane("value", point.value.into())?;
        }
        few("windows", self.windows.len())?;
        few("marks", self.marks.len())?;
        let parts = |w: &Profile| w.functions.len() + w.waits.len();
        few(
            "functions and waits",
            self.windows.iter().map(parts).sum::<usize>(),
        )?;
        self.windows.iter().try_for_each(Profile::check)?;
        for mark in &self.marks {
            for text in [&mark.function, &mark.what, &mark.task] {
                short("a name in a mark", text, LONGEST)?;
            }
            sane("entered", mark.entered.into())?;
            sane("left", mark.left.unwrap_or(0).into())?;
        }
        Ok(())
    }

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

    /// A record with something of everything in it.
    fn full() -> serde_json::Value {
        serde_json::json!({
            "schema": SCHEMA, "boot": "many@10/stock", "kernel": "6.1", "qemu": "10.0.2",
            "point": {"of": "many", "over": "devices", "value": 10},
            "stacks": true, "complete": true,
            "windows": [{
                "window": "boot", "length": 9, "cut": false, "ns_per_instruction": 2, "tasks": 1,
                "interrupts": 1, "user": 1, "firmware": 1, "idle": 1, "unaccounted": 0, "nameless": 0,
                "functions": {"f": {"own": 1, "with_callees": 1, "calls": 1}, "g": {"own": 1, "with_callees": 1, "calls": 1}},
                "waits": [{"ns": 1, "times": 1, "task": "init", "device": "d", "stack": ["f"]}],
            }],
            "marks": [{"function": "f", "what": "d", "task": "init", "cpu": 0, "entered": 1, "left": 2}],
        })
    }

    /// The places of all numbers, or all texts, in `value`.
    fn places(value: &serde_json::Value, at: &str, numbers: bool, out: &mut Vec<String>) {
        use serde_json::Value;
        match value {
            Value::Object(all) => all
                .iter()
                .for_each(|(k, v)| places(v, &format!("{at}/{k}"), numbers, out)),
            Value::Array(all) => all
                .iter()
                .enumerate()
                .for_each(|(k, v)| places(v, &format!("{at}/{k}"), numbers, out)),
            Value::Number(_) if numbers => out.push(at.to_owned()),
            Value::String(_) if !numbers => out.push(at.to_owned()),
            _ => {}
        }
    }

    fn everything_said(record: &Record) {
        use super::super::{diff, growth, table};
        let _ = table::boot(record, &[], &[], 9);
        let _ = table::windows(record, 9);
        for window in &record.windows {
            let _ = table::profile(window, 9);
            let _ = (diff::text(window, window, 9), window.attributed());
        }
        let _ = growth::growths(&[record.clone(), record.clone()], "boot");
    }

    #[test]
    fn no_number_is_too_large_to_be_said_or_it_is_refused() {
        let whole = full();
        let read = |value| serde_json::from_value::<Record>(value);
        assert_eq!(read(whole.clone()).unwrap().check(), Ok(()));
        let mut numbers = Vec::new();
        places(&whole, "", true, &mut numbers);
        assert!(numbers.len() > 20, "{numbers:?}");
        let mut edges = vec![serde_json::json!(u64::MAX), serde_json::json!(0)];
        for shift in [1, 8, 20, 40, 50, 62] {
            edges.push(serde_json::json!(i64::MAX >> (62 - shift)));
            edges.push(serde_json::json!(i64::MIN >> (62 - shift)));
        }
        for place in numbers {
            for edge in &edges {
                let mut value = whole.clone();
                *value.pointer_mut(&place).unwrap() = edge.clone();
                let Ok(record) = read(value) else { continue };
                // No clock and no count, and nothing is added to them.
                let only_shown = place.ends_with("/cpu") || place == "/schema";
                let huge = edge.as_i64().is_none_or(|e| e.unsigned_abs() > 1 << 51);
                let found = record.check();
                assert!(!huge || only_shown || found.is_err(), "{place} {edge}");
                if found.is_ok() {
                    everything_said(&record);
                }
            }
        }
    }

    #[test]
    fn sums_of_what_is_allowed_are_allowed_or_refused() {
        let mut record: Record = serde_json::from_value(full()).unwrap();
        let function = super::super::tally::Function {
            own: 1 << 50,
            with_callees: 1 << 50,
            calls: 1 << 50,
        };
        let window = &mut record.windows[0];
        for n in 0..1000 {
            window.functions.insert(format!("f.{n}"), function.clone());
        }
        assert_eq!(record.check(), Ok(()));
        everything_said(&record);
        for n in 1000..2000 {
            let window = &mut record.windows[0];
            window.functions.insert(format!("f.{n}"), function.clone());
        }
        assert!(record.check().is_err());
    }

    #[test]
    fn a_text_that_is_no_name_is_refused_wherever_it_stands() {
        let mut texts = Vec::new();
        places(&full(), "", false, &mut texts);
        for place in texts.iter().filter(|p| !p.ends_with("/over")) {
            let mut value = full();
            *value.pointer_mut(place).unwrap() = "x".repeat(5000).into();
            let record: Record = serde_json::from_value(value).unwrap();
            let why = record.check().unwrap_err();
            assert!(why.contains("5000 bytes"), "{place}: {why}");
        }
    }
}
