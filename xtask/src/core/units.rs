// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities that carry their unit: durations, sizes and fractions.
//!
//! In YAML and on the command line each is written with a unit (`1.14 s`, `64 GiB`,
//! `3 %`); a bare number is refused.

use std::{fmt, iter::Sum, ops, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A non-negative fraction, in millionths: `3 %` is 30,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(pub u32);

/// `1 CPU`, `15 devices`, `2 patches`.
pub fn counted(number: usize, what: &str) -> String {
    let ending = match number {
        1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {what}{ending}")
}

/// Why a quantity could not be read; the text says what would have been valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError(String);

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for UnitError {}

const TIME: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];
const SIZE: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];
const PART: &[(&str, u64)] = &[("%", 10_000)];

/// Reads `<decimal> <unit>` exactly: no float is involved, so `1.14 s` is 1,140,000,000.
fn quantity(text: &str, what: &str, units: &[(&str, u64)]) -> Result<u64, UnitError> {
    let names = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    let error = |why: String| UnitError(format!("`{text}` is no {what}: {why}"));
    let text_trimmed = text.trim();
    let end = text_trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text_trimmed.len());
    let (number, unit) = (&text_trimmed[..end], text_trimmed[end..].trim());
    if number.is_empty() {
        return Err(error("it must start with a number".into()));
    }
    if unit.is_empty() {
        return Err(error(format!("its unit is missing (one of {})", names())));
    }
    let Some(&(_, scale)) = units.iter().find(|u| u.0 == unit) else {
        return Err(error(format!("unit `{unit}` is none of {}", names())));
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let too_big = || error("it is too large".into());
    let digits = |s: &str| -> Result<u128, UnitError> {
        if s.is_empty() {
            Ok(0)
        } else {
            s.parse().map_err(|_| error(format!("`{s}` is no number")))
        }
    };
    if part.len() > 18 || whole.len() > 20 {
        return Err(error("it has too many digits".into()));
    }
    let denominator = 10u128.pow(part.len() as u32);
    let scaled = (digits(whole)? * denominator + digits(part)?)
        .checked_mul(u128::from(scale))
        .ok_or_else(too_big)?;
    if !scaled.is_multiple_of(denominator) {
        return Err(error("it is finer than the smallest unit".into()));
    }
    u64::try_from(scaled / denominator).map_err(|_| too_big())
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, "duration", TIME).map(Self)
    }
}
impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, "size", SIZE).map(Self)
    }
}
impl FromStr for Fraction {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        let value = quantity(s, "fraction", PART)?;
        u32::try_from(value)
            .map(Self)
            .map_err(|_| UnitError(format!("`{s}` is no fraction: it is too large")))
    }
}

/// Writes `value` in the largest unit that leaves it exact, for files that are read back.
fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let (name, scale) = units
        .iter()
        .rev()
        .find(|u| value.is_multiple_of(u.1))
        .unwrap_or(&units[0]);
    if value == 0 {
        format!("0 {}", units[0].0)
    } else {
        format!("{} {name}", value / scale)
    }
}

impl fmt::Display for Nanos {
    /// For people: four significant digits in the fitting unit, `1.142 s`, `380.4 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (1e3, "us"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / scale;
        let decimals = if value < 10.0 {
            3
        } else if value < 100.0 {
            2
        } else {
            1
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&exact(self.0, SIZE))
    }
}
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            f.pad(&format!("{whole} %"))
        } else {
            f.pad(&format!(
                "{} %",
                format!("{whole}.{rest:04}").trim_end_matches('0')
            ))
        }
    }
}

impl Nanos {
    /// The exact form that [`FromStr`] reads back.
    pub fn exact(self) -> String {
        exact(self.0, TIME)
    }
}
impl Fraction {
    /// As a plain factor: `3 %` is 0.03.
    pub fn factor(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}
impl ops::Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl ops::Sub for Nanos {
    type Output = Self;
    /// Saturates at zero: spans of time are never negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}
impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self(0), ops::Add::add)
    }
}

macro_rules! as_text {
    ($type:ty, $write:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                let write: fn(&$type) -> String = $write;
                s.serialize_str(&write(self))
            }
        }
    };
}
as_text!(Nanos, |n| n.exact());
as_text!(Bytes, |b| b.to_string());
as_text!(Fraction, |f| f.to_string());

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_refuses() {
        assert_eq!("1.14 s".parse(), Ok(Nanos(1_140_000_000)));
        assert_eq!("5ms".parse(), Ok(Nanos(5_000_000)));
        assert_eq!("64 GiB".parse(), Ok(Bytes(64 << 30)));
        assert_eq!("0.5 %".parse(), Ok(Fraction(5_000)));
        for bad in [
            "",
            "s",
            "5",
            "5 parsec",
            "-1 s",
            "1.2.3 s",
            "1e3 s",
            "0.1 ns",
            "99999999999999 s",
            "1 GB",
        ] {
            assert!(bad.parse::<Nanos>().is_err(), "{bad}");
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn exact_form_reads_back(n in any::<u64>()) {
            prop_assert_eq!(Nanos(n).exact().parse(), Ok(Nanos(n)));
            prop_assert_eq!(Bytes(n).to_string().parse(), Ok(Bytes(n)));
        }
        #[test]
        fn fractions_read_back(n in any::<u32>()) {
            prop_assert_eq!(Fraction(n).to_string().parse(), Ok(Fraction(n)));
        }
        #[test]
        fn no_text_panics(s in "\\PC*") {
            let _ = s.parse::<Nanos>();
        }
    }
}
