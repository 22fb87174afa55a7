// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows: stretches of a boot that a profile can be taken of. Each is one call of a marked
//! function, or lies between two marks.

use super::{
    names::Names,
    parse::{Argument, Key, Trace, Visit},
};

/// A stretch of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its name, unique within a trace: `boot`, `device_shutdown`, `initcall:pci_subsys_init`.
    pub name: String,
    /// From, to: ns of virtual time.
    pub span: (i64, i64),
    /// The trace's intervals in it.
    pub intervals: std::ops::Range<usize>,
    /// The machine was reset, or ended, before the window did.
    pub cut: bool,
}

impl Window {
    /// Its length, ns.
    pub fn length(&self) -> i64 {
        self.span.1 - self.span.0
    }
}

/// Never comes back by itself: a reset is its end, and cuts nothing.
const ENDS_IN_RESET: [&str; 4] = [
    "machine_restart",
    "kernel_restart",
    "machine_kexec",
    "kernel_kexec",
];

/// The windows of the first boot, in order of their beginning.
pub fn windows(trace: &Trace, names: &Names) -> Vec<Window> {
    let Some(begin) = trace.boots.first() else {
        return Vec::new();
    };
    let last = trace.intervals.last().map_or(begin.0, |i| i.end);
    let name_of = |visit: &Visit| names.of(Key::Known(visit.function)).unwrap_or_default();
    // The next kernel begins behind a reset, or, by kexec, without one.
    let mut kernels = trace.visits.iter().filter(|v| name_of(v) == "start_kernel");
    let next = kernels.nth(1).map(|v| (v.entered, v.intervals.0));
    let reset = trace.boots.get(1).copied();
    let restarted = reset.into_iter().chain(next).min();
    let end = restarted.unwrap_or((last, trace.intervals.len()));
    let first: Vec<(String, &Visit)> = trace
        .visits
        .iter()
        .filter(|v| v.entered < end.0)
        .map(|v| (name_of(v), v))
        .collect();
    let mut found = vec![Window {
        name: "all".into(),
        span: (begin.0, end.0),
        intervals: begin.1..end.1,
        cut: !trace.complete && restarted.is_none(),
    }];
    let visit = |wanted: &str| first.iter().find(|(name, _)| name == wanted).map(|f| f.1);
    if let Some(from) = visit("start_kernel") {
        let until = visit("run_init_process");
        let to = until.map_or(end, |v| (v.entered, v.intervals.0));
        found.push(Window {
            name: "boot".into(),
            span: (from.entered, to.0),
            intervals: from.intervals.0..to.1,
            cut: until.is_none(),
        });
    }
    found.extend(coldplug(&first));
    for (name, visit) in &first {
        // Marks that are no borders of windows have nothing counted for them alone.
        if matches!(visit.argument, Argument::Device(_))
            || name == "start_kernel"
            || name == "run_init_process"
            || name == "rest_init"
            || name == COUNTED
        {
            continue;
        }
        let name = match visit.argument {
            Argument::Code(at) => format!("initcall:{}", code_name(names, at)),
            _ => name.clone(),
        };
        let (to, cut) = match (visit.left, visit.intervals.1) {
            (Some(left), Some(behind)) => ((left, behind), false),
            _ => (
                end,
                !ENDS_IN_RESET.contains(&name.as_str()) || restarted.is_none(),
            ),
        };
        found.push(Window {
            name,
            span: (visit.entered, to.0),
            intervals: visit.intervals.0..to.1,
            cut,
        });
    }
    if let Some(at) = found.iter().rposition(|w| w.name == "driver_attach") {
        // The devices' driver is loaded last.
        let probe = Window {
            name: "probe".into(),
            ..found[at].clone()
        };
        found.push(probe);
    }
    number(&mut found);
    found.sort_by_key(|w| (w.span.0, std::cmp::Reverse(w.span.1)));
    found
}

/// Reading the number of events so far: before devices are triggered, and after the last was
/// handled. Between these two lies `coldplug`.
const COUNTED: &str = "uevent_seqnum_show";

fn coldplug(visits: &[(String, &Visit)]) -> Option<Window> {
    let mut counted = visits.iter().filter(|(name, _)| name == COUNTED);
    let ((_, before), (_, after)) = (counted.next()?, counted.next()?);
    let (left, behind) = (before.left?, before.intervals.1?);
    Some(Window {
        name: "coldplug".into(),
        span: (left, after.entered),
        intervals: behind..after.intervals.0,
        cut: false,
    })
}

/// An address without its name is shown as itself.
fn code_name(names: &Names, at: u64) -> String {
    names.at_any(at).unwrap_or_else(|| format!("{at:#x}"))
}

