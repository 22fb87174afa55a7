// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hard cases of a parallel shutdown on real kernels: links, an inverted list, devices
//! pulled meanwhile, a killed reboot, no threads. Run by `cargo xtask test`.
#![allow(missing_docs)]

use std::process::{Command, Stdio};

use bootrig::core::summary::Summary;

#[test]
#[ignore = "real boot"]
fn our_series_holds_where_others_broke() {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "links", "inverted-order-cycle", "hot-removal"])
        .args(["kill-reboot-task", "worker-starvation", "--json"])
        .arg("--results")
        .arg(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let summary: Summary = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(summary.scenarios.len(), 5);
    for scenario in &summary.scenarios {
        for variant in &scenario.variants {
            let what = format!("{}/{}", scenario.name, variant.name);
            assert!(variant.completed(), "{what}: {}", variant.outcome_text());
            assert!(variant.oracle.checked > 20, "{what}");
            assert_eq!(variant.oracle.violations, [""; 0], "{what}");
        }
    }
}
