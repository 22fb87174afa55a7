// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration: tinyconfig, fragments on top, and the contract that whatever a fragment
//! asks for is in the effective configuration.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::core::{fault::Fault, nearest::nearest};

/// Where the fragments are in a checkout.
pub const DIR: &str = "images/kernels/fragments";
/// The fragment on top of all others that makes a kernel check itself.
pub const DEBUG: &str = "debug.config";

/// The fragment on top of those of the source that sets a tick rate.
pub fn tick_rate(hz: u32) -> String {
    format!("hz-{hz}.config")
}
/// The fragment that has the kernel ask user space for firmware.
pub const FIRMWARE_FALLBACK: &str = "firmware-fallback.config";
/// The fragment that has the kernel take memory that is plugged in.
pub const MEMORY_HOTPLUG: &str = "memory-hotplug.config";

/// The fragment with what systemd needs.
pub const SYSTEMD: &str = "systemd.config";

/// An option asked for by a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// `y`, `m`, a number or a quoted string; `None`: not set.
    pub value: Option<String>,
    /// `file:line` of who asks.
    pub at: String,
}

/// What fragments ask for, by option name with `CONFIG_`; later ones win.
pub type Wishes = BTreeMap<String, Wish>;

/// Reads fragments; their bytes too, for the key.
///
/// # Errors
/// Usage errors with file and line for a line that is neither option, comment nor empty,
/// and for an option twice in one fragment.
pub fn read(root: &Path, fragments: &[String]) -> Result<(Wishes, Vec<u8>)> {
    let (mut wishes, mut bytes) = (Wishes::new(), Vec::new());
    for name in fragments {
        let path = format!("{DIR}/{name}");
        let text = fs::read_to_string(root.join(&path))
            .map_err(|e| Fault::usage(format!("{path}: {e}")))?;
        let mut own = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let at = format!("{path}:{}", number + 1);
            let Some((option, value)) = parse(line).map_err(|()| Fault::usage(format!("{at}: `{line}` is no option: expected CONFIG_X=y, `# CONFIG_X is not set` or a comment")))? else {
                continue;
            };
            if let Some(before) = own.insert(option.to_owned(), at.clone()) {
                return Err(Fault::usage(format!("{at}: {option} is already at {before}")).into());
            }
            wishes.insert(option.to_owned(), Wish { value, at });
        }
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.into_bytes());
    }
    Ok((wishes, bytes))
}

/// Adds `options`, which somebody names one by one, to what fragments ask for.
///
/// # Errors
/// Usage: one is no option.
pub fn add(options: &[String], wishes: &mut Wishes, bytes: &mut Vec<u8>) -> Result<()> {
    for line in options {
        let Ok(Some((option, value))) = parse(line) else {
            return Err(Fault::usage(format!(
                "`{}` is no option: expected CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE",
                line.escape_debug()
            ))
            .into());
        };
        let at = format!("option {line}");
        wishes.insert(option.to_owned(), Wish { value, at });
        bytes.extend((line.len() as u64).to_le_bytes());
        bytes.extend(line.as_bytes());
    }
    Ok(())
}

