// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the arrows of docs/architecture.md in place: cmd -> rig -> edge -> core, no
//! command on another, no edge on another but the ground (`process`, `files`, `cache`,
//! `apt`, `drivers` and `terminal`), and a core that touches nothing outside itself and
//! whose modules stand on each other in no circle.
//!
//! Reads the sources, tests left out, for paths that begin at the crate or climb out of a
//! module, and for the parts of std that touch the world.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// What the core must not name.
const WORLD: [&[&str]; 7] = [
    &["std", "fs"],
    &["std", "process"],
    &["std", "net"],
    &["std", "env"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["xshell"],
];
/// Edges that all edges may stand on.
const SHARED: [&str; 6] = ["process", "files", "cache", "apt", "drivers", "terminal"];

/// A source text cut into words and punctuation.
fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |i| i + 4)
        } else if let Some(raw) = raw_string(rest) {
            raw
        } else if c == '"' {
            string(rest)
        } else if c == '\'' {
            character(rest)
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            out.push(rest[..end].into());
            end
        } else if rest.starts_with("::") {
            out.push("::".into());
            2
        } else {
            if !c.is_whitespace() {
                out.push(c.into());
            }
            c.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

/// Length of a raw string at the start, if one is there.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inside
        .find(&close)
        .map_or(inside.len(), |i| i + close.len());
    Some(text.len() - inside.len() + end)
}

/// Length of the string literal at the start.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Length of the character literal, or of a lifetime's mark, at the start.
fn character(text: &str) -> usize {
    if text[1..].starts_with('\\') {
        return text[3..].find('\'').map_or(text.len(), |i| i + 4);
    }
    let c = text[1..].chars().next().map_or(0, char::len_utf8);
    if text[1 + c..].starts_with('\'') {
        c + 2
    } else {
        1
    }
}

/// The tokens without items under `#[cfg(test)]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].iter().zip(MARK).all(|(t, m)| t == m) || tokens.len() - at < MARK.len() {
            out.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with its block, or with a semicolon outside of any.
        let mut depth = 0;
        at += MARK.len();
        while at < tokens.len() {
            let token = tokens[at].as_str();
            at += 1;
            match token {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 && (token == ";" || token == "}") {
                break;
            }
        }
    }
    out
}

/// Every path in the tokens, `use a::{b, c::d}` spread out into `a::b` and `a::c::d`.
fn paths(tokens: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        let word = |t: &String| t.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let begins = word(&tokens[at]) && tokens.get(at + 1).is_some_and(|t| t == "::");
        at = if begins {
            path(tokens, at, &[], &mut found)
        } else {
            at + 1
        };
    }
    found
}

/// Reads one path at `at`, below `prefix`; where it ends.
fn path(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    found: &mut BTreeSet<Vec<String>>,
) -> usize {
    let mut whole = prefix.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") if !whole.is_empty() => {
                at += 1;
                while let Some(token) = tokens.get(at).filter(|t| *t != "}") {
                    at = if token == "," {
                        at + 1
                    } else {
                        path(tokens, at, &whole, found).max(at + 1)
                    };
                }
                return at + 1;
            }
            Some(token)
                if token.starts_with(|c: char| c.is_alphanumeric() || c == '_') || token == "*" =>
            {
                // `self` in braces is the prefix itself.
                if token != "self" || whole.is_empty() {
                    whole.push(token.into());
                }
                at += 1;
            }
            _ => break,
        }
        if tokens.get(at).is_none_or(|t| t != "::") {
            break;
        }
        at += 1;
    }
    found.insert(whole);
    // `use a::b as c`: the new name is no path.
    if tokens.get(at).is_some_and(|t| t == "as") {
        at + 2
    } else {
        at
    }
}

/// The modules of a file under `src`: `edge/host/apt.rs` is `edge host apt`.
fn modules(file: &str) -> Vec<String> {
    file.trim_end_matches(".rs")
        .split('/')
        .filter(|m| !["lib", "main"].contains(m))
        .map(str::to_owned)
        .collect()
}

