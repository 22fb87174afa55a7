// SPDX-License-Identifier: MIT OR Apache-2.0
//! udev out of a distribution's packages, and blocks that come and go, on a real kernel; it
//! asks the distribution's archive. Run by `cargo xtask test --nightly`, and alone by
//! `cargo test -p xtask --test nightly_userspace -- --ignored --test-threads=1`.
#![allow(missing_docs)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use bootrig::{
    core::{scenario::ImageSpec, summary::Summary},
    edge::{cache::Cache, initramfs::userspace},
};

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

#[test]
#[ignore = "real boot"]
fn udev_handles_every_block_and_no_walker_is_told_wrong() {
    for operation in ["stat", "read", "readdir"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("userspace.yaml");
        fs::write(&file, SCENARIO.replace("OPERATION", operation)).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("bench")
            .arg(&file)
            .args(["--json", "--keep-going", "--results"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        // The one that is too late is no number, and the run says so.
        assert_eq!(out.status.code(), Some(4), "{said}");
        let summary: Summary = serde_json::from_slice(&out.stdout).unwrap();
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
    let spec = ImageSpec {
        image: "udev",
        suite: "bookworm".into(),
    };
    let made = || {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let image = userspace::provide(root(), &cache, &spec, &|_| {}).unwrap();
        (image.key, fs::read(image.archive).unwrap())
    };
    let (one, two) = (made(), made());
    assert_eq!(one.0, two.0);
    assert!(one.1 == two.1, "the same key, and other bytes");

    let dir = tempfile::tempdir().unwrap();
    let recipes = fs::read_to_string(root().join("images/userspace/images.yaml")).unwrap();
    let file = dir.path().join("images/userspace/images.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, recipes.replace("- libkmod2\n", "- libkmod99\n")).unwrap();
    let cache = Cache::at(&dir.path().join("cache")).unwrap();
    let error = userspace::provide(dir.path(), &cache, &spec, &|_| {}).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("no package libkmod99 in suite bookworm"),
        "{error}"
    );

    // One that is left out is missed by whoever needs it.
    fs::write(&file, recipes.replace("        - libkmod2\n", "")).unwrap();
    let error = userspace::provide(dir.path(), &cache, &spec, &|_| {}).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("needs libkmod.so.2"), "{error}");
}