/// An option's name and value from a line of a fragment or of a .config.
fn parse(line: &str) -> Result<Option<(&str, Option<String>)>, ()> {
    let line = line.trim_end();
    let name = |n: &str| {
        n.strip_prefix("CONFIG_").is_some_and(|n| {
            !n.is_empty() && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    };
    if let Some(option) = line
        .strip_prefix("# ")
        .and_then(|l| l.strip_suffix(" is not set"))
    {
        return Ok(name(option).then_some((option, None)));
    }
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    match line.split_once('=') {
        Some((option, value)) if name(option) && !value.is_empty() && !value.starts_with(' ') => {
            Ok(Some((option, (value != "n").then(|| value.to_owned()))))
        }
        _ => Err(()),
    }
}

/// `base` (a .config) with what is wished in place of what it says of those options. The
/// wishes come last, because of a choice's options the last one set wins.
pub fn merge(base: &str, wishes: &Wishes) -> String {
    let mut text = String::new();
    for line in base.lines() {
        if !matches!(parse(line), Ok(Some((option, _))) if wishes.contains_key(option)) {
            let _ = writeln!(text, "{line}");
        }
    }
    for (option, wish) in wishes {
        let _ = match &wish.value {
            Some(value) => writeln!(text, "{option}={value}"),
            None => writeln!(text, "# {option} is not set"),
        };
    }
    text
}

/// Checks that the effective configuration grants every wish.
///
/// # Errors
/// A usage error naming each option that did not take, who asked, what it is instead, and
/// what Kconfig says it depends on.
pub fn contract(effective: &str, wishes: &Wishes, tree: &Path) -> Result<()> {
    let got: BTreeMap<&str, Option<String>> = effective
        .lines()
        .filter_map(|l| parse(l).ok().flatten())
        .collect();
    let broken: Vec<_> = wishes
        .iter()
        .filter(|(option, wish)| got.get(option.as_str()).cloned().flatten() != wish.value)
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    let kconfig = Kconfig::read(tree)?;
    let mut message = String::from("the configuration does not take what is asked for:");
    for (option, wish) in broken {
        let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "not set".into());
        let is = got
            .get(option.as_str())
            .map_or("unknown or hidden".into(), show);
        let _ = write!(
            message,
            "\n  {}: {option} should be {}, is {is}\n{}",
            wish.at,
            show(&wish.value),
            kconfig.explain(option.trim_start_matches("CONFIG_"))
        );
    }
    Err(Fault::usage(message).into())
}

/// The text of all Kconfig files, for explanations only.
struct Kconfig {
    files: Vec<(String, String)>,
}

impl Kconfig {
    fn read(tree: &Path) -> Result<Self> {
        fn below(tree: &Path, at: &Path, files: &mut Vec<(String, String)>) -> Result<()> {
            for entry in fs::read_dir(tree.join(at))
                .with_context(|| format!("listing {}", tree.join(at).display()))?
                .flatten()
            {
                let path = at.join(entry.file_name());
                let (Ok(kind), name) = (
                    entry.file_type(),
                    entry.file_name().to_string_lossy().into_owned(),
                ) else {
                    continue;
                };
                // Other architectures say other things of the same options.
                let foreign = at == Path::new("arch") && name != "x86";
                if kind.is_dir() && !foreign && name != "Documentation" && name != "build" {
                    below(tree, &path, files)?;
                } else if kind.is_file() && name.starts_with("Kconfig") {
                    files.push((
                        path.display().to_string(),
                        fs::read_to_string(tree.join(&path)).unwrap_or_default(),
                    ));
                }
            }
            Ok(())
        }
        let mut files = Vec::new();
        below(tree, Path::new(""), &mut files)?;
        files.sort();
        Ok(Self { files })
    }

    /// What is said of an option: its prompt, its own dependencies and those of the blocks
    /// around it, each with file and line.
    fn explain(&self, option: &str) -> String {
        let mut out = String::new();
        for (file, text) in &self.files {
            explain_in(file, text, option, &mut out);
        }
        if out.is_empty() {
            let lines = self.files.iter().flat_map(|(_, t)| t.lines());
            let near = nearest(option, lines.filter_map(symbol))
                .map_or(String::new(), |n| format!("; the nearest is CONFIG_{n}"));
            return format!("    this kernel has no such option{near}");
        }
        out.trim_end().to_owned()
    }
}

/// The option that a line begins the description of.
fn symbol(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("config" | "menuconfig"))
        .then(|| words.next())
        .flatten()
}

fn explain_in(file: &str, text: &str, option: &str, out: &mut String) {
    // Conditions of the blocks around; a menu's come in lines of their own after it.
    let mut around: Vec<Vec<String>> = Vec::new();
    let mut ours = false;
    let mut prompted = true;
    let mut in_menu_head = false;
    let mut help_indent = None;
    for (number, line) in text.lines().enumerate() {
        let at = format!("{file}:{}", number + 1);
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if help_indent.is_some_and(|i| indent > i || line.is_empty()) {
            continue;
        }
        help_indent = matches!(line, "help" | "---help---").then_some(indent);
        let word = line.split_whitespace().next().unwrap_or_default();
        let begins = matches!(
            word,
            "config"
                | "menuconfig"
                | "choice"
                | "endchoice"
                | "menu"
                | "endmenu"
                | "if"
                | "endif"
                | "comment"
                | "source"
        );
        if begins {
            if ours && !prompted {
                let _ = writeln!(out, "    it has no prompt: only another option can set it");
            }
            (ours, prompted, in_menu_head) = (false, true, matches!(word, "menu" | "choice"));
        }
        match word {
            "if" => around.push(vec![format!("    {at}: {line}")]),
            "menu" | "choice" => around.push(Vec::new()),
            "endif" | "endmenu" | "endchoice" => drop(around.pop()),
            "config" | "menuconfig" if symbol(line) == Some(option) => {
                (ours, prompted) = (true, false);
                let _ = writeln!(out, "    {at}: {line}");
                around
                    .iter()
                    .flatten()
                    .for_each(|c| *out += &format!("{c}\n"));
            }
            "depends" if ours => *out += &format!("    {at}: {line}\n"),
            "depends" | "visible" if in_menu_head => {
                if let Some(block) = around.last_mut() {
                    block.push(format!("    {at}: {line}"));
                }
            }
            "bool" | "tristate" | "string" | "int" | "hex" | "prompt"
                if ours && line.contains('"') =>
            {
                prompted = true;
                if let Some((_, condition)) = line.rsplit_once("\" if ") {
                    let _ = writeln!(out, "    {at}: asked only if {condition}");
                }
            }
            _ => {}
        }
    }
    if ours && !prompted {
        let _ = writeln!(out, "    it has no prompt: only another option can set it");
    }
}

