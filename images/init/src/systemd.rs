// SPDX-License-Identifier: MIT OR Apache-2.0
//! A distribution's systemd as PID 1, from the plan's `systemd` on.
//!
//! PID 1 forks and becomes systemd, in the distribution's way: nothing is added to what it
//! starts. The child goes on with the plan. It learns from systemd itself that all is started
//! (`$NOTIFY_SOCKET`, which systemd serves for whoever started it), so that nobody looks again
//! and again while the boot is measured, and it gives up when its limit comes, also where
//! systemd has frozen. To restart, it asks systemd as an administrator would; when that has
//! ended all services and processes, systemd-shutdown calls what it finds as
//! `/run/initramfs/shutdown`, its interface for initramfs generators: us again, as PID 1, for
//! the last stamp and reboot(2).

use std::{
    convert::Infallible,
    fs, io,
    os::unix::{fs::PermissionsExt, net::UnixDatagram, process::CommandExt},
    process::Command as Program,
    time::Duration,
};

use crate::{
    channel, clock,
    failure::{Failure, during},
    mount, pci,
    plan::{self, Command},
    shutdown,
    sys::{self, Forked, Reboot},
    sysctl, tool,
};

mod answers;
mod report;

const SYSTEMD: &str = "/usr/lib/systemd/systemd";
const SYSTEMCTL: &str = "/usr/bin/systemctl";
/// What the boot is to reach.
const TARGET: &str = "multi-user.target";
/// Our files while systemd runs.
const FOLDER: &str = "/run/bootrig";
const NOTIFY: &str = "/run/bootrig/notify";
/// Where systemd-shutdown looks for what comes after it, which becomes the root then.
const LAST_ROOT: &str = "/run/initramfs";
/// What that is called by.
const LAST: &str = "/shutdown";
/// Below that root: the plan, and how many lines were written, and how it ends.
const PLAN: &str = "bootrig/plan";
const STATE: &str = "bootrig/state";
/// What a question to systemd may take, in ns of the guest.
const ANSWER_LIMIT: u64 = 60_000_000_000;
/// The longest limit.
const LATEST: u64 = 3_600_000_000_000;

/// How systemd is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The longest that it is waited for, in ns.
    pub limit: u64,
}

/// Reads `limit=NS`.
pub fn parse(text: &str) -> Option<Boot> {
    let limit = pci::number(text.strip_prefix("limit=")?)?;
    (1..=LATEST).contains(&limit).then_some(Boot { limit })
}

/// Has PID 1 become systemd. It comes back in a child of it, once all is started and reported.
pub fn run(how: &Boot) -> Result<(), Failure> {
    mount::run()?;
    let told = |what: &'static str| during(format!("systemd:{what}"));
    fs::create_dir_all(FOLDER).map_err(told("folder"))?;
    leave_for_last().map_err(told("initramfs"))?;
    seed()?;
    let socket = UnixDatagram::bind(NOTIFY).map_err(told("socket"))?;
    let begin = clock::mono();
    match sys::fork().map_err(|()| Failure::last("fork"))? {
        Forked::Parent(_) => {
            let Err(failure) = hand_over();
            Err(failure)
        }
        Forked::Child => {
            if !ready(&socket, begin.saturating_add(how.limit))? {
                return Err(report::late());
            }
            drop(socket);
            report::report(begin, how.limit)
        }
    }
}

/// Gives the kernel what a machine has from its firmware or its CPU: random numbers to begin with.
/// Here they would make two boots differ, so that the CPU has none; the kernel would collect some
/// for seconds, by spinning, as soon as the first service wants one. These are the same each time.
fn seed() -> Result<(), Failure> {
    let failed = || during("systemd:seed");
    let random = fs::File::open("/dev/random").map_err(failed())?;
    let bytes = std::array::from_fn(|at| at as u8);
    sys::seed(&random, bytes).map_err(|()| Failure::last("systemd:seed"))
}

/// PID 1 is another program after it.
fn hand_over() -> Result<Infallible, Failure> {
    channel::close()?;
    let error = Program::new(SYSTEMD)
        .arg0("/sbin/init")
        .arg(format!("--unit={TARGET}"))
        // As where the kernel is told to be quiet: units are announced when they are late.
        .arg("--show-status=auto")
        .env("NOTIFY_SOCKET", NOTIFY)
        .exec();
    // To say so takes the channel.
    channel::open()?;
    Err(during("systemd:exec")(error))
}

