// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's settings at run time.

use std::{fs::File, io::Write};

use crate::failure::{Failure, during};

/// Whether this can be a setting's name: words of `[a-z0-9_-]` joined by dots.
pub fn is_name(name: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
    };
    name.split('.').all(word)
}

/// Whether this can be a value: one word of printable ASCII.
pub fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic())
}

/// Writes `value` to the setting `name`.
pub fn set(name: &str, value: &str) -> Result<(), Failure> {
    let failed = || during(format!("set:{name}"));
    let mut file = File::options()
        .write(true)
        .open(file(name))
        .map_err(failed())?;
    file.write_all(value.as_bytes()).map_err(failed())
}

fn file(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_proc_sys() {
        assert_eq!(file("kernel.threads-max"), "/proc/sys/kernel/threads-max");
        for good in ["kernel.threads-max", "vm.nr_hugepages", "a", "a.0"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a..b", ".a", "a.", "a/b", "A", "a b", "a\n"] {
            assert!(!is_name(bad), "{bad:?}");
        }
        assert!(is_value("1") && is_value("|/bin/x"));
        assert!(!is_value("") && !is_value("1 2") && !is_value("\u{e9}"));
    }
}
