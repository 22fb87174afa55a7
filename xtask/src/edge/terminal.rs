// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output is for results, standard error for progress. A reader that goes away
//! (`| head`, a closed pager) is no failure: what is being measured goes on and is kept.

use std::{
    env,
    io::{self, ErrorKind, IsTerminal, Write},
};

use anyhow::{Context, Result};

use crate::core::fault::is_obeyed;

/// `text` as it is shown: names in files that anybody may have written, and what guests and
/// programs said, may hold what a terminal obeys.
fn shown(text: &str) -> String {
    text.replace(|c| is_obeyed(c) && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

/// Writes `text`, a result, without what a terminal would obey.
///
/// # Errors
/// When it cannot be written, save for a reader that has gone: a full disk loses results.
pub fn out(text: &str) -> Result<()> {
    written(&shown(text))
}

/// [`out`] for a report: with its verdicts in colour, where that may be.
///
/// # Errors
/// As [`out`].
pub fn out_report(text: &str) -> Result<()> {
    written(&look().painted(&shown(text)))
}

/// Writes `text` as it is: its colours are of our own making, and so are the names in it.
///
/// # Errors
/// As [`out`].
pub fn out_drawn(text: &str) -> Result<()> {
    written(text)
}

fn written(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("writing to standard output"),
        _ => Ok(()),
    }
}

/// [`out`] for a line.
///
/// # Errors
/// As [`out`].
pub fn out_line(line: &str) -> Result<()> {
    out(&format!("{line}\n"))
}

/// Writes a line of progress, if anybody reads it.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(line));
}

/// How standard output may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Columns; `None`: it is no terminal.
    pub width: Option<usize>,
    /// Whether it may be coloured.
    pub colour: bool,
}

/// How standard output may look: colour on terminals only, and not where the user sets
/// `NO_COLOR` (no-color.org) or the terminal is dumb.
pub fn look() -> Look {
    if !io::stdout().is_terminal() {
        return Look::default();
    }
    let width = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |s| s.ws_col.into());
    let unwanted = env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = env::var_os("TERM").is_none_or(|t| t == "dumb");
    Look {
        width: Some(if width == 0 { 80 } else { width }),
        colour: !unwanted && !dumb,
    }
}

/// Words of reports that are worth a colour (SGR).
const WORDS: [(&str, &str); 6] = [
    ("MISSED", "31"),
    ("FAILED", "31"),
    ("FORCED", "31"),
    (" slower |", "31"),
    (" faster |", "32"),
    (" inconclusive |", "33"),
];

impl Look {
    /// `text` with its verdicts in colour, where that may be.
    fn painted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.colour {
            for (word, colour) in WORDS {
                let inner = word.trim_matches(['|', ' ']);
                let painted = word.replace(inner, &format!("\x1b[{colour}m{inner}\x1b[0m"));
                text = text.replace(word, &painted);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing() {
        let text = "a\x1b[2J\x1b]0;title\x07\r\u{202e}b\tc\n\x1b[31mMISSED\x1b[0m";
        let got = shown(text);
        assert!(
            !got.chars()
                .any(|c| is_obeyed(c) && !matches!(c, '\n' | '\t'))
        );
        assert!(got.contains("b\tc\n"), "{got}");
    }

    #[test]
    fn colour_only_where_it_may_be() {
        let text = "| a | slower | slower than\n| b | MISSED |\n";
        let look = |colour| Look {
            width: None,
            colour,
        };
        assert_eq!(look(false).painted(text), text);
        assert_eq!(
            look(true).painted(text),
            "| a | \x1b[31mslower\x1b[0m | slower than\n| b | \x1b[31mMISSED\x1b[0m |\n"
        );
        if !io::stdout().is_terminal() {
            assert_eq!(super::look(), Look::default());
        }
    }
}
