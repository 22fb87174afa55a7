// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and errors that know theirs.

use std::fmt;

/// What the process's exit status says; documented in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done, expectations met.
    Done = 0,
    /// An expectation, the oracle or a comparison failed.
    Failed = 1,
    /// Wrong usage or a scenario error.
    Usage = 2,
    /// Not enough to decide.
    Inconclusive = 3,
    /// The guest failed: panic, hang, lost result.
    Guest = 4,
    /// Build, QEMU, disk, a missing tool.
    Infrastructure = 5,
    /// Stopped by the user (Ctrl-C, SIGTERM): what was measured is kept.
    Stopped = 130,
}

impl Exit {
    /// What two judgements come to together: a regression is not hidden by what could not be
    /// decided beside it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed, Self::Inconclusive) | (Self::Inconclusive, Self::Failed) => Self::Failed,
            (a, b) => a.max(b),
        }
    }
}

/// An error with its exit code. Errors without one count as [`Exit::Infrastructure`].
#[derive(Debug)]
pub struct Fault {
    /// The code that the process exits with.
    pub exit: Exit,
    /// What is wrong, and the next step.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Fault {}

impl Fault {
    /// The user's mistake: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }
}

/// The error of work given up because the user asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by the user")
    }
}
impl std::error::Error for Stopped {}

/// The error of a source that does not come to a kernel, or of modules that do not build
/// against it. Nothing is wrong with this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotBuilt(pub String);

impl fmt::Display for NotBuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for NotBuilt {}

/// `error` as a [`NotBuilt`] where it is a usage error: of one place among many, patches that
/// do not apply and options that it has not are no mistake of the user.
pub fn refused(error: anyhow::Error) -> anyhow::Error {
    match exit_of(&error) {
        Exit::Usage => NotBuilt(format!("{error:#}")).into(),
        _ => error,
    }
}

/// An error for people: its causes in one text, without what a terminal would obey. Names
/// of files, and whatever a guest or a file said, may hold anything.
pub fn text(error: &anyhow::Error) -> String {
    const MOST: usize = 16 << 10;
    let text = format!("{error:#}").replace(|c: char| is_obeyed(c) && c != '\n', "\u{fffd}");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Whether a terminal does something for `c` but show it: control characters, and those that
/// turn the direction of text, break lines or show nothing.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The exit code that an error chain stands for.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    if error.chain().any(|e| e.is::<Stopped>()) {
        return Exit::Stopped;
    }
    let fault = error.chain().find_map(|e| e.downcast_ref::<Fault>());
    fault.map_or(Exit::Infrastructure, |f| f.exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_error() {
        let error = anyhow::anyhow!("a\u{1b}[2Jb\r\nc").context("reading x\u{7}");
        assert_eq!(text(&error), "reading x\u{fffd}: a\u{fffd}[2Jb\u{fffd}\nc");
        let long = anyhow::anyhow!("\u{e4}".repeat(1 << 20));
        assert!(text(&long).len() < 40_000);
    }
}
