// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory blocks that the kernel shows.

use std::{collections::BTreeMap, fs, io};

use crate::{
    channel,
    failure::{Failure, during},
    pci, sys,
};

const FOLDER: &str = "/sys/devices/system/memory";

/// Reports how many memory blocks there are, and what size sysfs says they have.
pub fn report() -> Result<(), Failure> {
    let failed = || during("memory");
    let blocks = numbers().map_err(failed())?.len();
    let text = fs::read_to_string(format!("{FOLDER}/block_size_bytes")).map_err(failed())?;
    let size = u64::from_str_radix(text.trim_end(), 16)
        .map_err(|_| Failure::new("memory:block_size_bytes", sys::EINVAL))?;
    channel::say(&format!("memory blocks={blocks} size={size}"));
    Ok(())
}

/// The folders of the first `most` blocks, in the order of their numbers.
pub fn folders(most: u64) -> io::Result<Vec<String>> {
    let mut numbers = numbers()?;
    numbers.sort_unstable();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok(numbers.iter().take(most).map(|n| folder(*n)).collect())
}

/// The folder of the block of that number.
pub fn folder(number: u64) -> String {
    format!("{FOLDER}/memory{number}")
}

/// How often each name is among those of the blocks and what is beside them.
pub fn names() -> io::Result<BTreeMap<String, u32>> {
    let mut names = BTreeMap::new();
    for entry in fs::read_dir(FOLDER)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        *names.entry(name).or_insert(0) += 1;
    }
    Ok(names)
}

/// The numbers of all blocks, in no order.
pub fn numbers() -> io::Result<Vec<u64>> {
    let mut numbers = vec![];
    for entry in fs::read_dir(FOLDER)? {
        numbers.extend(number(&entry?.file_name()));
    }
    Ok(numbers)
}

/// `memory` and a number.
fn number(name: &std::ffi::OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix("memory")?;
    (!digits.is_empty()).then(|| pci::number(digits)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_count() {
        for (name, is) in [
            ("memory0", Some(0)),
            ("memory102400", Some(102_400)),
            ("memory", None),
            ("memoryx", None),
            ("block_size_bytes", None),
            ("memory1x", None),
        ] {
            assert_eq!(number(name.as_ref()), is, "{name}");
        }
    }
}