/// Puts us, and what we need to know, where systemd-shutdown finds it.
fn leave_for_last() -> io::Result<()> {
    let at = |what: &str| format!("{LAST_ROOT}/{what}");
    fs::create_dir_all(at("bootrig"))?;
    fs::copy("/bootrig/plan", at(PLAN))?;
    let last = format!("{LAST_ROOT}{LAST}");
    fs::copy("/proc/self/exe", &last)?;
    fs::set_permissions(last, fs::Permissions::from_mode(0o755))
}

/// Waits until systemd says that all is started; no longer than to `until`.
fn ready(socket: &UnixDatagram, until: u64) -> Result<bool, Failure> {
    let failed = || during("systemd:notify");
    let mut message = [0; 4096];
    loop {
        let left = until.saturating_sub(clock::mono());
        if left == 0 {
            return Ok(false);
        }
        let left = Some(Duration::from_nanos(left.max(1000)));
        socket.set_read_timeout(left).map_err(failed())?;
        match socket.recv(&mut message) {
            Ok(length) if answers::is_ready(&message[..length]) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed()(error)),
        }
    }
}

/// Asks systemd to restart, and is ended by it. `leave` was written.
pub fn shut_down(how: &str) -> Result<(), Failure> {
    let state = format!("lines={} how={how}\n", channel::lines());
    fs::write(format!("{LAST_ROOT}/{STATE}"), state).map_err(during("systemd:state"))?;
    let mut systemctl = tool::command(SYSTEMCTL, "systemd")?;
    systemctl.arg(how);
    tool::run(systemctl, &format!("systemd:{how}"), ANSWER_LIMIT)?;
    // What comes now is systemd's, and the host's to wait for.
    sys::exit(0)
}

/// Whether systemd-shutdown has called us.
pub fn is_last(name: &str) -> bool {
    name == LAST
}

/// PID 1 again, after all of user space: the last stamp, and reboot(2).
pub fn last_act() -> Result<Infallible, Failure> {
    let text = fs::read_to_string(format!("/{STATE}")).map_err(during("last:state"))?;
    let (lines, how) =
        answers::state(&text).ok_or_else(|| Failure::new("last:state", sys::EINVAL))?;
    channel::resume(lines);
    let text = fs::read_to_string(format!("/{PLAN}")).map_err(during("last:plan"))?;
    let commands =
        plan::parse(&text).map_err(|wrong| Failure::new(wrong.to_string(), sys::EINVAL))?;
    let mut events = vec![];
    let after = commands.into_iter().skip_while(|c| !c.hands_over());
    for command in after {
        match command {
            // systemd could not have shut down with it.
            Command::Set { name, value } => sysctl::set(&name, &value)?,
            Command::Meanwhile(event) => events.push(event),
            _ => {}
        }
    }
    sys::sync();
    let reboot = match how {
        "reboot" => Reboot::Restart,
        "kexec" => Reboot::Kexec,
        _ => Reboot::PowerOff,
    };
    shutdown::prepare(&events)?;
    shutdown::enter(how, reboot, &events)?;
    Err(Failure::new(format!("reboot:{how}"), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_protocol_calls_a_boot_of_systemd() {
        assert_eq!(parse("limit=5"), Some(Boot { limit: 5 }));
        for bad in [
            "",
            "limit=",
            "limit=0",
            "limit=3600000000001",
            "limit=1 ",
            "limit=1 x",
            "5",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn waits_for_one_message_and_no_longer_than_it_should() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        assert!(!ready(&ours, clock::mono() + 2_000_000).unwrap());
        theirs.send(b"STATUS=Startup\n").unwrap();
        theirs.send(b"READY=1\nSTATUS=done").unwrap();
        assert!(ready(&ours, clock::mono() + 60_000_000_000).unwrap());
        theirs.send(b"NOTREADY=1\nREADY=0").unwrap();
        assert!(!ready(&ours, clock::mono() + 2_000_000).unwrap());
    }
}
