// SPDX-License-Identifier: GPL-2.0-or-later
//! Marks without a profile: only the marked functions' first instructions and returns are
//! looked at, so that a boot costs next to nothing more.

use rustc_hash::FxHashSet;

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
    /// It went on by a jump into another function, whose return is its own: any may be.
    elsewhere: bool,
    /// The same, and it is looked out for where it returns to; 0: no.
    back: u64,
}

/// See the module.
#[derive(Default)]
pub struct Marks {
    serial: u32,
    open: Vec<Open>,
    /// Where returns of functions that went on elsewhere are looked out for.
    backs: FxHashSet<u64>,
    /// Where blocks begin that were translated without a look-out.
    translated: FxHashSet<u64>,
}

impl Marks {
    /// A block is translated that begins at `pc`: whether it needs a look-out.
    pub fn translates(&mut self, pc: u64) -> bool {
        let needs = self.backs.contains(&pc);
        if !needs && pc >> 63 == 1 {
            self.translated.insert(pc);
        }
        needs
    }

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
            back: 0,
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

    /// The function `id` goes on in another with this stack pointer, and will return to `back`.
    /// A look-out can only be in blocks that are translated from now on; else every return is
    /// looked at.
    pub fn leaves(&mut self, id: u32, stack: u64, back: Option<u64>) {
        let ours = |o: &&mut Open| o.id == id && o.stack == stack && stack != 0;
        let Some(open) = self.open.iter_mut().rfind(ours) else {
            return;
        };
        match back {
            Some(back) if self.backs.contains(&back) || !self.translated.contains(&back) => {
                self.backs.insert(back);
                open.back = back;
            }
            _ => open.elsewhere = true,
        }
    }

    /// Whether some function returned when `at` is come to with this stack pointer.
    pub fn is_back(&self, at: u64, stack: u64) -> bool {
        self.back(at, stack).is_some()
    }

    fn back(&self, at: u64, stack: u64) -> Option<usize> {
        // Of the return address that was on the stack nothing is left.
        let ours = |o: &Open| o.back == at && o.stack.wrapping_add(8) == stack;
        self.open.iter().rposition(ours)
    }

    /// It did, at `ns`.
    pub fn comes_back(&mut self, at: u64, ns: i64, stack: u64, out: &mut Out) {
        if let Some(index) = self.back(at, stack) {
            let serial = self.open.remove(index).serial;
            out.line(format_args!("r {serial} {ns}"));
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
        assert!(!marks.translates(0xffff_ffff_8100_0000));
        marks.leaves(2, 0x800, Some(0xffff_ffff_8100_0000));
        assert!(marks.elsewhere());
        marks.returns(None, 45, 0x700, &mut out);
        marks.returns(None, 50, 0x800, &mut out);
        assert!(!marks.elsewhere());
        marks.returns(Some(1), 60, 0x900, &mut out);
        marks.returns(Some(1), 70, 0x900, &mut out);
        // And once more: where it returns to has not been translated yet.
        let back = 0xffff_ffff_8200_0000;
        marks.entered(&function(2), 80, 0x800, 0, "-", &mut out);
        marks.leaves(2, 0x800, Some(back));
        assert!(!marks.elsewhere() && marks.translates(back));
        assert!(!marks.is_back(back, 0x800) && marks.is_back(back, 0x808));
        marks.comes_back(back, 90, 0x908, &mut out);
        marks.comes_back(back, 95, 0x808, &mut out);
        marks.comes_back(back, 99, 0x808, &mut out);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let returns: Vec<_> = text.lines().filter(|l| l.starts_with('r')).collect();
        assert_eq!(returns, ["r 1 30", "r 3 50", "r 2 60", "r 4 95"]);
    }
}
