// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cache that several machines share: packs of entries in a folder that they all see, or
//! in an S3-compatible store.
//!
//! What is made for all is made under a lease: an object that its holder writes anew every
//! [`RENEWAL`]. Whoever sees it unchanged for [`PATIENCE`] takes it over. Clocks are not
//! compared. Should two hold one all the same, both make the same thing, and the first that
//! is there stays.

use std::{
    fmt, fs,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    Cache, Check,
    pack::{self, Secret},
    store::{MOST_BYTES, Store},
};
use crate::edge::{files::read_file, process};

/// How long another machine is waited for: it may be building several kernels.
const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// What is on its way; cleaned by age.
const DOWNLOAD: &str = "download";
/// How often a lease is written anew.
const RENEWAL: Duration = Duration::from_secs(20);
/// How long one may stay as it was.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often a lease is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Where entries are shared.
#[derive(Clone)]
pub struct Share {
    store: Arc<Store>,
    secret: Secret,
    patience: Duration,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Share {
    /// The place that `text` names, a folder or `s3://BUCKET[/PREFIX]`. The store's address
    /// and keys are the environment's `AWS_*`; what proofs are made with is
    /// `BOOTRIG_CACHE_SECRET`.
    ///
    /// # Errors
    /// Usage: it is no such place, or keys are missing.
    pub fn open(text: &str) -> Result<Self> {
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        Ok(Self {
            store: Arc::new(Store::open(text, &var)?),
            secret: Secret::new(var("BOOTRIG_CACHE_SECRET").as_deref()),
            patience: PATIENCE,
        })
    }

    /// The place `named`, or that of `BOOTRIG_CACHE_REMOTE`; `None`: neither is given.
    ///
    /// # Errors
    /// As [`Share::open`].
    pub fn wanted(named: Option<&str>) -> Result<Option<Self>> {
        let everywhere = std::env::var("BOOTRIG_CACHE_REMOTE").ok();
        let named = named.or(everywhere.as_deref());
        named.filter(|n| !n.is_empty()).map(Self::open).transpose()
    }

    /// The same with another patience; for tests.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether there is a pack `name`, sound or not.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn has(&self, name: &str) -> Result<bool> {
        self.store.has(&place(name))
    }

    /// Puts the entries of the pack `name` into `cache`. What is refused is named through
    /// `say`, and is as if it were not there.
    ///
    /// # Errors
    /// The store does not answer; the cache's disk is full.
    pub fn pull(
        &self,
        cache: &Cache,
        name: &str,
        kinds: &[&str],
        say: &dyn Fn(&str),
    ) -> Result<bool> {
        let scratch = process::scratch_in(&cache.root().join(DOWNLOAD), "pull-")?;
        let file = scratch.path().join("pack");
        if !self.store.get(&place(name), &file)? {
            return Ok(false);
        }
        let bytes = read_file(&file, MOST_BYTES)
            .with_context(|| format!("reading the shared entry {name}"))?;
        let entries = pack::read(&bytes, name, &self.secret).and_then(|entries| {
            match entries.iter().find(|e| !kinds.contains(&e.kind)) {
                Some(e) => bail!("it holds an entry of the kind {}", e.kind.escape_debug()),
                None if entries.is_empty() => bail!("it is empty"),
                None => Ok(entries),
            }
        });
        let entries = match entries {
            Ok(entries) => entries,
            Err(why) => {
                say(&format!(
                    "warning: shared entry {} in {self} is refused: {why:#}",
                    place(name)
                ));
                return Ok(false);
            }
        };
        for entry in entries {
            import(cache, &entry, say).map_err(|e| cache.explain(e))?;
        }
        Ok(true)
    }

    /// Puts the entries `kind`, `key` of `cache` there as the pack `name`, in place of one
    /// that is there.
    ///
    /// # Errors
    /// The store does not answer; an entry is not in the cache.
    pub fn push(
        &self,
        cache: &Cache,
        name: &str,
        entries: &[(&str, &str)],
        say: &dyn Fn(&str),
    ) -> Result<()> {
        let mut packed = Vec::new();
        for &(kind, key) in entries {
            let dir = cache.get(kind, key, Check::Full, say)?;
            let dir = dir.with_context(|| format!("cache entry {kind}/{key} is gone"))?;
            packed.push((kind, key, dir));
        }
        let bytes = pack::write(name, &packed, &self.secret)?;
        let scratch = process::scratch_in(&cache.root().join(DOWNLOAD), "push-")?;
        let file = scratch.path().join("pack");
        fs::write(&file, bytes).map_err(|e| cache.explain(e.into()))?;
        self.store.put(&place(name), &file)
    }

