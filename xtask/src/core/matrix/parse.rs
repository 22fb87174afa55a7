// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the text of matrix.yaml to its cells, or to all that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cell, Matrix, Tag, matrix_schema, raw};
use crate::core::{
    nearest::hint,
    scenario::{
        Clock, Diagnostics, Scenario,
        strict::{At, Name, Sink, typed},
    },
    shard::MOST_SHARDS,
};

/// Stands for each scenario's own kernel.
const OWN: &str = "own";

/// Reads the matrix `file` from its `text`; `kernels` and `scenarios` are all that there are. One
/// size of a sweep can be named as well, `NAME@SIZE`.
///
/// # Errors
/// Everything that is wrong with the file, in line order.
pub fn parse(
    file: &str,
    text: &str,
    kernels: &BTreeSet<String>,
    scenarios: &[Scenario],
) -> Result<Matrix, Diagnostics> {
    let (node, raw): (_, raw::Matrix) = typed(file, text, matrix_schema())?;
    let mut sink = Sink::default();
    let at = At::root(&node);
    let mut reader = Reader {
        kernels,
        scenarios,
        cells: Vec::new(),
    };
    let parts = at.key("parts");
    if raw.parts.is_empty() {
        sink.add(parts.position(), "parts is empty".into());
    }
    for (index, part) in raw.parts.iter().enumerate() {
        reader.part(part, &parts.item(index), &mut sink);
    }
    let shards = shards(&raw.shards, &at.key("shards"), &mut sink);
    sink.finish(file)?;
    let variants = scenarios
        .iter()
        .flat_map(with_sizes)
        .map(|s| (s.name.clone(), s.variants.len()))
        .collect();
    Ok(Matrix {
        cells: reader.cells,
        shards,
        variants,
    })
}

fn shards(raw: &raw::Shards, at: &At<'_>, sink: &mut Sink) -> BTreeMap<Tag, u32> {
    let given = [
        (Tag::Quick, raw.quick),
        (Tag::Nightly, raw.nightly),
        (Tag::Weekly, raw.weekly),
    ];
    let mut shards = BTreeMap::new();
    for (tag, number) in given {
        let Some(number) = number else { continue };
        if !(1..=MOST_SHARDS).contains(&number) {
            let key = tag.to_string();
            let at = at.key(&key);
            sink.add(
                at.position(),
                format!("{at} takes 1 to {MOST_SHARDS}, not {number}"),
            );
        }
        shards.insert(tag, number);
    }
    shards
}

struct Reader<'a> {
    kernels: &'a BTreeSet<String>,
    scenarios: &'a [Scenario],
    cells: Vec<Cell>,
}

impl<'a> Reader<'a> {
    fn part(&mut self, part: &raw::Part, at: &At<'_>, sink: &mut Sink) {
        if part.tags.is_empty() {
            sink.add_with(at.key("tags").position(), || {
                format!("{} is empty: its cells would never be run", at.key("tags"))
            });
        }
        let tags: BTreeSet<Tag> = part.tags.iter().copied().collect();
        let kernels = match &part.kernels {
            Some(names) => self.kernels_of(names, &at.key("kernels"), sink),
            None => vec![OWN.into()],
        };
        let scenarios = match &part.scenarios {
            Some(names) => self.scenarios_of(names, &at.key("scenarios"), sink),
            None => self.scenarios.iter().collect(),
        };
        if let Some(names) = &part.variants {
            variants_exist(names, &scenarios, &at.key("variants"), sink);
        }
        let mut product = Vec::new();
        for &scenario in &scenarios {
            if scenario.wants_series() {
                sink.add_with(at.key("scenarios").position(), || {
                    format!(
                        "scenario {} tests a series that the command line names: leave it out of {at}",
                        scenario.name
                    )
                });
            }
            let named = |v: &&str| {
                let names = part.variants.as_ref();
                names.is_none_or(|names| names.iter().any(|n| n.0 == *v))
            };
            let variants: Vec<_> = names(scenario).filter(named).collect();
            for kernel in &kernels {
                for &clock in part.clocks.as_deref().unwrap_or(&[scenario.clock]) {
                    for &variant in &variants {
                        product.push(cell(kernel, scenario, variant, clock, &tags));
                    }
                }
            }
        }
        for (index, exclude) in part.exclude.iter().enumerate() {
            let at = at.key("exclude");
            self.exclude(exclude, &at.item(index), &mut product, sink);
        }
        for (index, include) in part.include.iter().enumerate() {
            let at = at.key("include");
            product.extend(self.include(include, &at.item(index), &tags, sink));
        }
        for new in product {
            match self.cells.iter_mut().find(|c| c.is_of(&new)) {
                Some(cell) => cell.tags.extend(&new.tags),
                None => self.cells.push(new),
            }
        }
    }

    fn kernels_of(&self, names: &[Name], at: &At<'_>, sink: &mut Sink) -> Vec<String> {
        for (index, name) in names.iter().enumerate() {
            self.kernel(name, &at.item(index), sink);
        }
        nonempty(names.is_empty(), at, sink);
        names.iter().map(|n| n.0.clone()).collect()
    }

