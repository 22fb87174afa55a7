// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running kbuild so that equal inputs give equal kernels, wherever they are built.
//!
//! The output directory is `build/` right inside the kernel's tree. kbuild then names the
//! sources by `..` and hardly anything in the output tells where it was made: it can be
//! copied, and after [`Tree::settle`] a copy is up to date. It also means that nothing
//! outside `build/` is ever written, so the sources can be links into a shared tree.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use super::old;
use crate::{
    core::need::Need,
    edge::{cache::Cache, files, process},
};

/// Changes whenever the same inputs would be built otherwise than before.
pub const RECIPE: u32 = 1;
/// The output directory, inside the kernel's tree.
pub const OUT: &str = "build";

/// The longest kernel.release that is read; kernels have 64 bytes for it.
const MOST_RELEASE_BYTES: u64 = 1 << 10;
const CONFIGURE_LIMIT: Duration = Duration::from_secs(600);
const BUILD_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Everything that would otherwise put the time, the place or the builder into the kernel,
/// and what its release ends in. They count as compiler flags: part of the key.
pub const VARIABLES: [&str; 7] = [
    "ARCH=x86",
    "LOCALVERSION=-bootrig",
    "KBUILD_BUILD_TIMESTAMP=@0",
    "KBUILD_BUILD_USER=bootrig",
    "KBUILD_BUILD_HOST=bootrig",
    // Else the number of links made in this output directory.
    "KBUILD_BUILD_VERSION=1",
    "KCFLAGS=",
];

/// The file in the output that says where it was made.
const PLACE: &str = ".bootrig-place";

/// For `make -C build M=...`. Kernels from 6.13 on want to be told the output directory.
const MAKEFILE: &str = "export KBUILD_OUTPUT := $(realpath $(dir $(lastword $(MAKEFILE_LIST))))\ninclude $(KBUILD_OUTPUT)/../Makefile\n";

/// The programs that make code.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// First line of the compiler's version.
    pub compiler: String,
    /// First line of the linker's version.
    pub linker: String,
}

impl Toolchain {
    /// Asks them.
    ///
    /// # Errors
    /// Names all programs that a kernel build needs and that are missing.
    pub fn find() -> Result<Self> {
        let programs = Need::OF_KERNELS.iter().filter_map(|need| need.program());
        let missing: Vec<_> = programs.filter(|p| process::which(p).is_none()).collect();
        ensure!(
            missing.is_empty(),
            "building kernels takes {}, not found here: `cargo xtask doctor` names the packages",
            missing.join(", ")
        );
        let version = |program: &str| -> Result<String> {
            let mut command = process::tool(program);
            command.arg("--version");
            let text = process::read(
                &format!("asking {program} for its version"),
                command,
                Duration::from_secs(30),
            )?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        };
        Ok(Self {
            compiler: version("gcc")?,
            linker: version("ld")?,
        })
    }
}

/// One tree under construction.
pub struct Tree<'a> {
    cache: &'a Cache,
    top: PathBuf,
    log: PathBuf,
    what: String,
}

impl<'a> Tree<'a> {
    /// The kernel in `top`; `what` names it in errors.
    pub fn new(cache: &'a Cache, top: PathBuf, log: PathBuf, what: String) -> Self {
        Self {
            cache,
            top,
            log,
            what,
        }
    }

    /// Its output directory.
    pub fn out(&self) -> PathBuf {
        self.top.join(OUT)
    }

    /// make, in the tree, for the output directory.
    fn make(&self, targets: &[&str], limit: Duration) -> Result<()> {
        let mut make = process::tool("make");
        make.arg("-C")
            .arg(&self.top)
            .arg(format!("O={}", self.out().display()))
            .args(VARIABLES)
            .args(old::variables(&self.top, &self.out()));
        make.arg(format!(
            "-j{}",
            std::thread::available_parallelism().map_or(1, usize::from)
        ))
        .args(targets);
        // What compilers leave when they are stopped goes with the folder.
        let scratch = process::scratch("bootrig-make-")?;
        make.env("TMPDIR", scratch.path());
        self.use_ccache(&mut make)?;
        process::run_logged(
            &format!("building {}: make {}", self.what, targets.join(" ")),
            make,
            &self.log,
            limit,
        )
        .map_err(|e| process::blame_source(self.cache.explain(e)))
    }