    /// The right to make what is called `name`, in words `what`, for all; `None` once another
    /// has given it back: then look again what there is.
    ///
    /// # Errors
    /// The store does not answer; [`process::Stopped`] when interrupted while waiting.
    pub fn lease(&self, name: &str, what: &str, say: &dyn Fn(&str)) -> Result<Option<Lease>> {
        let object = format!("lease/{name}");
        let own = Lease::token();
        if self.store.claim(&object, &own)? {
            return Ok(Some(self.hold(object, own)));
        }
        say(&format!(
            "waiting for another machine that is making {what} (lease {object} in {self})"
        ));
        let begun = Instant::now();
        let (mut seen, mut since) = (String::new(), begun);
        loop {
            if begun.elapsed() > LIMIT {
                bail!(
                    "waited {} hours for {object} in {self}: end its holder, or remove it",
                    LIMIT.as_secs() / 3600
                );
            }
            let Some(now) = self.store.text(&object)? else {
                return Ok(None);
            };
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > self.patience {
                say(&format!("nobody renews {object} any more: taking it over"));
                self.store.replace(&object, &own)?;
                return Ok(Some(self.hold(object, own)));
            }
            let pause = Instant::now();
            while pause.elapsed() < LOOK.min(self.patience / 4) {
                if process::interrupted() {
                    return Err(process::Stopped.into());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn hold(&self, object: String, token: String) -> Lease {
        let signal = Arc::new((Mutex::new(false), Condvar::new()));
        let every = RENEWAL.min(self.patience / 4);
        let renewer = {
            let (store, signal) = (self.store.clone(), signal.clone());
            let object = object.clone();
            std::thread::spawn(move || {
                let (over, wake) = &*signal;
                let mut count = 0u64;
                let mut over = over.lock().expect("no holder panics");
                while !*over {
                    let waited = wake.wait_timeout(over, every).expect("no holder panics");
                    over = waited.0;
                    if !*over && waited.1.timed_out() {
                        count += 1;
                        // One that fails is made good by the next, or the lease is lost.
                        let _ = store.replace(&object, &format!("{token} {count}"));
                    }
                }
            })
        };
        Lease {
            store: self.store.clone(),
            object,
            signal,
            renewer: Some(renewer),
        }
    }
}

fn place(name: &str) -> String {
    format!("pack/{name}")
}

fn import(cache: &Cache, entry: &pack::Entry<'_>, say: &dyn Fn(&str)) -> Result<()> {
    let lock = cache.lock(entry.kind, entry.key, "a shared entry", say)?;
    if cache
        .get(entry.kind, entry.key, Check::Full, say)?
        .is_some()
    {
        return Ok(());
    }
    let staged = cache.stage(&lock)?;
    for (path, bytes) in &entry.files {
        let path: PathBuf = staged.dir().join(path);
        fs::create_dir_all(path.parent().unwrap_or(staged.dir()))?;
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    cache.put(&lock, staged)?;
    Ok(())
}

/// The right to make something for all; given back when dropped, and, should we be killed,
/// lost after a while.
pub struct Lease {
    store: Arc<Store>,
    object: String,
    signal: Arc<(Mutex<bool>, Condvar)>,
    renewer: Option<JoinHandle<()>>,
}

impl Lease {
    /// What no other holder writes.
    fn token() -> String {
        use std::hash::{BuildHasher, RandomState};
        let random = RandomState::new().hash_one(std::process::id());
        format!("{random:016x}")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (over, wake) = &*self.signal;
        *over.lock().expect("no holder panics") = true;
        wake.notify_all();
        if let Some(renewer) = self.renewer.take() {
            let _ = renewer.join();
        }
        let _ = self.store.remove(&self.object);
    }
}

#[cfg(test)]
mod tests;
