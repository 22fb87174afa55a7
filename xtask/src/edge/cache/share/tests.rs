// SPDX-License-Identifier: MIT OR Apache-2.0

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::*;

const KINDS: [&str; 2] = ["kernel", "module"];

fn fill(cache: &Cache, kind: &str, key: &str, text: &str) {
    let lock = cache.lock(kind, key, "it", &|_| {}).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::write(staged.dir().join("image"), text).unwrap();
    cache.put(&lock, staged).unwrap();
}

fn share(dir: &Path) -> Share {
    let place = dir.join("shared");
    fs::create_dir_all(&place).unwrap();
    Share::open(place.to_str().unwrap()).unwrap()
}

/// Two machines' caches, and what they share: the pack `n1` of a kernel and its modules.
fn lab() -> (tempfile::TempDir, Cache, Cache, Share) {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|n| Cache::at(&dir.path().join(n)).unwrap());
    fill(&one, "kernel", "k1", "an image");
    fill(&one, "module", "m1", "a module");
    let share = share(dir.path());
    let entries = [("kernel", "k1"), ("module", "m1")];
    share.push(&one, "n1", &entries, &|_| {}).unwrap();
    (dir, one, two, share)
}

fn image(cache: &Cache, kind: &str, key: &str) -> Option<String> {
    let dir = cache.get(kind, key, Check::Full, &|_| {}).unwrap()?;
    Some(fs::read_to_string(dir.join("image")).unwrap())
}

#[test]
fn what_one_gave_another_takes() {
    let (_dir, _one, two, share) = lab();
    assert!(share.has("n1").unwrap() && !share.has("n2").unwrap());
    assert!(!share.pull(&two, "n2", &KINDS, &|_| {}).unwrap());
    assert!(share.pull(&two, "n1", &KINDS, &|_| {}).unwrap());
    assert_eq!(image(&two, "kernel", "k1").as_deref(), Some("an image"));
    assert_eq!(image(&two, "module", "m1").as_deref(), Some("a module"));
    // What is there already stays as it is.
    assert!(share.pull(&two, "n1", &KINDS, &|_| {}).unwrap());
    let left = fs::read_dir(two.root().join(DOWNLOAD)).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn what_is_poisoned_cut_or_foreign_is_refused_and_named() {
    let (dir, one, two, share) = lab();
    let pack = dir.path().join("shared/pack/n1");
    let good = fs::read(&pack).unwrap();
    let refused = |bytes: &[u8], kinds: &[&str]| {
        fs::write(&pack, bytes).unwrap();
        let said = Mutex::new(Vec::new());
        let say = |line: &str| said.lock().unwrap().push(line.to_owned());
        assert!(!share.pull(&two, "n1", kinds, &say).unwrap());
        assert_eq!(image(&two, "kernel", "k1"), None);
        let said = said.into_inner().unwrap().join("\n");
        let named = format!("warning: shared entry pack/n1 in {share} is refused: ");
        said.strip_prefix(&named)
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned()
    };
    let at = good.windows(8).position(|w| w == b"an image").unwrap();
    let mut poisoned = good.clone();
    poisoned[at] = b'A';
    assert_eq!(
        refused(&poisoned, &KINDS),
        "it was altered, or made with a secret"
    );
    assert_eq!(
        refused(&good[..good.len() - 20], &KINDS),
        "it is cut: it has no end"
    );
    assert_eq!(refused(&[], &KINDS), "it is cut: it has no end");
    // Whole, but another's.
    share
        .push(&one, "n2", &[("kernel", "k1")], &|_| {})
        .unwrap();
    let foreign = fs::read(dir.path().join("shared/pack/n2")).unwrap();
    assert_eq!(refused(&foreign, &KINDS), "it is of n2, not of n1");
    assert_eq!(
        refused(&good, &["kernel"]),
        "it holds an entry of the kind module"
    );
    let secret = Share {
        secret: Secret::new(Some("ours")),
        ..share.clone()
    };
    fs::write(&pack, &good).unwrap();
    let said = Mutex::new(String::new());
    let say = |line: &str| *said.lock().unwrap() = line.to_owned();
    assert!(!secret.pull(&two, "n1", &KINDS, &say).unwrap());
    assert!(
        said.into_inner()
            .unwrap()
            .contains("made without the secret")
    );
    // Given again it is as good as ever.
    secret
        .push(&one, "n1", &[("kernel", "k1")], &|_| {})
        .unwrap();
    assert!(secret.pull(&two, "n1", &KINDS, &|_| {}).unwrap());
}

#[test]
fn however_many_need_a_thing_one_makes_it() {
    let dir = tempfile::tempdir().unwrap();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (dir, made) = (dir.path(), &made);
            scope.spawn(move || {
                let cache = Cache::at(&dir.join(number.to_string())).unwrap();
                let share = share(dir).with_patience(Duration::from_secs(60));
                while !share.pull(&cache, "n1", &KINDS, &|_| {}).unwrap() {
                    let Some(_lease) = share.lease("f1", "it", &|_| {}).unwrap() else {
                        continue;
                    };
                    if share.pull(&cache, "n1", &KINDS, &|_| {}).unwrap() {
                        break;
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(200));
                    fill(&cache, "kernel", "k1", "an image");
                    share
                        .push(&cache, "n1", &[("kernel", "k1")], &|_| {})
                        .unwrap();
                }
                assert_eq!(image(&cache, "kernel", "k1").as_deref(), Some("an image"));
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    assert_eq!(
        fs::read_dir(dir.path().join("shared/lease"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_lease_that_nobody_renews_is_taken_over_and_one_that_is_held_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path()).with_patience(Duration::from_secs(4));
    let object = dir.path().join("shared/lease/f1");
    fs::write(&object, "of one that was killed").unwrap();
    let lease = share.lease("f1", "it", &|_| {}).unwrap().unwrap();
    // It is written anew while it is held, so that another waits for its end.
    let first = fs::read_to_string(&object).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| share.lease("f1", "it", &|_| {}).unwrap().is_none());
        std::thread::sleep(Duration::from_secs(5));
        assert_ne!(fs::read_to_string(&object).unwrap(), first);
        assert!(!waiter.is_finished());
        drop(lease);
        assert!(waiter.join().unwrap());
    });
}
