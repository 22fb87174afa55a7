// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of a kernel image: from its System.map, or from the symbol table of a vmlinux.

use std::collections::BTreeMap;

use object::{Object, ObjectSymbol, SymbolKind};

/// Where kernel images are: below are user space and memory, above per-CPU offsets end.
const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// Fewer functions are no kernel's table.
const FEWEST: usize = 100;

/// Behind this name lie the parts of functions that run only until the CPU's features are known
/// (`.altinstr_aux`): jumped to and back from, and without names of their own.
pub const OUTLINED: &str = "_einittext";
/// They are not more than this.
const OUTLINED_MOST: u64 = 1 << 20;

/// A function, or what looks like one in assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Where it begins.
    pub address: u64,
    /// Its name.
    pub name: String,
}

/// A kernel's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbols {
    /// By address; one at each.
    pub functions: Vec<Symbol>,
    /// The kernel's text with that of its initialisation: from, to.
    pub text: (u64, u64),
    /// The first task's structure, where it is known.
    pub init_task: Option<u64>,
}

impl Symbols {
    /// Reads a System.map, or the symbols of an ELF file.
    ///
    /// # Errors
    /// Says what is wrong with it: no symbols, cut, not of a kernel.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.starts_with(b"\x7fELF") {
            Self::of_elf(bytes)
        } else {
            Self::of_map(bytes)
        }
    }

    fn of_map(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "neither System.map nor ELF file")?;
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(' ');
            let (address, kind, name) = (words.next(), words.next(), words.next());
            let address = address.and_then(|a| u64::from_str_radix(a, 16).ok());
            let (Some(address), Some(kind), Some(name), None) = (address, kind, name, words.next())
            else {
                return Err(format!(
                    "line {} is none of a System.map: `{}`",
                    number + 1,
                    line.escape_debug().take(80).collect::<String>()
                ));
            };
            all.push((address, matches!(kind, "t" | "T" | "w" | "W"), name));
        }
        Self::from(all.into_iter())
    }

    fn of_elf(bytes: &[u8]) -> Result<Self, String> {
        let file = object::File::parse(bytes).map_err(|e| format!("damaged ELF file: {e}"))?;
        if file.symbols().next().is_none() {
            return Err("the ELF file is stripped: it has no symbols; give the vmlinux of the build, or its System.map".into());
        }
        let texts: Vec<_> = {
            use object::{ObjectSection, SectionKind};
            let texts = file.sections().filter(|s| s.kind() == SectionKind::Text);
            texts.map(|s| s.index()).collect()
        };
        let all = file.symbols().filter_map(|symbol| {
            let code = symbol.kind() == SymbolKind::Text
                || symbol.section_index().is_some_and(|s| texts.contains(&s));
            Some((symbol.address(), code, symbol.name().ok()?))
        });
        Self::from(all)
    }

    fn from<'a>(all: impl Iterator<Item = (u64, bool, &'a str)>) -> Result<Self, String> {
        let all: Vec<_> = all.collect();
        let mut at: BTreeMap<u64, &str> = BTreeMap::new();
        let mut special: BTreeMap<&str, u64> = BTreeMap::new();
        for &(address, code, name) in &all {
            if [
                "_stext",
                "_text",
                "_etext",
                OUTLINED,
                "_sinittext",
                "init_task",
            ]
            .contains(&name)
            {
                special.insert(name, address);
            }
            if !code || address < IMAGE || is_padding(name) {
                continue;
            }
            let best = at.entry(address).or_insert(name);
            if rank(name) < rank(best) {
                *best = name;
            }
        }
        let begin = special.get("_text").or(special.get("_stext"));
        if let Some(begin) = special.get(OUTLINED) {
            at.insert(*begin, OUTLINED);
        }
        // What is set apart ends where the next section has a name.
        let outlined = special.get(OUTLINED).map(|begin| {
            let behind = all
                .iter()
                .map(|s| s.0)
                .filter(|a| a > begin && a - begin < OUTLINED_MOST);
            behind.min().unwrap_or(begin + 1)
        });
        let end = outlined.as_ref().or(special.get("_etext"));
        let (Some(begin), Some(end)) = (begin, end) else {
            return Err("it names neither _text nor _etext: not a kernel's symbols".into());
        };
        let functions: Vec<Symbol> = at
            .range(*begin..*end)
            .map(|(address, name)| Symbol {
                address: *address,
                name: (*name).to_owned(),
            })
            .collect();
        if functions.len() < FEWEST {
            return Err(format!(
                "only {} functions: cut, or not a kernel's",
                functions.len()
            ));
        }
        Ok(Self {
            functions,
            text: (*begin, *end),
            init_task: special.get("init_task").copied(),
        })
    }
}

