// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tar files by URL or path, taken only with the right checksum.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{run, unpack};
use crate::edge::{cache::Cache, files, kernel::sources::Place, process};

const LIMIT: Duration = Duration::from_secs(2 * 3600);

/// Unpacks the tarball to `dir`/tree.
pub fn fetch(
    cache: &Cache,
    from: &Place,
    sha256: &str,
    dir: &Path,
    say: &dyn Fn(&str),
) -> Result<()> {
    let log = cache.log(&format!("fetch-{}", &sha256[..16]))?;
    let file = match from {
        Place::Path(path) => {
            let got = sum(path)?;
            if got != sha256 {
                bail!(
                    "{} has sha256 {got}, not {sha256} as sources.yaml says",
                    path.display()
                );
            }
            path.clone()
        }
        Place::Url(url) => download(cache, url, sha256, &log, say)?,
    };
    say(&format!("unpacking {}", file.display()));
    unpack(&file, &dir.join("tree"), 1, &log)?;
    if matches!(from, Place::Url(_)) {
        files::remove(&file);
    }
    Ok(())
}

/// Downloads to `<cache>/download/<sha256>`, by way of a `.part` file that a later run
/// takes up where this one was stopped.
fn download(
    cache: &Cache,
    url: &str,
    sha256: &str,
    log: &Path,
    say: &dyn Fn(&str),
) -> Result<PathBuf> {
    let file = cache.root().join("download").join(sha256);
    if file.exists() && sum(&file)? == sha256 {
        return Ok(file);
    }
    let part = file.with_extension("part");
    let resumed = part.exists();
    say(&format!(
        "{} {url}",
        if resumed {
            "resuming the download of"
        } else {
            "downloading"
        }
    ));
    let attempt = transfer(url, &part, log).and_then(|()| check(url, &part, sha256));
    if let Err(error) = attempt {
        if !resumed || error.is::<process::Stopped>() {
            return Err(error);
        }
        // The old part may be of another file, or whole already, or the server may not
        // let us go on: once more from the beginning.
        say(&format!("downloading {url} from the beginning"));
        files::remove(&part);
        transfer(url, &part, log)?;
        check(url, &part, sha256)?;
    }
    File::open(&part)?.sync_all()?;
    fs::rename(&part, &file)?;
    Ok(file)
}

/// Removes the file when its sum is wrong.
fn check(url: &str, part: &Path, sha256: &str) -> Result<()> {
    let got = sum(part)?;
    if got != sha256 {
        files::remove(part);
        bail!("{url} has sha256 {got}, not {sha256} as sources.yaml says; the download is removed");
    }
    Ok(())
}

fn transfer(url: &str, part: &Path, log: &Path) -> Result<()> {
    run(
        &format!("downloading {url}"),
        downloader(url, part)?,
        log,
        LIMIT,
    )
}

fn downloader(url: &str, part: &Path) -> Result<Command> {
    if process::which("curl").is_some() {
        let mut curl = process::tool("curl");
        curl.args([
            "--fail",
            "--location",
            "--silent",
            "--show-error",
            "--retry",
            "3",
            "--connect-timeout",
            "30",
        ]);
        // A stalled transfer is an interrupted one.
        curl.args([
            "--speed-time",
            "60",
            "--speed-limit",
            "1000",
            "--continue-at",
            "-",
        ]);
        curl.arg("--output").arg(part).arg(url);
        return Ok(curl);
    }
    if process::which("wget").is_some() {
        let mut wget = process::tool("wget");
        wget.args(["--no-verbose", "--tries=3", "--timeout=60", "--continue"])
            .arg("--output-document")
            .arg(part)
            .arg(url);
        return Ok(wget);
    }
    bail!(
        "downloading {url} takes curl or wget, and neither is installed: install one, or give the tarball's path"
    )
}

/// sha256 of a file, lower-case hex.
fn sum(path: &Path) -> Result<String> {
    let context = || format!("reading {}", path.display());
    let (mut file, mut hash, mut buffer) = (
        File::open(path).with_context(context)?,
        Sha256::new(),
        vec![0; 1 << 18],
    );
    loop {
        match file.read(&mut buffer).with_context(context)? {
            0 => break,
            n => hash.update(&buffer[..n]),
        }
        if process::interrupted() {
            return Err(process::Stopped.into());
        }
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
