// SPDX-License-Identifier: MIT OR Apache-2.0
use std::{
    cell::RefCell,
    io::ErrorKind,
    os::unix::fs::symlink,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use super::*;
use crate::{
    core::fault::{Exit, exit_of},
    left_out::left_out,
};

fn quiet(_: &str) {}

fn temp() -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path()).unwrap();
    (dir, cache)
}

/// An entry with a file, a nested file and a link.
fn fill(cache: &Cache, key: &str) -> PathBuf {
    let lock = cache.lock("kind", key, "it", &quiet).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::create_dir(staged.dir().join("sub dir")).unwrap();
    fs::write(staged.dir().join("a"), "alpha").unwrap();
    fs::write(staged.dir().join("sub dir/b\n"), "beta").unwrap();
    symlink("../a", staged.dir().join("sub dir/link")).unwrap();
    cache.put(&lock, staged).unwrap()
}

fn staged_left(cache: &Cache) -> usize {
    list(&cache.root.join("kind"))
        .iter()
        .filter(|(n, _)| n.starts_with(STAGED))
        .count()
}

#[test]
fn an_entry_is_found_again_and_verified() {
    let (_dir, cache) = temp();
    assert_eq!(cache.get("kind", "k", Check::Full, &quiet).unwrap(), None);
    let place = fill(&cache, "k");
    assert_eq!(
        cache
            .get("kind", "k", Check::Full, &|w| panic!("{w}"))
            .unwrap(),
        Some(place.clone())
    );
    assert_eq!(
        cache
            .get("kind", "k", Check::Presence, &|w| panic!("{w}"))
            .unwrap(),
        Some(place)
    );
    assert_eq!(staged_left(&cache), 0);
}

/// As a child has it that another thread is starting.
#[test]
fn a_lock_is_given_back_although_its_file_is_still_open_elsewhere() {
    let (_dir, cache) = temp();
    let lock = cache.lock("kind", "k", "it", &|_| {}).unwrap();
    let _elsewhere = lock.file.try_clone().unwrap();
    assert!(cache.try_lock("kind", "k").unwrap().is_none());
    drop(lock);
    assert!(cache.try_lock("kind", "k").unwrap().is_some());
}

#[test]
fn every_kind_of_damage_is_named_and_the_entry_removed() {
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 7] = [
        ("a has changed", |d| {
            fs::write(d.join("a"), "alphb").unwrap()
        }),
        ("a has changed", |d| fs::write(d.join("a"), "").unwrap()),
        ("a is missing", |d| fs::remove_file(d.join("a")).unwrap()),
        ("extra does not belong", |d| {
            fs::write(d.join("extra"), "x").unwrap()
        }),
        ("link has changed", |d| {
            fs::remove_file(d.join("sub dir/link")).unwrap();
            symlink("../b", d.join("sub dir/link")).unwrap();
        }),
        ("cut or altered", |d| {
            let text = fs::read_to_string(d.join(manifest::NAME)).unwrap();
            fs::write(d.join(manifest::NAME), &text[..text.len() - 9]).unwrap();
        }),
        ("MANIFEST", |d| {
            fs::remove_file(d.join(manifest::NAME)).unwrap()
        }),
    ];
    let (_dir, cache) = temp();
    for (want, damage) in damages {
        let place = fill(&cache, "k");
        damage(&place);
        let said = RefCell::new(String::new());
        let got = cache
            .get("kind", "k", Check::Full, &|w| said.borrow_mut().push_str(w))
            .unwrap();
        assert_eq!(got, None, "{want}");
        assert!(
            said.borrow().contains(want) && said.borrow().contains("kind/k"),
            "{want}: {}",
            said.borrow()
        );
        assert!(!place.exists());
        assert_eq!(staged_left(&cache), 0);
    }
}

#[test]
fn shared_files_are_listed_without_reading_but_foreign_ones_are_read() {
    let (_dir, cache) = temp();
    let base = fill(&cache, "base");
    let lock = cache.lock("kind", "next", "it", &quiet).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::hard_link(base.join("a"), staged.dir().join("a")).unwrap();
    fs::write(staged.dir().join("own"), "own").unwrap();
    let place = cache.put_sharing(&lock, staged, Some(&base)).unwrap();
    manifest::verify(&place).unwrap();
    // A write through the link damages both, and both know.
    fs::write(place.join("a"), "through").unwrap();
    assert!(manifest::verify(&place).is_err() && manifest::verify(&base).is_err());
}

