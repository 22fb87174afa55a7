// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running QEMU's monitor (QMP): orders with their answers, and what it tells by itself.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd},
};
use serde_json::{Value, json};

use crate::edge::process;

/// A QEMU that was only asked where it hangs, and has not answered after this long, will not.
const PATIENCE: Duration = Duration::from_secs(2);
/// Registers of 255 CPUs take less.
const LONGEST: usize = 4 << 20;
/// How often it is looked whether the user wants to stop.
const STEP: Duration = Duration::from_millis(100);

/// Something that QEMU is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// QMP's name of it.
    pub execute: &'static str,
    /// What goes with it, an object.
    pub arguments: Value,
}

impl Order {
    /// One with nothing beside its name.
    pub(super) fn plain(execute: &'static str) -> Self {
        Self {
            execute,
            arguments: json!({}),
        }
    }
    /// As it is sent: one line.
    pub fn line(&self) -> String {
        json!({"execute": self.execute, "arguments": self.arguments}).to_string()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// QEMU says no, and why.
    Refused(String),
    /// It said nothing for so long.
    Late(Duration),
    /// It has closed its end, or what it says is no QMP.
    Broken(io::Error),
    /// The user wants to stop.
    Stopped,
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A connection; QEMU has one at a time.
#[derive(Debug)]
pub(super) struct Session {
    stream: UnixStream,
    unread: Vec<u8>,
    events: Vec<Value>,
}

impl Session {
    /// Connects, and waits so long for QEMU's greeting.
    pub fn open(socket: &Path, patience: Duration) -> Result<Self, Silence> {
        let stream = UnixStream::connect(socket)?;
        stream.set_nonblocking(true)?;
        let mut session = Self {
            stream,
            unread: Vec::new(),
            events: Vec::new(),
        };
        session.answer(Instant::now(), patience, |said| {
            said.get("QMP").map(|_| Value::Null)
        })?;
        session.execute(&Order::plain("qmp_capabilities"), patience)?;
        Ok(session)
    }

    /// Gives an order and waits so long for what it returns.
    pub fn execute(&mut self, order: &Order, patience: Duration) -> Result<Value, Silence> {
        let begin = Instant::now();
        let text = order.line() + "\n";
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, begin, patience)?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        let answer = self.answer(begin, patience, |said| {
            let is = said.get("return").is_some() || said.get("error").is_some();
            is.then(|| said.clone())
        })?;
        match answer.get("error") {
            None => Ok(answer["return"].clone()),
            Some(error) => {
                let why = error["desc"].as_str().unwrap_or("no reason given");
                let plain = why.chars().filter(|c| !c.is_control()).take(300);
                Err(Silence::Refused(plain.collect()))
            }
        }
    }

    /// What QEMU has told by itself since the last call; does not wait.
    pub fn events(&mut self) -> Result<Vec<Value>, Silence> {
        self.read()?;
        while let Some(said) = self.line()? {
            self.keep(said);
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Forgets what QEMU told by itself before the last answer.
    pub fn forget(&mut self) {
        self.events.clear();
    }

    /// Readable when QEMU has something to say.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Waits for a line that `find` takes; keeps events that come before it.
    fn answer(
        &mut self,
        begin: Instant,
        patience: Duration,
        find: impl Fn(&Value) -> Option<Value>,
    ) -> Result<Value, Silence> {
        loop {
            while let Some(said) = self.line()? {
                match find(&said) {
                    Some(found) => return Ok(found),
                    None => self.keep(said),
                }
            }
            if self.read()? == 0 {
                self.wait(PollFlags::IN, begin, patience)?;
            }
        }
    }

    fn keep(&mut self, said: Value) {
        if said.get("event").is_some() {
            self.events.push(said);
        }
    }

    /// Waits a step for `flags`; an error when `patience` is over.
    fn wait(&self, flags: PollFlags, begin: Instant, patience: Duration) -> Result<(), Silence> {
        if process::interrupted() {
            return Err(Silence::Stopped);
        }
        if begin.elapsed() >= patience {
            return Err(Silence::Late(patience));
        }
        let step = Timespec::try_from(STEP).ok();
        // A signal ends the wait early, and is looked for above.
        let _ = poll(&mut [PollFd::new(&self.stream, flags)], step.as_ref());
        Ok(())
    }

    /// Reads what is there: how much it was.
    fn read(&mut self) -> Result<usize, Silence> {
        let mut buffer = [0; 1 << 16];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(count)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes a whole line of what was read.
    fn line(&mut self) -> Result<Option<Value>, Silence> {
        let Some(end) = self.unread.iter().position(|b| *b == b'\n') else {
            return match self.unread.len() > LONGEST {
                true => Err(io::Error::other("a line without an end").into()),
                false => Ok(None),
            };
        };
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        let said = serde_json::from_slice(&line).map_err(io::Error::from)?;
        Ok(Some(said))
    }
}

/// The instruction pointer of each CPU, by the CPU's number; empty if QEMU does not say. Only
/// for error messages: whatever goes wrong here is silence.
pub(super) fn instruction_pointers(socket: &Path) -> Vec<u64> {
    let ask = || -> Result<Value, Silence> {
        let order = Order {
            execute: "human-monitor-command",
            arguments: json!({"command-line": "info registers -a"}),
        };
        Session::open(socket, PATIENCE)?.execute(&order, PATIENCE)
    };
    ask()
        .ok()
        .and_then(|registers| registers.as_str().map(parse))
        .unwrap_or_default()
}

fn parse(registers: &str) -> Vec<u64> {
    let words = registers.split_ascii_whitespace();
    words
        .filter_map(|w| u64::from_str_radix(w.strip_prefix("RIP=")?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_qemus_register_dump() {
        let dump = "\nCPU#0\nRAX=0 RBX=1\nRIP=ffffffff81000010 RFL=00000246 [---Z-P-] CPL=0\n\nCPU#1\nRIP=00000000fffffff0 RFL=2\n";
        assert_eq!(parse(dump), [0xffff_ffff_8100_0010, 0xffff_fff0]);
        assert_eq!(
            instruction_pointers(Path::new("/nonexistent")),
            Vec::<u64>::new()
        );
    }

    /// A session with a QEMU that says `says`, and then nothing for ever.
    fn talk(says: &'static str) -> Result<(Session, UnixStream), Silence> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("qmp");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let qemu = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(says.as_bytes()).unwrap();
            stream
        });
        let session = Session::open(&socket, Duration::from_millis(300));
        let stream = qemu.join().unwrap();
        session.map(|session| (session, stream))
    }

    const HELLO: &str = "{\"QMP\": {}}\r\n{\"return\": {}}\r\n";

    #[test]
    fn answers_are_told_from_events() {
        let (mut session, mut qemu) = talk(HELLO).unwrap();
        qemu.write_all(b"{\"event\": \"STOP\"}\n{\"return\": {\"status\": \"paused\"}}\n{\"event\": \"RESUME\"}\n{\"ev")
            .unwrap();
        let order = Order::plain("query-status");
        let answer = session.execute(&order, PATIENCE).unwrap();
        assert_eq!(answer["status"], "paused");
        let names = |session: &mut Session| -> Vec<String> {
            let events = session.events().unwrap();
            events.iter().map(|e| e["event"].to_string()).collect()
        };
        assert_eq!(names(&mut session), ["\"STOP\"", "\"RESUME\""]);
        qemu.write_all(b"ent\": \"RESET\"}\n").unwrap();
        assert_eq!(names(&mut session), ["\"RESET\""]);
        let mut sent = [0; 200];
        let count = qemu.read(&mut sent).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&sent[..count]),
            "{\"arguments\":{},\"execute\":\"qmp_capabilities\"}\n{\"arguments\":{},\"execute\":\"query-status\"}\n"
        );
    }

    #[test]
    fn silence_has_its_reason() {
        let (mut session, mut qemu) = talk(HELLO).unwrap();
        qemu.write_all(
            b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no \\u001bslots\"}}\n",
        )
        .unwrap();
        let order = Order::plain("cont");
        let refused = session.execute(&order, PATIENCE);
        assert!(matches!(refused, Err(Silence::Refused(why)) if why == "no slots"));
        let short = Duration::from_millis(10);
        let late = session.execute(&order, short);
        assert!(matches!(late, Err(Silence::Late(d)) if d == short));
        // Closed for everybody: a child of another test may hold a copy until it is executed.
        qemu.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(matches!(session.events(), Err(Silence::Broken(_))));
        for bad in ["", "{\"QMP\": {}}\n", "this is no machine\n"] {
            assert!(talk(bad).is_err(), "{bad}");
        }
    }
}
