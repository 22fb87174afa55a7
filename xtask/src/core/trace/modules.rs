// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a module's functions are in the guest, from its file and from the kernel's `struct
//! module` at the time it was loaded.
//!
//! The kernel fills in the addresses of a module's `init` and `exit` functions, and the file
//! says which places of the structure these are. Each tells where one part of the module
//! is: what is thrown away after initialisation, and what stays. Within a part, sections lie
//! in the file's order, each aligned as it asks.

use object::{
    Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags, SectionIndex, SymbolKind,
};

/// Where `struct module` has its name: behind its state and a list.
const NAME_AT: usize = 24;
const NAME_LENGTH: usize = 56;
const PAGE: u64 = 4096;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
/// A size that no function has.
const MOST: u64 = 1 << 20;

/// A loaded module's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The module.
    pub name: String,
    /// By address: begin, end, name.
    functions: Vec<(u64, u64, String)>,
}

impl Module {
    /// The function at `address`, as `name [module]`.
    pub fn name_at(&self, address: u64) -> Option<String> {
        let after = self.functions.partition_point(|f| f.0 <= address);
        let (_, end, name) = self.functions.get(after.checked_sub(1)?)?;
        (address < *end).then(|| format!("{name} [{}]", self.name))
    }
}

/// The name in a copy of a `struct module`.
pub fn name(copy: &[u8]) -> Option<&str> {
    let name = copy.get(NAME_AT..NAME_AT + NAME_LENGTH)?;
    let end = name.iter().position(|b| *b == 0)?;
    let name = std::str::from_utf8(&name[..end]).ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

/// The functions of the module whose file is `file` and whose `struct module` was `copy`.
///
/// # Errors
/// What does not fit together.
pub fn place(file: &[u8], copy: &[u8]) -> Result<Module, String> {
    let name = name(copy).ok_or("the kernel's structure has no name where it should be")?;
    let elf = object::File::parse(file).map_err(|e| format!("module {name}: {e}"))?;
    let (init, core) = parts(&elf);
    let mut bases = Vec::new();
    let mut wrong = None;
    for symbol in ["init_module", "cleanup_module"] {
        match base(&elf, copy, symbol, &[&init, &core]) {
            Some((at, in_init)) if at.is_multiple_of(PAGE) => {
                bases.push((at, if in_init { &init } else { &core }));
            }
            Some((at, _)) => wrong = Some(at),
            None => {}
        }
    }
    if let (Some(at), true) = (wrong, bases.is_empty()) {
        return Err(format!(
            "module {name}: it would be at {at:#x}, where no module is: its file is of another build"
        ));
    }
    let mut functions = Vec::new();
    for (at, part) in bases {
        for (section, offset) in part {
            functions.extend(symbols_of(&elf, *section, at + offset));
        }
    }
    functions.sort();
    functions.dedup_by_key(|f| f.0);
    Ok(Module {
        name: name.into(),
        functions,
    })
}

type Part = Vec<(SectionIndex, u64)>;

/// The executable sections with their offsets: of the part for initialisation, and the rest.
fn parts(elf: &object::File) -> (Part, Part) {
    let (mut init, mut core) = ((Part::new(), 0u64), (Part::new(), 0u64));
    for section in elf.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        if sh_flags.0 & (SHF_ALLOC | SHF_EXECINSTR) != SHF_ALLOC | SHF_EXECINSTR {
            continue;
        }
        let first = section.name().is_ok_and(|n| n.starts_with(".init"));
        let (part, size) = if first {
            (&mut init.0, &mut init.1)
        } else {
            (&mut core.0, &mut core.1)
        };
        let at = size.next_multiple_of(section.align().max(1));
        part.push((section.index(), at));
        *size = at + section.size();
    }
    (init.0, core.0)
}