/// What the compiler puts before a function's first instruction.
fn is_padding(name: &str) -> bool {
    name.starts_with("__pfx_")
        || name.starts_with("__cfi_")
        || name.starts_with('.')
        || name.contains('$')
}

/// Several names of one address: the smallest is taken.
fn rank(name: &str) -> (bool, bool, usize, &str) {
    let marker = ["_start", "_end", "_begin", "text", "_table", "_array"];
    (
        name.starts_with('_') && marker.iter().any(|m| name.ends_with(m)),
        // `__se_sys_reboot`, `__do_sys_reboot`: any is as good, but not as `sys_reboot`.
        name.starts_with("__"),
        name.len(),
        name,
    )
}

/// A function without what compilers add to the names of its parts and copies.
pub fn plain(name: &str) -> &str {
    let suffix = [".cold", ".isra.", ".constprop.", ".part.", ".llvm."];
    let cut = suffix.iter().filter_map(|s| name.find(s)).min();
    cut.map_or(name, |at| &name[..at])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A System.map with `names` at 0xffffffff81000010 and on, 16 bytes each, among enough
    /// others.
    pub fn map(names: &[&str]) -> String {
        let mut text = String::from(
            "0000000000000000 D __per_cpu_start\nffffffff81000000 T _text\nffffffff81000000 T startup_64\n",
        );
        let fill: Vec<String> = (0..FEWEST).map(|n| format!("fill_{n}")).collect();
        let all = names.iter().copied().chain(fill.iter().map(String::as_str));
        let mut at = 0xffff_ffff_8100_0010u64;
        for name in all {
            text += &format!("{at:x} t {name}\n");
            at += 16;
        }
        text + &format!("{at:x} T _etext\nffffffff82000000 D init_task\n")
    }

    #[test]
    fn functions_in_order_with_one_name_each() {
        let text = map(&["a", "b.cold"])
            + "ffffffff81000010 T __a_alias\nffffffff81000020 t __pfx_b\nffffffff82000010 D data\n";
        let symbols = Symbols::read(text.as_bytes()).unwrap();
        let names: Vec<_> = symbols.functions[..3]
            .iter()
            .map(|f| f.name.as_str())
            .collect();
        assert_eq!(names, ["startup_64", "a", "b.cold"]);
        assert_eq!(symbols.text.0, 0xffff_ffff_8100_0000);
        assert_eq!(symbols.init_task, Some(0xffff_ffff_8200_0000));
        assert_eq!(symbols.functions[2].address, 0xffff_ffff_8100_0020);
        assert!(symbols.functions.iter().all(|f| f.name != "data"));
    }

    #[test]
    fn parts_that_are_set_apart_end_where_the_next_section_begins() {
        let apart = "ffffffff81100000 T _einittext\nffffffff81103000 D early_top_pgt\n";
        let symbols = Symbols::read((map(&["a"]) + apart).as_bytes()).unwrap();
        let last = symbols.functions.last().unwrap();
        assert_eq!(
            (last.address, &*last.name),
            (0xffff_ffff_8110_0000, OUTLINED)
        );
        assert_eq!(symbols.text.1, 0xffff_ffff_8110_3000);
    }

    #[test]
    fn what_is_no_table_is_refused_with_the_reason() {
        for (bytes, want) in [
            (&b"\xff\xfe"[..], "neither System.map nor ELF"),
            (b"hello\n", "line 1 is none"),
            (b"ffffffff81000000 T a b\n", "line 1 is none"),
            (b"ffffffff81000000 T a\n", "names neither _text"),
            (
                b"ffffffff81000000 T _text\nffffffff81000010 T _etext\n",
                "only 1 functions",
            ),
            (b"\x7fELF", "damaged ELF"),
        ] {
            let error = Symbols::read(bytes).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn the_parts_and_copies_of_a_function_are_it() {
        assert_eq!(plain("f.constprop.0.cold"), "f");
        assert_eq!(plain("f.cold.12"), "f");
        assert_eq!(plain("f.isra.0"), "f");
        assert_eq!(plain("f"), "f");
    }
}
