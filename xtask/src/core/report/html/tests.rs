// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page's own defences.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Whatever is embedded is read back as it was, and nothing of it is markup.
    #[test]
    fn embedded_data_stays_data(texts in proptest::collection::vec("\\PC*|[<>&/!-]{0,9}|\u{2028}|</script>", 0..9)) {
        let out = embedded(&texts);
        prop_assert!(!out.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{}", out);
        prop_assert_eq!(serde_json::from_str::<Vec<String>>(&out).unwrap(), texts);
    }
}

/// The hashes of the policy are of the very texts between the tags, so those texts must be
/// such that no browser changes them.
#[test]
fn script_and_style_are_what_a_browser_reads() {
    for text in [SCRIPT, STYLE] {
        assert!(!text.contains('\r') && !text.contains('\0'));
        assert!(!text.to_lowercase().contains("</s") && !text.contains("<!--"));
    }
}

/// What names another place, and what would fetch from it.
#[test]
fn script_and_style_ask_for_nothing() {
    for word in [
        "http:",
        "https:",
        "url(",
        "@import",
        "fetch(",
        "XMLHttp",
        "WebSocket",
        "import(",
        "sendBeacon",
        "eval(",
        "innerHTML",
        "src=",
    ] {
        assert!(!SCRIPT.contains(word) && !STYLE.contains(word), "{word}");
    }
}
