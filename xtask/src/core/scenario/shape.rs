// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds a file to its JSON schema: unknown, missing and misplaced keys, wrong types,
//! words outside their list. Finds all of them at once, with the nearest valid name, where
//! serde would stop at the first.
//!
//! Only what schemars makes of our raw types is understood. Patterns and ranges are left
//! to `validate`, which can say more than "does not match".

use serde_json::Value as Json;

use super::{
    diagnose::Sink,
    tree::{At, Kind, Node, Value},
};
use crate::core::nearest::hint;

/// Checks `node` against `schema`; complaints go to `sink`.
pub fn check(node: &Node, schema: &Json, sink: &mut Sink) {
    Checker { root: schema }.value(&At::root(node), schema, sink);
}

struct Checker<'s> {
    root: &'s Json,
}

impl Checker<'_> {
    fn resolve<'s>(&'s self, schema: &'s Json) -> &'s Json {
        match schema
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|r| r.strip_prefix('#'))
        {
            Some(pointer) => self.root.pointer(pointer).unwrap_or(schema),
            None => schema,
        }
    }

    fn value(&self, at: &At<'_>, schema: &Json, sink: &mut Sink) {
        let schema = self.resolve(schema);
        let Some(node) = at.node() else { return };
        if let Value::Scalar(_, Kind::Null) = node.value {
            let what = wanted(schema);
            sink.add_with(at.position(), || {
                format!("{at} has no value; give it {what} or leave the key out")
            });
            return;
        }
        if let Some(words) = words(schema) {
            return word(at, node, &words, sink);
        }
        match (schema["type"].as_str(), &node.value) {
            (Some("object"), Value::Map(_)) => self.map(at, node, schema, sink),
            (Some("array"), Value::List(items)) => {
                for index in 0..items.len() {
                    self.value(&at.item(index), &schema["items"], sink);
                }
            }
            (Some("string"), Value::Scalar(_, Kind::Text))
            | (Some("boolean"), Value::Scalar(_, Kind::Bool)) => {}
            (Some("integer"), Value::Scalar(text, Kind::Integer)) => integer(at, text, sink),
            // serde_yaml reads no leading `+` or `0x` as a number with a point either.
            (Some("number"), Value::Scalar(text, Kind::Integer | Kind::Float))
                if text.parse::<f64>().is_ok() && !text.starts_with('+') => {}
            (Some("string"), Value::Scalar(text, _)) if schema["title"] == "name" => {
                sink.add_with(at.position(), || {
                    format!(
                        "{at} takes a name, not {}; put it in quotes: \"{text}\"",
                        node.value
                    )
                });
            }
            (Some("integer"), Value::Scalar(text, Kind::Text)) if text.parse::<u32>().is_ok() => {
                sink.add_with(at.position(), || {
                    format!("{at} takes a whole number, not text; leave the quotes out: {text}")
                });
            }
            _ => sink.add_with(at.position(), || {
                let path = at.to_string();
                let path = if path.is_empty() { "the file" } else { &path };
                format!("{path} takes {}, not {}", wanted(schema), node.value)
            }),
        }
    }

    fn map(&self, at: &At<'_>, node: &Node, schema: &Json, sink: &mut Sink) {
        let Value::Map(entries) = &node.value else {
            return;
        };
        let empty = serde_json::Map::new();
        let known = schema["properties"].as_object().unwrap_or(&empty);
        let free = schema.get("additionalProperties").filter(|s| s.is_object());
        for (index, (key, _)) in entries.iter().enumerate() {
            let inner = at.entry(index).value();
            match (known.get(&key.text), free) {
                (Some(schema), _) | (None, Some(schema)) => self.value(&inner, schema, sink),
                (None, None) => sink.add_with(key.position, || {
                    let absent = known
                        .keys()
                        .map(String::as_str)
                        .filter(|k| !entries.iter().any(|(given, _)| given.text == *k));
                    format!("unknown key `{inner}`{}", hint(&key.text, absent))
                }),
            }
        }
        for key in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
        {
            if !entries.iter().any(|(given, _)| given.text == key) {
                let what = known
                    .get(key)
                    .map_or("a value".into(), |s| wanted(self.resolve(s)));
                sink.add_with(at.position(), || {
                    format!("`{key}` is missing{}; it takes {what}", place(at))
                });
            }
        }
    }
}

/// ` in devices[2]`, or nothing for the document itself.
fn place(at: &At<'_>) -> String {
    let path = at.to_string();
    if path.is_empty() {
        path
    } else {
        format!(" in {path}")
    }
}

/// The words that a schema allows, if it is a list of words.
fn words(schema: &Json) -> Option<Vec<&str>> {
    let list = schema
        .get("enum")
        .or_else(|| schema.get("oneOf"))?
        .as_array()?;
    list.iter()
        .map(|one| {
            one.as_str()
                .or_else(|| one.get("const").and_then(Json::as_str))
        })
        .collect()
}

fn word(at: &At<'_>, node: &Node, words: &[&str], sink: &mut Sink) {
    match &node.value {
        Value::Scalar(text, _) if words.contains(&text.as_str()) => {}
        Value::Scalar(text, Kind::Text) => sink.add_with(at.position(), || {
            format!(
                "{at} cannot be {}{}",
                node.value,
                hint(text, words.iter().copied())
            )
        }),
        other => sink.add_with(at.position(), || {
            format!("{at} takes one of {}, not {other}", words.join(", "))
        }),
    }
}

fn integer(at: &At<'_>, text: &str, sink: &mut Sink) {
    // serde_yaml reads no sign and no leading zero as u32 either.
    if text.parse::<u32>().map(|n| n.to_string()).as_deref() != Ok(text) {
        sink.add_with(at.position(), || {
            format!("{at} takes a whole number up to {}, not {text}", u32::MAX)
        });
    }
}

/// What a schema wants, in words.
fn wanted(schema: &Json) -> String {
    if let Some(words) = words(schema) {
        return format!("one of {}", words.join(", "));
    }
    match (
        schema["type"].as_str(),
        schema["title"].as_str(),
        schema["examples"][0].as_str(),
    ) {
        // What makes a good name depends on the place.
        (_, Some("name"), _) => "a name".into(),
        (_, Some(title), Some(example)) => format!("a {title} such as `{example}`"),
        (Some("object"), ..) => "a mapping".into(),
        (Some("array"), ..) => "a list".into(),
        (Some("integer"), ..) => "a whole number".into(),
        (Some("number"), ..) => "a number".into(),
        (Some("boolean"), ..) => "true or false".into(),
        _ => "text".into(),
    }
}
