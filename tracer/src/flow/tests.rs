// SPDX-License-Identifier: GPL-2.0-or-later
//! What following the guest makes of calls, returns, interrupts and tasks, one thing a test.

use super::*;

mod laws;
mod sim;
mod smp;

use sim::{Sim, at};

/// Where the guest begins.
const ROOT: &str = "tasks;start_kernel";

#[test]
fn a_call_goes_in_and_a_return_comes_back() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Call);
    sim.run(at("g"), 4, End::Plain);
    sim.run(at("g") + 16, 5, End::Ret);
    sim.run(at("f") + 12, 6, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    assert_eq!(sim.quick, 2, "the second blocks of start_kernel and g");
    let seen = sim.finish();
    assert_eq!(seen.count("firmware"), 5);
    assert_eq!(seen.count(ROOT), 1 + 2 + 7);
    assert_eq!(seen.stacks()[&format!("{ROOT};f")], (9, 1));
    assert_eq!(seen.stacks()[&format!("{ROOT};f;g")], (9, 1));
}

#[test]
fn a_tail_call_takes_the_callers_place() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Plain);
    sim.run(at("g"), 4, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.count(&format!("{ROOT};f")), 3);
    assert_eq!(seen.stacks()[&format!("{ROOT};g")], (4, 1));
    assert_eq!(seen.count(ROOT), 10);
}

#[test]
fn a_loop_back_to_the_first_instruction_calls_nothing() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    for _ in 0..5 {
        sim.run_on(0, at("f"), 3, End::Plain, at("f"));
    }
    let seen = sim.finish();
    assert_eq!(seen.stacks()[&format!("{ROOT};f")], (15, 1));
}

/// As by longjmp, or where a function unwinds for its caller.
#[test]
fn a_return_past_several_frames_takes_them_all_off() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Call);
    sim.run(at("g"), 4, End::Call);
    sim.run(at("h"), 5, End::Ret);
    // Not to g, but to where f goes on.
    sim.run(at("f") + 12, 6, End::Call);
    sim.run(at("h"), 1, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.count(&format!("{ROOT};f")), 9);
    assert_eq!(seen.count(&format!("{ROOT};f;g;h")), 5);
    assert_eq!(seen.count(&format!("{ROOT};f;h")), 1);
}

#[test]
fn a_return_to_nowhere_known_stays_where_it_is_in_the_tree() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Ret);
    sim.run(at("g") + 64, 4, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.count(&format!("{ROOT};g")), 4);
    assert_eq!(seen.count(ROOT), 10);
}

/// A loop of `f` whose test is set apart among those of other functions, and goes on to `g`.
#[test]
fn what_is_set_apart_belongs_to_whoever_jumps_there_and_back() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Plain);
    for _ in 0..3 {
        sim.run(at("apart") + 0x40, 2, End::Plain);
        sim.run(at("f") + 0x20, 4, End::Plain);
    }
    sim.run(at("apart") + 0x80, 1, End::Plain);
    sim.run(at("f") + 0x40, 1, End::Call);
    sim.run(at("g"), 6, End::Ret);
    sim.run(at("f") + 0x44, 1, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(
        seen.stacks()[&format!("{ROOT};f")],
        (3 + 3 * 6 + 1 + 1 + 1, 1)
    );
    assert_eq!(seen.stacks()[&format!("{ROOT};f;g")], (6, 1));
}

/// `call thunk; thunk: call inside; overwrite the return address; ret` ends up in a function
/// that returns to whom the thunk was called by.
#[test]
fn a_thunk_belongs_to_whoever_goes_through_it() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("thunk"), 1, End::Call);
    sim.run(at("thunk") + 32, 2, End::Ret);
    sim.run(at("f"), 3, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.count(ROOT), 1 + 2 + 1 + 2 + 7);
    assert_eq!(seen.stacks()[&format!("{ROOT};f")], (3, 1));
}

#[test]
fn an_interrupt_is_for_nobody_and_what_it_interrupted_goes_on() {
    let mut sim = Sim::boot();
    // Between a call and the first instruction of what is called.
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("irq"), 3, End::Call);
    sim.run(at("g"), 4, End::Ret);
    sim.run(at("irq") + 12, 1, End::Iret);
    sim.run(at("f"), 5, End::Ret);
    // Between a return and where it returns to, and one within another.
    sim.run(at("irq"), 3, End::Call);
    sim.run(at("irq") + 512, 1, End::Iret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.stacks()[&format!("{ROOT};f")], (5, 1));
    assert_eq!(seen.count("irqs;irq;g"), 4);
    assert_eq!(seen.count(ROOT), 10);
    assert_eq!(seen.stacks()["irqs;irq"].1, 2);
    let all: i64 = seen.stacks().values().map(|s| s.0).sum();
    assert_eq!(all * 2, seen.end - 1000);
}