#[test]
fn a_second_run_waits_and_does_not_make_it_again() {
    let (_dir, cache) = temp();
    let made = AtomicUsize::new(0);
    let waited = AtomicUsize::new(0);
    let said = std::sync::Mutex::new(Vec::new());
    let run = || {
        let say = |line: &str| {
            said.lock().unwrap().push(line.to_owned());
            waited.fetch_add(1, Ordering::SeqCst);
        };
        let lock = cache.lock("kind", "k", "the thing", &say).unwrap();
        if cache
            .get("kind", "k", Check::Full, &quiet)
            .unwrap()
            .is_none()
        {
            let staged = cache.stage(&lock).unwrap();
            // Long enough that the others do come and wait.
            while waited.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            fs::write(staged.dir().join("f"), "f").unwrap();
            cache.put(&lock, staged).unwrap();
            made.fetch_add(1, Ordering::SeqCst);
        }
    };
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(run);
        }
    });
    assert_eq!(made.into_inner(), 1);
    // Which process it is may not be known yet.
    for line in said.into_inner().unwrap() {
        assert!(
            line.starts_with("waiting for another run (")
                && line.ends_with(") that is making the thing"),
            "{line}"
        );
    }
}

#[test]
fn what_a_dead_run_left_is_swept() {
    let (_dir, cache) = temp();
    let lock = cache.lock("kind", "alive", "it", &quiet).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::create_dir_all(cache.root.join("kind/tmp-dead-abc/x")).unwrap();
    fs::create_dir_all(cache.root.join("kind/tmp-dead2-abc/x")).unwrap();
    // Whoever is about to make the entry removes its remains ...
    drop(cache.lock("kind", "dead", "it", &quiet).unwrap());
    assert!(!cache.root.join("kind/tmp-dead-abc").exists());
    assert!(cache.root.join("kind/tmp-dead2-abc").exists() && staged.dir().exists());
    drop((staged, lock));
    // ... and pruning those of any.
    cache.prune(&aged_by(HOUR), &quiet).unwrap();
    assert_eq!(staged_left(&cache), 0);
}

/// This process, as the holder of a lock, where the system tells holders.
fn us() -> String {
    let file = tempfile::tempfile().unwrap();
    rustix::fs::flock(&file, FlockOperation::LockShared).unwrap();
    flock::holders(&file)
}

#[test]
fn nothing_is_pruned_while_somebody_uses_the_cache() {
    let (dir, cache) = temp();
    let place = fill(&cache, "k");
    let run = Cache::at(dir.path()).unwrap();
    let lock = run.lock("kind", "other", "it", &quiet).unwrap();
    let staged = run.stage(&lock).unwrap();
    // Both the cache and what was made through it count as use.
    drop(run);
    let error = cache.prune(&aged_by(Duration::ZERO), &quiet).unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage);
    let error = error.to_string();
    assert!(
        error.contains(&format!("{} is in use by {}:", cache.root.display(), us())),
        "{error}"
    );
    assert!(place.exists() && staged.dir().exists());
    drop((staged, lock));
    // A child that another test is just starting may hold a copy of the lock for a moment.
    let freed = (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        cache.prune(&aged_by(Duration::ZERO), &quiet).ok()
    });
    assert!(freed.is_some_and(|f| f > 0));
    assert!(!place.exists());
    // Whoever pruned goes on like all others.
    drop(Cache::at(dir.path()).unwrap());
}

#[test]
fn a_run_waits_while_the_cache_is_cleaned() {
    let (dir, cache) = temp();
    drop(cache);
    let cleaner = flock::open(&dir.path().join(USE)).unwrap();
    rustix::fs::flock(&cleaner, FlockOperation::LockExclusive).unwrap();
    let (send, said) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        let run = s.spawn(|| {
            let say = |line: &str| send.send(line.to_owned()).unwrap();
            Cache::enter(dir.path(), &say).map(drop)
        });
        let line = said.recv().unwrap();
        let cleaner_is = format!("waiting for {}, which cleans the cache", us());
        assert!(line.contains(&cleaner_is), "{line}");
        drop(cleaner);
        run.join().unwrap().unwrap();
    });
}

const HOUR: Duration = Duration::from_secs(3600);

