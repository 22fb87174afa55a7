// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's drivers as a part of the kernel: a folder of their own below `drivers/`, which
//! its Makefile is told of last, so that they come after the drivers of buses.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::copy;
use crate::edge::drivers::{self, Sources};

/// The folder that they get.
const FOLDER: &str = "drivers/bootrig";
/// Where it is listed.
const LIST: &str = "drivers/Makefile";

/// Puts `sources` into the kernel in `tree`, whose files may be links.
pub fn place(sources: &Sources, tree: &Path) -> Result<()> {
    drivers::write(sources, &tree.join(FOLDER))?;
    let list = tree.join(LIST);
    copy::own(&list).with_context(|| format!("preparing {}", list.display()))?;
    let text = fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    let text = format!("{}\nobj-y += bootrig/\n", text.trim_end());
    fs::write(&list, text).with_context(|| format!("writing {}", list.display()))
}
