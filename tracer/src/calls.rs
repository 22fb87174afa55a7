// SPDX-License-Identifier: GPL-2.0-or-later
//! The tree of calls: one node a function and the way it was called, with what it executed
//! itself since the last border.

use rustc_hash::FxHashMap;

/// Number of a node.
pub type Node = u32;
/// Everything that runs for a task.
pub const TASKS: Node = 0;
/// User space.
pub const USER: Node = 1;
/// Before the kernel: firmware, unpacking; and what starts further CPUs.
pub const FIRMWARE: Node = 2;
/// Interrupts.
pub const INTERRUPTS: Node = 3;
/// How many nodes begin without a parent.
pub const ROOTS: u32 = 4;
/// More nodes than this are not made: what would come below counts for its caller.
const MOST: usize = 1 << 20;

/// So many recent calls are found without the table, whose size is beyond the caches of CPUs.
const RECENT: usize = 4096;

/// What a node executed since the last border.
#[derive(Clone, Copy, Default)]
struct Count {
    /// Less than none: a block that was left early had been counted before the border.
    instructions: i64,
    called: u32,
}

/// See the module.
pub struct Calls {
    counts: Vec<Count>,
    children: FxHashMap<(Node, u64), Node>,
    /// Some of the same.
    recent: Box<[(Node, u64, Node)]>,
    made: Vec<(Node, u64)>,
}

impl Calls {
    /// Only the roots.
    pub fn new() -> Self {
        Self {
            counts: vec![Count::default(); ROOTS as usize],
            children: FxHashMap::default(),
            // No node has this number.
            recent: vec![(Node::MAX, 0, 0); RECENT].into(),
            made: Vec::new(),
        }
    }

    /// The node of the function with this key, called from `parent`.
    #[inline]
    pub fn child(&mut self, parent: Node, key: u64) -> Node {
        let hash = (key ^ u64::from(parent) << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (hash >> (64 - RECENT.trailing_zeros())) as usize;
        let (of, with, node) = self.recent[place];
        if (of, with) == (parent, key) {
            return node;
        }
        let node = self.find(parent, key);
        self.recent[place] = (parent, key, node);
        node
    }

    #[inline(never)]
    fn find(&mut self, parent: Node, key: u64) -> Node {
        if let Some(node) = self.children.get(&(parent, key)) {
            return *node;
        }
        if self.counts.len() >= MOST {
            return parent;
        }
        let node = self.counts.len() as Node;
        self.counts.push(Count::default());
        self.children.insert((parent, key), node);
        self.made.push((parent, key));
        node
    }

    /// Adds instructions to a node.
    #[inline(always)]
    pub fn add(&mut self, node: Node, instructions: i64) {
        self.counts[node as usize].instructions += instructions;
    }

    /// The node is called.
    #[inline]
    pub fn called(&mut self, node: Node) {
        self.counts[node as usize].called += 1;
    }

    /// The nodes made since the last time, in the order of their numbers: `(number, parent,
    /// key)`.
    pub fn take_made(&mut self) -> impl Iterator<Item = (Node, Node, u64)> {
        let first = (self.counts.len() - self.made.len()) as Node;
        std::mem::take(&mut self.made)
            .into_iter()
            .zip(first..)
            .map(|((parent, key), node)| (node, parent, key))
    }

    /// What was counted since the last time: node, instructions, calls.
    pub fn take_counts(&mut self) -> impl Iterator<Item = (Node, i64, u32)> {
        self.counts
            .iter_mut()
            .zip(0..)
            .filter(|(count, _)| count.instructions != 0 || count.called != 0)
            .map(|(count, node)| {
                let Count {
                    instructions,
                    called,
                } = std::mem::take(count);
                (node, instructions, called)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_a_node_for_each_way_to_it() {
        let mut calls = Calls::new();
        let a = calls.child(TASKS, 10);
        let b = calls.child(a, 20);
        assert_eq!(calls.child(TASKS, 10), a);
        assert_ne!(calls.child(TASKS, 20), b);
        calls.add(b, 5);
        calls.add(b, 6);
        calls.add(USER, 1);
        calls.called(b);
        assert_eq!(
            calls.take_made().collect::<Vec<_>>(),
            [(4, TASKS, 10), (5, 4, 20), (6, TASKS, 20)]
        );
        assert_eq!(
            calls.take_counts().collect::<Vec<_>>(),
            [(1, 1, 0), (5, 11, 1)]
        );
        assert_eq!(calls.take_counts().count(), 0);
        calls.child(b, 30);
        assert_eq!(calls.take_made().collect::<Vec<_>>(), [(7, b, 30)]);
    }
}
