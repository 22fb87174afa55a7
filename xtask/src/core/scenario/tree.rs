// SPDX-License-Identifier: MIT OR Apache-2.0
//! YAML as a tree that remembers where each thing stands, so that errors found long after
//! reading still have a line.
//!
//! Refused on purpose, each with its line: anchors and aliases (an alias of an alias of an
//! alias fills any memory, and readers of a scenario should not have to expand it in their
//! heads), tags, merge keys, keys that are no plain text, a key given twice, a second
//! document, deep nesting.

use std::{collections::HashSet, fmt};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::diagnose::Sink;

/// Nesting deeper than this is no scenario: a bridge costs two levels, and QEMU has no
/// use for 10 bridges below one another.
const MAX_DEPTH: usize = 32;
/// Larger files are refused: 65,536 devices written one by one take 2 to 4 MiB.
pub const MAX_TEXT: usize = 4 << 20;

/// Where something stands; both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl From<&Marker> for Position {
    fn from(m: &Marker) -> Self {
        Self {
            line: m.line().max(1),
            column: m.col() + 1,
        }
    }
}

/// A value and its place.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub position: Position,
    /// What it is.
    pub value: Value,
}

/// What a node holds.
#[derive(Debug)]
pub enum Value {
    /// Text, or what plain text stands for.
    Scalar(String, Kind),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the file's order, without duplicates.
    Map(Vec<(Key, Node)>),
}

/// A mapping's key.
#[derive(Debug)]
pub struct Key {
    /// Its text.
    pub text: String,
    /// Where it begins.
    pub position: Position,
}

/// What YAML's core schema takes a scalar for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool,
    /// Decimal digits, perhaps with a sign.
    Integer,
    /// Any other number.
    Float,
    /// Everything else.
    Text,
}

impl fmt::Display for Value {
    /// Names the value in an error: "the number 5", "a list".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(text, kind) => {
                let short: String = text.chars().take(40).collect();
                let dots = if short.len() < text.len() { "..." } else { "" };
                match kind {
                    Kind::Null => f.write_str("empty"),
                    Kind::Bool => write!(f, "the truth value {short}"),
                    Kind::Integer | Kind::Float => write!(f, "the number {short}{dots}"),
                    Kind::Text => write!(f, "`{short}{dots}`"),
                }
            }
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a mapping"),
        }
    }
}

fn kind_of(text: &str, style: ScalarStyle) -> Kind {
    if style != ScalarStyle::Plain {
        return Kind::Text;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts_like_a_number = unsigned
        .strip_prefix('.')
        .unwrap_or(unsigned)
        .starts_with(|c: char| c.is_ascii_digit());
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Kind::Bool,
        _ if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) => Kind::Integer,
        _ if starts_like_a_number && text.parse::<f64>().is_ok() => Kind::Float,
        _ if unsigned.starts_with("0x") || unsigned.starts_with("0o") => Kind::Float,
        _ if matches!(
            unsigned,
            ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
        ) =>
        {
            Kind::Float
        }
        _ => Kind::Text,
    }
}

/// A list or mapping that has begun and not ended.
enum Open {
    List(Position, Vec<Node>),
    Map {
        at: Position,
        entries: Vec<(Key, Node)>,
        seen: HashSet<String>,
        key: Option<Key>,
    },
}

/// Reads the one document of `text`; complaints go to `sink`. `None`: nothing usable.
pub fn read(text: &str, sink: &mut Sink) -> Option<Node> {
    let start = Position { line: 1, column: 1 };
    if text.len() > MAX_TEXT {
        sink.add(
            start,
            format!("the file has {} bytes; the limit is {MAX_TEXT}", text.len()),
        );
        return None;
    }
    let mut stack: Vec<Open> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(e) => e,
            Err(e) => {
                sink.add(
                    Position::from(e.marker()),
                    format!("not valid YAML: {}", e.info()),
                );
                return None;
            }
        };
        let at = Position::from(&span.start);
        if let Some(why) = refused(&event) {
            sink.add(at, why.into());
            return None;
        }
        let node = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    sink.add(
                        at,
                        "a second YAML document begins here; a file holds one".into(),
                    );
                    return None;
                }
                continue;
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if stack.len() >= MAX_DEPTH {
                    sink.add(at, format!("nested more than {MAX_DEPTH} levels deep"));
                    return None;
                }
                // A list or mapping cannot be a key: nothing here has such keys.
                if let Some(Open::Map { key: None, .. }) = stack.last() {
                    sink.add(at, "a key must be plain text".into());
                    return None;
                }
                stack.push(match event {
                    Event::SequenceStart(..) => Open::List(at, Vec::new()),
                    _ => Open::Map {
                        at,
                        entries: Vec::new(),
                        seen: HashSet::new(),
                        key: None,
                    },
                });
                continue;
            }
            Event::Scalar(text, style, ..) => scalar(text.into_owned(), style, &span),
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some(Open::List(position, items)) => Node {
                    position,
                    value: Value::List(items),
                },
                Some(Open::Map {
                    at: position,
                    entries,
                    ..
                }) => Node {
                    position,
                    value: Value::Map(entries),
                },
                None => continue,
            },
            _ => continue,
        };
        place(node, &mut stack, &mut root, sink);
    }
    if root
        .as_ref()
        .is_none_or(|n| matches!(n.value, Value::Scalar(_, Kind::Null)))
    {
        sink.add(start, "the file is empty".into());
        return None;
    }
    root
}

