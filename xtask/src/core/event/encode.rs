// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the lines of docs/protocol.md.

use std::collections::BTreeMap;

use super::check;

/// Writes lines as a guest does, for the scripted machine of the tests.
#[derive(Default)]
pub struct Encoder {
    /// The channel so far.
    pub bytes: Vec<u8>,
    next: BTreeMap<char, u64>,
}

impl Encoder {
    /// Appends `body` as the next line of `source` (`i` or `k`).
    pub fn line(&mut self, source: char, body: &str) {
        let seq = self.next.entry(source).or_default();
        let content = format!("bootrig1 {source} {seq} {body}");
        *seq += 1;
        let sum = check(content.as_bytes());
        self.bytes.extend(format!("{content} #{sum:08x}\n").bytes());
    }
    /// Appends the source's `end` line, after which its sequence starts anew.
    pub fn end(&mut self, source: char) {
        let lines = self.next.get(&source).copied().unwrap_or(0);
        self.line(source, &format!("end lines={lines}"));
        self.next.remove(&source);
    }
}