/// Fails unless the file is there and not empty.
pub fn effective(build: &Path) -> Result<String> {
    let text =
        fs::read_to_string(build.join(".config")).context("reading the effective configuration")?;
    if text.is_empty() {
        bail!("make left an empty configuration in {}", build.display());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(text: &str) -> Result<Wishes> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(DIR)).unwrap();
        fs::write(dir.path().join(DIR).join("f"), text).unwrap();
        Ok(read(dir.path(), &["f".into()])?.0)
    }

    #[test]
    fn wishes_replace_and_come_last() {
        let wished =
            wishes("# why\nCONFIG_SLUB=y\n# CONFIG_SLOB is not set\nCONFIG_X=n\n\nCONFIG_N=64\n")
                .unwrap();
        let merged = merge(
            "CONFIG_SLOB=y\nCONFIG_KEEP=\"a b\"\n# CONFIG_SLUB is not set\n# CONFIG_OFF is not set\n",
            &wished,
        );
        assert_eq!(
            merged,
            "CONFIG_KEEP=\"a b\"\n# CONFIG_OFF is not set\nCONFIG_N=64\n# CONFIG_SLOB is not set\nCONFIG_SLUB=y\n# CONFIG_X is not set\n"
        );
    }

    #[test]
    fn what_is_no_option_is_refused_with_its_line() {
        for (text, want) in [
            ("CONFIG_A=y\nSLUB=y\n", "f:2: `SLUB=y`"),
            ("CONFIG_A\n", "f:1:"),
            ("CONFIG_A=\n", "f:1:"),
            (
                "CONFIG_A=y\n\nCONFIG_A=n\n",
                "f:3: CONFIG_A is already at images/kernels/fragments/f:1",
            ),
        ] {
            let error = wishes(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text:?}: {error}");
        }
    }

    const KCONFIG: &str = "menu \"Buses\"
\tdepends on HAS_BUS

if EXPERT
config THING
\tbool \"A thing\" if EMBEDDED
\tdepends on PCI && !UML
\tselect OTHER
\thelp
\t  depends on nothing really

config HIDDEN
\tbool
endif
config LAST
\ttristate \"Last\"
endmenu
config FREE
\tbool \"Free\"
";

    #[test]
    fn the_contract_explains_what_did_not_take() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Kconfig"), KCONFIG).unwrap();
        let wished = wishes("CONFIG_THING=y\nCONFIG_HIDDEN=y\nCONFIG_LAST=y\nCONFIG_FREE=y\nCONFIG_THNIG=y\n# CONFIG_ON is not set\nCONFIG_N=8\n").unwrap();
        contract("CONFIG_THING=y\nCONFIG_HIDDEN=y\nCONFIG_LAST=y\nCONFIG_FREE=y\nCONFIG_THNIG=y\nCONFIG_N=8\n", &wished, dir.path()).unwrap();
        let error = contract(
            "CONFIG_LAST=m\nCONFIG_FREE=y\nCONFIG_ON=y\nCONFIG_N=64\n",
            &wished,
            dir.path(),
        )
        .unwrap_err();
        expect_test::expect![[r#"
            the configuration does not take what is asked for:
              images/kernels/fragments/f:2: CONFIG_HIDDEN should be y, is unknown or hidden
                Kconfig:12: config HIDDEN
                Kconfig:2: depends on HAS_BUS
                Kconfig:4: if EXPERT
                it has no prompt: only another option can set it
              images/kernels/fragments/f:3: CONFIG_LAST should be y, is m
                Kconfig:15: config LAST
                Kconfig:2: depends on HAS_BUS
              images/kernels/fragments/f:7: CONFIG_N should be 8, is 64
                this kernel has no such option
              images/kernels/fragments/f:6: CONFIG_ON should be not set, is y
                this kernel has no such option
              images/kernels/fragments/f:1: CONFIG_THING should be y, is unknown or hidden
                Kconfig:5: config THING
                Kconfig:2: depends on HAS_BUS
                Kconfig:4: if EXPERT
                Kconfig:6: asked only if EMBEDDED
                Kconfig:7: depends on PCI && !UML
              images/kernels/fragments/f:5: CONFIG_THNIG should be y, is unknown or hidden
                this kernel has no such option; the nearest is CONFIG_THING"#]]
        .assert_eq(&error.to_string());
    }
}
