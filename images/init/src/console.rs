// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interactive console: a real shell where the image has one, else a few commands.

use std::{
    fs,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    failure::{Failure, during},
    meanwhile::Event,
    module, shutdown, sys,
};

const SHELL: &str = "/bin/sh";

/// Says something on the console, if there is one. Whoever took it may have hung up on us.
pub fn tell(text: &str) {
    let _ = match fs::File::options().write(true).open("/dev/console") {
        Ok(mut console) => writeln!(console, "{text}"),
        Err(_) => writeln!(io::stderr(), "{text}"),
    };
}

/// Runs until the user ends it, then powers off. `events` happen on whichever way out.
pub fn run(events: &[Event]) -> Result<(), Failure> {
    let terminal = terminal();
    let open = || {
        fs::File::options()
            .read(true)
            .write(true)
            .open(&terminal)
            .map_err(during(format!("shell:{terminal}")))
    };
    if Path::new(SHELL).exists() {
        let (input, output, error) = (open()?, open()?, open()?);
        shell(input.into(), output.into(), error.into())?;
    } else {
        builtin(io::BufReader::new(open()?), open()?, events);
    }
    shutdown::power_off(events)
}

/// The terminal behind the console: job control and Ctrl-C need a real one.
fn terminal() -> String {
    let active = fs::read_to_string("/sys/class/tty/console/active").unwrap_or_default();
    let last = active.split_whitespace().next_back().unwrap_or("console");
    format!("/dev/{last}")
}

fn shell(input: Stdio, output: Stdio, error: Stdio) -> Result<(), Failure> {
    let mut command = Command::new(SHELL);
    command
        .arg("-i")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/")
        .env("TERM", "vt100");
    command.stdin(input).stdout(output).stderr(error);
    // SAFETY: two system calls, no allocation, between fork and exec.
    unsafe { command.pre_exec(sys::lead_session) };
    let child = command.spawn().map_err(during("shell"))?;
    // PID 1 inherits orphans: reap everybody until the shell itself is done.
    sys::reap_until(child.id());
    Ok(())
}

/// Reads commands until `poweroff`, end of input, or a way out that the plan offers too.
fn builtin(input: impl BufRead, mut output: impl Write, events: &[Event]) {
    let mut lines = input.lines();
    loop {
        let _ = write!(output, "bootrig# ");
        let Some(Ok(line)) = lines.next() else { return };
        let mut words = line.split_whitespace();
        let (command, argument) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let answer = match command {
            "" => Ok(String::new()),
            "poweroff" | "exit" => return,
            "reboot" => shutdown::reboot(events)
                .map_err(text)
                .map(|()| String::new()),
            "kexec" => shutdown::kexec(events)
                .map_err(text)
                .map(|()| String::new()),
            "load" => module::load(argument).map_err(text).map(|()| String::new()),
            "flush" => module::flush().map_err(text).map(|()| String::new()),
            "cat" => fs::read(argument)
                .map(|b| String::from_utf8_lossy(&b).into_owned())
                .map_err(text),
            "ls" => list(argument).map_err(text),
            "help" => Ok(
                "cat FILE, ls FOLDER, load MODULE, flush, reboot, kexec, poweroff, exit, help\n"
                    .into(),
            ),
            _ => Err(format!("{command}: unknown; try help")),
        };
        let _ = match answer {
            Ok(text) => write!(output, "{text}"),
            Err(text) => writeln!(output, "{text}"),
        };
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn list(folder: &str) -> io::Result<String> {
    let folder = if folder.is_empty() { "/" } else { folder };
    let mut names = vec![];
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let mark = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{mark}\n", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_survives_mistakes() {
        let mut output = vec![];
        builtin(
            &b"help\nxyz\ncat /nonexistent\nls /proc/self/task\n\npoweroff\nhelp\n"[..],
            &mut output,
            &[],
        );
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains("cat FILE"), "{output}");
        assert!(output.contains("xyz: unknown; try help"), "{output}");
        assert!(output.contains("No such file"), "{output}");
        assert!(output.contains("/\n"), "{output}");
        assert_eq!(
            output.matches("bootrig# ").count(),
            6,
            "stops at poweroff: {output}"
        );
    }
}
