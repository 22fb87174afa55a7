// SPDX-License-Identifier: MIT OR Apache-2.0
use proptest::prelude::*;

use super::{
    super::{
        parse::{Interval, Key, Node, Visit},
        window::windows,
    },
    *,
};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("f{n}")).collect()
}

fn whole(trace: &Trace) -> Profile {
    let known = names(8);
    let names = Names {
        known: &known,
        modules: &[],
        symbols: None,
    };
    let window = windows(trace, &names).remove(0);
    Tree::new(trace, &names).profile(&window)
}

fn trace(nodes: Vec<Node>, counts: Vec<(u32, i64, u32)>, end: i64) -> Trace {
    Trace {
        stacks: true,
        shift: 1,
        nodes,
        intervals: vec![Interval { end, counts }],
        boots: vec![(0, 0)],
        complete: true,
        ..Trace::default()
    }
}

fn node(parent: u32, known: u32) -> Node {
    Node {
        parent,
        key: Key::Known(known),
    }
}

#[test]
fn instructions_belong_to_a_function_and_once_to_each_of_its_callers() {
    // f0 calls f1, which calls f0 again; an interrupt runs f1.
    let nodes = vec![node(TASKS, 0), node(4, 1), node(5, 0), node(INTERRUPTS, 1)];
    let counts = vec![(4, 10, 1), (5, 20, 2), (6, 5, 3), (7, 7, 1), (USER, 100, 0)];
    let profile = whole(&trace(nodes, counts, 2 * 142));
    let of = |name: &str| profile.functions[name].clone();
    assert_eq!(
        (of("f0").own, of("f0").with_callees, of("f0").calls),
        (15, 35, 4)
    );
    assert_eq!((of("f1").own, of("f1").with_callees), (27, 32));
    assert_eq!(
        (profile.tasks, profile.interrupts, profile.user),
        (35, 7, 100)
    );
    assert_eq!((profile.unaccounted, profile.nameless), (0, 0));
}

#[test]
fn what_has_no_name_is_counted_as_such() {
    let nodes = vec![
        node(TASKS, 99),
        Node {
            parent: TASKS,
            key: Key::At(1 << 63),
        },
    ];
    let profile = whole(&trace(nodes, vec![(4, 10, 1), (5, 20, 1)], 60));
    assert_eq!(profile.nameless, 30);
    assert_eq!(profile.attributed(), 0.0);
}

#[test]
fn waits_belong_to_who_was_waited_for() {
    let nodes = vec![node(TASKS, 0), node(4, 1)];
    let mut trace = trace(nodes, vec![(4, 10, 1)], 1000);
    let idle = |begin, length, node, task: &str| Idle {
        begin,
        length,
        node,
        task: task.into(),
    };
    trace.idle = vec![
        idle(20, 400, 5, "a"),
        idle(500, 100, 5, "a"),
        idle(990, 50, 4, "b"),
    ];
    let profile = whole(&trace);
    let found: Vec<_> = profile
        .waits
        .iter()
        .map(|w| (w.ns, w.times, w.task.as_str()))
        .collect();
    assert_eq!(found, [(500, 2, "a"), (10, 1, "b")]);
    assert_eq!(profile.waits[0].stack, ["f0", "f1"]);
    assert_eq!(profile.idle, 510);
}

#[test]
fn a_thread_that_has_nothing_to_do_ends_no_wait_and_a_device_is_named() {
    // f0 is kthread's place in these names: see `names`.
    let known: Vec<String> = ["kthread", "worker_thread", "device_shutdown", "msleep"]
        .map(str::to_owned)
        .into();
    let nodes = vec![node(TASKS, 0), node(4, 1), node(TASKS, 2), node(6, 3)];
    let mut trace = trace(nodes, vec![], 1000);
    let idle = |begin, length, node| Idle {
        begin,
        length,
        node,
        task: String::new(),
    };
    trace.idle = vec![idle(100, 50, 5), idle(160, 40, 7)];
    trace.visits = vec![Visit {
        entered: 90,
        left: Some(220),
        intervals: (0, None),
        function: 2,
        argument: Argument::Device("0000:00:01.0".into()),
        task: String::new(),
        cpu: 0,
    }];
    let names = Names {
        known: &known,
        modules: &[],
        symbols: None,
    };
    let window = windows(&trace, &names).remove(0);
    let waits = Tree::new(&trace, &names).profile(&window).waits;
    assert_eq!(waits.len(), 1);
    assert_eq!(
        (waits[0].ns, waits[0].device.as_str()),
        (90, "0000:00:01.0")
    );
    assert_eq!(waits[0].stack, ["device_shutdown", "msleep"]);
}

proptest! {
    /// Whatever was executed and waited for, the parts add up to the window.
    #[test]
    fn the_parts_are_the_window(
        parents in prop::collection::vec(0u32..4, 1..20),
        counts in prop::collection::vec((0u32..20, 0i64..1000), 0..40),
        idle in prop::collection::vec((0i64..5000, 1i64..300), 0..10),
    ) {
        let nodes: Vec<_> = parents.iter().enumerate().map(|(n, p)| node(*p, n as u32 % 8)).collect();
        let most = nodes.len() as u32 + ROOTS;
        let counts: Vec<_> = counts.into_iter().map(|(n, c)| (n % most, c, 1)).collect();
        let mut trace = trace(nodes, counts, 6000);
        trace.idle = idle.into_iter().map(|(begin, length)| Idle { begin, length, node: TASKS, task: String::new() }).collect();
        let p = whole(&trace);
        let instructions = p.tasks + p.interrupts + p.user + p.firmware;
        prop_assert_eq!(instructions * 2 + p.idle + p.unaccounted, p.length);
        prop_assert_eq!(p.functions.values().map(|f| f.own).sum::<i64>(), p.kernel());
    }
}
