// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's wish to stop reaches a running machine. Alone in its process: the wish is
//! the whole process's.
#![allow(missing_docs)]

mod fake_qemu;

use std::{thread, time::Duration};

use bootrig::{
    core::{fault::Stopped, units::Nanos},
    edge::{
        process,
        qemu::{Limits, boot},
    },
};
use fake_qemu::{Fake, ends};

#[test]
fn stops_at_once_and_leaves_nothing() {
    let fake = Fake::new(
        "hello 1; echo $$ > \"$dir/pid\"; sleep 1000 & echo $! > \"$dir/child\"; : > \"$dir/ready\"; wait",
    );
    let ready = fake.dir.path().join("ready");
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ready.exists() {
                thread::sleep(Duration::from_millis(5));
            }
            process::interrupt();
        });
        let raw = boot(
            &fake.line,
            &fake.files,
            &Limits::within(Nanos(120_000_000_000)),
        );
        assert_eq!(raw, Err(Stopped));
    });
    assert!(ends(fake.pid("pid")) && ends(fake.pid("child")));
}
