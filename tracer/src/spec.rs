// SPDX-License-Identifier: GPL-2.0-or-later
//! What the host tells: where the kernel's functions are, and which are special.
//!
//! ```text
//! bootrig-tracer 1
//! mode profile|marks
//! shift N
//! init_task ADDRESS
//! text BEGIN END
//! fn ADDRESS ID FLAGS
//! ```
//! Addresses are hexadecimal without prefix; `fn` lines are sorted by address; several may
//! have one ID (a function and its cold part). FLAGS are `-` or letters, see [`Flags`].

/// What is special about a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// `i`: where an interrupt enters the kernel.
    pub const IRQ: u32 = 1;
    /// `x`: where an exception enters.
    pub const FAULT: u32 = 2;
    /// `y`: the same, with an error code on the stack.
    pub const FAULT_CODE: u32 = 4;
    /// `s`: changes from one task to another (`__switch_to_asm`).
    pub const SWITCH: u32 = 8;
    /// `f`: where a new task begins.
    pub const FORK: u32 = 16;
    /// `t`: a thunk, which belongs to whoever goes through it.
    pub const THUNK: u32 = 32;
    /// `k`: the kernel begins (`start_kernel`).
    pub const KERNEL: u32 = 64;
    /// `K`: the kernel gives way to another (`machine_kexec`).
    pub const KEXEC: u32 = 128;
    /// `m`: its entries and returns are marks.
    pub const MARK: u32 = 256;
    /// `d`: marked; its first argument is a device, whose name is noted.
    pub const DEVICE: u32 = 512;
    /// `c`: marked; its first argument is the address of a function, which is noted.
    pub const CODE: u32 = 1024;
    /// `l`: `do_init_module`: its argument, a struct module, is copied.
    pub const MODULE: u32 = 2048;
    /// `w`: its marks are borders of windows: counts are kept apart there.
    pub const WINDOW: u32 = 4096;
    /// `p`: a part of a marked function; it may return from here.
    pub const PART: u32 = 1 << 13;
    /// `o`: with `t`: not a thunk that functions end in, but parts of any of them, set apart,
    /// that are jumped to and back from.
    pub const APART: u32 = 1 << 16;
    /// `v`: a table of entries of interrupts or exceptions, one behind the other.
    pub const TABLE: u32 = 1 << 14;
    /// Not in the file: the block begins where the function does.
    pub const ENTRY: u32 = 1 << 15;

    fn parse(text: &str) -> Option<Self> {
        let letter = |c| {
            Some(match c {
                '-' => 0,
                'i' => Self::IRQ,
                'x' => Self::FAULT,
                'y' => Self::FAULT_CODE,
                's' => Self::SWITCH,
                'f' => Self::FORK,
                't' => Self::THUNK,
                'k' => Self::KERNEL,
                'K' => Self::KEXEC,
                'm' => Self::MARK,
                'd' => Self::DEVICE,
                'c' => Self::CODE,
                'l' => Self::MODULE,
                'w' => Self::WINDOW,
                'p' => Self::PART,
                'o' => Self::APART,
                'v' => Self::TABLE,
                _ => return None,
            })
        };
        let bits = text.chars().map(letter).try_fold(0, |a, b| Some(a | b?))?;
        (!text.is_empty()).then_some(Self(bits))
    }

    /// Whether one of `bits` is there.
    pub fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
}

/// A function, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it begins.
    pub address: u64,
    /// Its number on the host.
    pub id: u32,
    /// What is special about it.
    pub flags: Flags,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Count everything, and follow calls.
    Profile,
    /// Only marks.
    Marks,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What to do.
    pub mode: Mode,
    /// An instruction takes `1 << shift` nanoseconds.
    pub shift: u32,
    /// Address of the first task's structure; 0: not known.
    pub init_task: u64,
    /// The kernel's text: from, to.
    pub text: (u64, u64),
    /// Sorted by address.
    pub functions: Vec<Function>,
}

impl Spec {
    /// Reads the file's text.
    ///
    /// # Errors
    /// Names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|l| l.1) != Some("bootrig-tracer 1") {
            return Err("not a specification of version 1".into());
        }
        let mut spec = Self {
            mode: Mode::Profile,
            shift: 1,
            init_task: 0,
            text: (0, 0),
            functions: Vec::new(),
        };
        for (number, line) in lines {
            let words: Vec<_> = line.split(' ').collect();
            spec.line(&words)
                .ok_or_else(|| format!("line {}: `{line}`", number + 1))?;
        }
        if !spec.functions.is_sorted_by(|a, b| a.address < b.address) {
            return Err("functions are not sorted, or two are at one address".into());
        }
        Ok(spec)
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        match *words {
            ["mode", "profile"] => self.mode = Mode::Profile,
            ["mode", "marks"] => self.mode = Mode::Marks,
            ["shift", n] => self.shift = n.parse().ok().filter(|n| *n <= 10)?,
            ["init_task", at] => self.init_task = hex(at)?,
            ["text", from, to] => self.text = (hex(from)?, hex(to)?),
            ["fn", at, id, flags] => self.functions.push(Function {
                address: hex(at)?,
                id: id.parse().ok().filter(|n| *n < 1 << 24)?,
                flags: Flags::parse(flags)?,
            }),
            _ => return None,
        }
        Some(())
    }

    /// The function that `pc` is in.
    pub fn at(&self, pc: u64) -> Option<&Function> {
        if !(self.text.0..self.text.1).contains(&pc) {
            return None;
        }
        let after = self.functions.partition_point(|f| f.address <= pc);
        after.checked_sub(1).map(|index| &self.functions[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_any_address_inside() {
        let spec = Spec::parse(
            "bootrig-tracer 1\nmode marks\nshift 1\ninit_task ff\ntext 1000 3000\nfn 1000 0 -\nfn 2000 1 mcw\n",
        )
        .unwrap();
        assert_eq!((spec.mode, spec.init_task), (Mode::Marks, 0xff));
        let id = |pc| spec.at(pc).map(|f| f.id);
        assert_eq!(
            [
                id(0xfff),
                id(0x1000),
                id(0x1fff),
                id(0x2000),
                id(0x2fff),
                id(0x3000)
            ],
            [None, Some(0), Some(0), Some(1), Some(1), None]
        );
        assert!(spec.at(0x2000).unwrap().flags.any(Flags::CODE));
        assert!(!spec.at(0x2000).unwrap().flags.any(Flags::IRQ));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "",
            "bootrig-tracer 2\n",
            "bootrig-tracer 1\nfn x 0 -\n",
            "bootrig-tracer 1\nfn 10 0 Q\n",
            "bootrig-tracer 1\nfn 10 0 \n",
            "bootrig-tracer 1\nfn 20 0 -\nfn 10 1 -\n",
            "bootrig-tracer 1\nfn 20 0 -\nfn 20 1 -\n",
            "bootrig-tracer 1\nwhat\n",
        ] {
            assert!(Spec::parse(bad).is_err(), "{bad}");
        }
    }
}