    fn kernel(&self, name: &Name, at: &At<'_>, sink: &mut Sink) {
        if name.0 != OWN && !self.kernels.contains(&name.0) {
            let known = self.kernels.iter().map(String::as_str).chain([OWN]);
            unknown("kernel", &name.0, known, at, sink);
        }
    }

    fn scenarios_of(&self, names: &[Name], at: &At<'_>, sink: &mut Sink) -> Vec<&'a Scenario> {
        nonempty(names.is_empty(), at, sink);
        let one = |(index, name)| self.scenario(name, &at.item(index), sink);
        names.iter().enumerate().filter_map(one).collect()
    }

    fn scenario(&self, name: &Name, at: &At<'_>, sink: &mut Sink) -> Option<&'a Scenario> {
        let mut all = self.scenarios.iter().flat_map(with_sizes);
        let found = all.find(|s| s.name == name.0);
        if found.is_none() {
            let known = self.scenarios.iter().map(|s| s.name.as_str());
            unknown("scenario", &name.0, known, at, sink);
        }
        found
    }

    fn exclude(&self, raw: &raw::Exclude, at: &At<'_>, cells: &mut Vec<Cell>, sink: &mut Sink) {
        if let Some(kernel) = &raw.kernel {
            self.kernel(kernel, &at.key("kernel"), sink);
        }
        if let Some(scenario) = &raw.scenario {
            self.scenario(scenario, &at.key("scenario"), sink);
        }
        let is = |want: &Option<Name>, have: &str| want.as_ref().is_none_or(|w| w.0 == have);
        let before = cells.len();
        let keep = |c: &Cell| {
            let matches = is(&raw.kernel, &c.kernel)
                && is(&raw.scenario, &c.scenario)
                && is(&raw.variant, &c.variant)
                && raw.clock.is_none_or(|clock| clock == c.clock);
            !matches
        };
        cells.retain(keep);
        if cells.len() == before {
            sink.add_with(at.position(), || {
                format!("{at} excludes nothing: no cell of its part has all of it")
            });
        }
    }

    fn include(
        &self,
        raw: &raw::Include,
        at: &At<'_>,
        tags: &BTreeSet<Tag>,
        sink: &mut Sink,
    ) -> Vec<Cell> {
        if let Some(kernel) = &raw.kernel {
            self.kernel(kernel, &at.key("kernel"), sink);
        }
        let Some(scenario) = self.scenario(&raw.scenario, &at.key("scenario"), sink) else {
            return vec![];
        };
        if let Some(variant) = &raw.variant {
            variants_exist(
                std::slice::from_ref(variant),
                &[scenario],
                &at.key("variant"),
                sink,
            );
        }
        let kernel = raw.kernel.as_ref().map_or(OWN, |k| &k.0);
        let clock = raw.clock.unwrap_or(scenario.clock);
        let wanted = |v: &&str| raw.variant.as_ref().is_none_or(|w| w.0 == *v);
        names(scenario)
            .filter(wanted)
            .map(|v| cell(kernel, scenario, v, clock, tags))
            .collect()
    }
}

/// A scenario, and each of its sizes.
fn with_sizes(scenario: &Scenario) -> impl Iterator<Item = &Scenario> {
    let sizes = scenario.sweep.iter().flat_map(|sweep| &sweep.points);
    std::iter::once(scenario).chain(sizes)
}

fn names(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.variants.iter().map(|v| v.name.as_str())
}

fn cell(kernel: &str, of: &Scenario, variant: &str, clock: Clock, tags: &BTreeSet<Tag>) -> Cell {
    let kernel = if kernel == OWN { &of.kernel } else { kernel };
    Cell {
        kernel: kernel.into(),
        scenario: of.name.clone(),
        variant: variant.into(),
        clock,
        tags: tags.clone(),
    }
}

/// Checks that each of `wanted` is a variant of one of `scenarios`, and that each of these
/// has one of them.
fn variants_exist(wanted: &[Name], scenarios: &[&Scenario], at: &At<'_>, sink: &mut Sink) {
    nonempty(wanted.is_empty(), at, sink);
    if scenarios.is_empty() {
        // Their names were wrong.
        return;
    }
    for (index, name) in wanted.iter().enumerate() {
        let all = || scenarios.iter().flat_map(|s| names(s));
        if !all().any(|v| v == name.0) {
            let item = at.item(index);
            let known: BTreeSet<&str> = all().collect();
            unknown("variant", &name.0, known, &item, sink);
        }
    }
    for scenario in scenarios {
        if !names(scenario).any(|v| wanted.iter().any(|w| w.0 == v)) {
            sink.add_with(at.position(), || {
                let own: Vec<_> = names(scenario).collect();
                format!(
                    "scenario {} has none of {at}: its variants are {}",
                    scenario.name,
                    own.join(", ")
                )
            });
        }
    }
}

fn nonempty(empty: bool, at: &At<'_>, sink: &mut Sink) {
    if empty {
        sink.add_with(at.position(), || {
            format!("{at} is empty: leave it out to have them all")
        });
    }
}

fn unknown<'n>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    at: &At<'_>,
    sink: &mut Sink,
) {
    sink.add_with(at.position(), || {
        let hint = hint(name, known);
        format!("unknown {what} `{}` in {at}{hint}", name.escape_debug())
    });
}
