// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differs between two profiles, function by function.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    symbols::plain,
    table::{duration, share},
    tally::{Function, Profile},
};
use crate::core::grid::table;

/// A function in two profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name, without what compilers add for parts and copies.
    pub name: String,
    /// In the first.
    pub a: Function,
    /// In the second.
    pub b: Function,
}

impl Row {
    /// By how many instructions of its own it grew.
    pub fn growth(&self) -> i64 {
        self.b.own - self.a.own
    }
}

/// Instructions of its own for each call; `None`: its calls are not known.
fn per_call(function: &Function) -> Option<i64> {
    let calls = i64::try_from(function.calls).ok().filter(|c| *c > 0)?;
    Some(function.own / calls)
}

/// All functions of both, what changed most first. Copies that the compiler made of a function
/// count for it: kernels differ in which there are.
pub fn diff(a: &Profile, b: &Profile) -> Vec<Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (profile, first) in [(a, true), (b, false)] {
        for (name, function) in by_plain_name(profile) {
            let row = rows.entry(name.clone()).or_insert_with(|| Row {
                name,
                a: Function::default(),
                b: Function::default(),
            });
            *if first { &mut row.a } else { &mut row.b } = function;
        }
    }
    let mut rows: Vec<Row> = rows
        .into_values()
        .filter(|r| r.a.own != 0 || r.b.own != 0)
        .collect();
    rows.sort_by_key(|r| (Reverse(r.growth().abs()), r.name.clone()));
    rows
}

/// The functions of a profile, the compiler's parts and copies of each counted together.
pub fn by_plain_name(profile: &Profile) -> BTreeMap<String, Function> {
    let mut all: BTreeMap<String, Function> = BTreeMap::new();
    for (name, function) in &profile.functions {
        let of = all.entry(with_module(name)).or_default();
        of.own += function.own;
        of.with_callees += function.with_callees;
        of.calls += function.calls;
    }
    all
}

/// `f.cold [module]` is `f [module]`.
fn with_module(name: &str) -> String {
    match name.split_once(' ') {
        Some((function, module)) => format!("{} {module}", plain(function)),
        None => plain(name).to_owned(),
    }
}

/// The difference as text: what the windows' times went into, and the `most` functions that
/// changed most.
pub fn text(a: &Profile, b: &Profile, most: usize) -> String {
    let time = |p: &Profile, count: i64| duration(count * p.ns_per_instruction);
    let parts: [(&str, String, String, i64); 6] = [
        (
            "window",
            duration(a.length),
            duration(b.length),
            b.length - a.length,
        ),
        (
            "kernel, for tasks",
            time(a, a.tasks),
            time(b, b.tasks),
            b.tasks * b.ns_per_instruction - a.tasks * a.ns_per_instruction,
        ),
        (
            "kernel, in interrupts",
            time(a, a.interrupts),
            time(b, b.interrupts),
            b.interrupts * b.ns_per_instruction - a.interrupts * a.ns_per_instruction,
        ),
        (
            "user space",
            time(a, a.user),
            time(b, b.user),
            b.user * b.ns_per_instruction - a.user * a.ns_per_instruction,
        ),
        ("idle", duration(a.idle), duration(b.idle), b.idle - a.idle),
        (
            "unaccounted",
            duration(a.unaccounted),
            duration(b.unaccounted),
            b.unaccounted - a.unaccounted,
        ),
    ];
    let parts = parts
        .into_iter()
        .map(|(name, a, b, by)| vec![name.to_owned(), a, b, signed(duration(by), by)])
        .collect();
    let mut out = table(&["what the time went into", "A", "B", "B - A"], parts).to_string();
    let all = diff(a, b);
    let whole: i64 = b.kernel() - a.kernel();
    let rows = all
        .iter()
        .filter(|r| r.growth() != 0)
        .take(most)
        .map(|row| {
            let call = |f| per_call(f).map_or("-".into(), |n: i64| n.to_string());
            vec![
                row.name.clone(),
                row.a.own.to_string(),
                row.b.own.to_string(),
                signed(row.growth().to_string(), row.growth()),
                share(row.growth(), whole),
                row.a.calls.to_string(),
                row.b.calls.to_string(),
                call(&row.a),
                call(&row.b),
            ]
        })
        .collect::<Vec<_>>();
    if rows.is_empty() {
        return out + "\n\nevery function executed the same number of instructions\n";
    }
    let header = [
        "function",
        "A",
        "B",
        "B - A",
        "of the difference",
        "calls A",
        "calls B",
        "a call A",
        "a call B",
    ];
    out += "\n\n";
    out += &table(&header, rows).to_string();
    out + "\n"
}

fn signed(text: String, value: i64) -> String {
    if value > 0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(functions: &[(&str, i64, u64)]) -> Profile {
        Profile {
            ns_per_instruction: 2,
            functions: functions
                .iter()
                .map(|(name, own, calls)| {
                    let function = Function {
                        own: *own,
                        with_callees: *own,
                        calls: *calls,
                    };
                    ((*name).to_owned(), function)
                })
                .collect(),
            tasks: functions.iter().map(|f| f.1).sum(),
            ..Profile::default()
        }
    }

    #[test]
    fn what_changed_most_comes_first_whatever_the_compiler_called_it() {
        let a = profile(&[
            ("same", 5, 1),
            ("slob_alloc", 1000, 10),
            ("f.isra.0", 50, 1),
        ]);
        let b = profile(&[
            ("same", 5, 1),
            ("f.constprop.0", 70, 1),
            ("f.cold", 5, 0),
            ("new [m]", 300, 3),
        ]);
        let rows = diff(&a, &b);
        let found: Vec<_> = rows.iter().map(|r| (r.name.as_str(), r.growth())).collect();
        assert_eq!(
            found,
            [
                ("slob_alloc", -1000),
                ("new [m]", 300),
                ("f", 25),
                ("same", 0)
            ]
        );
        let text = text(&a, &b, 10);
        assert!(
            text.contains("+300") && text.contains("-1000") && !text.contains("same"),
            "{text}"
        );
    }

    #[test]
    fn a_profile_does_not_differ_from_itself() {
        let a = profile(&[("f", 5, 1)]);
        assert!(text(&a, &a, 10).contains("the same number of instructions"));
    }
}
