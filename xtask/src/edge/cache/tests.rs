// SPDX-License-Identifier: MIT OR Apache-2.0
use std::{
    cell::RefCell,
    io::ErrorKind,
    os::unix::fs::symlink,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::*;

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
fn what_a_dead_run_left_is_swept_and_a_living_ones_is_not() {
    let (_dir, cache) = temp();
    let lock = cache.lock("kind", "alive", "it", &quiet).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::create_dir_all(cache.root.join("kind/tmp-dead-abc/x")).unwrap();
    fs::create_dir_all(cache.root.join("kind/tmp-dead2-abc/x")).unwrap();
    // Whoever is about to make the entry removes its remains ...
    drop(cache.lock("kind", "dead", "it", &quiet).unwrap());
    assert!(!cache.root.join("kind/tmp-dead-abc").exists());
    assert!(cache.root.join("kind/tmp-dead2-abc").exists());
    // ... and pruning those of any.
    cache.prune(Duration::from_secs(3600), &quiet).unwrap();
    assert!(!cache.root.join("kind/tmp-dead2-abc").exists());
    assert!(staged.dir().exists());
    drop(staged);
    assert_eq!(staged_left(&cache), 0);
}

#[test]
fn prune_removes_what_is_old_and_unlocked() {
    let (_dir, cache) = temp();
    let age = |key: &str| {
        let place = fill(&cache, key);
        let file = File::options()
            .write(true)
            .open(place.join(manifest::NAME))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(1000))
            .unwrap();
        place
    };
    let (old, used, locked, new) = (age("old"), age("used"), age("locked"), fill(&cache, "new"));
    cache.get("kind", "used", Check::Presence, &quiet).unwrap();
    let lock = cache.lock("kind", "locked", "it", &quiet).unwrap();
    assert!(cache.prune(Duration::from_secs(500), &quiet).unwrap() > 0);
    assert!(!old.exists() && used.exists() && locked.exists() && new.exists());
    drop(lock);
    cache.prune(Duration::ZERO, &quiet).unwrap();
    assert!(!used.exists() && !locked.exists() && !new.exists());
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
        eprintln!("skipped: a small file system takes root to mount");
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
