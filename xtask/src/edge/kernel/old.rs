// SPDX-License-Identifier: MIT OR Apache-2.0
//! What old trees need to be built by newer compilers and linkers: make variables, by what
//! stands in the tree, since stable kernels have the mend and their mainline tag has not. None
//! changes a byte of a kernel that builds without it, so they are no part of its key.
//! docs/bisect.md has them as a table.

use std::{fs, path::Path};

/// One mend.
struct Mend {
    /// The variable.
    variable: &'static str,
    /// Where in the tree, and what stands there, if it is needed.
    needed: fn(top: &Path, out: &Path) -> bool,
}

const MENDS: [Mend; 2] = [
    // Before 5.17: gcc 12 warns of realloc()'s old pointer in what objtool is built of, and the
    // warning is an error.
    Mend {
        variable: "WERROR=0",
        needed: |top, _| has(top, "tools/lib/subcmd/subcmd-util.h", "realloc(ptr, 1)"),
    },
    // Before 5.11: without preemption thunk_64.S is empty, the assembler of binutils 2.36 and
    // newer makes no table of symbols of it, and objtool gives up.
    Mend {
        variable: "OBJECT_FILES_NON_STANDARD_thunk_64.o=y",
        needed: |top, out| {
            has(top, "tools/objtool/elf.c", "WARN(\"missing symbol table\")")
                && !has(out, ".config", "CONFIG_PREEMPTION=y")
        },
    },
];

/// The variables that the kernel in `top`, configured in `out`, needs.
pub fn variables(top: &Path, out: &Path) -> Vec<&'static str> {
    let needed = MENDS.iter().filter(|mend| (mend.needed)(top, out));
    needed.map(|mend| mend.variable).collect()
}

fn has(below: &Path, file: &str, text: &str) -> bool {
    fs::read_to_string(below.join(file)).is_ok_and(|found| found.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tree_that_needs_one_gets_one() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let write = |file: &str, text: &str| {
            let path = top.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let of = || variables(top, &top.join("build"));
        assert!(of().is_empty(), "nothing is there");
        write(
            "tools/lib/subcmd/subcmd-util.h",
            "ret = realloc(ptr, size);\n",
        );
        write(
            "tools/objtool/elf.c",
            "/* A missing symbol table is possible */\n",
        );
        write("build/.config", "# CONFIG_PREEMPTION is not set\n");
        assert!(of().is_empty(), "mended trees");
        write(
            "tools/lib/subcmd/subcmd-util.h",
            "\tret = realloc(ptr, 1);\n",
        );
        assert_eq!(of(), ["WERROR=0"]);
        write("tools/objtool/elf.c", "\tWARN(\"missing symbol table\");\n");
        assert_eq!(of(), ["WERROR=0", "OBJECT_FILES_NON_STANDARD_thunk_64.o=y"]);
        write("build/.config", "CONFIG_PREEMPTION=y\n");
        assert_eq!(of(), ["WERROR=0"]);
    }
}
