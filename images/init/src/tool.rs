// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of the image that PID 1, or its child, has something done by: each with a limit,
//! and with the console for what goes wrong.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    apart, clock,
    failure::{Failure, during},
    sys,
    sys::State,
};

/// Most that a program's answer is read of.
const MOST: u64 = 8 << 20;

/// A program that tells the console what goes wrong, and nothing else. `of` is what failures
/// of opening the console are called.
pub fn command(path: &str, of: &str) -> Result<Command, Failure> {
    let console = || {
        let console = fs::File::options().write(true).open("/dev/console");
        console
            .map(Stdio::from)
            .map_err(during(format!("{of}:console")))
    };
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin")
        .env("SYSTEMD_LOG_TARGET", "console")
        .env("SYSTEMD_LOG_LEVEL", "warning")
        .stdin(Stdio::null())
        .stdout(console()?)
        .stderr(console()?);
    Ok(command)
}

/// Starts it; its number.
pub fn spawn(mut command: Command, what: &str) -> Result<i32, Failure> {
    let child = command.spawn().map_err(during(what))?;
    Ok(child.id() as i32)
}

/// Runs it for no longer than `limit`; `what` is what its failures are called.
pub fn run(command: Command, what: &str, limit: u64) -> Result<(), Failure> {
    let child = spawn(command, what)?;
    match apart::wait(child, clock::mono().saturating_add(limit))? {
        Some((State::Ended(0), _)) => Ok(()),
        Some((State::Ended(status), _)) => Err(Failure::new(format!("{what}:status:{status}"), 0)),
        Some(_) => Err(Failure::new(format!("{what}:killed"), 0)),
        None => {
            sys::kill(child, sys::SIGKILL);
            Err(Failure::new(format!("{what}:limit"), sys::ETIMEDOUT))
        }
    }
}

/// Runs it and gives what it wrote, by way of the file `through`: nobody need read while it
/// writes, so that it can be waited for.
pub fn answer(
    mut command: Command,
    what: &str,
    limit: u64,
    through: &str,
) -> Result<String, Failure> {
    let file = fs::File::create(through).map_err(during(format!("{what}:file")))?;
    command.stdout(file);
    run(command, what, limit)?;
    let failed = || during(format!("{what}:answer"));
    if fs::metadata(through).map_err(failed())?.len() > MOST {
        return Err(Failure::new(format!("{what}:answer"), sys::EFBIG));
    }
    fs::read_to_string(through).map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The console of a machine that runs tests is not ours to write to.
    fn plain(path: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(path);
        command.args(arguments).stdout(Stdio::null());
        command
    }

    #[test]
    fn a_program_has_a_limit_and_its_end_is_told() {
        let second = 1_000_000_000;
        let check = |script: &str, limit, expect: Result<(), Failure>| {
            assert_eq!(
                run(plain("/bin/sh", &["-c", script]), "x", limit),
                expect,
                "{script}"
            );
        };
        check("exit 0", 60 * second, Ok(()));
        check("exit 3", 60 * second, Err(Failure::new("x:status:3", 0)));
        check("kill -9 $$", 60 * second, Err(Failure::new("x:killed", 0)));
        let late = Err(Failure::new("x:limit", sys::ETIMEDOUT));
        check("exec sleep 600", second / 20, late);
        assert!(run(plain("/no/such/program", &[]), "x", second).is_err());
    }

    #[test]
    fn an_answer_is_whole_or_none() {
        let file = std::env::temp_dir().join(format!("bootrig-tool-{}", std::process::id()));
        let through = file.to_str().unwrap();
        let ask = |script: &str| {
            let command = plain("/bin/sh", &["-c", script]);
            answer(command, "x", 60_000_000_000, through)
        };
        assert_eq!(ask("echo one; echo two").as_deref(), Ok("one\ntwo\n"));
        assert_eq!(ask("echo no; exit 1"), Err(Failure::new("x:status:1", 0)));
        assert_eq!(ask("printf '\\377'"), Err(Failure::new("x:answer", 0)));
        let large = ask("head -c 9000000 /dev/zero");
        assert_eq!(large, Err(Failure::new("x:answer", sys::EFBIG)));
        fs::remove_file(&file).unwrap();
    }
}
