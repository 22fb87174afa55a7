// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the file that the tracer wrote (docs/tracer.md). Strict: it comes from our own plugin,
//! so that anything odd means that the two do not belong together or the disk was full.

use std::{collections::BTreeMap, fmt};

/// Everything that runs for a task.
pub const TASKS: u32 = 0;
/// User space.
pub const USER: u32 = 1;
/// Firmware, unpacking, start of further CPUs.
pub const FIRMWARE: u32 = 2;
/// Interrupts.
pub const INTERRUPTS: u32 = 3;
/// Nodes without a parent.
pub const ROOTS: u32 = 4;

/// A function by what the tracer knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Index into the specification's names.
    Known(u32),
    /// An address outside of the kernel's text: in a module.
    At(u64),
}

/// A node of the tree of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Who called; less than the node itself.
    pub parent: u32,
    /// Which function.
    pub key: Key,
}

/// What was executed up to a border since the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Virtual time of the border, ns.
    pub end: i64,
    /// Node, instructions, calls.
    pub counts: Vec<(u32, i64, u32)>,
}

/// A marked function was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// When, ns of virtual time.
    pub entered: i64,
    /// When it returned; `None`: it did not, until the machine was reset or ended.
    pub left: Option<i64>,
    /// The interval that begins with it, and the one behind it, where it is a window.
    pub intervals: (usize, Option<usize>),
    /// Which function: index into the specification's names.
    pub function: u32,
    /// What its first argument was.
    pub argument: Argument,
    /// The task's name; empty: not known.
    pub task: String,
    /// The CPU.
    pub cpu: u32,
}

/// A mark's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// It has none that is noted.
    None,
    /// A function.
    Code(u64),
    /// A device's name.
    Device(String),
}

/// Time in which nothing ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// When it began, ns of virtual time.
    pub begin: i64,
    /// How long it was.
    pub length: i64,
    /// Where the task that ran next, and so was waited for, had gone to sleep.
    pub node: u32,
    /// That task's name; empty: nobody ran before the end.
    pub task: String,
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Whether calls could be followed; else the tree is flat.
    pub stacks: bool,
    /// An instruction takes `1 << shift` ns.
    pub shift: u32,
    /// By number, [`ROOTS`] less.
    pub nodes: Vec<Node>,
    /// In order of time.
    pub intervals: Vec<Interval>,
    /// In order of entry.
    pub visits: Vec<Visit>,
    /// In order of when it was known who waited.
    pub idle: Vec<Idle>,
    /// When the machine began, and each time it began anew: time, and the interval that
    /// begins there.
    pub boots: Vec<(i64, usize)>,
    /// Copies of loaded modules' `struct module`.
    pub modules: Vec<Vec<u8>>,
    /// Direct calls in the kernel's text, by the symbols: to where a function begins, and not.
    pub calls: (u64, u64),
    /// Targets of some calls outside of it.
    pub strays: Vec<u64>,
    /// The last line is there.
    pub complete: bool,
}

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    line: usize,
    text: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.escape_debug().take(80).collect();
        write!(
            f,
            "line {} of the tracer's file is not understood: `{text}` (is the tracer of another version?)",
            self.line
        )
    }
}

/// Reads the file. A cut last line is left out, and the trace is not complete.
///
/// # Errors
/// The first line that is not understood.
pub fn parse(text: &str) -> Result<Trace, Malformed> {
    let mut reader = Reader::default();
    let whole = text
        .split_inclusive('\n')
        .filter_map(|l| l.strip_suffix('\n'));
    for (index, line) in whole.enumerate() {
        let ok = if index == 0 {
            (line == "bootrig-trace 1").then_some(())
        } else {
            reader.line(index as u64, line)
        };
        ok.ok_or_else(|| Malformed {
            line: index + 1,
            text: line.to_owned(),
        })?;
    }
    Ok(reader.trace)
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    /// Visits that are under way, by serial.
    open: BTreeMap<u64, usize>,
}

