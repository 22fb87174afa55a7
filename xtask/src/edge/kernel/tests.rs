// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole way from request to kernel, over a kernel tree that takes milliseconds to
//! build.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use self::lab::{Lab, PATCH};
use super::{work::KERNEL, *};
use crate::{
    core::{
        fault::{Exit, NotBuilt, exit_of},
        units::Bytes,
    },
    edge::cache::manifest,
};

pub mod lab;

impl Lab {
    fn provide(&self, series: Option<&str>) -> Result<Kernel> {
        self.provide_spec(&spec(series))
    }
    fn provide_spec(&self, spec: &KernelSpec) -> Result<Kernel> {
        let say = |line: &str| self.say(line);
        provide(self.dir.path(), &self.cache, spec, BuildTree::Needed, &say)
    }
    /// What was compiled since the last call, sorted: make works in parallel.
    fn compiled(&self) -> String {
        let text = fs::read_to_string(self.path("compiled")).unwrap_or_default();
        let _ = fs::remove_file(self.path("compiled"));
        let mut files: Vec<_> = text.lines().collect();
        files.sort_unstable();
        files.join(" ")
    }
    fn leftovers(&self) -> Vec<String> {
        let kinds = fs::read_dir(self.cache.root())
            .unwrap()
            .flatten()
            .filter(|e| e.path().is_dir());
        let names = kinds.flat_map(|k| {
            fs::read_dir(k.path())
                .unwrap()
                .flatten()
                .map(|e| e.file_name().to_string_lossy().into_owned())
        });
        names.filter(|n| n.starts_with("tmp-")).collect()
    }
    fn entry(&self, kind: &str, kernel: &Kernel) -> PathBuf {
        self.cache.root().join(kind).join(&kernel.key)
    }
}

fn spec(series: Option<&str>) -> KernelSpec {
    KernelSpec {
        source: "k".into(),
        series: series.map(Into::into),
        ..KernelSpec::default()
    }
}

#[test]
fn builds_once_then_takes_it_from_the_cache() {
    let lab = Lab::new();
    let kernel = lab.provide(None).unwrap();
    assert_eq!(
        (kernel.release.as_str(), lab.compiled().as_str()),
        ("6.1.0-fake", "a.c b.c")
    );
    assert!(lab.said().contains("built ") && kernel.source.starts_with("tree "));
    assert!(
        fs::read_to_string(kernel.kbuild.join(".config"))
            .unwrap()
            .contains("CONFIG_SLUB=y\n")
    );
    let again = lab.provide(None).unwrap();
    assert_eq!((again.key, again.image), (kernel.key, kernel.image));
    assert_eq!(
        (lab.compiled(), lab.said(), lab.leftovers()),
        (String::new(), String::new(), vec![])
    );
}

#[test]
fn a_patched_kernel_compiles_only_what_the_patch_touches_and_leaves_the_base_alone() {
    let lab = Lab::new();
    let base = lab.provide(None).unwrap();
    lab.compiled();
    let patched = lab.provide(Some("s")).unwrap();
    assert_eq!(lab.compiled(), "a.c");
    assert_ne!(patched.key, base.key);
    assert!(String::from_utf8_lossy(&fs::read(&patched.image).unwrap()).contains("ALPHA"));
    for entry in [
        lab.entry(BUILD, &base),
        lab.entry(BUILD, &patched),
        lab.entry(KERNEL, &base),
    ] {
        manifest::verify(&entry).unwrap();
    }
    // Sources are shared, outputs never.
    let links = |k: &Kernel, f: &str| {
        fs::metadata(lab.entry(BUILD, k).join("tree").join(f))
            .unwrap()
            .nlink()
    };
    assert!(links(&patched, "b.c") > 1 && links(&patched, "a.c") == 1);
    assert!(links(&patched, "build/b.o") == 1 && links(&base, "build/b.o") == 1);
    // From nothing it comes out the same as from the copy.
    let other = Lab::new();
    let alone = other.provide(Some("s")).unwrap();
    assert_eq!(
        fs::read(&alone.image).unwrap(),
        fs::read(&patched.image).unwrap()
    );
}

