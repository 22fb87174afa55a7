// SPDX-License-Identifier: MIT OR Apache-2.0
//! When something was begun, and what it is called by that where nobody names it.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;

/// When a run, a search or a judgement was begun; written as RFC 3339, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Begun(Timestamp);

impl Begun {
    /// At this moment.
    pub fn now() -> Self {
        Self(Timestamp::now())
    }

    /// A name, `20260101T030000Z-1a2b3c4d`: names sort by time, and what began within one
    /// second has two.
    pub fn id(self) -> String {
        let apart = self.0.subsec_nanosecond() as u32 ^ std::process::id().rotate_left(16);
        format!("{}-{apart:08x}", self.0.strftime("%Y%m%dT%H%M%SZ"))
    }

    /// When that was begun which is called `id`, if this is such a name.
    pub fn of_id(id: &str) -> Option<Self> {
        id.split_once('-')?.0.parse().ok()
    }

    /// How long ago that is.
    pub fn age(self) -> Duration {
        let seconds = Timestamp::now().as_second() - self.0.as_second();
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}

impl fmt::Display for Begun {
    /// `2026-01-01T03:00:00Z`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

impl FromStr for Begun {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text.escape_debug().take(80).collect();
        let time = text.parse().map_err(|_| format!("`{shown}` is no time"))?;
        Ok(Self(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_when_it_was_given() {
        let begun = Begun::now();
        let read = Begun::of_id(&begun.id()).unwrap();
        assert_eq!(read.to_string(), begun.to_string());
        assert_eq!(begun.to_string().parse(), Ok(read));
        let old: Begun = "2026-01-01T03:00:00Z".parse().unwrap();
        assert_eq!(Begun::of_id("20260101T030000Z-1a2b3c4d"), Some(old));
        assert!(old < begun && begun.age() < Duration::from_secs(60));
        for no in [
            "night",
            "night-1",
            "",
            "-",
            "20260101T030000Z",
            "x-20260101T030000Z",
        ] {
            assert_eq!(Begun::of_id(no), None, "{no}");
        }
    }
}