/// Those of one name get numbers from the second on: `driver_attach#2`.
fn number(windows: &mut [Window]) {
    let mut seen = std::collections::BTreeMap::new();
    for window in windows {
        let count = seen.entry(window.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            window.name = format!("{}#{count}", window.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::parse::parse, *};

    fn all(records: &str) -> Vec<(String, (i64, i64), bool)> {
        let head = "bootrig-trace 1\nbegin api=4 cpus=1 mode=Profile stacks=true shift=1\nb 0\n";
        let known: Vec<String> = [
            "start_kernel",
            "run_init_process",
            "do_one_initcall",
            "device_shutdown",
            "machine_restart",
            "driver_attach",
            COUNTED,
        ]
        .map(str::to_owned)
        .into();
        let names = Names {
            known: &known,
            modules: &[],
            symbols: None,
        };
        let trace = parse(&format!("{head}{records}")).unwrap();
        windows(&trace, &names)
            .into_iter()
            .map(|w| (w.name, w.span, w.cut))
            .collect()
    }

    #[test]
    fn each_call_is_a_window_and_boot_lies_between_marks() {
        let found = all(
            "s 10\ne 1 10 0 0 - -\ns 20\ne 2 20 0 2 @ff -\nr 2 30\ns 30\ns 35\ne 3 35 0 5 - -\nr 3 36\ns 36\ns 40\ne 4 40 0 1 - -\ns 50\ne 5 50 0 3 - -\nr 5 60\ns 60\ns 70\ne 6 70 0 4 - -\ns 80\nb 80\ns 90\nend 24\n",
        );
        let name = |n: &str| found.iter().find(|w| w.0 == n).cloned().unwrap();
        assert_eq!(name("all").1, (0, 80));
        assert_eq!(name("boot"), ("boot".into(), (10, 40), false));
        assert_eq!(name("initcall:0xff").1, (20, 30));
        assert_eq!(name("probe").1, (35, 36));
        assert_eq!(
            name("device_shutdown"),
            ("device_shutdown".into(), (50, 60), false)
        );
        assert_eq!(
            name("machine_restart"),
            ("machine_restart".into(), (70, 80), false)
        );
    }

    /// By kexec the next kernel begins without a reset, and nothing of it is of this boot.
    #[test]
    fn a_kexec_ends_the_boot_where_the_next_kernel_begins() {
        let found = all(
            "s 10\ne 1 10 0 0 - -\ns 50\ne 5 50 0 3 - -\nr 5 60\ns 60\ns 70\ne 6 70 0 4 - -\ns 90\ne 7 90 0 0 - -\ns 95\ne 8 95 0 3 - -\nr 8 99\ns 99\n",
        );
        let name = |n: &str| found.iter().find(|w| w.0 == n).cloned().unwrap();
        assert_eq!(name("all"), ("all".into(), (0, 90), false));
        assert_eq!(name("machine_restart").1, (70, 90));
        assert!(!name("machine_restart").2);
        assert_eq!(name("device_shutdown").1, (50, 60));
        assert!(
            found.iter().all(|w| w.0 != "device_shutdown#2"),
            "{found:?}"
        );
    }

    #[test]
    fn coldplug_lies_between_the_two_counts_of_events() {
        let one = "s 10\ne 1 10 0 6 - -\ns 12\nr 1 12\ns 80\n";
        assert!(all(one).iter().all(|w| w.0 != "coldplug"));
        let two = "s 10\ne 1 10 0 6 - -\nr 1 12\ns 12\ns 40\ns 80\ne 2 80 0 6 - -\nr 2 82\ns 82\n";
        let found = all(two);
        let windows: Vec<_> = found.iter().filter(|w| w.0 != "all").collect();
        assert_eq!(windows, [&("coldplug".into(), (12, 80), false)]);
    }

    #[test]
    fn a_window_that_a_reset_or_the_end_cuts_says_so() {
        let found = all("s 10\ne 1 10 0 0 - -\ns 50\ne 5 50 0 3 - -\ns 80\nb 80\n");
        assert!(
            found
                .iter()
                .any(|w| w.0 == "device_shutdown" && w.1 == (50, 80) && w.2)
        );
        assert!(found.iter().any(|w| w.0 == "boot" && w.2));
        let found = all("s 70\ne 6 70 0 4 - -\ns 80\n");
        assert!(
            found.iter().any(|w| w.0 == "machine_restart" && w.2),
            "no reset came: {found:?}"
        );
        assert!(found.iter().any(|w| w.0 == "all" && w.2));
    }
}
