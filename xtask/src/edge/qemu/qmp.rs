// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks a running QEMU where its CPUs are. Only for error messages: whatever goes wrong
//! here is silence.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// A QEMU that has not answered after this long will not.
const PATIENCE: Duration = Duration::from_secs(2);
/// Registers of 255 CPUs take less.
const LONGEST: u64 = 4 << 20;

/// The instruction pointer of each CPU, by the CPU's number; empty if QEMU does not say.
pub(super) fn instruction_pointers(socket: &Path) -> Vec<u64> {
    ask(socket)
        .map(|registers| parse(&registers))
        .unwrap_or_default()
}

fn ask(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let mut answers = BufReader::new(stream.try_clone().ok()?.take(LONGEST)).lines();
    answers.next()?.ok()?;
    stream
        .write_all(
            b"{\"execute\":\"qmp_capabilities\"}\n\
              {\"execute\":\"human-monitor-command\",\"arguments\":{\"command-line\":\"info registers -a\"}}\n",
        )
        .ok()?;
    // Events may come between the answers: a bounded number of lines is looked at.
    answers.take(100).map_while(Result::ok).find_map(|line| {
        let answer: serde_json::Value = serde_json::from_str(&line).ok()?;
        answer["return"].as_str().map(str::to_owned)
    })
}

fn parse(registers: &str) -> Vec<u64> {
    let words = registers.split_ascii_whitespace();
    words
        .filter_map(|w| u64::from_str_radix(w.strip_prefix("RIP=")?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_qemus_register_dump() {
        let dump = "\nCPU#0\nRAX=0 RBX=1\nRIP=ffffffff81000010 RFL=00000246 [---Z-P-] CPL=0\n\nCPU#1\nRIP=00000000fffffff0 RFL=2\n";
        assert_eq!(parse(dump), [0xffff_ffff_8100_0010, 0xffff_fff0]);
        assert_eq!(
            instruction_pointers(Path::new("/nonexistent")),
            Vec::<u64>::new()
        );
    }
}