/// The drivers get a folder of their own; what they are made of is what the kernel is.
#[test]
fn drivers_become_a_part_of_a_copy() {
    let lab = Lab::new();
    lab.write("linux/drivers/Makefile", "obj-y += pci/\n");
    lab.write("guest-drivers/Kbuild", "obj-y := d.o\n");
    lab.write("guest-drivers/d.c", "one\n");
    let built_in = KernelSpec {
        built_in: true,
        ..spec(None)
    };
    let provide = || lab.provide_spec(&built_in).unwrap();
    let base = lab.provide(None).unwrap();
    lab.compiled();
    let first = provide();
    assert_ne!(first.key, base.key);
    assert_eq!(lab.compiled(), "");
    let read = |k: &Kernel, f: &str| {
        fs::read_to_string(lab.entry(BUILD, k).join("tree/drivers").join(f)).ok()
    };
    assert_eq!(read(&first, "bootrig/d.c").unwrap(), "one\n");
    assert_eq!(
        read(&first, "Makefile").unwrap(),
        "obj-y += pci/\nobj-y += bootrig/\n"
    );
    assert_eq!(read(&base, "Makefile").unwrap(), "obj-y += pci/\n");
    assert_eq!(read(&base, "bootrig/d.c"), None);
    assert_eq!(provide().key, first.key);
    lab.write("guest-drivers/d.c", "two\n");
    let second = provide();
    assert_ne!(second.key, first.key);
    assert_eq!(read(&second, "bootrig/d.c").unwrap(), "two\n");
    assert_eq!(lab.provide(None).unwrap().key, base.key);
}

#[test]
fn whatever_a_kernel_is_made_of_makes_another_but_a_comment_does_not() {
    let lab = Lab::new();
    let first = lab.provide(None).unwrap();
    lab.compiled();
    lab.write(
        "images/kernels/fragments/base.config",
        "# why\nCONFIG_SLUB=y\n# CONFIG_SLOB is not set\n",
    );
    assert_eq!(lab.provide(None).unwrap().key, first.key);
    assert_eq!(lab.compiled(), "");
    lab.write(
        "images/kernels/fragments/base.config",
        "CONFIG_SLUB=y\nCONFIG_MORE=y\n# CONFIG_SLOB is not set\n",
    );
    let more = lab.provide(None).unwrap();
    lab.write("linux/b.c", "gamma\n");
    let edited = lab.provide(None).unwrap();
    assert!(first.key != more.key && more.key != edited.key);
    let patched = lab.provide(Some("s")).unwrap();
    lab.write(
        "images/kernels/patches/s/k/a.patch",
        &PATCH.replace("ALPHA", "Alpha"),
    );
    assert_ne!(lab.provide(Some("s")).unwrap().key, patched.key);
}

