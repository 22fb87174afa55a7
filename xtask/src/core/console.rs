// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's console says when something is wrong.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// Ends the guest: nothing that follows can be trusted.
static FATAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?m)^[^\n]*(Kernel panic - not syncing|Oops: |BUG: unable to handle|general protection fault",
        r"|kernel BUG at |double fault: |invalid opcode: |stack guard page was hit",
        r"|No working init found|Unable to mount root fs|Attempted to kill init)[^\n]*"
    ))
    .expect("a constant pattern")
});

/// The kernel's own watchdogs: the guest does not get on.
static STUCK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?m)^[^\n]*(soft lockup - CPU|hard LOCKUP|rcu: INFO: [a-z_]+ (self-)?detected (expedited )?stall|detected stalls? on CPUs",
        r"|blocked for more than \d+ seconds)[^\n]*"
    ))
    .expect("a constant pattern")
});

/// Reports that leave the guest running but show that something is wrong.
static SPLAT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?m)^[^\n]*(WARNING: |BUG: |INFO: possible recursive locking|INFO: possible circular locking|possible deadlock",
        r"|ODEBUG: |refcount_t: |list_(add|del) corruption|sysfs: cannot create duplicate|kobject_add_internal failed",
        r"|suspicious RCU usage|scheduling while atomic|sleeping function called from invalid context)[^\n]*"
    ))
    .expect("a constant pattern")
});

fn first(pattern: &Regex, console: &[u8]) -> Option<String> {
    pattern.find(console).map(|m| clean(m.as_bytes()))
}

/// A console line as text that is safe to print on a terminal: bounded, no escapes.
fn clean(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(300)
        .collect();
    text.trim().to_owned()
}

/// The first line that says that the kernel died.
pub fn panic_line(console: &[u8]) -> Option<String> {
    first(&FATAL, console)
}

/// The first line in which a watchdog says that the kernel is stuck.
pub fn stuck_line(console: &[u8]) -> Option<String> {
    first(&STUCK, console)
}

/// Every line that reports something wrong, fatal or not, at most 20.
pub fn splats(console: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = [&*FATAL, &*STUCK, &*SPLAT]
        .iter()
        .flat_map(|p| p.find_iter(console))
        .map(|m| (m.start(), clean(m.as_bytes())))
        .collect();
    lines.sort();
    lines.dedup();
    lines.truncate(20);
    lines.into_iter().map(|l| l.1).collect()
}

/// The last lines of a console, for error messages.
pub fn tail(console: &[u8], lines: usize) -> String {
    let text = String::from_utf8_lossy(console);
    let all: Vec<_> = text
        .lines()
        .map(|l| clean(l.as_bytes()))
        .filter(|l| !l.is_empty())
        .collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_each_kind() {
        for line in [
            "[    0.5] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100",
            "[    0.5] BUG: unable to handle page fault for address: ffff",
            "[    0.5] Oops: 0002 [#1] SMP",
            "[    0.5] kernel BUG at mm/slub.c:1!",
        ] {
            assert!(panic_line(line.as_bytes()).is_some(), "{line}");
        }
        for line in [
            "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [init:1]",
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            "INFO: task init:1 blocked for more than 120 seconds.",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        ] {
            assert!(stuck_line(line.as_bytes()).is_some(), "{line}");
            assert!(panic_line(line.as_bytes()).is_none(), "{line}");
        }
        let quiet = b"[    0.1] PCI: Using host bridge windows\nreboot: Restarting system\n";
        assert_eq!(splats(quiet), Vec::<String>::new());
        assert_eq!(
            splats(b"x\n[1.0] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1\x1b[31m\n"),
            ["[1.0] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1 [31m"]
        );
    }
}
