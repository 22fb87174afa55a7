// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of a certain form, with the patterns that editors check them by.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What a name looks like.
pub(super) const NAME_PATTERN: &str = r"^[a-z0-9][a-z0-9._-]{0,63}$";

/// Text of a certain form; `validate` reads it and says what is wrong with it.
macro_rules! text {
    ($(#[doc = $doc:literal])* $name:ident, $title:literal, [$($example:literal)?], $pattern:expr) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "title": $title,
                    "description": concat!($($doc),*).trim(),
                    $("examples": [$example],)?
                    "pattern": $pattern,
                })
            }
        }
    };
}

text!(
    /// A span of time with its unit: ns, us, ms, s or min.
    Duration, "duration", ["1.14 s"], r"^[0-9]+(\.[0-9]+)? ?(ns|us|ms|s|min)$"
);
text!(
    /// An amount of memory with its unit: B, KiB, MiB, GiB or TiB.
    Size, "size", ["512 MiB"], r"^[0-9]+(\.[0-9]+)? ?(B|KiB|MiB|GiB|TiB)$"
);
text!(
    /// A part of the whole, in percent.
    Share, "percentage", ["3 %"], r"^[0-9]+(\.[0-9]+)? ?%$"
);
text!(
    /// A name: small letters, digits, `.`, `_` and `-`, at most 64 of them.
    Name, "name", ["ixgbe-x540"], NAME_PATTERN
);
text!(
    /// `vendor:device`, four hexadecimal digits each, as lspci -n prints them.
    PciId, "PCI ID", ["15b3:1003"], r"^[0-9a-fA-F]{4}:[0-9a-fA-F]{4}$"
);
text!(
    /// A PCI class with programming interface, six hexadecimal digits.
    ClassCode, "PCI class", ["010802"], r"^[0-9a-fA-F]{6}$"
);
text!(
    /// What names begin with: 1 to 15 small letters.
    Prefix, "prefix", ["eth"], r"^[a-z]{1,15}$"
);
text!(
    /// What a value is compared with: `ideal` (the same variant's), a duration, or the name
    /// of another variant.
    Of, "target", ["ideal"], r"^.+$"
);
text!(
    /// A sentence for people.
    Prose, "text", [], r"\S"
);
