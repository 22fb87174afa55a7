// SPDX-License-Identifier: MIT OR Apache-2.0
//! Versions of QEMU, and from which on what works.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The three numbers of 10.0.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QemuVersion(pub u32, pub u32, pub u32);

impl QemuVersion {
    /// The oldest that bootrig was tried with.
    pub const OLDEST: Self = Self(7, 2, 0);
    /// From here on several CPUs can count instructions together: before, a fixed
    /// instruction rate hangs while the second CPU comes up.
    pub const MANY_CPUS: Self = Self(8, 1, 0);

    /// The plugin API that a QEMU of this version has, as far as versions tell.
    pub fn plugin_api(self) -> u32 {
        match (self.0, self.1) {
            (..=8, _) => 1,
            (9, 0) => 2,
            (9, 1) => 3,
            (9, _) | (10, 0) => 4,
            _ => 5,
        }
    }

    /// From the first line of `--version`: `QEMU emulator version 10.0.2 (Debian ...)`, or
    /// `qemu-img version 10.0.2 (...)`.
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?;
        let number = ["QEMU emulator version ", "qemu-img version "]
            .into_iter()
            .find_map(|p| line.strip_prefix(p))?;
        let number = number
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .next()?;
        let mut parts = number.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let micro = parts.next().map_or(Ok(0), str::parse).ok()?;
        Some(Self(major, minor, micro))
    }
}

impl fmt::Display for QemuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_and_nothing_else() {
        for (text, want) in [
            (
                "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright",
                QemuVersion(10, 0, 2),
            ),
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\n",
                QemuVersion(7, 2, 22),
            ),
            (
                "QEMU emulator version 11.0.50 (v11.0-dirty)",
                QemuVersion(11, 0, 50),
            ),
            ("QEMU emulator version 9.1", QemuVersion(9, 1, 0)),
            ("QEMU emulator version 9.1.0-rc2", QemuVersion(9, 1, 0)),
            (
                "qemu-img version 10.0.2 (Debian 1:10.0.2+ds-2)",
                QemuVersion(10, 0, 2),
            ),
        ] {
            assert_eq!(QemuVersion::parse(text), Some(want), "{text}");
        }
        for junk in [
            "",
            "something else",
            "QEMU emulator version",
            "QEMU emulator version x.y",
            "QEMU emulator version 9",
            "QEMU emulator version 9.1.",
            "\nQEMU emulator version 9.1.0",
            "qemu 9.1.0",
            "gcc version 12.2.0",
            "QEMU emulator version 99999999999.1",
        ] {
            assert_eq!(QemuVersion::parse(junk), None, "{junk}");
        }
    }

    #[test]
    fn plugin_apis_by_version() {
        let api = |a, b| QemuVersion(a, b, 0).plugin_api();
        assert_eq!(
            [
                api(7, 2),
                api(8, 2),
                api(9, 0),
                api(9, 1),
                api(9, 2),
                api(10, 0),
                api(10, 1),
                api(11, 0)
            ],
            [1, 1, 2, 3, 4, 4, 5, 5]
        );
    }

    #[test]
    fn later_is_greater() {
        assert!(QemuVersion::OLDEST < QemuVersion(7, 2, 22));
        assert!(QemuVersion(8, 0, 5) < QemuVersion::MANY_CPUS);
        assert!(QemuVersion::MANY_CPUS < QemuVersion(10, 0, 0));
    }
}
