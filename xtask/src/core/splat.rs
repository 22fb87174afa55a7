// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a kernel's own reports of trouble in its console output. Pure: the bytes come
//! from a guest and may be anything.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// What a console line means for the boot that printed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The guest goes on and may reach its end, but its figures are not to be trusted.
    Warning,
    /// The guest will not get anywhere: panic, oops, lockup, stall, hung task.
    Fatal,
    /// The emulated clock could not be calibrated on a busy host: says nothing about the
    /// kernel; boot again.
    Unsound,
}

/// One line that reports trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splat {
    /// What it means.
    pub severity: Severity,
    /// The line, cleaned of control characters and cut to a readable length.
    pub line: String,
}

impl Splat {
    /// Whether a watchdog speaks: the kernel lives but does not get on.
    pub fn is_stuck(&self) -> bool {
        ["lockup", "LOCKUP", "stall", "blocked for more than"].iter().any(|w| self.line.contains(w))
    }
}

/// Longest line that is quoted or searched: kernel records hold less than this.
const LONGEST: usize = 1024;

/// Patterns stand where a kernel message begins (after its time stamp), so that the same
/// words inside another message are not taken for a report.
static PATTERNS: LazyLock<[(Severity, Regex); 3]> = LazyLock::new(|| {
    let start = r"(?-u)^(?:\[ *\d+\.\d+\] ?(?:\[ *[TC]\d+\] ?)?)?(?:[a-z]+: )?";
    let compile = |severity, alternatives: &[&str]| {
        let text = format!("{start}(?:{})", alternatives.join("|"));
        (severity, Regex::new(&text).expect("the patterns are constant"))
    };
    [
        compile(
            Severity::Unsound,
            &["Marking TSC unstable", "Marking clocksource 'tsc' as unstable", "Fast TSC calibration failed.*giving up"],
        ),
        compile(
            Severity::Fatal,
            &[
                "Kernel panic - not syncing",
                "kernel BUG at ",
                "BUG: ",
                "Oops: ",
                "Oops",
                "general protection fault",
                "(?:invalid opcode|divide error|stack segment|double fault|int3|page fault)(?:-.*)?: [0-9a-f]{4} ",
                "Watchdog detected hard LOCKUP",
                "INFO: .*(?:self-detected stall|detected stalls)",
                "INFO: task .{1,200} blocked for more than",
                "INFO: possible recursive locking",
                "VFS: (?:Unable to mount root|Cannot open root device)",
                "No working init found",
                "Failed to execute /.{1,200} \\(error",
                "Out of memory: ",
            ],
        ),
        compile(Severity::Warning, &["WARNING: ", "UBSAN: ", "refcount_t: ", "list_(?:add|del) corruption", "INFO: trying to register"]),
    ]
});

/// What `line` (without its line end) reports, if anything.
pub fn of_line(line: &[u8]) -> Option<Splat> {
    let line = &line[..line.len().min(LONGEST)];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (severity, _) = PATTERNS.iter().find(|(_, pattern)| pattern.is_match(line))?;
    Some(Splat { severity: *severity, line: readable(line) })
}

/// The first report of each severity's worst in a whole console: fatal before warning.
pub fn worst(console: &[u8]) -> Option<Splat> {
    let mut worst: Option<Splat> = None;
    for line in console.split(|b| *b == b'\n') {
        if let Some(found) = of_line(line)
            && worst.as_ref().is_none_or(|w| found.severity > w.severity)
        {
            worst = Some(found);
        }
    }
    worst
}

/// Every line that reports trouble, the first `most` of them.
pub fn all(console: &[u8], most: usize) -> Vec<String> {
    let lines = console.split(|b| *b == b'\n').filter_map(of_line);
    lines.map(|splat| splat.line).take(most).collect()
}

/// The last `count` lines that hold anything, for error messages.
pub fn tail(console: &[u8], count: usize) -> Vec<String> {
    let mut lines: Vec<_> = console
        .rsplit(|b| *b == b'\n')
        .map(|line| readable(&line[..line.len().min(LONGEST)]))
        .filter(|line| !line.is_empty())
        .take(count)
        .collect();
    lines.reverse();
    lines
}

/// Text without control characters or terminal escapes that could play tricks.
fn readable(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).collect();
    text.trim().into()
}

/// Finds reports in a console that is still being written; looks at each byte once.
#[derive(Debug, Default)]
pub struct Watch {
    line: Vec<u8>,
    warning: Option<Splat>,
}

