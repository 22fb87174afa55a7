// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks without a profile: only the marked functions' first instructions and returns are
//! looked at, so that a boot costs next to nothing more.

use crate::{
    flow::Guest,
    out::{Out, word},
    spec::{Flags, Function},
};

/// A marked function that was entered and has not returned.
struct Open {
    serial: u32,
    id: u32,
    /// The stack pointer at entry, where the return address is; 0: cannot be known.
    stack: u64,
    /// It went on by a jump into another function, whose return is its own.
    elsewhere: bool,
}

/// See the module.
#[derive(Default)]
pub struct Marks {
    serial: u32,
    open: Vec<Open>,
}

impl Marks {
    /// Whether some function went on elsewhere: then any return may be its.
    #[cfg(any(feature = "conditions", test))]
    pub fn elsewhere(&self) -> bool {
        self.open.iter().any(|o| o.elsewhere)
    }

    /// `function` is entered at `ns`; its stack pointer is `stack`.
    pub fn entered(
        &mut self,
        function: &Function,
        ns: i64,
        stack: u64,
        vcpu: u32,
        argument: &str,
        out: &mut Out,
    ) {
        self.serial += 1;
        // What is further down the same stack was left without a return that we saw.
        self.open.push(Open {
            serial: self.serial,
            id: function.id,
            stack,
            elsewhere: false,
        });
        let (serial, id) = (self.serial, function.id);
        out.line(format_args!("e {serial} {ns} {vcpu} {id} {argument} -"));
        out.flush();
    }

    /// Which entry a return with this stack pointer, in the function `id` if it is marked, ends.
    fn closed(&self, id: Option<u32>, stack: u64) -> Option<usize> {
        let ours = |o: &Open| {
            let same = stack == 0 || o.stack == 0 || o.stack == stack;
            same && (o.elsewhere || Some(o.id) == id)
        };
        self.open.iter().rposition(ours)
    }

    /// Whether it ends one.
    pub fn closes(&self, id: Option<u32>, stack: u64) -> bool {
        self.closed(id, stack).is_some()
    }

    /// A return is executed with this stack pointer, in the function `id` if it is marked.
    pub fn returns(&mut self, id: Option<u32>, ns: i64, stack: u64, out: &mut Out) {
        if let Some(at) = self.closed(id, stack) {
            let serial = self.open.remove(at).serial;
            out.line(format_args!("r {serial} {ns}"));
        }
    }

    /// The function `id` goes on in another with this stack pointer.
    pub fn leaves(&mut self, id: u32, stack: u64) {
        if let Some(open) = self
            .open
            .iter_mut()
            .rfind(|o| o.id == id && o.stack == stack && stack != 0)
        {
            open.elsewhere = true;
        }
    }

    /// The machine starts anew: nobody returns any more.
    pub fn reset(&mut self, ns: i64, out: &mut Out) {
        self.open.clear();
        out.line(format_args!("b {ns}"));
        out.flush();
    }
}

/// A mark's argument as it stands in the file, from the function's first argument.
pub fn argument(flags: Flags, guest: &mut impl Guest) -> String {
    let first = guest.first_argument();
    if flags.any(Flags::CODE) {
        return first.map_or_else(|| "-".into(), |at| format!("@{at:x}"));
    }
    if flags.any(Flags::DEVICE) {
        // A struct device begins with its struct kobject, and that with its name.
        let name = first
            .and_then(|at| guest.pointer(at))
            .and_then(|at| guest.text(at));
        return word(&name.unwrap_or_default());
    }
    "-".into()
}

/// A module is loaded: its structure is the first argument.
pub fn loads(guest: &mut impl Guest, out: &mut Out) {
    if let Some(bytes) = guest.first_argument().and_then(|at| guest.read(at, 2048)) {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        out.line(format_args!("l {hex}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_return_closes_the_entry_with_its_stack() {
        let sink = Sink::default();
        let mut out = Out::to(sink.clone());
        let mut marks = Marks::default();
        let function = |id| Function {
            address: 0,
            id,
            flags: Flags(Flags::MARK),
        };
        // Two tasks are in function 1 at once; the first to enter is the first to return.
        marks.entered(&function(1), 10, 0x100, 0, "-", &mut out);
        marks.entered(&function(1), 20, 0x900, 0, "-", &mut out);
        marks.returns(Some(1), 30, 0x100, &mut out);
        // Function 2 goes on in one that is not marked.
        marks.entered(&function(2), 40, 0x800, 0, "-", &mut out);
        marks.leaves(2, 0x800);
        assert!(marks.elsewhere());
        marks.returns(None, 45, 0x700, &mut out);
        marks.returns(None, 50, 0x800, &mut out);
        assert!(!marks.elsewhere());
        marks.returns(Some(1), 60, 0x900, &mut out);
        marks.returns(Some(1), 70, 0x900, &mut out);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let returns: Vec<_> = text.lines().filter(|l| l.starts_with('r')).collect();
        assert_eq!(returns, ["r 1 30", "r 3 50", "r 2 60"]);
    }
}
