// SPDX-License-Identifier: MIT OR Apache-2.0
//! run.yaml: what a run was asked for, and what it is made of.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::{
    core::{
        fault::Fault,
        parts::{Kernel, Parts},
        plan::{KernelSpec, Overrides, Trial, whole},
        scenario::{Clock, MAX_REPEATS, Scenario, UnderTest},
        shard::Cut,
        summary::VariantSummary,
        yaml,
    },
    edge::files::read_file,
};

/// The longest run.yaml: the boots that a shard was dealt are the most of it.
const MOST_HEADER_BYTES: u64 = 4 << 20;

/// Version of run.yaml and of the stored trials.
pub const SCHEMA: u32 = 1;

/// run.yaml: what was asked for, by whom it was made, and out of what.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run's id: the folder's name.
    pub id: String,
    /// When it was begun: RFC 3339, UTC.
    pub begun: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// What the command line overrode.
    pub clock: Option<Clock>,
    /// Same.
    pub repeats: Option<u32>,
    /// Same.
    #[serde(default)]
    pub debug: bool,
    /// Same: wall time without the boots of the same thing.
    #[serde(default)]
    pub no_aa: bool,
    /// Same.
    #[serde(default)]
    pub under_test: UnderTest,
    /// Names or files as given.
    pub scenarios: Vec<ScenarioRef>,
    /// `--kernel` and `--kbuild`, if given.
    pub ready_kernel: Option<(PathBuf, PathBuf)>,
    /// Which shard of a run it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Cut>,
    /// The host's fingerprint.
    pub host: serde_json::Value,
    /// What booted it.
    pub machine: MachineRecord,
    /// Every kernel booted.
    pub kernels: Vec<KernelRecord>,
}