/// A path from the crate's root, if it is one of our own: resolves `crate`, `self`, `super`.
fn resolve(path: &[String], here: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" | "bootrig" => return Some(rest.to_vec()),
        "self" => return Some([here, rest].concat()),
        "super" => here[..here.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    let mut rest = rest;
    while let Some((_, more)) = rest.split_first().filter(|(f, _)| *f == "super") {
        base.pop()?;
        rest = more;
    }
    Some([base, rest.to_vec()].concat())
}

/// Rings, from the inside out.
fn ring(module: &str) -> Option<usize> {
    ["core", "edge", "rig", "cmd"]
        .iter()
        .position(|r| *r == module)
}

/// What is wrong with one file, for people.
fn faults(file: &str, text: &str) -> Vec<String> {
    let here = modules(file);
    let Some(own) = here.first().and_then(|m| ring(m)) else {
        return Vec::new();
    };
    let tokens = without_tests(&tokens(text));
    let mut faults = Vec::new();
    for path in paths(&tokens) {
        let shown = path.join("::");
        let world = |w: &&[&str]| {
            path.len() >= w.len() && path.iter().zip(w.iter()).all(|(p, w)| p == w || p == "*")
        };
        if here[0] == "core" && WORLD.iter().any(world) {
            faults.push(format!("{file}: the core touches the world: {shown}"));
        }
        let Some(target) = resolve(&path, &here) else {
            continue;
        };
        let Some(ring) = target.first().and_then(|m| ring(m)) else {
            continue;
        };
        let sibling = match (target.get(1), here.get(1)) {
            (Some(theirs), Some(ours)) if theirs != ours => Some(theirs.as_str()),
            _ => None,
        };
        if ring > own {
            faults.push(format!("{file}: an arrow outward: {shown}"));
        } else if ring == own && here[0] == "cmd" && sibling.is_some() {
            faults.push(format!("{file}: a command on another command: {shown}"));
        } else if ring == own && here[0] == "edge" && sibling.is_some_and(|s| !SHARED.contains(&s))
        {
            faults.push(format!("{file}: an edge on another edge: {shown}"));
        }
    }
    faults
}

/// The sources under `dir` without those of tests: names below `src`, and texts.
fn sources(dir: &Path, src: &Path) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(src).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            out.extend(sources(&path, src));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && !name.contains("/tests/")
        {
            out.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    out
}

/// Every source of the crate.
fn all_sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let all = sources(&src, &src);
    assert!(all.len() > 20, "only {} files found", all.len());
    all
}

/// Which modules of the core stand on which others.
fn core_arrows(sources: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources {
        let here = modules(file);
        let [core, ours, ..] = &here[..] else {
            continue;
        };
        if core != "core" {
            continue;
        }
        for path in paths(&without_tests(&tokens(text))) {
            match resolve(&path, &here).as_deref() {
                Some([core, theirs, ..]) if core == "core" && theirs != ours => {
                    arrows
                        .entry(ours.clone())
                        .or_default()
                        .insert(theirs.clone());
                }
                _ => {}
            }
        }
    }
    arrows
}

/// The modules that `from` stands on, directly or by others.
fn reached<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let next = |module: &str| arrows.get(module).into_iter().flatten();
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = next(from).map(String::as_str).collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(next(module).map(String::as_str));
        }
    }
    seen
}

/// The modules that reach themselves again, those of one circle together.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<&str>> {
    let modules = || arrows.keys().map(String::as_str);
    let reached: BTreeMap<_, _> = modules().map(|m| (m, reached(arrows, m))).collect();
    let circle = |a: &str| {
        let back = |b: &&str| reached[a].contains(b) && reached[b].contains(a);
        modules().filter(back).collect::<Vec<_>>()
    };
    modules().map(circle).filter(|c| !c.is_empty()).collect()
}