/// Where the part begins that holds the function `symbol`, whose address stands in `copy`; and
/// whether it is the first of `parts`.
fn base(elf: &object::File, copy: &[u8], symbol: &str, parts: &[&Part; 2]) -> Option<(u64, bool)> {
    let this = elf.section_by_name(".gnu.linkonce.this_module")?;
    let (place, target) = this.relocations().find_map(|(offset, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return None;
        };
        let target = elf.symbol_by_index(index).ok()?;
        (target.name() == Ok(symbol)).then_some((offset as usize, target))
    })?;
    let address = copy.get(place..place + 8)?;
    let address = u64::from_le_bytes(address.try_into().ok()?);
    let section = target.section_index()?;
    let inside = |part: &Part| part.iter().find(|(s, _)| *s == section).map(|p| p.1);
    let (offset, init) = match (inside(parts[0]), inside(parts[1])) {
        (Some(offset), _) => (offset, true),
        (None, Some(offset)) => (offset, false),
        (None, None) => return None,
    };
    Some((address.checked_sub(offset + target.address())?, init))
}

fn symbols_of(elf: &object::File, section: SectionIndex, at: u64) -> Vec<(u64, u64, String)> {
    let size = elf.section_by_index(section).map_or(0, |s| s.size());
    let found = elf
        .symbols()
        .filter(|s| s.section_index() == Some(section) && s.kind() == SymbolKind::Text)
        .filter_map(|s| {
            let name = s.name().ok().filter(|n| !n.starts_with("__pfx_"))?;
            Some((at + s.address(), name.to_owned()))
        })
        .collect();
    ranges(found, at + size)
}

/// Begin, end and name of functions: each reaches as far as the next, or to the section's `end`.
/// Of several names of one place (`init_module` is the name for the kernel) the module's own is
/// taken.
fn ranges(mut found: Vec<(u64, String)>, end: u64) -> Vec<(u64, u64, String)> {
    let general = |name: &str| matches!(name, "init_module" | "cleanup_module");
    found.sort_by_cached_key(|(at, name)| (*at, general(name), name.clone()));
    found.dedup_by_key(|f| f.0);
    let ends: Vec<u64> = found.iter().skip(1).map(|f| f.0).chain([end]).collect();
    let both = found.into_iter().zip(ends);
    both.map(|((at, name), end)| (at, end.min(at + MOST), name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(name: &str) -> Vec<u8> {
        let mut copy = vec![0; 2048];
        copy[NAME_AT..NAME_AT + name.len()].copy_from_slice(name.as_bytes());
        copy
    }

    #[test]
    fn only_a_name_is_a_name() {
        assert_eq!(name(&copy("dummy_pci")), Some("dummy_pci"));
        assert_eq!(name(&copy("")), None);
        assert_eq!(name(&copy("../x")), None);
        assert_eq!(name(&[0; 30]), None);
        assert_eq!(name(&[b'a'; 2048]), None);
    }

    #[test]
    fn a_file_that_is_no_module_is_refused() {
        assert!(place(b"\x7fELF", &copy("m")).is_err());
        assert!(place(b"", &copy("m")).is_err());
    }

    /// A module's initcall is known by its own name.
    #[test]
    fn of_two_names_of_one_place_the_modules_own_is_taken() {
        let found = vec![
            (0x10, "init_module".into()),
            (0x10, "dummy_init".into()),
            (0x40, "later".into()),
        ];
        assert_eq!(
            ranges(found, 0x80),
            [
                (0x10, 0x40, "dummy_init".into()),
                (0x40, 0x80, "later".into())
            ]
        );
    }

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let module = Module {
            name: "m".into(),
            functions: vec![(0x1000, 0x1020, "a".into()), (0x1040, 0x1050, "b".into())],
        };
        assert_eq!(module.name_at(0x101f).as_deref(), Some("a [m]"));
        assert_eq!(module.name_at(0x1030), None);
        assert_eq!(module.name_at(0x1040).as_deref(), Some("b [m]"));
        assert_eq!(module.name_at(0xfff), None);
    }
}
