// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what a running guest writes: which phase it is in, and whether its kernel says
//! that it is at its end. Pure: it is fed bytes, each once. They may be anything.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::core::console as reports;

/// Longest line that is looked at whole; the kernel's are shorter.
const LONGEST: usize = 4096;

/// Takes bytes in pieces, gives whole lines.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Calls `each` for every line that `bytes` completes, until it returns something.
    fn feed<T>(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let found = each(line.trim_ascii_end());
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}

/// Why a console ends a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The kernel died or says that it is stuck: the line.
    Splat(String),
    /// The emulated clock could not be calibrated on a busy host: says nothing about the
    /// kernel.
    Unsound(String),
}

/// What the kernel says when it gave up its clock. Under `tsc=reliable` only emulation on
/// a busy host brings it there.
static UNSOUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"Marking TSC unstable|Marking clocksource 'tsc[a-z-]*' as unstable|[Cc]ould not calculate TSC")
        .expect("a constant pattern")
});

/// Watches a console.
#[derive(Debug)]
pub(super) struct ConsoleWatch {
    lines: Lines,
    wall: bool,
}

impl ConsoleWatch {
    /// `wall`: the guest runs by the wall clock, which can get lost.
    pub(super) fn new(wall: bool) -> Self {
        Self {
            lines: Lines::default(),
            wall,
        }
    }
    /// Takes what was written since the last call; the first trouble in it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<Trouble> {
        let wall = self.wall;
        self.lines.feed(bytes, |line| {
            if wall && UNSOUND.is_match(line) {
                let text: String = String::from_utf8_lossy(line)
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(300)
                    .collect();
                return Some(Trouble::Unsound(text));
            }
            let splat = reports::panic_line(line).or_else(|| reports::stuck_line(line))?;
            Some(Trouble::Splat(splat))
        })
    }
}

/// How far a guest has come, by its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nothing heard yet.
    #[default]
    Boot,
    /// PID 1 said `hello`.
    Run,
    /// PID 1 said `leave`.
    Reboot,
    /// PID 1 of the second boot said `hello`.
    Second,
}

impl Phase {
    /// What is being waited for.
    pub(super) fn awaited(self) -> &'static str {
        match self {
            Self::Boot => "PID 1's hello",
            Self::Run => "the end of the plan (PID 1's leave)",
            Self::Reboot => "the second boot's hello",
            Self::Second => "the machine's end",
        }
    }
}

/// Watches the event channel. Its lines are judged later; here they only move the phase.
#[derive(Debug, Default)]
pub(super) struct ChannelWatch {
    lines: Lines,
    phase: Phase,
    error: Option<String>,
}

impl ChannelWatch {
    /// Takes what was written since the last call.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let (phase, error) = (&mut self.phase, &mut self.error);
        self.lines.feed(bytes, |line| {
            let mut words = line.split(|b| *b == b' ');
            if (words.next(), words.next()) != (Some(b"bootrig1"), Some(b"i")) {
                return None::<()>;
            }
            let (verb, first) = (words.nth(1)?, words.next());
            *phase = match (*phase, verb, first) {
                (Phase::Boot, b"hello", Some(b"boot=1")) => Phase::Run,
                (Phase::Run, b"leave", _) => Phase::Reboot,
                (_, b"hello", Some(b"boot=2")) => Phase::Second,
                (same, ..) => same,
            };
            if verb == b"error" && error.is_none() {
                let text = String::from_utf8_lossy(line);
                let body = text.split_once(" error ").map_or("", |(_, body)| body);
                *error = Some(
                    body.split(" #")
                        .next()
                        .unwrap_or(body)
                        .chars()
                        .filter(|c| !c.is_control())
                        .take(300)
                        .collect(),
                );
            }
            None
        });
    }
    /// Where the guest is.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }
    /// The first thing that PID 1 said it could not do.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn phases_follow_the_guests_words() {
        let mut watch = ChannelWatch::default();
        for (bytes, phase) in [
            (&b"bootrig1 i 0 hello bo"[..], Phase::Boot),
            (b"ot=1 release=6.1 #0\n", Phase::Run),
            (
                b"garbage hello boot=2\nbootrig1 k 0 hello boot=2 x\n",
                Phase::Run,
            ),
            (
                b"bootrig1 i 1 leave how=reboot mono=1 tsc=1 #0\n",
                Phase::Reboot,
            ),
            (b"bootrig1 i 0 hello boot=2 release=6.1 #0\n", Phase::Second),
        ] {
            watch.feed(bytes);
            assert_eq!(watch.phase(), phase, "{}", String::from_utf8_lossy(bytes));
        }
        watch.feed(b"bootrig1 i 1 error what=load:marks errno=2 #aabbccdd\n");
        assert_eq!(watch.error(), Some("what=load:marks errno=2"));
    }

    #[test]
    fn troubles() {
        let feed = |text: &str| ConsoleWatch::new(true).feed(text.as_bytes());
        assert!(matches!(
            feed("[ 0.1] Kernel panic - not syncing: x\r\n"),
            Some(Trouble::Splat(_))
        ));
        assert_eq!(
            feed("[ 0.1] Kernel panic - not syncing: x"),
            None,
            "an unfinished line may go on"
        );
        assert!(matches!(
            feed("[ 9.1] rcu: INFO: rcu_sched self-detected stall on CPU\n"),
            Some(Trouble::Splat(_))
        ));
        assert!(matches!(
            feed("[ 0.0] tsc: Marking TSC unstable due to could not calculate TSC khz\n"),
            Some(Trouble::Unsound(_))
        ));
        assert_eq!(
            feed("[ 0.1] WARNING: CPU: 0 PID: 1 at x\n[ 0.2] all is well\n"),
            None
        );
    }

    proptest! {
        #[test]
        fn pieces_are_as_good_as_the_whole(cuts in proptest::collection::vec(1..50usize, 1..50), junk in any::<Vec<u8>>()) {
            let mut text = junk.clone();
            text.extend_from_slice(b"\n[ 0.1] Kernel panic - not syncing: x\n");
            let (mut watch, mut rest, mut found) = (ConsoleWatch::new(true), &text[..], None);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                found = found.or(watch.feed(now));
                rest = later;
                if rest.is_empty() { break }
            }
            prop_assert!(found.is_some());
            let mut channel = ChannelWatch::default();
            channel.feed(&junk);
        }
    }
}