/// Why an event has no place in these files.
fn refused(event: &Event<'_>) -> Option<&'static str> {
    const ANCHOR: &str = "YAML anchors and aliases are not used here; write the value out";
    let (anchor, tag) = match event {
        Event::Alias(_) => return Some(ANCHOR),
        Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            (*anchor, tag.is_some())
        }
        _ => return None,
    };
    match (anchor, tag) {
        (1.., _) => Some(ANCHOR),
        (_, true) => Some("YAML tags are not used here; leave the `!...` out"),
        _ => None,
    }
}

fn scalar(text: String, style: ScalarStyle, span: &Span) -> Node {
    let kind = kind_of(&text, style);
    Node {
        position: Position::from(&span.start),
        value: Value::Scalar(text, kind),
    }
}

/// Puts a finished node where it belongs: a list's next item, a mapping's key or value.
fn place(node: Node, stack: &mut [Open], root: &mut Option<Node>, sink: &mut Sink) {
    match stack.last_mut() {
        None => *root = Some(node),
        Some(Open::List(_, items)) => items.push(node),
        Some(Open::Map {
            entries, seen, key, ..
        }) => match key.take() {
            Some(k) => {
                if k.text == "<<" {
                    sink.add(k.position, "merge keys (`<<`) are not used here".into());
                } else if seen.insert(k.text.clone()) {
                    entries.push((k, node));
                } else {
                    sink.add(k.position, format!("key `{}` is given twice", k.text));
                }
            }
            None => {
                let position = node.position;
                if let Value::Scalar(text, kind) = node.value {
                    if kind == Kind::Null {
                        sink.add(position, "a key must not be empty".into());
                    }
                    *key = Some(Key { text, position });
                }
            }
        },
    }
}

/// A place in the tree with the way to it, for errors. Follows the typed raw form in
/// parallel; a step that the tree lacks keeps the last known position.
#[derive(Clone, Copy)]
pub struct At<'a> {
    up: Option<&'a At<'a>>,
    step: Step<'a>,
    node: Option<&'a Node>,
    position: Position,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    /// The whole document.
    pub fn root(node: &'a Node) -> Self {
        Self {
            up: None,
            step: Step::Root,
            node: Some(node),
            position: node.position,
        }
    }
    /// The value of `key`. Looks from the front: for mappings whose keys are known.
    pub fn key<'b>(&'b self, key: &'b str) -> At<'b> {
        let entry = match self.node.map(|n| &n.value) {
            Some(Value::Map(entries)) => entries.iter().find(|(k, _)| k.text == key),
            _ => None,
        };
        let position = entry.map_or(self.position, |(_, n)| n.position);
        At {
            up: Some(self),
            step: Step::Key(key),
            node: entry.map(|e| &e.1),
            position,
        }
    }
    /// Entry `index` of a mapping from names, standing at its key.
    pub fn entry<'b>(&'b self, index: usize) -> At<'b> {
        match self.node.map(|n| &n.value) {
            Some(Value::Map(entries)) if index < entries.len() => {
                let (k, n) = &entries[index];
                At {
                    up: Some(self),
                    step: Step::Key(&k.text),
                    node: Some(n),
                    position: k.position,
                }
            }
            _ => At {
                up: Some(self),
                step: Step::Item(index),
                node: None,
                position: self.position,
            },
        }
    }
    /// Item `index` of a list.
    pub fn item<'b>(&'b self, index: usize) -> At<'b> {
        let node = match self.node.map(|n| &n.value) {
            Some(Value::List(items)) => items.get(index),
            _ => None,
        };
        let position = node.map_or(self.position, |n| n.position);
        At {
            up: Some(self),
            step: Step::Item(index),
            node,
            position,
        }
    }
    /// The same place, for an error about the value rather than the key (see `entry`).
    pub fn value(&self) -> Self {
        Self {
            position: self.node.map_or(self.position, |n| n.position),
            ..*self
        }
    }
    /// Where it stands.
    pub fn position(&self) -> Position {
        self.position
    }
    /// What stands there.
    pub fn node(&self) -> Option<&'a Node> {
        self.node
    }
}

impl fmt::Display for At<'_> {
    /// The key path: `devices[2].profile`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(up) = self.up {
            up.fmt(f)?;
        }
        let top = self.up.is_none_or(|u| u.up.is_none());
        match self.step {
            Step::Root => Ok(()),
            Step::Key(k) => {
                let short: String = k.chars().take(64).collect();
                write!(f, "{}{short}", if top { "" } else { "." })
            }
            Step::Item(i) => write!(f, "[{i}]"),
        }
    }
}
