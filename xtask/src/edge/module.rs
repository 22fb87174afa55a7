// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds guest-drivers/ out of tree against a kernel; warnings are errors.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    cache::{Cache, Check},
    drivers, process,
};

/// The kind of its entries in the cache.
pub const KIND: &str = "module";
/// Changes whenever the same inputs would be built otherwise than before.
const RECIPE: &str = "1 W=1 -Werror";
const LIMIT: Duration = Duration::from_secs(1800);

/// The directory with the `*.ko` files for the kernel with this key. `kbuild` is asked for
/// the kernel's (verified) build tree only when the modules are not cached.
///
/// # Errors
/// Names the compiler's last error lines (a warning is one) and the log.
pub fn provide(
    root: &Path,
    cache: &Cache,
    kernel_key: &str,
    kbuild: &dyn Fn() -> Result<PathBuf>,
    say: &dyn Fn(&str),
) -> Result<PathBuf> {
    let sources = drivers::sources(root)?;
    let key = key(&sources, kernel_key);
    if let Some(dir) = cache.get(KIND, &key, Check::Full, say)? {
        return Ok(dir);
    }
    let lock = cache.lock(KIND, &key, "the guest's modules", say)?;
    if let Some(dir) = cache.get(KIND, &key, Check::Full, say)? {
        return Ok(dir);
    }
    let kbuild = kbuild()?;
    let work = cache.stage(&lock)?;
    drivers::write(&sources, work.dir())?;
    let log = cache.log(&format!("module-{}", &key[..16]))?;
    say(&format!("building modules; log: {}", log.display()));
    process::run_logged("building modules", make(&kbuild, work.dir()), &log, LIMIT)
        .map_err(|e| process::blame_source(cache.explain(e)))?;
    // Only the modules are kept: what else kbuild leaves tells where it was made.
    let staged = cache.stage(&lock)?;
    let mut found = 0;
    for path in drivers::files(work.dir())?
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "ko"))
    {
        let name = path.file_name().context("a file has a name")?;
        fs::copy(work.dir().join(&path), staged.dir().join(name))
            .with_context(|| format!("keeping {}", work.dir().join(&path).display()))?;
        found += 1;
    }
    if found == 0 {
        bail!("{} built no module; log: {}", drivers::DIR, log.display());
    }
    cache.put(&lock, staged).map_err(|e| cache.explain(e))
}

/// The key of the modules that `root` has for what is called `kernel`.
///
/// # Errors
/// When the sources cannot be read.
pub fn key_for(root: &Path, kernel: &str) -> Result<String> {
    Ok(key(&drivers::sources(root)?, kernel))
}

fn key(sources: &drivers::Sources, kernel_key: &str) -> String {
    let mut hash = blake3::Hasher::new();
    for part in [RECIPE, kernel_key] {
        hash.update(part.as_bytes()).update(b"\0");
    }
    for (path, bytes) in sources {
        hash.update(format!("{} {}\n", path.display(), bytes.len()).as_bytes())
            .update(bytes);
    }
    hash.finalize().to_hex().to_string()
}

fn make(kbuild: &Path, work: &Path) -> Command {
    let mut make = process::tool("make");
    make.arg("-C")
        .arg(kbuild)
        .arg(format!("M={}", work.display()))
        .arg("ARCH=x86")
        .arg("W=1");
    make.arg(format!(
        "-j{}",
        std::thread::available_parallelism().map_or(1, usize::from)
    ));
    // The same modules from any directory. One warning of a header of 5.10's must not stop
    // what the kernel itself adds to a module; Kbuild makes it an error again for ours.
    make.arg(format!(
        "KCFLAGS=-Werror -Wno-error=unused-but-set-variable -ffile-prefix-map={}/=",
        work.display()
    ))
    .arg("modules");
    make
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A checkout with one driver, and a build directory whose Makefile copies it.
    fn lab() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), text).unwrap();
        };
        write("guest-drivers/Kbuild", "obj-m += d.o\n");
        write("guest-drivers/d.c", "code\n");
        write(
            "kbuild/Makefile",
            "modules:\n\tgrep -q WARNING $(M)/d.c && { echo d.c:1: error: warned; exit 1; } || true\n\tcp $(M)/d.c $(M)/d.ko\n\techo $(KCFLAGS) | grep -q -e -Werror\n",
        );
        let cache = Cache::at(&dir.path().join("cache")).unwrap();
        (dir, cache)
    }

    #[test]
    fn built_once_for_each_kernel_and_the_checkout_stays_clean() {
        let (dir, cache) = lab();
        let asked = Cell::new(0);
        let kbuild = || {
            asked.set(asked.get() + 1);
            Ok(dir.path().join("kbuild"))
        };
        let provide = |key: &str| provide(dir.path(), &cache, key, &kbuild, &|_| {}).unwrap();
        let first = provide("one");
        assert_eq!(fs::read_to_string(first.join("d.ko")).unwrap(), "code\n");
        assert_eq!(
            fs::read_dir(dir.path().join("guest-drivers"))
                .unwrap()
                .count(),
            2
        );
        // Leftovers of a build in place are no sources.
        fs::write(dir.path().join("guest-drivers/d.mod.c"), "x").unwrap();
        fs::write(dir.path().join("guest-drivers/d.o"), "x").unwrap();
        assert_eq!(provide("one"), first);
        assert_eq!(asked.get(), 1);
        assert_ne!(provide("two"), first);
        fs::write(dir.path().join("guest-drivers/d.c"), "more\n").unwrap();
        assert_ne!(provide("one"), first);
        assert_eq!(asked.get(), 3);
        assert_eq!(
            fs::read_dir(cache.root().join(KIND)).unwrap().count(),
            3,
            "nothing but the entries is left"
        );
    }

    #[test]
    fn a_warning_is_an_error_with_its_line() {
        let (dir, cache) = lab();
        fs::write(dir.path().join("guest-drivers/d.c"), "WARNING\n").unwrap();
        let error = provide(
            dir.path(),
            &cache,
            "k",
            &|| Ok(dir.path().join("kbuild")),
            &|_| {},
        )
        .unwrap_err();
        assert!(
            format!("{error:#}").contains("d.c:1: error: warned"),
            "{error:#}"
        );
        assert_eq!(fs::read_dir(cache.root().join(KIND)).unwrap().count(), 0);
    }
}
