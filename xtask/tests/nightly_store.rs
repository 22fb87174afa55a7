// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared cache in a real S3 store that checks signatures. Run by
//! `cargo xtask test --nightly`.
#![allow(missing_docs)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bootrig::edge::cache::{Cache, Check, share::Share};

/// A store, until it is dropped; its keys are in the environment.
struct Server(Child);

impl Server {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/s3_server.py");
        let mut child = Command::new(support::python::venv("s3", "s3.txt"))
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, key, secret] = words[..] else {
            panic!("the store did not start: {line}");
        };
        for (name, value) in [
            ("AWS_ENDPOINT_URL", address),
            ("AWS_ACCESS_KEY_ID", key),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ] {
            // SAFETY: the only test of this program, and no other thread is there yet.
            unsafe { std::env::set_var(name, value) };
        }
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn fill(cache: &Cache, key: &str, text: &str) {
    let lock = cache.lock("kernel", key, "it", &|_| {}).unwrap();
    let staged = cache.stage(&lock).unwrap();
    fs::write(staged.dir().join("bzImage"), text).unwrap();
    cache.put(&lock, staged).unwrap();
}

fn image(cache: &Cache) -> Option<String> {
    let dir = cache.get("kernel", "k1", Check::Full, &|_| {}).unwrap()?;
    Some(fs::read_to_string(dir.join("bzImage")).unwrap())
}

#[test]
#[ignore = "installs a store from PyPI"]
fn a_store_holds_what_shards_share() {
    let _server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let cache = |name: &str| Cache::at(&dir.path().join(name)).unwrap();
    let share = Share::open("s3://cache/nights/6.1").unwrap();
    let text = "an image\n".repeat(1 << 18);
    // However many need a thing, one makes it.
    let made = AtomicUsize::new(0);
    let share_of_one = &share;
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (made, text) = (&made, &text);
            let own = cache(&number.to_string());
            scope.spawn(move || {
                while !share_of_one.pull(&own, "n1", &["kernel"], &|_| {}).unwrap() {
                    let lease = share_of_one.lease("f1", "it", &|_| {}).unwrap();
                    if lease.is_none()
                        || share_of_one.pull(&own, "n1", &["kernel"], &|_| {}).unwrap()
                    {
                        continue;
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                    fill(&own, "k1", text);
                    let entries = [("kernel", "k1")];
                    share_of_one.push(&own, "n1", &entries, &|_| {}).unwrap();
                }
                assert_eq!(image(&own).as_ref(), Some(text));
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    assert!(share.has("n1").unwrap() && !share.has("n2").unwrap());
    // What is another's is refused, and named with its place.
    let one = cache("0");
    let elsewhere = Share::open("s3://cache/other").unwrap();
    elsewhere
        .push(&one, "n1", &[("kernel", "k1")], &|_| {})
        .unwrap();
    let said = Mutex::new(String::new());
    let say = |line: &str| said.lock().unwrap().push_str(line);
    assert!(
        !elsewhere
            .pull(&cache("new"), "n1", &["module"], &say)
            .unwrap()
    );
    let said = said.into_inner().unwrap();
    assert!(
        said.contains("pack/n1 in ") && said.contains("/cache/other/ is refused: "),
        "{said}"
    );
    // Wrong keys are told as what they are, not as an empty store.
    // SAFETY: all other threads are gone.
    unsafe { std::env::set_var("AWS_SECRET_ACCESS_KEY", "wrong") };
    let wrong = Share::open("s3://cache/nights/6.1").unwrap();
    let error = wrong.has("n1").unwrap_err().to_string();
    assert!(error.contains("status 403"), "{error}");
    let pulled = wrong.pull(&cache("new"), "n1", &["kernel"], &|_| {});
    let error = format!("{:#}", pulled.unwrap_err());
    assert!(
        error.contains("status 403 SignatureDoesNotMatch"),
        "{error}"
    );
    let error = wrong
        .push(&one, "n3", &[("kernel", "k1")], &|_| {})
        .unwrap_err();
    assert!(format!("{error:#}").contains("status 403"), "{error:#}");
}
