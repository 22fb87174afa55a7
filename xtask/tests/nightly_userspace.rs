// SPDX-License-Identifier: MIT OR Apache-2.0
//! udev and systemd out of a distribution's packages, and blocks that come and go, on a real kernel; it
//! asks the distribution's archive. Run by `cargo xtask test --nightly`, and alone by
//! `cargo test -p xtask --test nightly_userspace -- --ignored --test-threads=1`.
#![allow(missing_docs)]

mod support;

use std::{fs, path::Path};

use bootrig::{
    core::scenario::ImageSpec,
    edge::{cache::Cache, initramfs::userspace},
};
use support::benched::benched;

const SCENARIO: &str = r#"
about: udev and churn, for the rig's own tests.
kernel: "6.1"
machine: {cpus: 2, memory: 512 MiB}
memory: {blocks: 256, how: synthetic}
churn: {walkers: 3, blocks: 16, rounds: 5, do: OPERATION}
variants:
  without: {order: serial}
  plain: {order: serial, coldplug: {children_max: 4}}
  forking: {order: serial, coldplug: {children_max: 4, forking_rule: true}}
  late: {order: serial, coldplug: {children_max: 1, forking_rule: true, limit: 1 s}}
measure: [coldplug, churn]
timeout: 10 min
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

const SYSTEMD: &str = r#"
about: systemd, for the rig's own tests.
kernel: "6.1"
machine: {cpus: 2, memory: 1 GiB}
memory: {blocks: 64, how: synthetic}
profiles:
  card: {id: "1b36:0011", about: x, source: x, shutdown: [{sleep: 20 ms}]}
devices: [{name: card, profile: card}]
meanwhile: [{after: 1 us, rescan: true}]
sysctl: {kernel.threads-max: "1000"}
variants:
  full: {order: serial, systemd: {}}
  kexec: {order: serial, restart: kexec, systemd: {}}
  hurried: {order: serial, systemd: {default_timeout_start_sec: 20 ms}}
  impatient: {order: serial, systemd: {limit: 1 s}}
measure: [systemd, device_shutdown, reboot]
timeout: 10 min
"#;

/// A distribution's boot and its way down, with what happens meanwhile; and boots that do not
/// come as far, which say so.
#[test]
#[ignore = "real boot"]
fn systemd_boots_to_its_target_and_shuts_down_again() {
    let summary = benched("systemd", SYSTEMD, &["--keep-going"], 4);
    let variants = &summary.scenarios[0].variants;
    let variant = |name: &str| variants.iter().find(|v| v.name == name).unwrap();
    for name in ["full", "kexec"] {
        let v = variant(name);
        assert!(v.completed(), "{name}: {}", v.outcome_text());
        assert_eq!(v.oracle.violations, [""; 0], "{name}");
        let boot = v.systemd.as_ref().unwrap();
        assert_eq!((boot.seen, boot.broken_in_all), (64 + 8, 0), "{name}");
        assert!(boot.units > 50 && boot.slow.len() == 10, "{boot:?}");
        assert_eq!(boot.chain[0].unit, "multi-user.target", "{name}");
        // Its way down is longer than what PID 1 of ours takes, and ends in the stamps as ever.
        assert!(v.metrics["reboot/user_space"].median > 20_000_000, "{name}");
    }
    // What is too late, or waited for too shortly, is an outcome in words and no number.
    for (name, words) in [("hurried", "timeout"), ("impatient", "systemd:limit")] {
        let v = variant(name);
        let said = format!("{}; {}", v.outcome_text(), v.oracle.violations.join("; "));
        assert!(said.contains(words), "{name}: {said}");
    }
    assert!(!variant("impatient").metrics.contains_key("systemd"));
}

#[test]
#[ignore = "real boot"]
fn udev_handles_every_block_and_no_walker_is_told_wrong() {
    for operation in ["stat", "read", "readdir"] {
        // The one that is too late is no number, and the run says so.
        let text = SCENARIO.replace("OPERATION", operation);
        let summary = benched("userspace", &text, &["--keep-going"], 4);
        let variants = &summary.scenarios[0].variants;
        let variant = |name: &str| variants.iter().find(|v| v.name == name).unwrap();
        for name in ["without", "plain", "forking"] {
            let v = variant(name);
            assert!(v.completed(), "{name}: {}", v.outcome_text());
            assert_eq!(v.oracle.violations, [""; 0], "{name}");
            assert!(v.metrics["churn/certain"].median > 0, "{name}");
        }
        assert!(!variant("without").metrics.contains_key("coldplug"));
        assert!(variant("plain").metrics["coldplug/events"].median > 256);
        let late = variant("late").outcome_text();
        assert!(late.contains("coldplug:"), "{late}");
        assert!(!variant("late").metrics.contains_key("coldplug"));
    }
}

#[test]
#[ignore = "asks the distribution's archive"]
fn an_image_is_the_same_bytes_again_and_a_package_that_is_not_there_is_named() {
    for image in ["udev", "systemd"] {
        let spec = ImageSpec {
            image,
            suite: "bookworm".into(),
        };
        let made = || {
            let dir = tempfile::tempdir().unwrap();
            let cache = Cache::at(dir.path()).unwrap();
            let image = userspace::provide(root(), &cache, &spec, &|_| {}).unwrap();
            (image.key, fs::read(image.archive).unwrap())
        };
        let (one, two) = (made(), made());
        assert_eq!(one.0, two.0, "{image}");
        assert!(one.1 == two.1, "{image}: the same key, and other bytes");

        let dir = tempfile::tempdir().unwrap();
        let recipes = fs::read_to_string(root().join("images/userspace/images.yaml")).unwrap();
        let file = dir.path().join("images/userspace/images.yaml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let cache = Cache::at(&dir.path().join("cache")).unwrap();
        let said = |recipes: String| {
            fs::write(&file, recipes).unwrap();
            let error = userspace::provide(dir.path(), &cache, &spec, &|_| {}).unwrap_err();
            format!("{error:#}")
        };
        let error = said(recipes.replace("- libkmod2\n", "- libkmod99\n"));
        let expect = format!("making image {image} (bookworm)");
        assert!(error.contains(&expect), "{error}");
        assert!(
            error.contains("no package libkmod99 in suite bookworm"),
            "{error}"
        );

        // One that is left out is missed by whoever needs it.
        let error = said(recipes.replace("        - libkmod2\n", ""));
        assert!(error.contains("needs libkmod.so.2"), "{error}");
    }
}
