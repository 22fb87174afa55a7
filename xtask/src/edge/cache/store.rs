// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where shared entries are kept: a folder, or an S3-compatible store.
//!
//! curl speaks to the store and signs what it sends (Signature Version 4). It is what fetches
//! kernel sources too; and a crate would change Cargo.lock, which is a part of PID 1's key, so
//! that no earlier run could be compared with a later one.

use std::{
    fmt, fs, io,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::{
    core::fault::Fault,
    edge::{
        files::{read_file, write_whole},
        process,
    },
};

/// How long one object may take.
const LIMIT: Duration = Duration::from_secs(600);
/// A kernel with its modules has some 5 MB.
pub(super) const MOST_BYTES: u64 = 1 << 30;
/// A lease has some 40 bytes.
const MOST_TEXT: u64 = 4096;

/// A place for objects, by names such as `pack/0123`.
pub(super) enum Store {
    /// A folder that all machines see.
    Folder(PathBuf),
    /// A bucket.
    S3(Bucket),
}

/// A bucket of an S3-compatible store.
pub(super) struct Bucket {
    /// Where its objects are, with a slash at the end.
    url: String,
    region: String,
    key: String,
    secret: String,
    token: Option<String>,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::S3(bucket) => f.write_str(&bucket.url),
        }
    }
}

impl Store {
    /// The one that `text` names; `var` reads the environment.
    pub fn open(text: &str, var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let usage = |why: String| anyhow::Error::from(Fault::usage(why));
        let Some(name) = text.strip_prefix("s3://") else {
            if text.contains("://") {
                let why = format!("shared cache {text}: it is a folder, or s3://BUCKET/PREFIX");
                return Err(usage(why));
            }
            for part in ["pack", "lease"] {
                let path = Path::new(text).join(part);
                fs::create_dir_all(&path)
                    .map_err(|e| usage(format!("shared cache {}: {e}", path.display())))?;
            }
            return Ok(Self::Folder(fs::canonicalize(text)?));
        };
        let name = name.trim_end_matches('/');
        let sound = |b: u8| b.is_ascii_alphanumeric() || b"._/-".contains(&b);
        if name.is_empty() || !name.bytes().all(sound) || name.contains("//") {
            let why =
                format!("shared cache {text}: BUCKET/PREFIX has letters, digits, `.`, `_`, `-`");
            return Err(usage(why));
        }
        let needed = |name: &str| {
            let why = || {
                format!(
                    "shared cache {text}: set {name} (and AWS_ENDPOINT_URL, AWS_REGION where they are not Amazon's and us-east-1)"
                )
            };
            var(name).ok_or_else(|| usage(why()))
        };
        let region = var("AWS_REGION").or_else(|| var("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let endpoint = var("AWS_ENDPOINT_URL_S3").or_else(|| var("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let http = ["https://", "http://"]
            .iter()
            .any(|p| endpoint.starts_with(p));
        if !http || endpoint.contains(['"', '\\', '\n', '?', '#', ' ']) {
            return Err(usage(format!(
                "AWS_ENDPOINT_URL `{endpoint}` is no http address"
            )));
        }
        if process::which("curl").is_none() {
            bail!("shared cache {text}: curl is not installed, and speaks to such stores");
        }
        Ok(Self::S3(Bucket {
            url: format!("{}/{name}/", endpoint.trim_end_matches('/')),
            region,
            key: needed("AWS_ACCESS_KEY_ID")?,
            secret: needed("AWS_SECRET_ACCESS_KEY")?,
            token: var("AWS_SESSION_TOKEN"),
        }))
    }

    /// Whether there is an object `name`.
    pub fn has(&self, name: &str) -> Result<bool> {
        match self {
            Self::Folder(root) => Ok(root.join(name).is_file()),
            Self::S3(bucket) => bucket.has(name),
        }
    }

    /// Writes the object `name` to the file `to`; false where there is none.
    pub fn get(&self, name: &str, to: &Path) -> Result<bool> {
        match self {
            Self::Folder(root) => match fs::copy(root.join(name), to) {
                Ok(_) => Ok(true),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(e) => Err(e).with_context(|| format!("reading {name} of {self}")),
            },
            Self::S3(bucket) => bucket.get(name, to),
        }
    }

    /// The text of a short object.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        let scratch = process::scratch("bootrig-share-")?;
        let file = scratch.path().join("object");
        if !self.get(name, &file)? {
            return Ok(None);
        }
        let bytes = read_file(&file, MOST_TEXT)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Makes the file `from` the object `name`; it appears whole.
    pub fn put(&self, name: &str, from: &Path) -> Result<()> {
        match self {
            Self::Folder(root) => write_whole(&root.join(name), &read_file(from, MOST_BYTES)?),
            Self::S3(bucket) => bucket.put(name, from, false).map(drop),
        }
        .with_context(|| format!("writing {name} of {self}"))
    }

    /// Makes `text` the object `name`, which must not be there; whether it was not.
    pub fn claim(&self, name: &str, text: &str) -> Result<bool> {
        let context = || format!("writing {name} of {self}");
        match self {
            Self::Folder(root) => {
                let new = fs::File::options()
                    .write(true)
                    .create_new(true)
                    .open(root.join(name));
                match new {
                    Ok(mut file) => {
                        file.write_all(text.as_bytes()).with_context(context)?;
                        Ok(true)
                    }
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                    Err(e) => Err(e).with_context(context),
                }
            }
            Self::S3(bucket) => with_file(text, &|file| bucket.put(name, file, true)),
        }
    }

    /// Makes `text` the object `name`.
    pub fn replace(&self, name: &str, text: &str) -> Result<()> {
        with_file(text, &|file| self.put(name, file))
    }

    /// Removes the object `name`, if it is there.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Folder(root) => match fs::remove_file(root.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e.into()),
                _ => Ok(()),
            },
            Self::S3(bucket) => bucket.remove(name),
        }
    }
}

