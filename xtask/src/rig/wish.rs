// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a user asks of the tracer: the same options wherever something boots.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    core::{
        fault::Fault,
        trace::{
            spec::{check_marks, check_window},
            symbols::Symbols,
        },
    },
    edge::files::read_file,
};

/// The longest vmlinux or System.map that is read.
const MOST_BYTES: u64 = 2 << 30;

/// Windows that are shown and drawn where none is named.
const WINDOWS: [&str; 2] = ["boot", "device_shutdown"];

/// What is to be traced.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// A profile, or only marks.
    pub profile: bool,
    /// Windows to show and draw.
    pub windows: Vec<String>,
    /// Functions to mark beside the usual ones.
    pub marks: Vec<String>,
    /// Symbols of the kernel, instead of its build's.
    pub symbols: Option<PathBuf>,
}

impl Wish {
    /// As [`TraceArgs::check`].
    ///
    /// # Errors
    /// Usage: symbols that are none, or a window that no boot has.
    pub fn check(&self) -> Result<()> {
        for window in &self.windows {
            check_window(window, &self.marks)
                .map_err(|why| Fault::usage(format!("--profile: {why}")))?;
        }
        // Of a kernel that is still to be built nothing is known yet.
        if let Some(path) = &self.symbols {
            let symbols = symbols(path)?;
            check_marks(&symbols, &self.marks)
                .map_err(|why| Fault::usage(format!("--mark: {why}")))?;
        }
        Ok(())
    }
}

/// The symbols in the file `path`.
///
/// # Errors
/// Usage: it has none, or is none that can be read.
pub fn symbols(path: &Path) -> Result<Symbols> {
    let usage = |why: String| Fault::usage(format!("symbols {}: {why}", path.display()));
    let bytes = read_file(path, MOST_BYTES).map_err(|e| usage(e.to_string()))?;
    Ok(Symbols::read(&bytes).map_err(usage)?)
}

/// Options for the tracer.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// Have the tracer watch a boot and count its kernel's instructions by function, in the
    /// window WINDOW (boot, device_shutdown, memory_dev_init, coldplug, initcall:NAME, ...;
    /// default: boot and device_shutdown). Virtual time only.
    #[arg(
        long,
        value_name = "WINDOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    profile: Option<String>,
    /// Mark entry and return of this kernel function, beside the usual ones.
    #[arg(long, value_name = "FUNCTION")]
    mark: Vec<String>,
    /// The kernel's symbols (its vmlinux or System.map), where its build has none.
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
}

impl TraceArgs {
    /// What is to be traced, if anything is.
    pub fn wish(&self) -> Option<Wish> {
        if self.profile.is_none() && self.mark.is_empty() {
            return None;
        }
        Some(self.at_least_marks())
    }

    /// What is to be traced where something is in any case.
    pub fn at_least_marks(&self) -> Wish {
        let windows = match self.profile.as_deref() {
            Some("") => WINDOWS.map(str::to_owned).into(),
            Some(window) => vec![window.to_owned()],
            None => Vec::new(),
        };
        Wish {
            profile: self.profile.is_some(),
            windows,
            marks: self.mark.clone(),
            symbols: self.symbols.clone(),
        }
    }

    /// Checks, before anything is measured, that what is asked for can be had. `beside` are the
    /// words that stand beside the options.
    ///
    /// # Errors
    /// Usage: symbols of nothing that is traced, or that are none; a window that no boot has, or
    /// that was written as a word of its own.
    pub fn check(&self, beside: &[String]) -> Result<()> {
        if self.profile.as_deref() == Some("")
            && let Some(window) = beside.iter().find(|w| check_window(w, &self.mark).is_ok())
        {
            let why = format!("`{window}` is a window: write --profile={window}");
            return Err(Fault::usage(why).into());
        }
        if let (Some(symbols), None) = (&self.symbols, self.wish()) {
            let why = format!(
                "--symbols {}: nothing is traced; add --profile or --mark",
                symbols.display()
            );
            return Err(Fault::usage(why).into());
        }
        self.wish().map_or(Ok(()), |wish| wish.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_stands_apart_from_its_option_is_no_scenario() {
        let args = TraceArgs {
            profile: Some(String::new()),
            mark: vec!["my_function".into()],
            symbols: None,
        };
        for window in ["device_shutdown", "initcall:pci_init", "my_function"] {
            let why = args.check(&["mixed".into(), window.into()]).unwrap_err();
            let want = format!("write --profile={window}");
            assert!(why.to_string().contains(&want), "{why}");
        }
        assert!(args.check(&["mixed".into()]).is_ok());
    }
}
