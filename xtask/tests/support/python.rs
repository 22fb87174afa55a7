// SPDX-License-Identifier: MIT OR Apache-2.0
//! Python programs of other projects, in environments of their own below target/.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The Python of the environment `name`, made once with what the file `requirements` of
/// tests/python/ lists.
pub fn venv(name: &str, requirements: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let wanted = here.join(requirements);
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let made = venv.join("requirements.txt");
    let python = venv.join("bin/python");
    if fs::read(&made).ok() != fs::read(&wanted).ok() {
        let _ = fs::remove_dir_all(&venv);
        let done = |command: &mut Command| {
            let output = command.output();
            let output = output.expect("python3 is needed: cargo xtask test --yes installs it");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} cannot be had: {error}");
        };
        done(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            // Compiling what is never used takes longer than all the rest.
            "--no-compile",
            "-r",
        ];
        done(Command::new(&python).args(pip).arg(&wanted));
        fs::copy(&wanted, &made).unwrap();
    }
    python
}
