// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cache, and a checkout with a kernel tree that takes milliseconds to build: its Makefile
//! has kbuild's targets, compiles by copying, and notes what it does.

use std::{cell::RefCell, fs, path::PathBuf};

use crate::edge::cache::Cache;

/// Recipes write to `@@/compiled`, and wait while `@@/slow` is there.
const MAKEFILE: &str = r"
.PHONY: tinyconfig olddefconfig bzImage modules
tinyconfig:
	printf 'CONFIG_SLOB=y\n' > $(O)/.config
olddefconfig:
	@grep -v REFUSED $(O)/.config > $(O)/.new; cmp -s $(O)/.new $(O)/.config || cp $(O)/.new $(O)/.config
$(O)/%.o: %.c
	@touch @@/started; while [ -e @@/slow ]; do sleep 0.05; done
	@if grep -q BROKEN $<; then echo '$<:1: error: it is broken'; exit 1; fi
	cp $< $@; echo $< >> @@/compiled
bzImage: $(O)/a.o $(O)/b.o
	mkdir -p $(O)/arch/x86/boot $(O)/include/config
	echo 6.1.0-fake > $(O)/include/config/kernel.release
	(head -c 514 /dev/zero; printf HdrS; head -c 8 /dev/zero; printf '\024\000'; head -c 4 /dev/zero; printf '6.1.0-fake '; cat $^) > $(O)/arch/x86/boot/bzImage
	cat $(O)/a.o > $(O)/System.map
modules:
mrproper:
	rm -rf .config include/config
";

/// The series `s` of the kernel `k`.
pub const PATCH: &str = "--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-alpha\n+ALPHA\n";

/// Kernel `k` in linux/ and the series `s` for it; removed when dropped.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub cache: Cache,
    said: RefCell<Vec<String>>,
}

impl Lab {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lab = Self {
            cache: Cache::at(&dir.path().join("cache")).unwrap(),
            dir,
            said: RefCell::default(),
        };
        let at = lab.dir.path().to_str().unwrap();
        lab.write("linux/Makefile", &MAKEFILE.replace("@@", at));
        lab.write("linux/Kconfig", "config SLUB\n\tbool \"SLUB\"\nconfig REFUSED\n\tbool \"Refused\"\n\tdepends on OTHER\n");
        lab.write("linux/a.c", "alpha\n");
        lab.write("linux/b.c", "beta\n");
        lab.write("linux/kernel/fork.c", &"x".repeat(100_000));
        lab.write(
            "images/kernels/sources.yaml",
            "sources:\n  k:\n    tree: {path: linux}\n",
        );
        lab.write(
            "images/kernels/fragments/base.config",
            "CONFIG_SLUB=y\n# CONFIG_SLOB is not set\n",
        );
        lab.write("images/kernels/patches/s/k/series", "a.patch\n");
        lab.write("images/kernels/patches/s/k/a.patch", PATCH);
        lab
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    pub fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }
    pub fn say(&self, line: &str) {
        self.said.borrow_mut().push(line.to_owned());
    }
    /// What was said since the last call.
    pub fn said(&self) -> String {
        self.said.take().join("\n")
    }
}