impl Header {
    /// Reads the header of run `id` in `results`.
    ///
    /// # Errors
    /// Usage: there is none, or it is of another version, damaged or of another run.
    pub fn read(results: &Path, id: &str) -> Result<Self> {
        let path = results.join(id).join("run.yaml");
        if Run::name(id).is_err() || !path.is_file() {
            return Err(Run::missing(results, id).into());
        }
        let bytes = read_file(&path, MOST_HEADER_BYTES).map_err(|e| {
            Fault::usage(format!(
                "{}: {e}; restore it, or remove the run",
                path.display()
            ))
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let damaged = |e: String| {
            Fault::usage(format!(
                "{} is damaged or of another version: {e}; its samples can be read, but the run cannot go on: begin a new one",
                path.display()
            ))
        };
        let document: serde_yaml::Value = yaml::read(&text).map_err(damaged)?;
        // Of another version its other keys may be other ones too.
        let was = document.get("schema").and_then(serde_yaml::Value::as_u64);
        if let Some(was) = was.filter(|s| *s != u64::from(SCHEMA)) {
            let why = format!(
                "{} has schema {was}; this program reads {SCHEMA}: begin a new run, or use the program that made it",
                path.display()
            );
            return Err(Fault::usage(why).into());
        }
        let header: Self = serde_yaml::from_value(document).map_err(|e| damaged(e.to_string()))?;
        let path = path.display();
        if header.id != id {
            let was = header.id;
            let why = format!("{path} is of run {was}: give the folder its name back");
            return Err(Fault::usage(why).into());
        }
        if header
            .repeats
            .is_some_and(|n| !(1..=MAX_REPEATS).contains(&n))
        {
            let why =
                format!("{path}: `repeats` is 1 to {MAX_REPEATS}: restore it, or remove the run");
            return Err(Fault::usage(why).into());
        }
        // Runs are sorted by it, and it goes into tables that others read.
        let of_a_time = |b: u8| b.is_ascii_digit() || b"-:.TZ".contains(&b);
        if !header.begun.bytes().all(of_a_time) || !header.begun.ends_with('Z') {
            let begun: String = header.begun.escape_debug().take(80).collect();
            let why = format!("{path}: `{begun}` is no time: restore it, or remove the run");
            return Err(Fault::usage(why).into());
        }
        Ok(header)
    }

    /// Every boot of the run, of `scenarios`: the sizes of its sweeps one by one.
    pub fn plan(&self, scenarios: &[Arc<Scenario>]) -> Vec<Trial> {
        let overrides = Overrides {
            clock: self.clock,
            repeats: self.repeats,
            debug: self.debug,
        };
        whole(scenarios, overrides, !self.no_aa)
    }

    /// All that the run was made of.
    pub fn parts(&self) -> Parts {
        self.machine.parts(&self.kernels)
    }

    /// Checks that `machine` would go on with `kernels` as the run was begun.
    ///
    /// # Errors
    /// Usage: parts are others than they were; names them.
    pub fn goes_on_with(&self, machine: &MachineRecord, kernels: &[KernelRecord]) -> Result<()> {
        let (was, now) = (self.parts(), machine.parts(kernels));
        let differing = was.differing(&now);
        let names: Vec<_> = differing.iter().map(|d| d.part.to_string()).collect();
        let differs: Vec<_> = names.iter().map(|name| (name.as_str(), true)).collect();
        let so = "; its numbers would not belong together: begin a new run";
        self.same(&differs, so)
    }

    /// What the boots of these `variants` of one clock were made of. Where a summary does not
    /// say which kernel a variant booted, it may have been any of the run's.
    pub fn parts_of(&self, variants: &[VariantSummary]) -> Parts {
        let booted = |k: &&KernelRecord| {
            let name = k.spec.to_string();
            let its = |v: &VariantSummary| v.kernel.as_ref().is_none_or(|k| *k == name);
            variants.iter().any(its)
        };
        let mut parts = self.machine.parts(self.kernels.iter().filter(booted));
        let has = |image: &str| variants.iter().any(|v| v.image.as_deref() == Some(image));
        parts.images.retain(|image, _| has(image));
        if variants.iter().all(|v| v.clock == Clock::Virtual) {
            parts.accelerator = None;
        }
        parts
    }

    /// Refuses to go on where something `differs` from what the run was begun with; `so` ends
    /// the sentence: what that means, and the next step.
    ///
    /// # Errors
    /// Usage: names what differs.
    pub fn same(&self, differs: &[(&str, bool)], so: &str) -> Result<()> {
        let differs = differs.iter().filter(|(_, differs)| *differs);
        let differs: Vec<&str> = differs.map(|(what, _)| *what).collect();
        if differs.is_empty() {
            return Ok(());
        }
        let why = format!(
            "run {} was begun with another {}{so}",
            self.id,
            differs.join(" and ")
        );
        Err(Fault::usage(why).into())
    }
}

/// What boots the trials, beside kernels and modules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRecord {
    /// QEMU's version.
    pub qemu: String,
    /// Which form of QEMU's command line: other arguments, other numbers.
    pub command: u32,
    /// What accelerates it, and why that.
    pub accelerator: String,
    /// The key of PID 1.
    pub init: String,
    /// Images of user space that guests boot with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRecord>,
    /// What was not as the scenarios ask.
    pub notes: Vec<String>,
}

impl MachineRecord {
    /// What boots are made of that this machine makes with `kernels`.
    pub fn parts<'k>(&self, kernels: impl IntoIterator<Item = &'k KernelRecord>) -> Parts {
        let image = |i: &ImageRecord| (i.image.clone(), i.key.clone());
        let kernel = |k: &KernelRecord| {
            let kernel = Kernel {
                source: k.source.clone(),
                key: k.key.clone(),
                modules: k.modules.clone(),
                compiler: Some(k.compiler.clone()),
                image: Some(k.image.clone()).filter(|image| !image.is_empty()),
            };
            (k.spec.role(), kernel)
        };
        Parts {
            qemu: self.qemu.clone(),
            command: self.command,
            accelerator: Some(self.accelerator.clone()),
            init: self.init.clone(),
            images: self.images.iter().map(image).collect(),
            kernels: kernels.into_iter().map(kernel).collect(),
        }
    }
}

/// An image of user space, as run.yaml names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRecord {
    /// Which, and of which suite.
    pub image: String,
    /// Equal keys are the same bytes.
    pub key: String,
    /// `name version` of each package.
    pub packages: Vec<String>,
}

/// A scenario as it was when the run began.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioRef {
    /// What the user wrote.
    pub given: String,
    /// Its hash: a changed scenario cannot be resumed.
    pub hash: String,
}

/// A kernel of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRecord {
    /// What was asked for.
    pub spec: KernelSpec,
    /// The artifact's key.
    pub key: String,
    /// The source with its exact version.
    pub source: String,
    /// `uname -r`.
    pub release: String,
    /// First line of the compiler's version.
    pub compiler: String,
    /// The guest modules' key.
    pub modules: String,
    /// blake3 of its image: a series that touches nothing that is built changes none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
}
