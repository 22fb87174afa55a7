// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that a variant adds to the kernel command line.

use super::{diagnose::Sink, tree::At};

/// QEMU's microvm cuts the line at about 2 KiB; the rig needs some of it.
const MAX_BYTES: usize = 1024;

/// Parameters that the rig sets itself, and why another value would break it.
const OWNED: &[(&[&str], &str)] = &[
    (
        &["console", "earlycon", "earlyprintk"],
        "the console is watched for panics and splats",
    ),
    (
        &["quiet", "loglevel"],
        "a quiet console hides what the oracle looks for",
    ),
    (
        &["init", "rdinit", "root", "initrd", "noinitrd"],
        "PID 1 is the rig's own",
    ),
    (
        &["panic", "reboot", "oops"],
        "how the machine ends is how a failure is told from a result",
    ),
    (
        &["nokaslr", "kaslr"],
        "addresses must be the same in each boot",
    ),
    (
        &["tsc", "tsc_early_khz", "clocksource", "notsc"],
        "times are read from this clock",
    ),
    (
        &["memhp_default_state", "memory_hotplug.online_policy"],
        "it is `online` of `memory`, which the oracle holds the kernel to",
    ),
    (
        &[
            "systemd.unit",
            "systemd.default_timeout_start_sec",
            "rd.systemd.unit",
        ],
        "a boot of systemd is told by its multi-user.target; its limits stand in `systemd`",
    ),
];

/// Checks the words of one variant.
pub(super) fn check(words: &[String], at: &At<'_>, sink: &mut Sink) {
    if let Some(why) = too_long(words) {
        sink.add_with(at.position(), || format!("{at} {why}"));
    }
    for (index, word) in words.iter().enumerate() {
        let at = at.item(index);
        if let Some(why) = wrong(word) {
            sink.add_with(at.position(), || format!("{at}: `{word}` {why}"));
        }
    }
}

/// What is wrong with `words` together.
pub(super) fn too_long(words: &[String]) -> Option<String> {
    let bytes: usize = words.iter().map(|w| w.len() + 1).sum();
    (bytes > MAX_BYTES).then(|| {
        format!("has {bytes} bytes; the limit is {MAX_BYTES}, as longer command lines get cut")
    })
}

/// What is wrong with `word`.
pub(super) fn wrong(word: &str) -> Option<String> {
    if word.is_empty() {
        return Some("is empty".into());
    }
    if word.contains(char::is_whitespace) {
        return Some("has a space in it; give each word an item of its own".into());
    }
    if !word.bytes().all(|b| b.is_ascii_graphic()) || word.contains(['"', '\'']) {
        return Some("has a character that the kernel does not take literally".into());
    }
    if word == "--" {
        return Some("would hand the rest of the line to PID 1".into());
    }
    // To the kernel `-` and `_` are one in names.
    let name = word.split('=').next().unwrap_or(word).replace('-', "_");
    let (_, why) = OWNED
        .iter()
        .find(|(names, _)| names.contains(&name.as_str()))?;
    Some(format!("is set by bootrig: {why}"))
}
