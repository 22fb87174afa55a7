// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flame graphs of call stacks: a picture to be kept, and the frames of one to be drawn.

use std::collections::BTreeMap;

use inferno::flamegraph::{self, Options};

/// Calls that are followed; deeper ones count for the last of these.
const DEEPEST: usize = 64;
/// The narrowest frame that is seen, one part in so many of the whole.
const NARROWEST: u64 = 1000;
/// The most frames that a picture has.
const MOST: usize = 1500;

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

/// A frame of a flame graph, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub name: String,
    /// How many frames it is called through.
    pub depth: usize,
    /// Where it begins, in instructions from the graph's left edge.
    pub from: u64,
    /// Instructions of its own and of what it called.
    pub count: u64,
}

#[derive(Default)]
struct Node<'a> {
    count: u64,
    below: BTreeMap<&'a str, Node<'a>>,
}

/// The frames of folded stacks that are wide enough to be seen, callers before what they
/// called, and the width of the whole.
///
/// # Errors
/// Which line is no stack with its count.
pub fn frames(folded: &str) -> Result<(Vec<Frame>, u64), String> {
    let mut root = Node::default();
    for (index, line) in folded.lines().enumerate() {
        let parsed = line.rsplit_once(' ').filter(|(stack, _)| !stack.is_empty());
        let parsed = parsed.and_then(|(stack, count)| Some((stack, count.parse::<u64>().ok()?)));
        let added = parsed.and_then(|(stack, count)| add(&mut root, stack, count));
        added.ok_or_else(|| format!("line {} is no stack with a count", index + 1))?;
    }
    let mut narrowest = root.count.div_ceil(NARROWEST).max(1);
    loop {
        let mut out = Vec::new();
        collect(&root, 0, 0, narrowest, &mut out);
        if out.len() <= MOST {
            return Ok((out, root.count));
        }
        narrowest = narrowest.saturating_mul(2);
    }
}

/// `None`: the counts are more than a number holds.
fn add<'a>(root: &mut Node<'a>, stack: &'a str, count: u64) -> Option<()> {
    root.count = root.count.checked_add(count)?;
    let mut at = root;
    for name in stack.split(';').take(DEEPEST) {
        at = at.below.entry(name).or_default();
        at.count += count;
    }
    Some(())
}

fn collect(node: &Node, depth: usize, from: u64, narrowest: u64, out: &mut Vec<Frame>) {
    let mut from = from;
    for (name, below) in &node.below {
        if below.count >= narrowest {
            out.push(Frame {
                name: (*name).to_owned(),
                depth,
                from,
                count: below.count,
            });
            collect(below, depth + 1, from, narrowest, out);
        }
        from += below.count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_lie_below_their_callers() {
        let (frames, whole) = frames("a;b c 30\na 10\na;d 0\nb;a 60\n").unwrap();
        let shown: Vec<_> = frames
            .iter()
            .map(|f| (f.name.as_str(), f.depth, f.from, f.count))
            .collect();
        assert_eq!(whole, 100);
        assert_eq!(
            shown,
            [
                ("a", 0, 0, 40),
                ("b c", 1, 0, 30),
                ("b", 0, 40, 60),
                ("a", 1, 40, 60)
            ]
        );
        for bad in [
            "a",
            "a b",
            " 7",
            "a -1",
            "a 1\n\n",
            "a 18446744073709551615\na 1",
        ] {
            assert!(super::frames(bad).is_err(), "{bad}");
        }
        assert_eq!(super::frames(""), Ok((vec![], 0)));
    }

    proptest! {
        /// However many and however deep: no more frames than a page carries, none outside
        /// its caller, none over another.
        #[test]
        fn any_stacks_can_be_drawn(stacks in proptest::collection::vec((proptest::collection::vec(0..40u8, 1..90), 0..1000u64), 0..300)) {
            let folded: String = stacks.iter().map(|(stack, count)| {
                let names: Vec<_> = stack.iter().map(|n| format!("f{n}")).collect();
                format!("{} {count}\n", names.join(";"))
            }).collect();
            let (frames, whole) = frames(&folded).unwrap();
            prop_assert!(frames.len() <= MOST);
            prop_assert_eq!(whole, stacks.iter().map(|s| s.1).sum::<u64>());
            let mut open: Vec<&Frame> = Vec::new();
            let mut ends = [0u64; DEEPEST];
            for frame in &frames {
                open.truncate(frame.depth);
                let (from, to) = open.last().map_or((0, whole), |f| (f.from, f.from + f.count));
                prop_assert!(frame.from >= from && frame.from + frame.count <= to);
                prop_assert_eq!(open.len(), frame.depth);
                prop_assert!(frame.from >= ends[frame.depth]);
                ends[frame.depth] = frame.from + frame.count;
                open.push(frame);
            }
        }
    }

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
