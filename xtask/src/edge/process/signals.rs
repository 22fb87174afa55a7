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
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal finds the flag unset and only then sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&INTERRUPTED))?;
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    Ok(())
}
