// SPDX-License-Identifier: MIT OR Apache-2.0
//! `options:` of a variant: lines of kernel configuration on top of everything else.

use super::{diagnose::Sink, tree::At};

/// More is another configuration, and belongs into a fragment.
pub const MOST: usize = 8;

/// Checks `options`, which stand `at`.
pub fn check(options: &[String], at: &At<'_>, sink: &mut Sink) {
    if options.len() > MOST {
        sink.add_with(at.position(), || {
            format!("{at}: more than {MOST}; make a fragment of images/kernels/fragments of them")
        });
        return;
    }
    for (index, option) in options.iter().enumerate() {
        let at = at.item(index);
        let Some(name) = name(option) else {
            sink.add_with(at.position(), || {
                format!(
                    "{at}: `{option}` is no option: write CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE"
                )
            });
            continue;
        };
        let before = options[..index].iter();
        if before.filter_map(|o| self::name(o)).any(|b| b == name) {
            sink.add_with(at.position(), || format!("{at}: {name} is there already"));
        }
    }
}

/// The name of an option, where the line is one of printable ASCII without blanks.
fn name(line: &str) -> Option<&str> {
    let (name, value) = line.split_once('=')?;
    let bare = name.strip_prefix("CONFIG_")?;
    let letters = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let plain = !bare.is_empty() && bare.bytes().all(letters);
    let printed = !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic());
    (plain && printed && line.len() <= 200).then_some(name)
}
