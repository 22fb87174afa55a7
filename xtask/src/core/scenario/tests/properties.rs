// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for every file: no panic, no runaway, one meaning.

use proptest::{collection::vec, prelude::*, strategy::Strategy};

use super::*;

/// A random forest in the flat form: device `i` below an earlier bridge or on the root bus,
/// its lines shuffled.
fn forest() -> impl Strategy<Value = String> {
    let device = (0usize..3, any::<prop::sample::Index>(), any::<bool>());
    vec(device, 1..40).prop_flat_map(|list| {
        let mut lines = Vec::new();
        let mut bridges: Vec<(String, usize)> = Vec::new();
        for (i, (kind, parent, on_root)) in list.into_iter().enumerate() {
            let above = (!on_root && !bridges.is_empty())
                .then(|| bridges[parent.index(bridges.len())].clone());
            let level = above.as_ref().map_or(1, |a| a.1 + 1);
            let parent = above
                .map(|(name, _)| format!(", parent: {name}"))
                .unwrap_or_default();
            lines.push(match kind {
                0 => format!("  - {{name: d{i}, profile: mlx4{parent}}}"),
                1 => format!("  - {{name: d{i}, profile: ixgbe-x540{parent}}}"),
                _ => format!("  - {{name: d{i}, type: bridge{parent}}}"),
            });
            if kind == 2 && level < 6 {
                bridges.push((format!("d{i}"), level));
            }
        }
        Just(lines)
            .prop_shuffle()
            .prop_map(|lines| with_devices(&lines.join("\n")))
    })
}

/// Pieces of real files in any order: gets further than random text does.
fn pieces() -> impl Strategy<Value = String> {
    let words: Vec<&'static str> = BASE
        .split_inclusive([' ', '\n', ':', '{', '[', ','])
        .collect();
    vec(prop::sample::select(words), 0..200).prop_map(|words| words.concat())
}

/// `BASE` with one stretch replaced by something random.
fn wounded() -> impl Strategy<Value = String> {
    (0..BASE.len(), 0usize..30, "\\PC{0,12}").prop_map(|(start, length, text)| {
        let end = (start + length).min(BASE.len());
        format!("{}{text}{}", &BASE[..start], &BASE[end..])
    })
}

proptest! {
    #[test]
    fn trees_keep_their_meaning(text in forest()) {
        let s = good(&text);
        for (index, device) in s.devices.iter().enumerate() {
            prop_assert!(device.parent.is_none_or(|p| p < index), "parents come first");
        }
        prop_assert_eq!(good(&text), s.clone());

        // Written out it is the same scenario, and needs no profiles.yaml.
        let written = to_yaml(&s);
        let again = parse("scenarios/x.yaml", &written, &Known::default());
        let again = again.unwrap_or_else(|e| panic!("{e}\n{written}"));
        prop_assert_eq!(&again, &s);
        prop_assert_eq!(to_yaml(&again), written);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse("x.yaml", &text, known());
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = parse("x.yaml", &String::from_utf8_lossy(&bytes), known());
    }

    #[test]
    fn no_mixture_panics(text in pieces()) {
        let _ = parse("x.yaml", &text, known());
        let _ = parse_profiles("profiles.yaml", &text);
    }

    #[test]
    fn no_wound_panics_and_errors_have_places(text in wounded()) {
        let lines = text.lines().count();
        match parse("x.yaml", &text, known()) {
            Ok(s) => prop_assert_eq!(&parse("scenarios/x.yaml", &to_yaml(&s), &Known::default()).map(|a| a.hash), &Ok(s.hash)),
            Err(errors) => for e in errors.items {
                prop_assert!((1..=lines + 1).contains(&e.position.line), "{}:{}", e.position.line, e.message);
                prop_assert!(!e.message.contains('\n'));
            }
        }
    }
}

/// Shapes that have made YAML readers slow or overflow their stack; each 64 KiB to
/// 1 MB. With a reader that is quadratic in any of them this test takes minutes.
#[test]
fn no_large_file_takes_long() {
    let n = 1 << 16;
    for text in [
        "[".repeat(n),
        "{".repeat(n),
        "- ".repeat(n),
        "? ".repeat(n),
        "a: ".repeat(n),
        "!".repeat(n),
        "&a ".repeat(n),
        "\"".repeat(n),
        " ".repeat(n),
        "\n".repeat(n),
        "\t".repeat(n),
        "%".repeat(n),
        "---\n".repeat(n),
        format!("a: {}", "x".repeat(4 * n)),
        format!("a: \"{}\"", "\\n".repeat(n)),
        (0..n / 8).map(|i| format!("k{i}: v\n")).collect(),
        (0..n / 8)
            .map(|i| format!("variants.k{i}: {{order: x}}\n"))
            .collect(),
        "k: v\n".repeat(n / 4),
        with_devices(&"  - {name: a, profile: none}\n".repeat(n / 16)),
        with_devices(
            &(0..16_000)
                .map(|i| format!("  - {{name: d{i}, type: bridge, parent: d{}}}\n", i + 1))
                .collect::<String>(),
        ),
        changed(
            "  stock:",
            &(0..n / 32)
                .map(|i| format!("  v{i}: {{order: serial}}\n"))
                .chain(["  stock:".into()])
                .collect::<String>(),
        ),
    ] {
        assert!(parse("x.yaml", &text, known()).is_err());
    }
}