/// Vectors lie one behind the other under one name, and go on in what they share.
#[test]
fn a_device_interrupts_through_its_vector_whichever_it_is() {
    for (vector, halves) in [(0, false), (5, false), (7, true)] {
        let mut sim = Sim::boot();
        sim.run(at("start_kernel") + 4, 2, End::Call);
        let pc = at("vectors") + vector * 16;
        if halves {
            sim.run(pc, 1, End::Plain);
            sim.run(pc + 4, 1, End::Plain);
        } else {
            sim.run(pc, 2, End::Plain);
        }
        sim.run(at("common"), 3, End::Call);
        sim.run(at("g"), 4, End::Ret);
        sim.run(at("common") + 12, 1, End::Iret);
        sim.run(at("f"), 5, End::Ret);
        sim.run(at("start_kernel") + 12, 7, End::Plain);
        let seen = sim.finish();
        assert_eq!(seen.stacks()[&format!("{ROOT};f")], (5, 1));
        assert_eq!(seen.stacks()["irqs;vectors"], (2, 1), "{}", seen.text);
        assert_eq!(seen.stacks()["irqs;common"], (4, 1));
        assert_eq!(seen.count("irqs;common;g"), 4);
        assert_eq!(seen.count(ROOT), 10);
    }
}

/// It ended its block early, and the interrupt came before what is behind it.
#[test]
fn an_interrupt_behind_an_access_to_a_device_calls_nothing() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 10, End::Call);
    sim.cut_short(at("f"), 10, 4, false);
    sim.run(at("irq"), 3, End::Iret);
    sim.run(at("f") + 16, 6, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.stacks()[&format!("{ROOT};f")], (10, 1));
    assert_eq!(seen.stacks()["irqs;irq"], (3, 1));
    assert_eq!(seen.count(ROOT), 10);
    // Where a loop had jumped back to just there, it was executed whole.
    let mut sim = Sim::boot();
    sim.run_on(0, at("f"), 10, End::Plain, at("f") + 16);
    sim.answers.stack = [at("f") + 16, 0];
    sim.run(at("irq"), 3, End::Iret);
    sim.run(at("f") + 16, 6, End::Plain);
    assert_eq!(sim.finish().count("tasks;f"), 16);
}

#[test]
fn an_exception_counts_what_was_executed_of_its_block() {
    let vectors = [
        ("fault", false),
        ("page_fault", true),
        ("early", false),
        ("early", true),
    ];
    for (vector, code) in vectors {
        let mut sim = Sim::boot();
        sim.run(at("start_kernel") + 4, 2, End::Call);
        sim.run(at("f"), 10, End::Ret);
        sim.cut_short(at("f"), 10, 4, code);
        let entry = if vector == "early" { 48 } else { 0 };
        sim.run(at(vector) + entry, 3, End::Iret);
        // It is tried again from there, and runs to its end.
        sim.run(at("f") + 16, 6, End::Ret);
        sim.run(at("start_kernel") + 12, 7, End::Plain);
        let seen = sim.finish();
        assert_eq!(seen.stacks()[&format!("{ROOT};f")], (10, 1), "{vector}");
        assert_eq!(seen.count(&format!("{ROOT};f;{vector}")), 3);
        assert_eq!(seen.count(ROOT), 10);
    }
}

#[test]
fn an_access_to_a_device_ends_a_block_in_its_middle() {
    let mut sim = Sim::boot();
    sim.run(at("f"), 10, End::Plain);
    // The fourth instruction is repeated unseen; from the fifth on it is a block of its own.
    sim.cut_short(at("f"), 10, 5, false);
    sim.run(at("f") + 20, 5, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.stacks().values().map(|s| s.0).sum::<i64>(), 5 + 1 + 10);
    // A jump back into the block that says so was executed whole.
    let mut sim = Sim::boot();
    sim.run_on(0, at("f"), 10, End::Plain, at("f") + 20);
    sim.run(at("f") + 20, 5, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.stacks().values().map(|s| s.0).sum::<i64>(), 5 + 1 + 15);
}

#[test]
fn each_task_keeps_its_stack_while_another_runs() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Call);
    sim.switch(1, 2);
    // A new task.
    sim.run(at("switch") + 12, 1, End::Ret);
    sim.run(at("fork"), 2, End::Call);
    sim.run(at("h"), 4, End::Call);
    sim.switch(2, 1);
    sim.run(at("switch") + 12, 1, End::Ret);
    sim.run(at("f") + 12, 5, End::Ret);
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.count(&format!("{ROOT};f")), 8);
    assert_eq!(seen.count(ROOT), 10);
    assert_eq!(seen.count("tasks;fork"), 2);
    assert_eq!(seen.count("tasks;fork;h"), 4);
}

