// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is plugged into a running machine. The guest says when: it sets a watchdog that stops the
//! machine while all of it sleeps (docs/protocol.md); then QEMU is told what there is to add, and to
//! go on. The guest's clocks stand still meanwhile, so that a boot repeats to the nanosecond
//! whatever the host does.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fd::BorrowedFd;
use serde_json::Value;

use super::{
    command::{BootFiles, CommandLine},
    qmp::{Order, Session, Silence},
};
use crate::core::machine::End;

/// A QEMU that does not do as it is told within this long, on however busy a host, never will.
const PATIENCE: Duration = Duration::from_secs(30);
/// QEMU throws its old maps of memory away in a thread of its own, some 50 ms later, and has its
/// CPUs leave what they are at for that: with several CPUs, whose turn is next would then depend on
/// the host. While they stand still it makes no difference.
const SETTLE: Duration = Duration::from_millis(200);
/// What QEMU calls the stop.
const EVENT: &str = "WATCHDOG";
const STATUS: &str = "watchdog";

/// Why a machine with something to be plugged in is at its end.
pub(super) enum Trouble {
    /// The user wants to stop.
    Stopped,
    /// The guest did what it should not.
    Guest(End),
    /// What could not be plugged in, and why.
    Machine(String),
    /// What was being plugged in when QEMU was gone.
    Gone(String),
}

/// Waits for the guest's word, and does what it is about.
pub(super) struct Attach {
    socket: PathBuf,
    orders: Vec<Order>,
    session: Option<Session>,
    /// All is plugged in.
    done: bool,
    /// Nobody listens any longer.
    over: bool,
}

impl Attach {
    /// For the machine of `line`; none where there is nothing to plug in.
    ///
    /// # Errors
    /// There is no socket to tell QEMU anything.
    pub fn of(line: &CommandLine, files: &BootFiles) -> Result<Option<Self>, String> {
        if line.attach.is_empty() {
            return Ok(None);
        }
        let socket = files.qmp.clone().ok_or_else(|| {
            let dir = files.console.parent().unwrap_or(Path::new("/"));
            format!(
                "nothing can be plugged in: a socket below {} would have too long a name; set TMPDIR to a shorter path",
                dir.display()
            )
        })?;
        Ok(Some(Self {
            socket,
            orders: line.attach.clone(),
            session: None,
            done: false,
            over: false,
        }))
    }

    /// Readable when there may be something to do.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.session.as_ref().map(Session::fd)
    }

    /// Leaves the monitor to somebody else.
    pub fn hang_up(&mut self) {
        (self.session, self.over) = (None, true);
    }

    /// Does what there is to do; to be called again and again.
    pub fn look(&mut self) -> Result<(), Trouble> {
        if self.over {
            return Ok(());
        }
        if self.session.is_none() && self.connect()? {
            self.serve()?;
        }
        let events = match self.session.as_mut().map(Session::events) {
            None => return Ok(()),
            // A machine that ends takes its monitor with it: how it ended says its status.
            Some(Err(Silence::Broken(_))) => {
                self.hang_up();
                return Ok(());
            }
            Some(events) => events.map_err(|s| told(s, "listening to it"))?,
        };
        let stops = |e: &Value| e.get("event").and_then(Value::as_str) == Some(EVENT);
        events
            .iter()
            .filter(|e| stops(e))
            .try_for_each(|_| self.serve())
    }

    /// Connects, if QEMU has come so far: whether the machine has stopped already.
    fn connect(&mut self) -> Result<bool, Trouble> {
        let session = Session::open(&self.socket, PATIENCE).and_then(|mut session| {
            let status = session.execute(&Order::plain("query-status"), PATIENCE)?;
            let stopped = status["status"] == STATUS;
            if stopped {
                // What it told of that before is the same stop; what it tells after is another.
                session.forget();
            }
            Ok((session, stopped))
        });
        match session {
            Ok((session, stopped)) => {
                self.session = Some(session);
                Ok(stopped)
            }
            // It has not made its socket yet, or is at its end.
            Err(Silence::Broken(_)) => Ok(false),
            Err(silence) => Err(told(silence, "connecting to QEMU's monitor")),
        }
    }

    /// The machine has stopped: plugs in all that there is, and lets it go on.
    fn serve(&mut self) -> Result<(), Trouble> {
        let Some(session) = self.session.as_mut().filter(|_| !self.done) else {
            return Err(Trouble::Guest(End::Early(
                "the guest stopped its machine once more, and all is plugged in".into(),
            )));
        };
        let count = self.orders.len();
        for (number, order) in self.orders.iter().enumerate() {
            let doing = || {
                let (number, what) = (number + 1, order.line());
                format!("order {number} of {count}, {what}")
            };
            session
                .execute(order, PATIENCE)
                .map_err(|silence| told(silence, &doing()))?;
        }
        self.done = true;
        std::thread::sleep(SETTLE);
        session
            .execute(&Order::plain("cont"), PATIENCE)
            .map_err(|silence| told(silence, "cont"))?;
        Ok(())
    }
}

/// What the silence of a QEMU that was doing `what` means.
fn told(silence: Silence, what: &str) -> Trouble {
    let doing = format!("plugging in memory ({what})");
    match silence {
        Silence::Stopped => Trouble::Stopped,
        Silence::Refused(why) => Trouble::Machine(format!("{doing}: QEMU says: {why}")),
        Silence::Late(limit) => Trouble::Machine(format!(
            "{doing}: QEMU did not answer within {} s",
            limit.as_secs()
        )),
        Silence::Broken(error) => Trouble::Gone(format!("{doing}: QEMU hung up: {error}")),
    }
}
