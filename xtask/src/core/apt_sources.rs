// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads apt's source files (sources.list(5)): which archives a system is configured with.
//! And where Debian's own archive and its keys are.

/// Debian's own mirror.
pub const DEBIAN_MIRROR: &str = "http://deb.debian.org/debian";
/// Where distributions put Debian's archive keys: newer ones under both names, older ones
/// under the last.
pub const DEBIAN_KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// Debian's archive keys, of those that there are.
pub fn debian_keyring(is_there: impl Fn(&str) -> bool) -> Option<&'static str> {
    DEBIAN_KEYRINGS.into_iter().find(|k| is_there(k))
}

/// One configured archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether packages come from there (`deb`), not only sources (`deb-src`).
    pub packages: bool,
    /// Its mirrors; at least one.
    pub uris: Vec<String>,
    /// `bookworm`, `bookworm-backports`, ...; at least one.
    pub suites: Vec<String>,
    /// The key file that its signature is checked with, if the entry names one.
    pub signed_by: Option<String>,
}

/// The enabled entries of the file called `name`, in order. Its ending tells how it is
/// written; with another ending than `.list` and `.sources`, apt does not read it either.
/// What apt would refuse is left out.
pub fn entries(name: &str, text: &str) -> Vec<Entry> {
    let found: Vec<_> = match name.rsplit_once('.') {
        Some((_, "list")) => text.lines().filter_map(one_line).collect(),
        Some((_, "sources")) => stanzas(text),
        _ => Vec::new(),
    };
    let whole = |e: &Entry| !e.uris.is_empty() && !e.suites.is_empty();
    found.into_iter().filter(whole).collect()
}

/// `deb [option=value ...] URI suite component... # comment`
fn one_line(line: &str) -> Option<Entry> {
    let (kind, mut rest) = line.trim().split_once(char::is_whitespace)?;
    let packages = packages([kind])?;
    let mut signed_by = None;
    if let Some(options) = rest.trim_start().strip_prefix('[') {
        let (inside, after) = options.split_once(']')?;
        signed_by = inside
            .split_whitespace()
            .find_map(|o| o.strip_prefix("signed-by="))
            .map(str::to_owned);
        rest = after;
    }
    let mut words = rest.split('#').next()?.split_whitespace();
    Some(Entry {
        packages,
        uris: vec![words.next()?.into()],
        suites: vec![words.next()?.into()],
        signed_by,
    })
}

/// Paragraphs of `Field: value`, continued by lines that begin with a space.
fn stanzas(text: &str) -> Vec<Entry> {
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
    lines
        .split(|l| l.trim().is_empty())
        .filter_map(stanza)
        .collect()
}

fn stanza(lines: &[&str]) -> Option<Entry> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.to_owned()));
        }
    }
    let field = |name: &str| {
        let field = fields.iter().find(|f| f.0 == name);
        field.map_or("", |f| f.1.trim())
    };
    let words = |name| field(name).split_whitespace().map(str::to_owned).collect();
    let enabled = field("enabled").to_ascii_lowercase();
    if ["no", "false", "without", "off", "disable", "0"].contains(&enabled.as_str()) {
        return None;
    }
    // An embedded key would span lines; a path is one word.
    let key = Some(field("signed-by")).filter(|s| s.starts_with('/') && !s.contains(' '));
    Some(Entry {
        packages: packages(field("types").split_whitespace())?,
        uris: words("uris"),
        suites: words("suites"),
        signed_by: key.map(str::to_owned),
    })
}

/// Whether packages are among these types; `None` if no type of apt's is.
fn packages<'a>(types: impl IntoIterator<Item = &'a str>) -> Option<bool> {
    let known = types.into_iter().filter(|t| ["deb", "deb-src"].contains(t));
    known.map(|t| t == "deb").reduce(|a, b| a || b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(name: &str, text: &str, expect: Expect) {
        let line = |e: Entry| {
            let kind = if e.packages { "packages" } else { "sources" };
            let key = e.signed_by.map_or(String::new(), |k| format!(", by {k}"));
            format!(
                "{kind} of {} at {}{key}\n",
                e.suites.join(" "),
                e.uris.join(" ")
            )
        };
        expect.assert_eq(
            &entries(name, text)
                .into_iter()
                .map(line)
                .collect::<String>(),
        );
    }

    #[test]
    fn lines() {
        check(
            "sources.list",
            "# deb http://no.example/ no main\n\
             deb [arch=amd64 signed-by=/k#1.gpg] http://a.example/debian bookworm main # why\n\
             \tdeb-src\thttp://a.example/debian   src main\n\
             deb [ arch=amd64 ] http://b.example b\n\
             deb cdrom:[Debian]/ disc main\n\
             debian http://no.example no\ndeb\ndeb http://no.example\ndeb [unclosed http://no.example no\n\
             deb http://no.example # no\n",
            expect![[r#"
                packages of bookworm at http://a.example/debian, by /k#1.gpg
                sources of src at http://a.example/debian
                packages of b at http://b.example
                packages of disc at cdrom:[Debian]/
            "#]],
        );
    }

    #[test]
    fn paragraphs() {
        check(
            "debian.sources",
            "Types: deb deb-src\n# why\nURIs: http://b.example/debian\n  http://c.example/debian\nSuites: one\n two\nComponents: main\nSigned-By: /b.gpg\n\n\
             Types: deb\nEnabled: no\nURIs: http://no.example\nSuites: off\n \t\n\
             types: deb-src\nuris:http://d.example\nsuites:d\nEnabled: yes\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n\n\
             Types: rpm\nURIs: http://no.example\nSuites: no\n\n\
             Types: deb\nSuites: no\n\n continued from nothing\n",
            expect![[r#"
                packages of one two at http://b.example/debian http://c.example/debian, by /b.gpg
                sources of d at http://d.example
            "#]],
        );
    }

    #[test]
    fn other_files_are_not_read() {
        for name in ["b.list.disabled", "b.sources.bak", "list", ""] {
            check(name, "deb http://no.example/ no main\n", expect![""]);
        }
    }
}
