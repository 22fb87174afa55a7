// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan's text as commands.

use std::fmt;

/// One command of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Load a module.
    Load(String),
    /// Have the kernel side write its finished records.
    Flush,
    /// Reboot through the firmware.
    Reboot,
    /// Reboot through kexec of `/bootrig/kernel`.
    Kexec,
    /// Power the machine off.
    Poweroff,
    /// Interactive console.
    Shell,
}

impl Command {
    /// Whether nothing can come after it.
    fn is_last(&self) -> bool {
        !matches!(self, Self::Load(_) | Self::Flush)
    }
}

/// What is wrong with a plan; displays as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// 1-based; 0: the plan as a whole.
    line: usize,
    why: &'static str,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "plan:{}", self.why),
            line => write!(f, "plan:{line}:{}", self.why),
        }
    }
}

/// Reads a whole plan before any of it is run.
pub fn parse(text: &str) -> Result<Vec<Command>, Wrong> {
    let mut lines = (1..).zip(text.lines());
    if lines.next().map(|(_, line)| line) != Some("bootrig-plan 1") {
        return Err(Wrong {
            line: 1,
            why: "not_version_1",
        });
    }
    let mut commands: Vec<Command> = vec![];
    for (line, text) in lines {
        let wrong = |why| Err(Wrong { line, why });
        if commands.last().is_some_and(Command::is_last) {
            return wrong("after_the_end");
        }
        commands.push(match text.split_once(' ').unwrap_or((text, "")) {
            ("load", name) if is_name(name) => Command::Load(name.to_owned()),
            ("load", _) => return wrong("bad_name"),
            ("flush", "") => Command::Flush,
            ("reboot", "") => Command::Reboot,
            ("kexec", "") => Command::Kexec,
            ("poweroff", "") => Command::Poweroff,
            ("shell", "") => Command::Shell,
            _ => return wrong("unknown_command"),
        });
    }
    match commands.last() {
        Some(last) if last.is_last() => Ok(commands),
        _ => Err(Wrong {
            line: 0,
            why: "no_end",
        }),
    }
}

/// Whether this can be a module's name, and not a path.
pub fn is_name(name: &str) -> bool {
    (1..=56).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<Vec<Command>, &str>) {
        assert_eq!(
            parse(text).map_err(|w| w.to_string()),
            expect.map_err(str::to_owned),
            "{text:?}"
        );
    }

    #[test]
    fn reads_every_command() {
        let load = |name: &str| Command::Load(name.into());
        check(
            "bootrig-plan 1\nload marks\nload dummy_pci\nflush\nreboot\n",
            Ok(vec![
                load("marks"),
                load("dummy_pci"),
                Command::Flush,
                Command::Reboot,
            ]),
        );
        check("bootrig-plan 1\nkexec", Ok(vec![Command::Kexec]));
        check("bootrig-plan 1\npoweroff\n", Ok(vec![Command::Poweroff]));
        check("bootrig-plan 1\nshell\n", Ok(vec![Command::Shell]));
    }

    #[test]
    fn refuses_the_rest_by_line() {
        for (text, expect) in [
            ("", "plan:1:not_version_1"),
            ("bootrig-plan 2\nreboot\n", "plan:1:not_version_1"),
            ("reboot\n", "plan:1:not_version_1"),
            ("bootrig-plan 1\n", "plan:no_end"),
            ("bootrig-plan 1\nload marks\n", "plan:no_end"),
            (
                "bootrig-plan 1\nreboot\nload marks\n",
                "plan:3:after_the_end",
            ),
            ("bootrig-plan 1\nreboot now\n", "plan:2:unknown_command"),
            ("bootrig-plan 1\n\nreboot\n", "plan:2:unknown_command"),
            ("bootrig-plan 1\nload\nreboot\n", "plan:2:bad_name"),
            ("bootrig-plan 1\nload ../x\nreboot\n", "plan:2:bad_name"),
            ("bootrig-plan 1\nload a b\nreboot\n", "plan:2:bad_name"),
        ] {
            check(text, Err(expect));
        }
    }
}
