// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask trend` over run folders.
#![allow(missing_docs)]

mod support;

use std::fs;

use support::{
    MS,
    runs::{night, said, xtask},
};

fn trend(args: &[&str]) -> (Option<i32>, String, String) {
    said(xtask(&[&["trend"], args].concat()))
}

#[test]
fn a_change_is_found_between_its_nights_and_a_spike_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().to_str().unwrap();
    for number in 0..20 {
        let slow = number >= 11;
        // One night is far off, and comes to nothing.
        let more = if number == 3 {
            500
        } else {
            u64::from(slow) * 10
        };
        night(
            dir.path(),
            number,
            if slow { "fedcba" } else { "abcdef" },
            more * MS,
        );
    }
    let (code, json, error) = trend(&[results, "--json"]);
    assert_eq!(code, Some(1), "{error}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["runs"], 20);
    let changes = json["changes"].as_array().unwrap();
    let mut metrics: Vec<_> = changes
        .iter()
        .map(|c| c["metric"].as_str().unwrap())
        .collect();
    metrics.sort_unstable();
    assert_eq!(metrics, ["device_shutdown", "reboot"]);
    for change in changes {
        assert_eq!(change["variant"], "parallel");
        assert_eq!(change["verdict"], "slower");
        assert_eq!(change["last_before"]["id"], "night10");
        assert_eq!(change["last_before"]["source"], "linux abcdef");
        assert_eq!(change["first_after"]["id"], "night11");
        assert_eq!(change["first_after"]["source"], "linux fedcba");
        assert_eq!(change["also_changed"], serde_json::json!(["kernel 6.1"]));
    }
    // One night that cannot be read does not hide the others; nor does a folder that is none.
    fs::write(dir.path().join("night05/summary.json"), "{").unwrap();
    fs::create_dir(dir.path().join("other")).unwrap();
    let (code, text, _) = trend(&["--results", results]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("left out") && text.contains("night05"),
        "{text}"
    );
    assert!(text.contains("night10 (linux abcdef)"), "{text}");
    // Too few to tell.
    let (code, text, _) = trend(&["--results", results, "night0[12]"]);
    assert_eq!(code, Some(3), "{text}");
    let (code, _, error) = trend(&["--results", results, "nothing"]);
    assert!(code == Some(2) && error.contains("nothing"), "{error}");
}