#[test]
fn arrows_point_inward() {
    let all = all_sources();
    let faults: Vec<_> = all.iter().flat_map(|(f, text)| faults(f, text)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_circle_in_the_core() {
    let arrows = core_arrows(&all_sources());
    assert!(arrows.len() > 20, "only {} modules found", arrows.len());
    let told: Vec<_> = circles(&arrows)
        .into_iter()
        .map(|circle| {
            let inside = |m: &&String| circle.contains(&m.as_str());
            let arrow = |m: &&str| {
                format!(
                    "{m} -> {:?}",
                    arrows[*m].iter().filter(inside).collect::<Vec<_>>()
                )
            };
            circle.iter().map(arrow).collect::<Vec<_>>().join("\n")
        })
        .collect();
    assert!(
        told.is_empty(),
        "modules that stand on each other:\n{}",
        told.join("\n\n")
    );
}

#[test]
fn circles_are_found() {
    let of = |texts: &[(&str, &str)]| {
        let owned: Vec<_> = texts
            .iter()
            .map(|(f, t)| ((*f).to_owned(), (*t).to_owned()))
            .collect();
        circles(&core_arrows(&owned))
            .into_iter()
            .map(|c| c.join(" "))
            .collect::<Vec<_>>()
    };
    let a = ("core/a.rs", "use super::b::B; use crate::edge::x;");
    let b = (
        "core/b/c.rs",
        "use crate::core::{d::D, b::e}; use super::a;",
    );
    assert_eq!(of(&[a, b, ("core/d.rs", "use super::a;")]), ["a b d"]);
    assert_eq!(
        of(&[a, b, ("core/d.rs", "#[cfg(test)] use super::a;")]),
        [""; 0]
    );
    assert_eq!(of(&[a, ("core/b.rs", "fn f() { super::a::f() }")]), ["a b"]);
}

#[test]
fn every_kind_of_fault_is_caught() {
    for (file, text) in [
        ("core/a.rs", "use crate::edge::process;"),
        ("core/a.rs", "use crate::{core::b, rig};"),
        (
            "core/a/b.rs",
            "use super::super::super::edge::store::{self};",
        ),
        ("core/a.rs", "fn f() { crate::cmd::bench::run() }"),
        ("edge/a.rs", "use crate::{core::plan, cmd::{self, bench}};"),
        ("edge/a.rs", "use crate::rig::Rig;"),
        ("rig.rs", "use crate::cmd::bench;"),
        ("cmd/a.rs", "use crate::cmd::b::Args;"),
        ("cmd/a.rs", "use super::b;"),
        ("cmd/a.rs", "use super::{b, a::c};"),
        ("edge/a.rs", "use crate::edge::{process, b::Thing};"),
        ("edge/a/x.rs", "use super::super::b;"),
        ("edge/a.rs", "fn f() { super::b::f() }"),
        ("core/a.rs", "use std::fs;"),
        ("core/a.rs", "use std::{collections::BTreeMap, fs::File};"),
        ("core/a.rs", "use std::*;"),
        ("core/a.rs", "fn f() { let _ = std::time::Instant::now(); }"),
        ("core/a.rs", "use std::time::{Duration, SystemTime};"),
        ("core/a.rs", "fn f() { std::env::var(\"X\"); }"),
        (
            "core/a.rs",
            "use std::{net as n, process::{Command, exit}};",
        ),
        ("core/a.rs", "use xshell::cmd;"),
        (
            "core/a.rs",
            "#[cfg(test)] mod tests { fn f() {} } use std::fs;",
        ),
        (
            "core/a.rs",
            "#[cfg(test)] use x::y; fn f() { '\"'; std::fs::read(r#\"\"\"#) }",
        ),
    ] {
        assert!(!faults(file, text).is_empty(), "{file}: {text}");
    }
}

#[test]
fn what_is_allowed_is_not_called_a_fault() {
    for (file, text) in [
        (
            "core/a.rs",
            "use super::units::Nanos; use std::time::Duration; use crate::core::{self, plan};",
        ),
        (
            "core/a.rs",
            "// use std::fs;\n/* crate::edge::x */ fn f() { \"std::fs::read\"; '\\''; r\"std::env::x\" }",
        ),
        (
            "core/a.rs",
            "#[cfg(test)]\nmod tests { use std::fs; fn f() { { } } }\nuse std::fmt;",
        ),
        ("core/a.rs", "use process::x; fn f(fs: u8) { env::x() }"),
        (
            "edge/a.rs",
            "use crate::{core::plan, edge::{cache::Cache, process::{self, Child}}}; use super::process::x;",
        ),
        (
            "edge/a/b.rs",
            "use super::c::D; use crate::edge::a::e; use std::fs;",
        ),
        ("rig.rs", "use crate::{core::plan, edge::{qemu, store}};"),
        (
            "cmd/a/b.rs",
            "use super::Args; use crate::{rig, edge::host, core::fault};",
        ),
        ("main.rs", "use bootrig::{cmd, core, edge};"),
    ] {
        assert_eq!(faults(file, text), [""; 0], "{file}: {text}");
    }
}
