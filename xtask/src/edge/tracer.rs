// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracer, a QEMU plugin: built for the QEMU that is installed, and tried with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    cache::{Cache, Check},
    files::hash_below,
    process::{self, rust},
};
use crate::core::qemu_version::QemuVersion;

/// Where its sources are in a checkout.
const DIR: &str = "tracer";
const KIND: &str = "tracer";
const LIBRARY: &str = "libtracer.so";
const SOURCES: [&str; 3] = ["tracer/Cargo.toml", "tracer/Cargo.lock", "tracer/src"];
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// How long QEMU may take to load it.
const PATIENCE: Duration = Duration::from_secs(20);
/// The plugin API versions that the tracer knows.
const KNOWN: std::ops::RangeInclusive<u32> = 1..=5;

/// The tracer, or why there is none.
pub enum Tracer {
    /// The library, and QEMU's plugin API that it is built for.
    Ready {
        /// Path of the library.
        library: PathBuf,
        /// The version of the plugin API.
        api: u32,
    },
    /// This QEMU cannot be traced.
    Missing(String),
}

/// What became of trying a library.
enum Tried {
    Works,
    /// QEMU's API goes up to this.
    OnlyApi(u32),
    Not(String),
}

/// The tracer for the QEMU `program` of `version`, from the cache or built. QEMU's word on
/// which API it has counts; its version only says what to try first.
///
/// # Errors
/// A build that fails, with cargo's last error lines and the log.
pub fn provide(
    root: &Path,
    cache: &Cache,
    program: &Path,
    version: QemuVersion,
    say: &dyn Fn(&str),
) -> Result<Tracer> {
    let mut api = version.plugin_api();
    for _ in KNOWN {
        let library = build(root, cache, api, say)?;
        match attempt(program, &library)? {
            Tried::Works => return Ok(Tracer::Ready { library, api }),
            Tried::OnlyApi(other) if other != api && KNOWN.contains(&other) => api = other,
            Tried::OnlyApi(other) => {
                return Ok(Tracer::Missing(format!(
                    "QEMU {version} has plugin API {other}; the tracer knows {} to {}",
                    KNOWN.start(),
                    KNOWN.end()
                )));
            }
            Tried::Not(why) => return Ok(Tracer::Missing(why)),
        }
    }
    Ok(Tracer::Missing(format!(
        "QEMU {version} says a different plugin API each time"
    )))
}

fn build(root: &Path, cache: &Cache, api: u32, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let mut hash = blake3::Hasher::new();
    hash.update(format!("1 api-{api} {}", rust::version(root)?).as_bytes());
    for source in SOURCES {
        hash_below(&mut hash, root, Path::new(source))?;
    }
    let key = hash.finalize().to_hex().to_string();
    let library = |dir: PathBuf| dir.join(LIBRARY);
    if let Some(dir) = cache.get(KIND, &key, Check::Full, say)? {
        return Ok(library(dir));
    }
    let lock = cache.lock(KIND, &key, "the tracer", say)?;
    if let Some(dir) = cache.get(KIND, &key, Check::Full, say)? {
        return Ok(library(dir));
    }
    let (target, staged) = (cache.stage(&lock)?, cache.stage(&lock)?);
    let log = cache.log("tracer")?;
    say(&format!(
        "building the tracer for QEMU's plugin API {api}; log: {}",
        log.display()
    ));
    let mut cargo = rust::cargo(&root.join(DIR));
    cargo.args(["build", "--release", "--locked", "--features"]);
    cargo
        .arg(format!("api-{api}"))
        .arg("--target-dir")
        .arg(target.dir());
    process::run_logged("building the tracer", cargo, &log, BUILD_LIMIT)
        .map_err(|e| cache.explain(e))?;
    fs::copy(
        target.dir().join("release").join(LIBRARY),
        staged.dir().join(LIBRARY),
    )
    .context("keeping the tracer")?;
    cache.put(&lock, staged).map(library)
}

/// Has QEMU load the library; it then ends QEMU itself.
fn attempt(program: &Path, library: &Path) -> Result<Tried> {
    let mut command = Command::new(program);
    command.args([
        "-M",
        "none",
        "-accel",
        "tcg",
        "-display",
        "none",
        "-nodefaults",
        "-plugin",
    ]);
    command.arg(argument(library, &[("probe", "on")])?);
    match process::read("trying the tracer", command, PATIENCE) {
        Ok(_) => Ok(Tried::Works),
        Err(error) if error.is::<process::Stopped>() => Err(error),
        Err(error) => Ok(judge(&format!("{error:#}"))),
    }
}

/// What QEMU's refusal means.
fn judge(said: &str) -> Tried {
    let number = |after: &str| -> Option<u32> {
        let rest = said.split(after).nth(1)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let supported = ["up to version ", "minimum version of "]
        .iter()
        .find_map(|a| number(a));
    if let (true, Some(api)) = (said.contains("API version"), supported) {
        return Tried::OnlyApi(api);
    }
    if said.contains("invalid option") {
        return Tried::Not("QEMU was built without plugins (--enable-plugins)".into());
    }
    let said = said.split("bootrig-tracer: ").last().unwrap_or(said);
    Tried::Not(format!("QEMU cannot use the tracer: {}", said.trim()))
}

/// The value of `-plugin` for a library with these arguments.
///
/// # Errors
/// A path that is no text.
pub fn argument(library: &Path, arguments: &[(&str, &str)]) -> Result<String> {
    let path = library
        .to_str()
        .with_context(|| format!("{} is no text", library.display()))?;
    // A comma ends an argument; doubled it stands for itself.
    let quoted = |text: &str| text.replace(',', ",,");
    let mut all = format!("file={}", quoted(path));
    for (name, value) in arguments {
        all += &format!(",{name}={}", quoted(value));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemus_refusals_are_understood() {
        let api = |said: &str| match judge(said) {
            Tried::OnlyApi(api) => Some(api),
            _ => None,
        };
        assert_eq!(
            api(
                "Could not load plugin x: plugin requires API version 5, but this QEMU supports only up to version 4"
            ),
            Some(4)
        );
        assert_eq!(
            api(
                "Could not load plugin x: plugin requires API version 1, but this QEMU supports only a minimum version of 2"
            ),
            Some(2)
        );
        for (said, want) in [
            ("qemu: -plugin: invalid option", "without plugins"),
            (
                "ended with 1: bootrig-tracer: this QEMU does not export current_cpu",
                "cannot use the tracer: this QEMU does not export current_cpu",
            ),
        ] {
            let Tried::Not(why) = judge(said) else {
                panic!("{said}");
            };
            assert!(why.contains(want), "{why}");
        }
    }

    #[test]
    fn commas_in_paths_stay_in_them() {
        let argument = argument(Path::new("/a,b/t.so"), &[("out", "/x,y")]).unwrap();
        assert_eq!(argument, "file=/a,,b/t.so,out=/x,,y");
    }
}