fn with_file<T>(text: &str, what: &dyn Fn(&Path) -> Result<T>) -> Result<T> {
    let scratch = process::scratch("bootrig-share-")?;
    let file = scratch.path().join("object");
    fs::write(&file, text)?;
    what(&file)
}

impl Bucket {
    /// Sends one request; its status, and the body in the file `to`.
    fn ask(&self, name: &str, payload: &str, more: &[&str], to: &Path) -> Result<u16> {
        let scratch = process::scratch("bootrig-s3-")?;
        // Not among the arguments, which everybody on the machine can read.
        let config = scratch.path().join("config");
        let quoted = |s: &str| format!("\"{}\"", s.replace('\\', "\\\\").replace('"', "\\\""));
        let mut text = format!(
            "url = {}\naws-sigv4 = {}\nuser = {}\nheader = {}\n",
            quoted(&format!("{}{name}", self.url)),
            quoted(&format!("aws:amz:{}:s3", self.region)),
            quoted(&format!("{}:{}", self.key, self.secret)),
            quoted(&format!("x-amz-content-sha256: {payload}")),
        );
        if let Some(token) = &self.token {
            text += &format!(
                "header = {}\n",
                quoted(&format!("x-amz-security-token: {token}"))
            );
        }
        ensure!(
            !text.contains('\r') && text.lines().count() == 4 + usize::from(self.token.is_some()),
            "the keys of the shared cache hold a line's end"
        );
        fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&config)?
            .write_all(text.as_bytes())?;
        let mut curl = process::tool("curl");
        curl.args(["--silent", "--show-error", "--proto", "=http,https"])
            .args(["--retry", "2", "--connect-timeout", "20"])
            .args(["--write-out", "%{http_code}"])
            .arg("--config")
            .arg(&config)
            .arg("--output")
            .arg(to)
            .args(more);
        let what = format!("asking {}{name}", self.url);
        let status = process::read(&what, curl, LIMIT)?;
        status
            .trim()
            .parse()
            .with_context(|| format!("{what}: no status"))
    }

    fn has(&self, name: &str) -> Result<bool> {
        let scratch = process::scratch("bootrig-share-")?;
        let answer = scratch.path().join("answer");
        match self.ask(name, &hex(b""), &["--head"], &answer)? {
            200 => Ok(true),
            404 => Ok(false),
            status => Err(self.refused(name, status, &answer)),
        }
    }

    fn get(&self, name: &str, to: &Path) -> Result<bool> {
        match self.ask(name, &hex(b""), &[], to)? {
            200 => Ok(true),
            404 => Ok(false),
            status => Err(self.refused(name, status, to)),
        }
    }

    /// Whether it was put there; `new`: it must not be there.
    fn put(&self, name: &str, from: &Path, new: bool) -> Result<bool> {
        let payload = hex(&fs::read(from)?);
        let answer = from.with_extension("answer");
        let from = from.to_str().context("a path is no text")?;
        let mut more = vec!["--upload-file", from];
        if new {
            more.extend(["--header", "If-None-Match: *"]);
        }
        match self.ask(name, &payload, &more, &answer)? {
            200 | 201 | 204 => Ok(true),
            409 | 412 if new => Ok(false),
            status => Err(self.refused(name, status, &answer)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let scratch = process::scratch("bootrig-share-")?;
        let answer = scratch.path().join("answer");
        match self.ask(name, &hex(b""), &["--request", "DELETE"], &answer)? {
            200 | 204 | 404 => Ok(()),
            status => Err(self.refused(name, status, &answer)),
        }
    }

    /// What the store answered, in a line: its code and its message.
    fn refused(&self, name: &str, status: u16, answer: &Path) -> anyhow::Error {
        let text = read_file(answer, 1 << 16).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let part = |tag: &str| {
            let (_, rest) = text.split_once(&format!("<{tag}>"))?;
            Some(rest.split_once('<')?.0.to_owned())
        };
        let code = part("Code").unwrap_or_default();
        let message = part("Message").unwrap_or_default();
        anyhow::anyhow!("{}{name}: status {status} {code} {message}", self.url)
    }
}

fn hex(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fault::{Exit, exit_of};

    fn refused(text: &str, vars: &[(&str, &str)]) -> String {
        let var = |name: &str| {
            let found = vars.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        };
        let error = Store::open(text, &var).err().expect("it was opened");
        assert_eq!(exit_of(&error), Exit::Usage, "{error:#}");
        format!("{error:#}")
    }

    #[test]
    fn what_is_no_place_is_refused() {
        assert!(refused("ftp://x/y", &[]).contains("a folder, or s3://BUCKET/PREFIX"));
        assert!(refused("s3://", &[]).contains("BUCKET/PREFIX has"));
        assert!(refused("s3://b/a b", &[]).contains("BUCKET/PREFIX has"));
        assert!(refused("s3://b", &[("AWS_ENDPOINT_URL", "x")]).contains("no http address"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let below = file.path().join("x");
        assert!(refused(below.to_str().unwrap(), &[]).contains("shared cache"));
        if process::which("curl").is_some() {
            let why = refused("s3://b", &[("AWS_SECRET_ACCESS_KEY", "x")]);
            assert!(why.contains("set AWS_ACCESS_KEY_ID"), "{why}");
        }
    }

    #[test]
    fn a_folder_holds_objects_and_is_claimed_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_str().unwrap(), &|_| None).unwrap();
        assert_eq!(store.text("lease/a").unwrap(), None);
        assert!(store.claim("lease/a", "one").unwrap());
        assert!(!store.claim("lease/a", "two").unwrap());
        assert_eq!(store.text("lease/a").unwrap().as_deref(), Some("one"));
        store.replace("lease/a", "three").unwrap();
        assert_eq!(store.text("lease/a").unwrap().as_deref(), Some("three"));
        store.remove("lease/a").unwrap();
        store.remove("lease/a").unwrap();
        assert!(store.claim("lease/a", "two").unwrap());
    }
}