#[test]
fn idle_time_belongs_to_who_runs_next_by_where_it_slept() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("f"), 3, End::Call);
    sim.switch(2, 1);
    sim.run(at("switch") + 12, 1, End::Ret);
    sim.run(at("h"), 1, End::Halt);
    let begin = sim.time;
    sim.time += 5000;
    sim.run(at("irq"), 3, End::Iret);
    sim.run(at("h") + 4, 2, End::Call);
    // The one that halts is 1; 2 had gone to sleep in f.
    sim.switch(1, 2);
    sim.run(at("switch") + 12, 1, End::Ret);
    let seen = sim.finish();
    let waits = seen.lines("w");
    assert_eq!(waits.len(), 1, "{}", seen.text);
    assert_eq!(waits[0][1..3], [begin.to_string(), "5000".into()]);
    let executed: i64 = seen.stacks().values().map(|s| s.0).sum();
    assert_eq!(executed * 2 + 5000, seen.end - 1000);
}

#[test]
fn marks_are_borders_and_end_with_whoever_returns_for_them() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    let entered = sim.time;
    sim.run(at("marked"), 3, End::Call);
    sim.run(at("g"), 4, End::Ret);
    // It goes on in another marked one, and that in a third: both return with that.
    sim.run(at("marked") + 12, 1, End::Plain);
    let inner = sim.time;
    sim.run(at("inner"), 2, End::Plain);
    sim.run(at("h"), 2, End::Ret);
    let left = sim.time;
    sim.run(at("start_kernel") + 12, 7, End::Plain);
    let seen = sim.finish();
    let visits: Vec<_> = seen.lines("e").iter().map(|e| e[2].to_owned()).collect();
    assert_eq!(visits[1..], [entered.to_string(), inner.to_string()]);
    let returns: Vec<_> = seen.lines("r").iter().map(|r| r[2].to_owned()).collect();
    assert_eq!(returns, [left.to_string(), left.to_string()]);
    // start_kernel, the two ends of the window, and the end.
    let borders: Vec<_> = seen.lines("s").iter().map(|s| s[1].to_owned()).collect();
    assert_eq!(
        borders[1..],
        [entered, left, seen.end].map(|t| t.to_string())
    );
}

#[test]
fn a_reset_forgets_everyone_and_kexec_goes_through_firmware() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run(at("marked"), 3, End::Call);
    sim.run(RESET, 1, End::Plain);
    sim.run(at("start_kernel"), 2, End::Plain);
    sim.run(at("exec"), 2, End::Plain);
    // Low addresses are no user space now.
    sim.run(0x40_0000, 9, End::Plain);
    sim.run(at("start_kernel"), 2, End::Plain);
    sim.run(0x40_0000, 6, End::Plain);
    let seen = sim.finish();
    assert_eq!(seen.lines("b").len(), 2);
    assert_eq!(seen.count("firmware"), 5 + 1 + 9);
    assert_eq!(seen.count("user"), 6);
    assert!(seen.lines("r").is_empty(), "nobody returned: {}", seen.text);
}

#[test]
fn two_cpus_have_two_stacks() {
    let mut sim = Sim::boot();
    sim.run(at("start_kernel") + 4, 2, End::Call);
    sim.run_on(1, 0x9000, 4, End::Plain, 0);
    sim.run(at("f"), 3, End::Call);
    sim.run_on(1, at("h"), 5, End::Call, 0);
    sim.run(at("g"), 4, End::Ret);
    sim.run_on(1, at("g"), 6, End::Ret, 0);
    sim.run(at("f") + 12, 1, End::Ret);
    sim.run_on(1, at("h") + 20, 1, End::Plain, 0);
    let seen = sim.finish();
    assert_eq!(seen.count(&format!("{ROOT};f;g")), 4);
    assert_eq!(seen.count("tasks;h;g"), 6);
    assert_eq!(seen.count("tasks;h"), 6);
    assert_eq!(seen.count(&format!("{ROOT};f")), 4);
}

#[test]
fn a_stack_without_end_is_not_followed_for_ever() {
    let mut sim = Sim::boot();
    for _ in 0..5 * DEEPEST {
        sim.run(at("f"), 1, End::Call);
        sim.run(at("g"), 1, End::Call);
    }
    assert!(sim.flow.cpus[0].frames.len() <= 4 * DEEPEST);
    let deepest = sim.finish();
    let all: i64 = deepest.stacks().values().map(|s| s.0).sum();
    assert_eq!(all * 2, deepest.end - 1000);
    let depth = |stack: &String| stack.matches(';').count();
    assert!(deepest.stacks().keys().map(depth).max().unwrap() <= DEEPEST);
    assert_eq!(deepest.calls("tasks;start_kernel"), 1);
}