#[test]
fn a_corrupt_entry_is_named_and_made_again() {
    let lab = Lab::new();
    let kernel = lab.provide(None).unwrap();
    let right = fs::read(&kernel.image).unwrap();
    fs::write(&kernel.image, "rubbish").unwrap();
    lab.said();
    let again = lab.provide(None).unwrap();
    assert_eq!(
        (again.key.as_str(), fs::read(&again.image).unwrap()),
        (kernel.key.as_str(), right)
    );
    let said = lab.said();
    assert!(
        said.contains("corrupt")
            && said.contains("bzImage has changed")
            && said.contains(&kernel.key),
        "{said}"
    );
    // Damage in the build tree shows when something is to be built with it.
    fs::write(again.kbuild.join("b.o"), "rubbish").unwrap();
    let kbuild = checked_kbuild(lab.dir.path(), &lab.cache, &spec(None), &again, &|l| {
        lab.say(l)
    })
    .unwrap();
    assert_eq!(fs::read_to_string(kbuild.join("b.o")).unwrap(), "beta\n");
    assert!(lab.said().contains("b.o has changed"));
    // Also when that is a patched kernel.
    fs::write(kbuild.join("b.o"), "rubbish").unwrap();
    assert!(
        fs::read(lab.provide(Some("s")).unwrap().image)
            .unwrap()
            .ends_with(b"ALPHA\nbeta\n")
    );
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

#[test]
fn a_failing_build_tells_the_error_and_the_log_and_leaves_nothing() {
    let lab = Lab::new();
    lab.write(
        "images/kernels/patches/s/k/a.patch",
        &PATCH.replace("ALPHA", "BROKEN"),
    );
    let error = format!("{:#}", lab.provide(Some("s")).unwrap_err());
    for want in ["kernel k (series s)", "a.c:1: error: it is broken", "log: "] {
        assert!(error.contains(want), "{want}: {error}");
    }
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

#[test]
fn user_mistakes_are_usage_errors() {
    let lab = Lab::new();
    let usage = |result: Result<Kernel>, want: &str| {
        let error = result.unwrap_err();
        assert!(
            exit_of(&error) == Exit::Usage && format!("{error:#}").contains(want),
            "{want}: {error:#}"
        );
    };
    usage(lab.provide(Some("t")), "no patch series `t`");
    lab.write(
        "images/kernels/patches/s/k/a.patch",
        &PATCH.replace("alpha", "aleph"),
    );
    usage(
        lab.provide(Some("s")),
        "a.patch does not apply: a.c:1: hunk 1",
    );
    lab.write("images/kernels/fragments/base.config", "CONFIG_REFUSED=y\n");
    usage(lab.provide(None), "Kconfig:5: depends on OTHER");
    lab.write(
        "images/kernels/sources.yaml",
        "sources:\n  k:\n    tree: {path: nowhere}\n",
    );
    usage(lab.provide(None), "is no kernel tree");
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

#[test]
fn without_space_nothing_is_begun() {
    let mut lab = Lab::new();
    lab.cache = lab.cache.clone().with_free_space(|_| Ok(Bytes(100 << 20)));
    let error = format!("{:#}", lab.provide(None).unwrap_err());
    assert!(
        error.contains("100 MiB are free") && error.contains("cargo xtask clean"),
        "{error}"
    );
    assert_eq!((lab.compiled(), lab.leftovers()), (String::new(), vec![]));
}

#[test]
fn two_runs_at_once_build_once() {
    let lab = Lab::new();
    lab.write("slow", "");
    let (root, cache, slow) = (lab.path(""), lab.cache.clone(), lab.path("slow"));
    let waiting = AtomicUsize::new(0);
    let run = || {
        let say = |line: &str| {
            if line.starts_with("waiting for another run")
                && waiting.fetch_add(1, Ordering::SeqCst) == 0
            {
                fs::remove_file(&slow).unwrap();
            }
        };
        provide(&root, &cache, &spec(None), BuildTree::Needed, &say)
            .unwrap()
            .key
    };
    let keys = std::thread::scope(|s| {
        let one = s.spawn(run);
        [run(), one.join().unwrap()]
    });
    assert_eq!(keys[0], keys[1]);
    assert_eq!(lab.compiled(), "a.c b.c");
}

/// The run that [`killed_in_the_middle_then_again`] kills.
#[test]
#[ignore = "only run by another test"]
fn victim() {
    let root = PathBuf::from(std::env::var_os("BOOTRIG_TEST_ROOT").expect("set by the other test"));
    let _ = provide(
        &root,
        &Cache::at(&root.join("cache")).unwrap(),
        &spec(None),
        BuildTree::Needed,
        &|_| {},
    );
}

#[test]
fn killed_in_the_middle_then_again() {
    let lab = Lab::new();
    lab.write("slow", "");
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim
        .args(["--exact", "edge::kernel::tests::victim", "--ignored"])
        .env("BOOTRIG_TEST_ROOT", lab.dir.path());
    let mut child = victim
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !lab.path("started").exists() {
        assert!(
            child.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(60),
            "the victim never got to compile"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!lab.leftovers().is_empty(), "it was killed in the middle");
    // Its make may still be running: also that must not matter.
    fs::remove_file(lab.path("slow")).unwrap();
    let kernel = lab.provide(None).unwrap();
    manifest::verify(&lab.entry(BUILD, &kernel)).unwrap();
    assert!(fs::read(&kernel.image).unwrap().ends_with(b"alpha\nbeta\n"));
}

#[test]
fn a_ready_kernel_must_fit_its_build_directory() {
    let lab = Lab::new();
    let built = lab.provide(None).unwrap();
    let ready = Kernel::ready(&built.image, &built.kbuild).unwrap();
    assert_eq!(ready.release, "6.1.0-fake");
    let usage = |image: &Path, kbuild: &Path, want: &str| {
        let error = Kernel::ready(image, kbuild).unwrap_err();
        assert!(
            exit_of(&error) == Exit::Usage && error.to_string().contains(want),
            "{want}: {error}"
        );
    };
    lab.write("other/include/config/kernel.release", "6.1.1-other\n");
    usage(&built.image, &lab.path("other"), "is 6.1.0-fake, but");
    usage(
        &built.image,
        &lab.path("linux"),
        "no directory that modules can be built in",
    );
    usage(&lab.path("linux/a.c"), &built.kbuild, "no bzImage");
    usage(&lab.path("missing"), &built.kbuild, "missing");
}

/// linux/ of a lab as a repository; `edit` makes a commit.
struct History<'a>(&'a Lab);

impl<'a> History<'a> {
    /// With a first commit, which has git leave the output alone.
    fn new(lab: &'a Lab) -> (Self, String) {
        let history = Self(lab);
        let linux = lab.path("linux");
        history.git(&linux, &["init", "--quiet", "--initial-branch=main"]);
        let first = history.edit("linux/.gitignore", "/build/\n");
        (history, first)
    }
    /// The checkout that is kept.
    fn keep(&self) {
        fs::create_dir(self.0.path("kept")).unwrap();
        let kept = self.0.path("kept/tree");
        let add = ["worktree", "add", "--quiet", "--detach"];
        let args = [&add[..], &[kept.to_str().unwrap()]].concat();
        self.git(&self.0.path("linux"), &args);
    }
    fn git(&self, dir: &Path, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(dir)
            .args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        let out = git.args(args).stderr(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{args:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
    fn edit(&self, file: &str, text: &str) -> String {
        self.0.write(file, text);
        let linux = self.0.path("linux");
        self.git(&linux, &["add", "."]);
        self.git(&linux, &["commit", "--quiet", "-m", "x"]);
        self.git(&linux, &["rev-parse", "HEAD"])
    }
    fn provide(&self, spec: &KernelSpec, commit: &str) -> Result<Kernel> {
        let top = self.0.path("kept/tree");
        let check_out = || {
            self.git(
                &top,
                &["checkout", "--quiet", "--force", "--detach", commit],
            );
            Ok(())
        };
        let kept = Kept {
            top: &top,
            like: "k",
            note: &self.0.path("kept/built"),
        };
        let (root, say) = (self.0.dir.path(), |l: &str| self.0.say(l));
        kept.provide(root, &self.0.cache, spec, commit, &check_out, &say)
    }
}

/// In a kept checkout only what differs from the commit before is compiled; what comes out is
/// what a build from nothing makes, and what was made once is not made again.
#[test]
fn a_kept_checkout_is_built_step_by_step() {
    let lab = Lab::new();
    let (history, first) = History::new(&lab);
    let second = history.edit("linux/b.c", "BETA\n");
    let broken = history.edit("linux/a.c", "BROKEN\n");
    let whole = history.edit("linux/a.c", "alpha\n");
    history.keep();
    let made = history.provide(&spec(None), &first).unwrap();
    assert_eq!(lab.compiled(), "a.c b.c");
    let next = history.provide(&spec(None), &second).unwrap();
    assert_eq!(lab.compiled(), "b.c");
    assert_ne!(next.key, made.key);
    assert_eq!(next.source, format!("git commit {second}"));
    let patched = history.provide(&spec(Some("s")), &second).unwrap();
    assert_eq!(lab.compiled(), "a.c");
    assert!(
        fs::read(&patched.image)
            .unwrap()
            .ends_with(b"ALPHA\nBETA\n")
    );
    let error = history.provide(&spec(None), &broken).unwrap_err();
    assert!(error.chain().any(|e| e.is::<NotBuilt>()), "{error:#}");
    assert!(format!("{error:#}").contains("a.c:1: error: it is broken"));
    let error = history.provide(&spec(Some("s")), &broken).unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage, "it does not apply: {error:#}");
    lab.compiled();
    let again = history.provide(&spec(None), &second).unwrap();
    assert_eq!(
        (again.key.as_str(), lab.compiled().as_str()),
        (next.key.as_str(), "")
    );
    let last = history.provide(&spec(None), &whole).unwrap();
    assert_eq!(lab.compiled(), "a.c");
    // As if nobody had kept anything.
    lab.write(
        "images/kernels/sources.yaml",
        &format!("sources:\n  k:\n    git: {{path: linux, ref: {second}}}\n"),
    );
    lab.compiled();
    let other = lab.provide(None).unwrap();
    assert_eq!(lab.compiled(), "a.c b.c");
    assert_eq!(other.key, next.key);
    assert_eq!(
        fs::read(&other.image).unwrap(),
        fs::read(&next.image).unwrap()
    );
    let _ = last;
}

/// The first step begins with what the cache has of a kernel like it.
#[test]
fn a_kept_checkout_begins_with_what_was_built() {
    let lab = Lab::new();
    let (history, _) = History::new(&lab);
    lab.provide(None).unwrap();
    lab.compiled();
    let other = history.edit("linux/b.c", "BETA\n");
    // What the cache has is of before the commit, so sources.yaml must go on naming that.
    history.keep();
    lab.write("linux/b.c", "beta\n");
    lab.provide(None).unwrap();
    lab.compiled();
    let made = history.provide(&spec(None), &other).unwrap();
    assert_eq!(lab.compiled(), "b.c", "{}", lab.said());
    assert!(fs::read(&made.image).unwrap().ends_with(b"alpha\nBETA\n"));
}

#[test]
fn what_is_no_file_of_a_kernels_size_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let (pipe, huge) = (dir.path().join("pipe"), dir.path().join("huge"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let file = fs::File::create(&huge).unwrap();
    file.set_len((1 << 30) + 1).unwrap();
    for (path, want) in [
        (Path::new("/dev/zero"), "is no regular file"),
        (&pipe, "is no regular file"),
        (dir.path(), "is no regular file"),
        (&huge, "has more than 1073741824 bytes"),
    ] {
        for error in [
            Kernel::bare(path).unwrap_err(),
            Kernel::ready(path, dir.path()).unwrap_err(),
        ] {
            assert_eq!(crate::core::fault::exit_of(&error), Exit::Usage);
            let why = error.to_string();
            assert!(why.contains("kernel ") && why.contains(want), "{why}");
        }
    }
}