    /// Puts ccache, if there is one, in front of the compiler by the PATH: were it in `CC`,
    /// kbuild would take its coming and going for a change of the command and compile all
    /// again.
    fn use_ccache(&self, make: &mut Command) -> Result<()> {
        let Some(ccache) = process::which("ccache") else {
            return Ok(());
        };
        let bin = self.cache.root().join("bin");
        let link = bin.join("gcc");
        if fs::read_link(&link).ok().as_ref() != Some(&ccache) {
            fs::create_dir_all(&bin)?;
            let beside = bin.join(format!("gcc-{}", std::process::id()));
            let _ = fs::remove_file(&beside);
            symlink(&ccache, &beside)
                .and_then(|()| fs::rename(&beside, &link))
                .with_context(|| format!("making {}", link.display()))?;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        make.env(
            "PATH",
            std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)))?,
        );
        // The same file compiled in another tree is the same object.
        make.env("CCACHE_BASEDIR", &self.top)
            .env("CCACHE_NOHASHDIR", "1");
        Ok(())
    }

    /// Makes a copy of a built tree up to date. The makefiles of objtool, unlike kbuild's,
    /// record absolute paths; objtool would be built again, and every object with it,
    /// because they all depend on it. So the records are told the new place.
    ///
    /// # Errors
    /// When one cannot be rewritten.
    pub fn settle(&self) -> Result<()> {
        let Ok(before) = fs::read(self.out().join(PLACE)) else {
            return Ok(());
        };
        let here = self.top.as_os_str().as_bytes();
        settle_below(&self.out(), &before, here)
            .with_context(|| format!("settling the copy in {}", self.top.display()))
    }

    /// Makes the effective configuration out of the output of `merge` on tinyconfig's, or,
    /// where there is `more` to be merged, on the one that is there, and returns it.
    pub fn configure(&self, more: bool, merge: &dyn Fn(&str) -> String) -> Result<String> {
        let there = self.out().join(".config").exists();
        if !there {
            fs::create_dir_all(self.out())?;
            self.make(&["tinyconfig"], CONFIGURE_LIMIT)?;
        }
        if !there || more {
            let merged = merge(&super::config::effective(&self.out())?);
            files::write_whole(&self.out().join(".config"), merged.as_bytes())?;
        }
        self.make(&["olddefconfig"], CONFIGURE_LIMIT)?;
        super::config::effective(&self.out())
    }

    /// Builds image and modules, and returns the release.
    pub fn build(&self) -> Result<String> {
        self.make(&["bzImage", "modules"], BUILD_LIMIT)?;
        let image = self.image();
        let of_image = release_of_image(
            &fs::read(&image).with_context(|| format!("reading {}", image.display()))?,
        )?;
        let of_tree = release_of_kbuild(&self.out())?;
        if of_image != of_tree {
            bail!(
                "building {}: the image says it is {of_image}, its tree {of_tree}",
                self.what
            );
        }
        // Big and of no use to anybody.
        for entry in fs::read_dir(self.out())?.flatten() {
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(".tmp_vmlinux")
            {
                files::remove(&entry.path());
            }
        }
        // What kbuild writes here may hold this directory's path, and the tree will move.
        fs::write(self.out().join("Makefile"), MAKEFILE)?;
        fs::write(self.out().join(PLACE), self.top.as_os_str().as_bytes())?;
        Ok(of_tree)
    }

    /// The bzImage.
    pub fn image(&self) -> PathBuf {
        self.out().join("arch/x86/boot/bzImage")
    }
}

