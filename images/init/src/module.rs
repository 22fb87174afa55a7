// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel modules and their parameters.

use std::{fs, io::ErrorKind};

use crate::{
    channel, clock,
    failure::{Failure, during},
    plan, sys,
};

/// Writing here has the kernel side write its finished records.
const FLUSH: &str = "/sys/module/marks/parameters/flush";
/// Writing here has it write all of them, for the last time.
const STOP: &str = "/sys/module/marks/parameters/stop";

/// Loads `/bootrig/NAME.ko` with the parameters of `/bootrig/NAME.params` and reports it.
pub fn load(name: &str) -> Result<(), Failure> {
    let (file, parameters) = open(name)?;
    let begin = clock::mono();
    sys::load_module(&file, &parameters).map_err(|()| Failure::last(format!("load:{name}")))?;
    let end = clock::mono();
    channel::say(&format!("loaded module={name} begin={begin} end={end}"));
    Ok(())
}

/// The file of a module, and its parameters.
pub fn open(name: &str) -> Result<(fs::File, String), Failure> {
    if !plan::is_name(name) {
        return Err(Failure::new(format!("load:{name}"), sys::EINVAL));
    }
    let file =
        fs::File::open(format!("/bootrig/{name}.ko")).map_err(during(format!("load:{name}.ko")))?;
    Ok((file, parameters(name)?))
}

/// Has the records made so far written out.
pub fn flush() -> Result<(), Failure> {
    fs::write(FLUSH, "1").map_err(during("flush"))
}

/// Has all records written out, also of what has not ended.
pub fn stop() -> Result<(), Failure> {
    fs::write(STOP, "1").map_err(during("stop"))
}

fn parameters(name: &str) -> Result<String, Failure> {
    let what = format!("load:{name}.params");
    match fs::read_to_string(format!("/bootrig/{name}.params")) {
        Ok(text) => join(&text).map_err(|line| Failure::new(format!("{what}:{line}"), sys::EINVAL)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(during(what)(error)),
    }
}

/// Joins the lines with spaces; an error is the number of a line that the kernel would
/// take apart differently.
fn join(text: &str) -> Result<String, usize> {
    let mut joined = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() {
            continue;
        }
        if !line.bytes().all(|b| b.is_ascii_graphic() && b != b'"') || !line.contains('=') {
            return Err(index + 1);
        }
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(line);
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_lines_or_names_the_bad_one() {
        let check = |text: &str, expect: Result<&str, usize>| {
            assert_eq!(join(text), expect.map(str::to_owned), "{text:?}")
        };
        check("", Ok(""));
        check("records=5\n", Ok("records=5"));
        check(
            "dev=0:01.0:1\ndev=1:02.0:1\n\n",
            Ok("dev=0:01.0:1 dev=1:02.0:1"),
        );
        check("a=1\nb=1 c=2\n", Err(2));
        check("a=1\nb\n", Err(2));
        check("a=\"x\"\n", Err(1));
        check("a=\u{e9}\n", Err(1));
    }
}