impl Reader {
    fn line(&mut self, before: u64, line: &str) -> Option<()> {
        if self.trace.complete {
            return None;
        }
        let mut words = line.split(' ');
        let kind = words.next()?;
        let words: Vec<&str> = words.collect();
        let trace = &mut self.trace;
        match (kind, &words[..]) {
            ("begin", words) => begin(trace, words)?,
            ("n", [number, parent, key]) => {
                let next = trace.nodes.len() as u32 + ROOTS;
                let parent: u32 = parent.parse().ok()?;
                if number.parse() != Ok(next) || parent >= next {
                    return None;
                }
                let key = match key.strip_prefix('@') {
                    Some(at) => Key::At(u64::from_str_radix(at, 16).ok()?),
                    None => Key::Known(key.parse().ok()?),
                };
                trace.nodes.push(Node { parent, key });
            }
            ("s", [ns]) => {
                let end = ns.parse().ok()?;
                if trace.intervals.last().is_some_and(|i| i.end > end) {
                    return None;
                }
                let counts = Vec::new();
                trace.intervals.push(Interval { end, counts });
            }
            ("c", [node, count, calls]) => {
                let node = trace.node(node)?;
                let count = (node, count.parse().ok()?, calls.parse().ok()?);
                trace.intervals.last_mut()?.counts.push(count);
            }
            ("e", words) => self.enter(words)?,
            ("r", [serial, ns]) => {
                let index = self.open.remove(&serial.parse().ok()?)?;
                let behind = trace.intervals.len() + 1;
                let visit = &mut trace.visits[index];
                visit.left = Some(ns.parse().ok().filter(|ns| *ns >= visit.entered)?);
                visit.intervals.1 = Some(behind);
            }
            ("w", [begin, length, node, task]) => {
                let node = trace.node(node)?;
                trace.idle.push(Idle {
                    begin: begin.parse().ok()?,
                    length: length.parse().ok().filter(|l| *l > 0)?,
                    node,
                    task: word(task),
                });
            }
            ("b", [ns]) => {
                // Whoever was under way never returned.
                self.open.clear();
                trace.boots.push((ns.parse().ok()?, trace.intervals.len()));
            }
            ("l", [hex]) => trace.modules.push(bytes(hex)?),
            ("k", [hits, misses]) => {
                trace.calls = (hits.parse().ok()?, misses.parse().ok()?);
            }
            ("K", [at]) => trace.strays.push(u64::from_str_radix(at, 16).ok()?),
            ("end", [lines]) => {
                trace.complete = true;
                if lines.parse() != Ok(before) {
                    return None;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn enter(&mut self, words: &[&str]) -> Option<()> {
        let [serial, ns, cpu, function, argument, task] = *words else {
            return None;
        };
        let argument = match (argument, argument.strip_prefix('@')) {
            ("-", _) => Argument::None,
            (_, Some(at)) => Argument::Code(u64::from_str_radix(at, 16).ok()?),
            (name, None) => Argument::Device(name.to_owned()),
        };
        let trace = &mut self.trace;
        trace.visits.push(Visit {
            entered: ns.parse().ok()?,
            left: None,
            intervals: (trace.intervals.len(), None),
            function: function.parse().ok()?,
            argument,
            task: word(task),
            cpu: cpu.parse().ok()?,
        });
        let known = self
            .open
            .insert(serial.parse().ok()?, trace.visits.len() - 1);
        known.is_none().then_some(())
    }
}

impl Trace {
    fn node(&self, text: &str) -> Option<u32> {
        let node: u32 = text.parse().ok()?;
        (node < self.nodes.len() as u32 + ROOTS).then_some(node)
    }
}

fn begin(trace: &mut Trace, words: &[&str]) -> Option<()> {
    let [api, _cpus, _mode, stacks, shift] = *words else {
        return None;
    };
    let _api: u32 = api.strip_prefix("api=")?.parse().ok()?;
    trace.stacks = stacks.strip_prefix("stacks=")?.parse().ok()?;
    trace.shift = shift
        .strip_prefix("shift=")?
        .parse()
        .ok()
        .filter(|s| *s <= 10)?;
    Some(())
}

fn word(text: &str) -> String {
    if text == "-" {
        String::new()
    } else {
        text.into()
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if hex.len() % 2 == 1 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "bootrig-trace 1\nbegin api=4 cpus=1 mode=Profile stacks=true shift=1\nb 0\nn 4 0 7\nn 5 4 @ffffffffa0000010\ns 100\nc 4 30 1\nc 2 20 0\ne 1 100 0 7 - swapper\ne 2 110 0 8 0000:00:02.0 -\nr 2 120\nw 120 40 5 kworker\nr 1 200\ns 200\nc 5 10 2\nl 00ff\nk 10 1\nK ffffffffc0000000\nend 18\n";

    #[test]
    fn a_whole_file() {
        let trace = parse(WHOLE).unwrap();
        assert!(trace.complete && trace.stacks);
        assert_eq!(
            trace.nodes[1],
            Node {
                parent: 4,
                key: Key::At(0xffff_ffff_a000_0010)
            }
        );
        assert_eq!(trace.intervals[1].counts, [(5, 10, 2)]);
        assert_eq!(trace.visits[0].intervals, (1, Some(2)));
        assert_eq!(trace.visits[0].left, Some(200));
        assert_eq!(
            trace.visits[1].argument,
            Argument::Device("0000:00:02.0".into())
        );
        assert_eq!(trace.idle[0].length, 40);
        assert_eq!(trace.modules, [vec![0, 255]]);
        assert_eq!((trace.calls, trace.boots.len()), ((10, 1), 1));
    }

    #[test]
    fn a_file_cut_anywhere_is_incomplete_and_never_more_than_was_written() {
        let whole = parse(WHOLE).unwrap();
        for end in 0..WHOLE.len() {
            match parse(&WHOLE[..end]) {
                Ok(trace) => {
                    assert!(!trace.complete, "{end}");
                    assert!(trace.visits.len() <= whole.visits.len());
                }
                Err(error) => panic!("{end}: {error}"),
            }
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let head = "bootrig-trace 1\nbegin api=4 cpus=1 mode=Profile stacks=true shift=1\nb 0\n";
        for bad in [
            "n 5 0 1\n",
            "n 4 4 1\n",
            "c 0 1 0\n",
            "s 10\ns 9\n",
            "r 1 5\n",
            "e 1 10 0 7 - -\nr 1 9\n",
            "e 1 10 0 7 - -\ne 1 10 0 7 - -\n",
            "w 1 0 0 -\n",
            "w 1 1 99 -\n",
            "l 0g\n",
            "l 000\n",
            "end 7\n",
            "end 3\ns 1\n",
            "what\n",
            "\n",
            "e 1 10 0 7 - -\nb 20\nr 1 30\n",
        ] {
            assert!(parse(&format!("{head}{bad}")).is_err(), "{bad}");
        }
        assert!(parse("bootrig-trace 2\n").is_err());
    }
}
