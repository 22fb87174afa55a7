// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON schemas of scenario files and of profiles.yaml, made from the raw types. They
//! serve editors, and `shape`, which holds files to them.

use std::sync::OnceLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use super::raw;

/// Where the types of scenario files and profiles.yaml are.
const RAW: &str = "core/scenario/raw.rs";

/// The schema of a scenario file.
pub fn scenario_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| generate::<raw::Scenario>(RAW))
}

/// The schema of profiles.yaml.
pub fn profiles_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| generate::<raw::Named<raw::Profile>>(RAW))
}

/// A schema as the text of its committed file.
pub fn schema_text(schema: &Value) -> String {
    let mut text = serde_json::to_string_pretty(schema).expect("a schema is JSON");
    text.push('\n');
    text
}

/// The schema of `T`, whose source is the file `raw` of xtask/src.
pub fn generate<T: JsonSchema>(raw: &str) -> Value {
    let schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    let mut value = schema.to_value();
    without_null(&mut value);
    // JSON has no comments; this key sorts first.
    value["$comment"] = format!(
        "SPDX-License-Identifier: MIT OR Apache-2.0; \
         generated: change {raw}, then run `cargo xtask show --schema`"
    )
    .into();
    value
}

/// An optional key is left out when it has no value; `key:` with nothing behind it is a
/// slip. So nothing may be null, which schemars allows for each `Option`.
fn without_null(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(map) => {
            map.values_mut().for_each(without_null);
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|t| t != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    map.insert("type".into(), one);
                }
            }
            if let Some(target) = map.get("anyOf").and_then(only_reference) {
                map.remove("anyOf");
                map.insert("$ref".into(), target.into());
            }
            // What is left out of a file is explained in words; `null` would mislead.
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
        }
        _ => {}
    }
}

/// The reference of an `anyOf` that allows it or null.
fn only_reference(any: &Value) -> Option<String> {
    let [only, null] = any.as_array()?.as_slice() else {
        return None;
    };
    let target = only.get("$ref")?.as_str()?;
    (null["type"] == "null").then(|| target.into())
}
