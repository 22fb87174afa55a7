// SPDX-License-Identifier: MIT OR Apache-2.0
//! What could not be done: the body of an `error` line.

use std::{fmt, io};

use crate::channel;

/// Something that failed, in one word, and the errno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    errno: i32,
}

impl Failure {
    /// `what` may hold anything; it is made one short word of printable ASCII, as a line
    /// needs it.
    pub fn new(what: impl AsRef<str>, errno: i32) -> Self {
        let word = |c: char| {
            if c.is_ascii_graphic() && c != '#' {
                c
            } else {
                '_'
            }
        };
        Self {
            what: what.as_ref().chars().take(120).map(word).collect(),
            errno,
        }
    }

    /// What the last failed system call says.
    pub fn last(what: impl AsRef<str>) -> Self {
        Self::new(what, io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// Writes the `error` line.
    pub fn report(&self) {
        channel::say(&self.body());
    }

    fn body(&self) -> String {
        format!("error what={} errno={}", self.what, self.errno)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}",
            self.what,
            io::Error::from_raw_os_error(self.errno)
        )
    }
}

/// For `map_err`: turns an I/O error into the failure of doing `what`. Errors of std's
/// own (text that is not UTF-8) have no errno and count as 0.
pub fn during(what: impl AsRef<str>) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(what, error.raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_always_one_word() {
        let check = |what: &str, expect: &str| assert_eq!(Failure::new(what, 2).body(), expect);
        check("load:marks", "error what=load:marks errno=2");
        check("a b\nc\u{e9}#", "error what=a_b_c__ errno=2");
        check(
            &"x".repeat(500),
            &format!("error what={} errno=2", "x".repeat(120)),
        );
    }
}