impl Watch {
    /// Takes the bytes written since the last call; returns the first report that ends
    /// the boot. An unfinished last line is kept for the next call.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<Splat> {
        let mut parts = bytes.split_inclusive(|b| *b == b'\n');
        let ending = parts.find_map(|part| {
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let splat = part.ends_with(b"\n").then(|| self.end_line())??;
            match splat.severity {
                Severity::Warning => {
                    self.warning.get_or_insert(splat);
                    None
                }
                Severity::Fatal | Severity::Unsound => Some(splat),
            }
        });
        ending
    }

    /// The first report so far that does not end the boot by itself.
    pub fn warning(&self) -> Option<&Splat> {
        self.warning.as_ref()
    }

    fn end_line(&mut self) -> Option<Splat> {
        let line = std::mem::take(&mut self.line);
        of_line(line.strip_suffix(b"\n").unwrap_or(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reports_are_known() {
        use Severity::{Fatal, Unsound, Warning};
        for (line, severity) in [
            ("[    0.350000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000", Fatal),
            ("[   22.1] BUG: kernel NULL pointer dereference, address: 0000000000000010", Fatal),
            ("[   22.1][    T1] BUG: kernel NULL pointer dereference, address: 0000000000000010", Fatal),
            ("[    1.000000] general protection fault, probably for non-canonical address 0xdead: 0000 [#1]", Fatal),
            ("[    1.000000] Oops: 0000 [#1] PREEMPT SMP NOPTI", Fatal),
            ("[    1.000000] invalid opcode: 0000 [#1] SMP", Fatal),
            ("[   44.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [init:1]", Fatal),
            ("[   44.0] watchdog: Watchdog detected hard LOCKUP on cpu 0", Fatal),
            ("[   21.0] rcu: INFO: rcu_sched self-detected stall on CPU", Fatal),
            ("[   21.0] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", Fatal),
            ("[  242.0] INFO: task init:1 blocked for more than 120 seconds.", Fatal),
            ("[    0.3] VFS: Unable to mount root fs on unknown-block(0,0)", Fatal),
            ("[    1.0] WARNING: CPU: 0 PID: 1 at drivers/base/core.c:100 device_shutdown+0x1/0x2", Warning),
            ("[    1.0] WARNING: drivers/base/core.c:100 at device_shutdown+0x1/0x2, CPU#0: init/1", Warning),
            ("[    0.0] tsc: Marking TSC unstable due to could not calculate TSC khz\r", Unsound),
        ] {
            let found = of_line(line.as_bytes()).unwrap_or_else(|| panic!("not found: {line}"));
            assert_eq!(found.severity, severity, "{line}");
            assert_eq!(found.line, line.trim());
        }
    }

    #[test]
    fn ordinary_lines_are_not() {
        for line in [
            "[    0.050728] PCI: Fatal: No config space access function found",
            "[    0.1] Kernel command line: console=ttyS0 oops=panic panic=0",
            "[    0.1] rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.",
            "[    0.1] please see WARNING: below",
            "[    0.1] tsc: Fast TSC calibration using PIT",
            "Debugging is fun",
            "",
        ] {
            assert_eq!(of_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn worst_and_tail() {
        let console = b"a\n[ 1.0] WARNING: CPU: 0\n\x1b[2Jb\n[ 2.0] BUG: x\n[ 2.1] Kernel panic - not syncing: x\n\n";
        assert_eq!(worst(console).unwrap().line, "[ 2.0] BUG: x");
        assert_eq!(tail(console, 3), ["[2Jb", "[ 2.0] BUG: x", "[ 2.1] Kernel panic - not syncing: x"]);
    }

    proptest! {
        #[test]
        fn pieces_find_what_the_whole_finds(cuts in proptest::collection::vec(1..40usize, 1..60), junk in any::<Vec<u8>>()) {
            let mut console = junk;
            console.extend(b"\n[ 1.0] WARNING: CPU: 0\n[    1.000000] Kernel panic - not syncing: x\nrest");
            let (mut watch, mut at, mut found) = (Watch::default(), 0, None);
            for cut in cuts.iter().cycle() {
                if at == console.len() || found.is_some() { break }
                let end = (at + cut).min(console.len());
                found = watch.feed(&console[at..end]);
                at = end;
            }
            prop_assert!(found.is_some_and(|f| f.severity >= Severity::Fatal));
        }
    }
}
