// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flame graph of call stacks.

use inferno::flamegraph::{self, Options};

/// The SVG picture of folded stacks (`outer;inner count` a line), which are counted in
/// instructions.
///
/// # Errors
/// There is nothing to draw.
pub fn svg(title: &str, folded: &str) -> Result<String, String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = "instructions".to_owned();
    // The same picture each time, with one colour for one function.
    options.hash = true;
    let mut out = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut out)
        .map_err(|e| format!("drawing the flame graph: {e}"))?;
    String::from_utf8(out).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_the_stacks_that_is_the_same_each_time() {
        let folded = "[tasks];a 10\n[tasks];a;b<c> 30\n";
        let picture = svg("boot", folded).unwrap();
        assert!(picture.contains("<svg") && picture.contains("b&lt;c&gt;"));
        assert!(picture.contains("30 instructions"));
        assert_eq!(svg("boot", folded).unwrap(), picture);
        assert!(svg("boot", "").is_err());
    }
}
