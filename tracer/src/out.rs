// SPDX-License-Identifier: GPL-2.0-or-later
//! The trace file: one record a line, in the order in which things happened. docs/tracer.md
//! says what each means.

use std::{
    fmt::Arguments,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use crate::calls::{Calls, Node};

/// How much may be written: a runaway guest must not fill the disk.
const MOST_BYTES: u64 = 1 << 30;

/// An open trace file.
pub struct Out {
    file: Box<dyn Write + Send>,
    lines: u64,
    bytes: u64,
}

impl Out {
    /// Begins the file at `path`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self::to(BufWriter::with_capacity(
            1 << 16,
            File::create(path)?,
        )))
    }

    /// Begins with `file`.
    pub fn to(file: impl Write + Send + 'static) -> Self {
        let mut out = Self {
            file: Box::new(file),
            lines: 0,
            bytes: 0,
        };
        out.line(format_args!("bootrig-trace 1"));
        out
    }

    /// One record. What cannot be written is lost, and the missing last line tells.
    pub fn line(&mut self, text: Arguments) {
        if self.bytes > MOST_BYTES {
            return;
        }
        let text = text.to_string();
        self.bytes += text.len() as u64 + 1;
        self.lines += 1;
        if writeln!(self.file, "{text}").is_err() {
            self.bytes = u64::MAX;
        }
    }

    /// The nodes that were made since the last time.
    pub fn nodes(&mut self, calls: &mut Calls) {
        for (node, parent, key) in calls.take_made() {
            if key >> 63 == 1 {
                self.line(format_args!("n {node} {parent} @{key:x}"));
            } else {
                self.line(format_args!("n {node} {parent} {key}"));
            }
        }
    }

    /// A border at `ns`: what was counted since the last one.
    pub fn border(&mut self, ns: i64, calls: &mut Calls) {
        self.nodes(calls);
        self.line(format_args!("s {ns}"));
        for (node, count, called) in calls.take_counts() {
            self.line(format_args!("c {node} {count} {called}"));
        }
    }

    /// Time in which nothing ran, and where what it waited for went on.
    pub fn idle(&mut self, begin: i64, ns: i64, node: Node, task: &str) {
        self.line(format_args!("w {begin} {ns} {node} {}", word(task)));
    }

    /// What was written so far is in the file.
    pub fn flush(&mut self) {
        let _ = self.file.flush();
    }

    /// The last line.
    pub fn end(&mut self) {
        let lines = self.lines;
        self.line(format_args!("end {lines}"));
        self.flush();
    }
}

/// A guest's text as one word.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:+@".contains(c);
    let text: String = text
        .chars()
        .take(64)
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    if text.is_empty() { "-".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word() {
        assert_eq!(word("kworker/0:1"), "kworker/0:1");
        assert_eq!(word("a b\nc é"), "a_b_c__");
        assert_eq!(word(""), "-");
    }
}
