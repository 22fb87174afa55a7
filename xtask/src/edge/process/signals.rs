// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's wish to stop, as a flag that every waiting loop asks.

use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether the user asked to stop (Ctrl-C, SIGTERM, SIGHUP). Every loop that waits asks.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Asks every waiting loop to stop, as a signal does.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Makes SIGINT, SIGTERM and SIGHUP set the flag that [`interrupted`] reads. The second
/// such signal ends the process at once with status 130; the guardian, which sees our end
/// of its pipe close, then kills the children and removes the scratch folders.
///
/// # Errors
/// When the system refuses a handler.
pub fn install_handlers() -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Who starts us with nohup wants us to survive the terminal.
        if signal == SIGHUP && ignored(&status, signal) {
            continue;
        }
        // In this order: the first signal finds the flag unset and only then sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&INTERRUPTED))?;
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    Ok(())
}

/// Whether a process with this /proc/PID/status ignores `signal`.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|m| (m >> (signal - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_ignored() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\n";
        assert!(ignored(status, SIGHUP) && !ignored(status, SIGINT) && !ignored(status, SIGTERM));
        assert!(!ignored("", SIGHUP));
    }
}
