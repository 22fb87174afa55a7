// SPDX-License-Identifier: MIT OR Apache-2.0
//! The phases of a machine from its boot to the next PID 1, from the marks alone: no word from
//! the guest is needed.

use super::record::Mark;

/// A stretch between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What goes on.
    pub name: &'static str,
    /// ns of virtual time.
    pub from: i64,
    /// The same.
    pub to: i64,
}

/// Those whose both ends were seen, in order; `reboot`, the last, is all that comes after user
/// space.
pub fn phases(marks: &[Mark]) -> Vec<Phase> {
    let after = |from: Option<i64>, names: &[&str]| {
        let from = from?;
        let of = |m: &&Mark| m.entered >= from && names.contains(&m.function.as_str());
        marks.iter().find(of)
    };
    let entered = |mark: Option<&Mark>| mark.map(|m| m.entered);
    let start = entered(after(Some(i64::MIN), &["start_kernel"]));
    let user = entered(after(start, &["run_init_process"]));
    let restart = entered(after(user, &["kernel_restart", "kernel_kexec"]));
    let devices = after(restart, &["device_shutdown"]);
    let done = devices.and_then(|d| d.left);
    let machine = entered(after(restart, &["machine_restart", "machine_kexec"]));
    let next = entered(after(machine, &["start_kernel"]));
    let next_user = entered(after(next, &["run_init_process"]));
    [
        ("boot", start, user),
        ("user space", user, restart),
        ("notifiers", restart, entered(devices)),
        ("device_shutdown", entered(devices), done),
        ("rest of the kernel", done, machine),
        ("restart, firmware, unpacking", machine, next),
        ("next boot", next, next_user),
        ("reboot", restart, next_user),
    ]
    .into_iter()
    .filter_map(|(name, from, to)| {
        let (from, to) = (from?, to?);
        Some(Phase { name, from, to })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(function: &str, entered: i64, left: Option<i64>) -> Mark {
        Mark {
            function: function.into(),
            what: String::new(),
            task: String::new(),
            cpu: 0,
            entered,
            left,
        }
    }

    fn all() -> Vec<Mark> {
        vec![
            mark("start_kernel", 100, None),
            mark("run_init_process", 400, None),
            mark("kernel_restart", 500, None),
            mark("device_shutdown", 510, Some(600)),
            mark("machine_restart", 610, None),
            mark("start_kernel", 900, None),
            mark("run_init_process", 1200, None),
        ]
    }

    #[test]
    fn from_boot_to_the_next_pid_1() {
        let found = phases(&all());
        let taken: Vec<_> = found.iter().map(|p| (p.name, p.to - p.from)).collect();
        assert_eq!(
            taken,
            [
                ("boot", 300),
                ("user space", 100),
                ("notifiers", 10),
                ("device_shutdown", 90),
                ("rest of the kernel", 10),
                ("restart, firmware, unpacking", 290),
                ("next boot", 300),
                ("reboot", 700),
            ]
        );
        // All but the last lie end to end.
        for pair in found[..7].windows(2) {
            assert_eq!(pair[0].to, pair[1].from);
        }
    }

    #[test]
    fn what_did_not_happen_is_no_phase() {
        for end in 0..7 {
            for phase in phases(&all()[..end]) {
                assert!(phase.to <= all()[end].entered);
            }
        }
        assert_eq!(phases(&[]), []);
        let mut hangs = all();
        hangs.truncate(4);
        hangs[3].left = None;
        let names: Vec<_> = phases(&hangs).iter().map(|p| p.name).collect();
        assert_eq!(names, ["boot", "user space", "notifiers"]);
    }
}
