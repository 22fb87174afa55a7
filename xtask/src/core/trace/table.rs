// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles as text for people.

use std::fmt::Write;

use super::{
    phases::Phase,
    record::{Mark, Record},
    tally::Profile,
};
use crate::core::{
    grid::{Grid, table},
    nearest::hint,
    units::{Nanos, counted},
};

/// `99.4 %` of a whole.
pub fn share(part: i64, whole: i64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

/// ns as a duration.
pub fn duration(ns: i64) -> String {
    let text = Nanos(ns.unsigned_abs()).to_string();
    if ns < 0 { format!("-{text}") } else { text }
}

/// The profile with its `most` largest functions and waits.
pub fn profile(profile: &Profile, most: usize) -> String {
    let mut out = format!("{}: {}", profile.window, duration(profile.length));
    if profile.cut {
        out += ", cut: the machine was reset or ended before it did";
    }
    let _ = write!(out, "\n\n{}\n", parts(profile));
    let _ = write!(out, "\n{}\n", functions(profile, most));
    if !profile.waits.is_empty() {
        let _ = write!(out, "\n{}\n", waits(profile, most));
    }
    out
}

/// What the time went into; the parts add up to the window.
pub fn parts(profile: &Profile) -> Grid {
    let ns = profile.ns_per_instruction;
    let executed = [
        ("kernel, for tasks", profile.tasks),
        ("kernel, in interrupts", profile.interrupts),
        ("user space", profile.user),
        ("firmware", profile.firmware),
    ];
    let mut rows: Vec<Vec<String>> = executed
        .iter()
        .filter(|(_, count)| *count != 0)
        .map(|(name, count)| {
            let time = count * ns;
            vec![
                (*name).into(),
                duration(time),
                share(time, profile.length),
                count.to_string(),
            ]
        })
        .collect();
    for (name, time) in [("idle", profile.idle), ("unaccounted", profile.unaccounted)] {
        if time != 0 || name == "unaccounted" {
            rows.push(vec![
                name.into(),
                duration(time),
                share(time, profile.length),
                String::new(),
            ]);
        }
    }
    table(
        &["what the time went into", "time", "of it", "instructions"],
        rows,
    )
}

/// The `most` functions with the most instructions of their own.
pub fn functions(profile: &Profile, most: usize) -> Grid {
    let mut functions: Vec<_> = profile.functions.iter().filter(|f| f.1.own > 0).collect();
    functions.sort_by_key(|(name, f)| (std::cmp::Reverse(f.own), *name));
    let kernel = profile.kernel();
    let rows = functions
        .iter()
        .take(most)
        .map(|(name, f)| {
            vec![
                (*name).clone(),
                f.own.to_string(),
                share(f.own, kernel),
                f.with_callees.to_string(),
                f.calls.to_string(),
            ]
        })
        .collect();
    table(
        &[
            "function",
            "own instructions",
            "of the kernel's",
            "with callees",
            "calls",
        ],
        rows,
    )
}

/// The `most` longest waits.
pub fn waits(profile: &Profile, most: usize) -> Grid {
    let rows = profile
        .waits
        .iter()
        .take(most)
        .map(|wait| {
            let innermost: Vec<_> = wait
                .stack
                .iter()
                .rev()
                .take(6)
                .map(String::as_str)
                .collect();
            vec![
                if innermost.is_empty() {
                    "nobody any more".into()
                } else {
                    innermost.join(" < ")
                },
                if wait.task.is_empty() {
                    "-".into()
                } else {
                    wait.task.clone()
                },
                if wait.device.is_empty() {
                    "-".into()
                } else {
                    wait.device.clone()
                },
                duration(wait.ns),
                share(wait.ns, profile.length),
                wait.times.to_string(),
            ]
        })
        .collect();
    table(
        &[
            "idle, waiting for what slept in",
            "task",
            "shutdown of",
            "time",
            "of it",
            "times",
        ],
        rows,
    )
}

/// Functions and waits that a table has where nobody says how many.
pub const MOST_ROWS: usize = 20;

/// What is shown of a traced boot: `windows`, or, where none is asked for, its phases and the
/// calls of the functions in `marked`.
///
/// # Errors
/// A window that the boot does not have, with the nearest name.
pub fn boot(
    record: &Record,
    windows: &[String],
    marked: &[String],
    most: usize,
) -> Result<String, String> {
    let mut out = format!("## trace of {}: kernel {}\n\n", record.boot, record.kernel);
    for name in windows {
        let Some(window) = record.window(name) else {
            let hint = hint(name, record.windows.iter().map(|w| w.window.as_str()));
            return Err(format!(
                "{} has no window `{}`{hint}",
                record.boot,
                name.escape_debug()
            ));
        };
        let _ = writeln!(out, "### {}", profile(window, most));
    }
    if windows.is_empty() {
        let _ = writeln!(out, "### phases\n\n{}\n", phases(record));
    }
    if windows.is_empty() || !marked.is_empty() {
        let _ = writeln!(out, "### marks\n\n{}\n", marks(record, marked));
    }
    Ok(out)
}

/// The phases from boot to reboot that the marks show.
pub fn phases(record: &Record) -> Grid {
    let phases = super::phases::phases(&record.marks);
    let row = |p: Phase| vec![p.name.to_owned(), duration(p.from), duration(p.to - p.from)];
    table(
        &["phase", "begins at", "took"],
        phases.into_iter().map(row).collect(),
    )
}

/// The windows of a record, the `most` longest, in order.
pub fn windows(record: &Record, most: usize) -> Grid {
    let mut longest: Vec<&Profile> = record.windows.iter().collect();
    longest.sort_by_key(|w| std::cmp::Reverse(w.length));
    longest.truncate(most);
    let shown = |w: &&Profile| longest.iter().any(|l| std::ptr::eq(*l, *w));
    let rows = record
        .windows
        .iter()
        .filter(shown)
        .map(|w| {
            let ns = w.ns_per_instruction;
            vec![
                if w.cut {
                    format!("{} (cut)", w.window)
                } else {
                    w.window.clone()
                },
                duration(w.length),
                duration(w.tasks * ns),
                duration(w.interrupts * ns),
                duration(w.user * ns),
                duration(w.firmware * ns),
                duration(w.idle),
                duration(w.unaccounted),
            ]
        })
        .collect();
    table(
        &[
            "window",
            "time",
            "kernel, for tasks",
            "in interrupts",
            "user space",
            "firmware",
            "idle",
            "unaccounted",
        ],
        rows,
    )
}

/// Calls of marked functions: of those in `only`, or, where that is empty, of all but the
/// initcalls and device callbacks that are shorter than a hundredth of the whole boot, which are
/// counted below.
pub fn marks(record: &Record, only: &[String]) -> String {
    let ends = record.marks.iter().filter_map(|m| m.left);
    let least = ends.max().unwrap_or(0) / 100;
    let (shown, short): (Vec<_>, Vec<_>) = match only {
        [] => record.marks.iter().partition(|mark| {
            let took = mark.left.map(|left| left - mark.entered);
            mark.what.is_empty() || took.is_none_or(|took| took > least)
        }),
        _ => {
            let asked = |mark: &&Mark| only.contains(&mark.function);
            (record.marks.iter().filter(asked).collect(), Vec::new())
        }
    };
    let rows = shown
        .into_iter()
        .map(|mark| {
            let took = mark.left.map(|left| duration(left - mark.entered));
            vec![
                mark.function.clone(),
                mark.what.clone(),
                mark.task.clone(),
                duration(mark.entered),
                took.unwrap_or_else(|| "did not return".into()),
            ]
        })
        .collect();
    let grid = table(&["function", "of", "task", "entered at", "took"], rows);
    match short.len() {
        0 => grid.to_string(),
        count => format!(
            "{grid}\n\nand {} of initcalls and devices, of {} or less each",
            counted(count, "call"),
            duration(least)
        ),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{
        super::tally::{Function, Wait},
        *,
    };

    #[test]
    fn a_profile_as_it_is_printed() {
        let function = |own, with_callees, calls| Function {
            own,
            with_callees,
            calls,
        };
        let profile_ = Profile {
            window: "device_shutdown".into(),
            length: 3000,
            cut: true,
            ns_per_instruction: 2,
            tasks: 900,
            interrupts: 100,
            idle: 1000,
            functions: [
                ("pci_device_shutdown".into(), function(300, 900, 15)),
                ("tick".into(), function(700, 700, 3)),
                ("only_calls".into(), function(0, 1000, 1)),
            ]
            .into(),
            waits: vec![Wait {
                ns: 1000,
                times: 2,
                task: "init".into(),
                device: "0000:00:01.0".into(),
                stack: vec!["device_shutdown".into(), "msleep".into()],
            }],
            ..Profile::default()
        };
        expect![[r#"
            device_shutdown: 3.000 us, cut: the machine was reset or ended before it did

            | what the time went into |     time |  of it | instructions |
            |-------------------------|----------|--------|--------------|
            | kernel, for tasks       | 1.800 us | 60.0 % |          900 |
            | kernel, in interrupts   |   200 ns |  6.7 % |          100 |
            | idle                    | 1.000 us | 33.3 % |              |
            | unaccounted             |     0 ns |  0.0 % |              |

            | function            | own instructions | of the kernel's | with callees | calls |
            |---------------------|------------------|-----------------|--------------|-------|
            | tick                |              700 |          70.0 % |          700 |     3 |
            | pci_device_shutdown |              300 |          30.0 % |          900 |    15 |

            | idle, waiting for what slept in | task |  shutdown of |     time |  of it | times |
            |---------------------------------|------|--------------|----------|--------|-------|
            | msleep < device_shutdown        | init | 0000:00:01.0 | 1.000 us | 33.3 % |     2 |
        "#]]
        .assert_eq(&profile(&profile_, 10));
    }
}
