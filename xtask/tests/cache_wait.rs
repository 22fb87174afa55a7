// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that waits for another stops when it is interrupted. Alone in its process,
//! because an interruption is the process's.

use std::sync::mpsc;

use bootrig::edge::{
    cache::Cache,
    process::{Stopped, interrupt},
};

#[test]
fn waiting_for_another_run_ends_with_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path()).unwrap();
    let held = cache.lock("kind", "key", "the thing", &|_| {}).unwrap();
    let (send, waiting) = mpsc::channel();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let say = |line: &str| send.send(line.to_owned()).unwrap();
            cache.lock("kind", "key", "the thing", &say).map(drop)
        });
        assert!(waiting.recv().unwrap().contains("the thing"));
        interrupt();
        assert!(waiter.join().unwrap().unwrap_err().is::<Stopped>());
    });
    drop(held);
}