/// Puts `here` for `before` in what make keeps about commands and dependencies, with times
/// as they were.
fn settle_below(dir: &Path, before: &[u8], here: &[u8]) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            settle_below(&path, before, here)?;
        } else if kind.is_file() && path.extension().is_some_and(|e| e == "cmd" || e == "d") {
            let text = fs::read(&path)?;
            if let Some(settled) = replaced(&text, before, here) {
                let modified = entry.metadata()?.modified()?;
                fs::write(&path, settled)?;
                fs::File::open(&path)?.set_modified(modified)?;
            }
        }
    }
    Ok(())
}

/// `text` with `to` for every `from`, if there is any.
fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = (!from.is_empty())
        .then(|| rest.windows(from.len()).position(|w| w == from))
        .flatten()
    {
        out.extend(&rest[..at]);
        out.extend(to);
        rest = &rest[at + from.len()..];
    }
    (rest.len() < text.len()).then(|| {
        out.extend(rest);
        out
    })
}

/// What `uname -r` will say, from the header of a bzImage (the kernel's boot protocol).
pub fn release_of_image(image: &[u8]) -> Result<String> {
    let bytes = |at: usize, n: usize| image.get(at..at + n);
    ensure!(
        bytes(0x202, 4) == Some(b"HdrS"),
        "it is no bzImage: its boot header is missing"
    );
    let offset = bytes(0x20e, 2).map_or(0, |b| usize::from(u16::from_le_bytes([b[0], b[1]])));
    ensure!(offset != 0, "the image's header does not tell its version");
    let text = image.get(offset + 0x200..).unwrap_or_default();
    let end = text.iter().take(256).position(|b| *b == b' ' || *b == 0);
    let release = end
        .and_then(|e| std::str::from_utf8(&text[..e]).ok())
        .filter(|r| !r.is_empty());
    Ok(release
        .context("the image's header holds no version")?
        .to_owned())
}

/// The release that modules built in this directory will be for.
pub fn release_of_kbuild(kbuild: &Path) -> Result<String> {
    let path = kbuild.join("include/config/kernel.release");
    let bytes = files::read_file(&path, MOST_RELEASE_BYTES)
        .with_context(|| format!("reading {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_header_and_garbage_refused() {
        let mut image = vec![0u8; 0x1000];
        assert!(release_of_image(&image).is_err());
        assert!(release_of_image(b"short").is_err());
        image[0x202..0x206].copy_from_slice(b"HdrS");
        assert!(release_of_image(&image).is_err(), "no version");
        image[0x20e..0x210].copy_from_slice(&0x300u16.to_le_bytes());
        assert!(release_of_image(&image).is_err(), "an empty one");
        image[0x500..0x50a].copy_from_slice(b"6.1.9-x (u");
        assert_eq!(release_of_image(&image).unwrap(), "6.1.9-x");
        image[0x20e..0x210].copy_from_slice(&0xffffu16.to_le_bytes());
        assert!(release_of_image(&image).is_err(), "beyond the end");
    }

    #[test]
    fn a_settled_copy_names_its_own_place_and_keeps_times() {
        assert_eq!(
            replaced(b"a/x b/x a/y", b"a/", b"longer/").unwrap(),
            b"longer/x b/x longer/y"
        );
        assert_eq!(replaced(b"b/x", b"a/", b"c/"), None);
        assert_eq!(replaced(b"x", b"", b"c/"), None);
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(&dir.path().join("cache")).unwrap();
        let tree = Tree::new(
            &cache,
            dir.path().join("new"),
            PathBuf::new(),
            String::new(),
        );
        let file = tree.out().join("tools/.x.o.cmd");
        fs::create_dir_all(tree.out().join("tools")).unwrap();
        fs::write(&file, "deps := /old/tree/x.c\n").unwrap();
        fs::write(tree.out().join(PLACE), "/old/tree").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 5);
        fs::File::open(&file).unwrap().set_modified(old).unwrap();
        tree.settle().unwrap();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            format!("deps := {}/x.c\n", dir.path().join("new").display())
        );
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), old);
    }
}
