// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tracer's numbers and addresses to names; and whether the symbols are those of the
//! kernel that ran.

use super::{
    modules::Module,
    parse::{Key, Trace},
    symbols::Symbols,
};

/// Of the direct calls in the kernel's text so many must go to where a function begins.
const AGREE: f64 = 0.98;
/// On fewer calls nothing is said.
const FEWEST: u64 = 200;
/// Kernels are moved by multiples of this.
const STEP: u64 = 2 << 20;

/// Names for a trace.
pub struct Names<'a> {
    /// The specification's names.
    pub known: &'a [String],
    /// The modules that were loaded.
    pub modules: &'a [Module],
    /// The kernel's own, for addresses that functions were given as arguments.
    pub symbols: Option<&'a Symbols>,
}

impl Names<'_> {
    /// The function of a node's key; `None`: it has no name.
    pub fn of(&self, key: Key) -> Option<String> {
        match key {
            Key::Known(id) => self.known.get(id as usize).cloned(),
            Key::At(at) => self.at(at),
        }
    }

    /// The function of the kernel or of a module at `address`.
    pub fn at_any(&self, address: u64) -> Option<String> {
        let functions = self.symbols.map_or(&[][..], |s| &s.functions);
        let known = functions.binary_search_by_key(&address, |f| f.address);
        known
            .map(|at| functions[at].name.clone())
            .ok()
            .or_else(|| self.at(address))
    }

    /// The function of a module at `address`.
    pub fn at(&self, address: u64) -> Option<String> {
        self.modules.iter().find_map(|m| m.name_at(address))
    }
}

/// Checks that `symbols` are of the kernel that ran.
///
/// # Errors
/// They are not, or the kernel was moved (KASLR): with what to do.
pub fn check(symbols: &Symbols, trace: &Trace) -> Result<(), String> {
    let (hits, misses) = trace.calls;
    if hits + misses >= FEWEST {
        if hits as f64 >= AGREE * (hits + misses) as f64 {
            return Ok(());
        }
        if let Some(slide) = slide(symbols, trace) {
            return Err(moved(slide));
        }
        return Err(format!(
            "the symbols are of another kernel than the one that ran: of {} calls only {hits} go to where a function begins; give those of this build (--symbols VMLINUX or SYSTEM.MAP)",
            hits + misses
        ));
    }
    match slide(symbols, trace) {
        Some(slide) => Err(moved(slide)),
        None if trace.strays.len() as u64 + hits + misses < FEWEST => {
            Err("the kernel hardly ran: nothing can be said about its functions".into())
        }
        None => Err("the kernel did not run where its symbols say, and is not simply moved: the symbols are of another kernel; give those of this build (--symbols VMLINUX or SYSTEM.MAP)".into()),
    }
}

fn moved(slide: u64) -> String {
    format!(
        "the kernel runs {slide:#x} away from where its symbols say (KASLR): add `nokaslr` to its command line"
    )
}

/// By how much the kernel was moved, where that explains the calls that went elsewhere.
fn slide(symbols: &Symbols, trace: &Trace) -> Option<u64> {
    let begins = |at: u64| {
        symbols
            .functions
            .binary_search_by_key(&at, |f| f.address)
            .is_ok()
    };
    let strays = &trace.strays;
    let first = *strays.first()?;
    let mut best: Option<(usize, u64)> = None;
    for function in &symbols.functions {
        let by = first.wrapping_sub(function.address);
        if by == 0 || !by.is_multiple_of(STEP) || by > 1 << 30 {
            continue;
        }
        let fits = strays.iter().filter(|s| begins(s.wrapping_sub(by))).count();
        if best.is_none_or(|b| fits > b.0) {
            best = Some((fits, by));
        }
    }
    best.filter(|(fits, _)| strays.len() >= 20 && *fits as f64 >= 0.8 * strays.len() as f64)
        .map(|b| b.1)
}

#[cfg(test)]
mod tests {
    use super::{super::symbols::tests::map, *};

    fn trace(calls: (u64, u64), strays: Vec<u64>) -> Trace {
        Trace {
            calls,
            strays,
            ..Trace::default()
        }
    }

    #[test]
    fn symbols_of_another_kernel_are_found_out() {
        let symbols = Symbols::read(map(&[]).as_bytes()).unwrap();
        assert_eq!(check(&symbols, &trace((995, 5), vec![])), Ok(()));
        let error = check(&symbols, &trace((300, 700), vec![])).unwrap_err();
        assert!(
            error.contains("another kernel") && error.contains("--symbols"),
            "{error}"
        );
        let error = check(&symbols, &trace((3, 5), vec![])).unwrap_err();
        assert!(error.contains("hardly ran"), "{error}");
    }

    #[test]
    fn a_moved_kernel_is_told_with_the_distance() {
        let symbols = Symbols::read(map(&[]).as_bytes()).unwrap();
        let by = 0x1e00_0000;
        let strays: Vec<_> = symbols.functions[3..60]
            .iter()
            .map(|f| f.address + by)
            .collect();
        let error = check(&symbols, &trace((0, 0), strays.clone())).unwrap_err();
        assert!(
            error.contains("0x1e000000") && error.contains("nokaslr"),
            "{error}"
        );
        // What is not at any function's place is no slide.
        let odd = strays.iter().map(|s| s + 3).chain(0..200).collect();
        let error = check(&symbols, &trace((0, 0), odd)).unwrap_err();
        assert!(error.contains("another kernel"), "{error}");
    }
}