/// Makes a file or folder look last changed so long ago.
fn age(path: &Path, by: Duration) {
    let file = File::open(path).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

#[test]
fn prune_removes_what_was_not_used_for_long() {
    let (_dir, cache) = temp();
    let aged = |key: &str| {
        let place = fill(&cache, key);
        age(&place.join(manifest::NAME), 2 * HOUR);
        place
    };
    let (old, used, new) = (aged("old"), aged("used"), fill(&cache, "new"));
    cache.get("kind", "used", Check::Presence, &quiet).unwrap();
    assert!(cache.prune(&aged_by(HOUR), &quiet).unwrap() > 0);
    assert!(!old.exists() && used.exists() && new.exists());
    cache.prune(&aged_by(Duration::ZERO), &quiet).unwrap();
    assert!(!used.exists() && !new.exists());
}

#[test]
fn what_dry_runs_left_and_initramfs_are_pruned_by_their_last_use() {
    let (_dir, cache) = temp();
    let file = |name: &str| {
        let path = cache.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        age(&path, 2 * HOUR);
        path
    };
    let (old, used) = (file("initramfs/a.cpio"), file("initramfs/b.cpio"));
    touch(&used);
    let dry = |name: &str| {
        let console = file(&format!("dry-run/{name}/console"));
        age(console.parent().unwrap(), 2 * HOUR);
        console
    };
    let (forgotten, printed, ran) = (dry("s.forgotten.1"), dry("tmp-s.a.1"), dry("s.b.1"));
    // Its command was printed again; its machine was run again by hand.
    touch(printed.parent().unwrap());
    fs::write(&ran, "again").unwrap();
    cache.prune(&aged_by(HOUR), &quiet).unwrap();
    assert!(!old.exists() && used.exists());
    assert!(!forgotten.parent().unwrap().exists() && printed.exists() && ran.exists());
}

#[test]
fn low_space_names_path_need_and_remedy() {
    let (dir, cache) = temp();
    let cache = cache.with_free_space(|_| Ok(Bytes(10 << 20)));
    cache.require_space(Bytes(10 << 20), "x").unwrap();
    let error = cache
        .require_space(Bytes(3 << 30), "building kernel 6.1")
        .unwrap_err()
        .to_string();
    for want in [
        "building kernel 6.1",
        "3.0 GiB",
        "10 MiB",
        "cargo xtask clean",
        dir.path().file_name().unwrap().to_str().unwrap(),
    ] {
        assert!(error.contains(want), "{want}: {error}");
    }
    let full = format!("{:#}", cache.explain(anyhow::anyhow!("make failed")));
    assert!(
        full.contains("is full") && full.contains("make failed"),
        "{full}"
    );
}

#[test]
fn a_full_disk_leaves_no_part_of_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| {
        std::process::Command::new(args[0])
            .args(&args[1..])
            .arg(dir.path())
            .status()
            .is_ok_and(|s| s.success())
    };
    if !rustix::process::geteuid().is_root()
        || !mount(&["mount", "-t", "tmpfs", "-o", "size=1m", "none"])
    {
        left_out("a small file system takes root to mount");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let cache = Cache::at(dir.path()).unwrap();
        let lock = cache.lock("kind", "k", "it", &quiet).unwrap();
        let staged = cache.stage(&lock).unwrap();
        let error = fs::write(staged.dir().join("big"), vec![1; 2 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        // Full to the last byte: the manifest has no room either.
        let error = cache.put(&lock, staged).unwrap_err();
        let error = format!("{:#}", cache.explain(error));
        assert!(
            error.contains("is full") && error.contains("kind/k"),
            "{error}"
        );
        assert_eq!(staged_left(&cache), 0);
        assert_eq!(cache.get("kind", "k", Check::Full, &quiet).unwrap(), None);
        assert!(write_whole(&dir.path().join("whole"), &vec![1; 2 << 20]).is_err());
        assert!(!dir.path().join("whole").exists());
    });
    assert!(mount(&["umount"]));
    result.unwrap();
}

/// What removes all that is old.
fn aged_by(older_than: Duration) -> Prune {
    Prune {
        older_than: Some(older_than),
        ..Prune::default()
    }
}

/// An entry of `bytes`, last used `hours` ago.
fn used(cache: &Cache, kind: &str, key: &str, bytes: usize, hours: u32) -> PathBuf {
    let lock = cache.lock(kind, key, "it", &quiet).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::write(staged.dir().join("image"), vec![1; bytes]).unwrap();
    let place = cache.put(&lock, staged).unwrap();
    let manifest = File::open(place.join(manifest::NAME)).unwrap();
    manifest
        .set_modified(SystemTime::now() - HOUR * hours)
        .unwrap();
    place
}

#[test]
fn a_cache_that_is_too_large_loses_what_was_not_used_for_longest() {
    let (_dir, cache) = temp();
    let mib = 1 << 20;
    let [oldest, middle, newest] =
        [(1, 30), (2, 20), (3, 10)].map(|(n, h)| used(&cache, "kernel", &format!("k{n}"), mib, h));
    let at_most = |mib: u64| Prune {
        at_most: Some(Bytes(mib << 20)),
        ..Prune::default()
    };
    assert_eq!(cache.prune(&at_most(9), &quiet).unwrap(), 0);
    // Manifests and the like take a little as well.
    assert!(cache.prune(&at_most(3), &quiet).unwrap() >= mib as u64);
    assert!(!oldest.exists() && middle.exists() && newest.exists());
    cache.prune(&at_most(0), &quiet).unwrap();
    assert!(!middle.exists() && !newest.exists());
}

#[test]
fn what_no_run_refers_to_is_unused() {
    let (_dir, cache) = temp();
    let all = ["kernel", "build", "module", "init", "image"];
    let ours = all.map(|kind| used(&cache, kind, "ours", 10, 0));
    let theirs = all.map(|kind| used(&cache, kind, "theirs", 10, 0));
    let source = used(&cache, "source", "any", 10, 0);
    let request = |kind: &str, file: &str, key: &str, of: &str| {
        let lock = cache.lock(kind, key, "it", &quiet).unwrap();
        let staged = cache.stage(&lock).unwrap();
        fs::write(staged.dir().join(file), of).unwrap();
        cache.put(&lock, staged).unwrap()
    };
    let requests = [("request", "kernel"), ("image_request", "image")];
    let kept = requests.map(|(kind, file)| request(kind, file, "a", "ours"));
    let gone = requests.map(|(kind, file)| request(kind, file, "b", "theirs"));
    let what = Prune {
        but_used: Some(["ours".to_owned()].into()),
        ..Prune::default()
    };
    cache.prune(&what, &quiet).unwrap();
    assert!(
        ours.iter()
            .chain(&kept)
            .chain([&source])
            .all(|p| p.exists())
    );
    assert!(!theirs.iter().chain(&gone).any(|p| p.exists()));
}

/// Whatever is asked for: a dry run removes nothing, and names what goes and what that frees.
#[test]
fn a_dry_run_foretells_and_removes_nothing() {
    let mib = 1 << 20;
    for what in [
        aged_by(HOUR * 15),
        Prune {
            at_most: Some(Bytes(2 << 20)),
            ..Prune::default()
        },
        Prune {
            but_used: Some(["b".to_owned()].into()),
            ..Prune::default()
        },
        Prune {
            at_most: Some(Bytes(0)),
            ..aged_by(HOUR * 15)
        },
    ] {
        let (_dir, cache) = temp();
        let first = used(&cache, "build", "a", mib, 30);
        // A build tree shares files with the one that it began with.
        let lock = cache.lock("build", "b", "it", &quiet).unwrap();
        let staged = cache.stage(&lock).unwrap();
        fs::hard_link(first.join("image"), staged.dir().join("image")).unwrap();
        fs::write(staged.dir().join("own"), vec![2; mib]).unwrap();
        let second = cache.put(&lock, staged).unwrap();
        drop(lock);
        let lines = std::cell::RefCell::new(Vec::new());
        let say = |line: &str| lines.borrow_mut().push(line.to_owned());
        let dry = Prune {
            dry_run: true,
            ..what.clone()
        };
        let foretold = cache.prune(&dry, &say).unwrap();
        let named = lines.take();
        assert!(first.exists() && second.exists(), "{what:?}");
        assert!(!named.is_empty(), "{what:?}");
        assert_eq!(cache.prune(&what, &say).unwrap(), foretold, "{what:?}");
        let removed = lines.take();
        let paths = |lines: &[String], verb: &str| -> Vec<String> {
            let path = |l: &String| l.strip_prefix(verb).unwrap_or(l).to_owned();
            lines.iter().map(path).collect()
        };
        assert_eq!(paths(&named, "would remove "), paths(&removed, "removing "));
        assert_eq!(removed.len() == 2, foretold >= 2 * mib as u64, "{what:?}");
        for path in paths(&removed, "removing ") {
            assert!(!Path::new(&path).exists(), "{path}");
        }
    }
}
