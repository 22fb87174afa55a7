// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run, kept or just made, in a form that another tool reads.

use anyhow::Result;

use crate::{
    core::{
        export::{self, Format, Kernel, Run},
        summary::Summary,
    },
    edge::store::Header,
};

/// The run of `header` and `summary` in `format`; `origin` is KCIDB's.
///
/// # Errors
/// When the format's own writer refuses it.
pub fn exported(
    header: &Header,
    summary: &Summary,
    format: Format,
    origin: &str,
) -> Result<String> {
    let variants = || {
        summary.scenarios.iter().flat_map(|s| {
            s.variants
                .iter()
                .map(move |v| (format!("{}/{}", s.name, v.name), v.kernel.as_deref()))
        })
    };
    let kernels: Vec<Kernel> = header
        .kernels
        .iter()
        .map(|k| {
            let name = k.spec.to_string();
            // Runs of one kernel may be from before a variant's kernel was kept.
            let only = header.kernels.len() == 1;
            let booted = variants()
                .filter(|(_, kernel)| kernel.map_or(only, |k| k == name))
                .map(|(place, _)| place)
                .collect();
            Kernel {
                name,
                source: k.source.clone(),
                key: k.key.clone(),
                compiler: k.compiler.clone(),
                booted,
            }
        })
        .collect();
    let run = Run {
        summary,
        begun: &header.begun,
        kernels: &kernels,
        origin,
    };
    export::export(&run, format).map_err(anyhow::Error::msg)
}
