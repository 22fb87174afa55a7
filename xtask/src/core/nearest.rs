// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may have been meant by a name that does not exist.

/// The likeliest of `valid`, if one is like `wrong` at all; case does not matter.
pub fn nearest<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    likely(wrong, valid).into_iter().next()
}

/// All of `valid` that are like `wrong`, the likeliest first; of equals the first.
pub fn likely<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong: String = wrong.chars().take(64).collect::<String>().to_lowercase();
    let scored = valid
        .into_iter()
        .map(|name| (likeness(&wrong, &name.to_lowercase()), name));
    let mut like: Vec<(f64, &str)> = scored.filter(|(score, _)| *score >= LIKE).collect();
    like.sort_by(|a, b| b.0.total_cmp(&a.0));
    like.into_iter().map(|(_, name)| name).collect()
}

/// Names what may have been meant by `wrong`: `; did you mean ...?`, else all `valid`
/// names where they are few enough to read.
pub fn hint<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = valid.into_iter().collect();
    match nearest(wrong, all.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if all.is_empty() => "; none is defined".into(),
        None if all.len() <= 16 => format!("; valid: {}", all.join(", ")),
        None => String::new(),
    }
}

/// From this on a name is worth suggesting.
const LIKE: f64 = 0.8;

/// How likely it is that `name` was meant by `wrong`, up to 1.
fn likeness(wrong: &str, name: &str) -> f64 {
    let score = strsim::jaro_winkler(wrong, name);
    // `shutdown` for `device_shutdown`: half of a name that has parts.
    let part =
        wrong.len() >= 3 && name.len() >= 3 && (name.contains(wrong) || wrong.contains(name));
    // `cnt` for `count`: letters left out.
    let mut letters = name.chars();
    let short = wrong.len() >= 3 && wrong.chars().all(|c| letters.any(|l| l == c));
    // `q53` for `q35`: a slip in a name too short for the measure above.
    let slip = 3 * strsim::osa_distance(wrong, name) <= wrong.chars().count() + 1;
    if part || short || slip {
        score.max(LIKE)
    } else {
        score
    }
}
