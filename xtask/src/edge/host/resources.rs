// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processors, memory and load, as the kernel reports them.

use std::{fs, thread};

use crate::core::units::Bytes;

/// What there is to run on.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    /// The processor's name; empty where the kernel does not say.
    pub cpu: String,
    /// CPUs that we may use.
    pub cpus: usize,
    /// All memory.
    pub memory: Bytes,
    /// What of it is free or can be freed.
    pub available: Bytes,
    /// Load average over one minute.
    pub load: f64,
}

impl Resources {
    /// This machine's, now. What cannot be read is empty or zero.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let memory = read("/proc/meminfo");
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_default()
                .to_owned(),
            cpus: thread::available_parallelism().map_or(1, Into::into),
            memory: kib(field(&memory, "MemTotal")),
            available: kib(field(&memory, "MemAvailable")),
            load: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|l| l.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|l| l.split_once(':').filter(|(k, _)| k.trim() == name))
        .map(|(_, v)| v.trim())
}

/// A value such as `24732184 kB`.
fn kib(value: Option<&str>) -> Bytes {
    let number = value.and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
    Bytes(number.unwrap_or(0) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nMemTotal:       24732184 kB\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(kib(field(text, "MemTotal")), Bytes(24_732_184 << 10));
        assert_eq!(kib(field(text, "MemAvailable")), Bytes(0));
    }

    #[test]
    fn this_machine_has_something() {
        let here = Resources::here();
        assert!(here.cpus >= 1 && here.memory > Bytes(0) && here.available <= here.memory);
    }
}
