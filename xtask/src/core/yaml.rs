// SPDX-License-Identifier: MIT OR Apache-2.0
//! YAML documents that are not scenarios: run.yaml, baselines, what images are made of.

use saphyr_parser::{Event, Parser};
use serde::de::DeserializeOwned;

/// Nesting deeper than this is no document of ours; readers take seconds for thousands of
/// levels.
const MAX_DEPTH: usize = 32;

/// Reads a document.
///
/// # Errors
/// What is wrong and where: it is too deep, or no such document.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut depth = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| e.to_string())?;
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let line = span.start.line();
            return Err(format!("line {line} is nested more than {MAX_DEPTH} deep"));
        }
    }
    serde_yaml::from_str(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_levels_are_refused_at_once() {
        for (open, close) in [("[", "]"), ("- ", ""), ("{a: ", "}"), ("? ", "")] {
            let text = format!("{}x{}", open.repeat(10_000), close.repeat(10_000));
            let error = read::<serde_json::Value>(&text).unwrap_err();
            // Of brackets the parser itself has enough.
            let told = ["nested more than 32", "recursion limit"];
            assert!(told.iter().any(|t| error.contains(t)), "{open}: {error}");
        }
    }

    #[test]
    fn a_document_is_read_and_what_is_none_is_told() {
        assert_eq!(
            read::<Vec<Vec<u8>>>("- [1, 2]\n- []\n").unwrap(),
            [vec![1, 2], vec![]]
        );
        assert!(read::<Vec<u8>>("- [").is_err());
        assert!(
            read::<Vec<u8>>("- text")
                .unwrap_err()
                .contains("invalid type")
        );
    }
}
