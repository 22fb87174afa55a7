// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario with another kernel or another series under test than its file says.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Order, Over, Scenario, Target, Variant, canonical, cmdline};
use crate::core::nearest::hint;

/// Between the name of a series that came with `--series` and the key of its contents.
pub const FOREIGN: char = '@';

/// Whether `series` came with `--series`, and is none of the checkout.
pub fn is_foreign(series: &str) -> bool {
    series.contains(FOREIGN)
}

/// What a scenario's variants say for the series that the command line names.
pub const UNDER_TEST: &str = "under-test";

/// What stands for a kernel that was built elsewhere.
pub const READY: &str = "ready-made";

/// What the command line puts in place of what a scenario says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnderTest {
    /// Another key of images/kernels/sources.yaml (`--on`).
    pub kernel: Option<String>,
    /// Other guest CPUs (`--cpus`).
    #[serde(default)]
    pub cpus: Option<u32>,
    /// A series (`--series`), as the edges name it.
    pub series: Option<String>,
    /// Whether a kernel built elsewhere stands in for all (`--kernel`): bootrig puts no
    /// series into it, so variants with one are left out.
    #[serde(default)]
    pub ready: bool,
    /// Further patched variants (`--variant`).
    pub variants: Vec<Switched>,
    /// Only the first so many patches of each series (`--series-prefix`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<u32>,
    /// The variants that are booted (`bench --only`, `shell --variant`); all of them where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

/// A variant of the series under test with words of its own on the kernel's command line;
/// written `NAME:WORD WORD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switched {
    /// Its name.
    pub name: String,
    /// The words.
    pub cmdline: Vec<String>,
}

impl FromStr for Switched {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let sound = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        let letter = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        if !letter || name.len() > 64 || !name.bytes().all(sound) || name == "ideal" {
            return Err(format!(
                "`{name}` is no name for a variant: small letters, digits, `.`, `_` and `-`, beginning with a letter; then a colon and words for the kernel's command line"
            ));
        }
        let cmdline: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        let wrong = |w: &String| Some(format!("`{w}` {}", cmdline::wrong(w)?));
        let long = || Some(format!("its command line {}", cmdline::too_long(&cmdline)?));
        if let Some(why) = cmdline.iter().find_map(wrong).or_else(long) {
            return Err(format!("variant {name}: {why}"));
        }
        Ok(Self {
            name: name.into(),
            cmdline,
        })
    }
}

impl Scenario {
    /// The variants that wait for a series from the command line.
    pub fn wants_series(&self) -> bool {
        let waits = |v: &Variant| v.series.as_deref() == Some(UNDER_TEST);
        self.variants.iter().any(waits)
    }

    /// This scenario with `under` in place of what it says. With a series, its variants that
    /// name `under-test` get it, beside the unpatched ones; where none does, it is `stock`
    /// against `patched`. Expectations and figures of variants that are gone go with them.
    ///
    /// # Errors
    /// A variant's name that is taken, or that no variant has; variants without a series.
    pub fn put_under_test(&self, under: &UnderTest) -> Result<Self, String> {
        let mut scenario = self.clone();
        if let Some(sweep) = &mut scenario.sweep {
            if sweep.over == Over::Cpus && under.cpus.is_some() {
                return Err(format!(
                    "scenario {} goes over the number of CPUs itself: leave --cpus out",
                    self.name
                ));
            }
            for point in &mut sweep.points {
                *point = point.put_under_test(under)?;
            }
        }
        if let Some(kernel) = &under.kernel {
            scenario.kernel.clone_from(kernel);
        }
        if let Some(cpus) = under.cpus {
            scenario.machine.cpus = cpus;
        }
        match &under.series {
            Some(series) => scenario.variants = self.with_series(series),
            None if self.wants_series() => {
                return Err(format!(
                    "scenario {} tests a series that the command line names: give it with --series",
                    self.name
                ));
            }
            None => {}
        }
        if under.ready {
            scenario.variants.retain(|v| v.series.is_none());
            if scenario.variants.is_empty() {
                return Err(format!(
                    "every variant of scenario {} has a series, which bootrig cannot put into the kernel that --kernel names: copy the scenario and leave `series` out",
                    self.name
                ));
            }
            scenario.kernel = READY.into();
        }
        for switched in &under.variants {
            let Some(series) = &under.series else {
                return Err(format!(
                    "variant {} needs the series that it switches: give it with --series",
                    switched.name
                ));
            };
            if scenario.variants.iter().any(|v| v.name == switched.name) {
                return Err(format!(
                    "scenario {} already has a variant {}: choose another name",
                    self.name, switched.name
                ));
            }
            scenario.variants.push(Variant {
                cmdline: switched.cmdline.clone(),
                ..patched(&switched.name, series)
            });
        }
        if let Some(patches) = under.patches {
            let patched = scenario.variants.iter_mut().filter(|v| v.series.is_some());
            patched.for_each(|v| v.patches = Some(patches));
        }
        for name in &under.only {
            let names = || scenario.variants.iter().map(|v| v.name.as_str());
            if !names().any(|n| n == name) {
                return Err(format!(
                    "scenario {} ({}) has no variant `{}`{}",
                    self.name,
                    names().collect::<Vec<_>>().join(", "),
                    name.escape_debug(),
                    hint(name, names()),
                ));
            }
        }
        if !under.only.is_empty() {
            scenario.variants.retain(|v| under.only.contains(&v.name));
        }
        let has = |name: &str| scenario.variants.iter().any(|v| v.name == name);
        scenario
            .expect
            .retain(|e| has(&e.variant) && !matches!(&e.of, Target::Variant(other) if !has(other)));
        if let Some(sweep) = &mut scenario.sweep {
            sweep.limits.retain(|l| has(&l.variant));
        }
        if let Some(reference) = &mut scenario.reference {
            reference.values.retain(|v| has(&v.0));
        }
        if scenario
            .reference
            .as_ref()
            .is_some_and(|r| r.values.is_empty())
        {
            scenario.reference = None;
        }
        scenario.hash = canonical::hash(&scenario);
        Ok(scenario)
    }

    /// This scenario with `words` at the end of each variant's command line.
    ///
    /// # Errors
    /// A word that bootrig sets itself, or too many of them.
    pub fn with_words(&self, words: &[String]) -> Result<Self, String> {
        let mut scenario = self.clone();
        for variant in &mut scenario.variants {
            variant.cmdline.extend_from_slice(words);
            let wrong = |w: &String| Some(format!("`{w}` {}", cmdline::wrong(w)?));
            let long = || {
                Some(format!(
                    "its command line {}",
                    cmdline::too_long(&variant.cmdline)?
                ))
            };
            if let Some(why) = words.iter().find_map(wrong).or_else(long) {
                return Err(format!("variant {}: {why}", variant.name));
            }
        }
        scenario.hash = canonical::hash(&scenario);
        Ok(scenario)
    }

    fn with_series(&self, series: &str) -> Vec<Variant> {
        if self.wants_series() {
            let kept = self
                .variants
                .iter()
                .filter(|v| v.series.is_none() || v.series.as_deref() == Some(UNDER_TEST));
            return kept
                .map(|v| Variant {
                    series: v.series.as_ref().map(|_| series.to_owned()),
                    ..v.clone()
                })
                .collect();
        }
        let stock = Variant {
            series: None,
            order: Order::Serial,
            ..patched("stock", series)
        };
        vec![stock, patched("patched", series)]
    }
}

fn patched(name: &str, series: &str) -> Variant {
    Variant {
        name: name.into(),
        series: Some(series.into()),
        patches: None,
        cmdline: vec![],
        probing: super::Probing::default(),
        order: Order::Parallel,
        restart: super::Restart::default(),
        max_tasks: None,
        unrecorded: false,
        options: Vec::new(),
        coldplug: None,
        systemd: None,
        swap: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::scenario::{Known, parse};

    fn scenario(variants: &str) -> Scenario {
        let text = format!(
            "about: x\nkernel: \"6.1\"\nmachine: {{cpus: 1, memory: 256 MiB}}\nvariants:\n{variants}measure: [device_shutdown]\nreference: {{source: x, device_shutdown: {{serial: 1 s}}}}\nexpect:\n  - {{variant: serial, metric: device_shutdown, within: 3 %, of: 1 s}}\n  - {{variant: stock, metric: device_shutdown, within: 3 %, of: serial}}\n  - {{variant: stock, metric: device_shutdown, within: 3 %, of: ideal}}\n"
        );
        parse("s.yaml", &text, &Known::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    const OURS: &str = "  stock: {order: serial}\n  serial: {series: ours, order: serial}\n";

    fn under(series: Option<&str>, variants: &[&str]) -> UnderTest {
        UnderTest {
            kernel: Some("6.12".into()),
            ready: false,
            cpus: Some(4),
            series: series.map(Into::into),
            patches: None,
            only: vec![],
            variants: variants.iter().map(|v| v.parse().unwrap()).collect(),
        }
    }

    fn shown(scenario: &Scenario) -> Vec<String> {
        let show = |v: &Variant| {
            let series = v.series.as_deref().unwrap_or("-");
            format!("{} {series} {:?} {}", v.name, v.order, v.cmdline.join(" "))
        };
        scenario.variants.iter().map(show).collect()
    }

    #[test]
    fn a_series_takes_the_place_of_ours() {
        let before = scenario(OURS);
        let tested = before
            .put_under_test(&under(Some("x@1"), &["async:core.async_shutdown=1 quick"]))
            .unwrap();
        assert_eq!(
            shown(&tested),
            [
                "stock - Serial ",
                "patched x@1 Parallel ",
                "async x@1 Parallel core.async_shutdown=1 quick"
            ]
        );
        assert_eq!((tested.kernel.as_str(), tested.machine.cpus), ("6.12", 4));
        assert_eq!(tested.expect.len(), 1, "{:?}", tested.expect);
        assert!(tested.reference.is_none());
        assert_ne!(tested.hash, before.hash);
        // Another series is what one compares: the experiment is the same.
        let other = before
            .put_under_test(&under(Some("y@2"), &["async:core.async_shutdown=1 quick"]))
            .unwrap();
        assert_eq!(other.hash, tested.hash);
        let more = before.put_under_test(&under(Some("y@2"), &[])).unwrap();
        assert_ne!(more.hash, tested.hash);
    }

    #[test]
    fn a_scenario_can_say_where_the_series_goes() {
        let waiting = "  stock: {order: serial}\n  serial: {series: ours, order: serial}\n  on: {series: under-test, order: parallel, cmdline: [a=1]}\n  off: {series: under-test, order: serial}\n";
        let before = scenario(waiting);
        let tested = before.put_under_test(&under(Some("x@1"), &[])).unwrap();
        assert_eq!(
            shown(&tested),
            ["stock - Serial ", "on x@1 Parallel a=1", "off x@1 Serial "]
        );
        let error = before.put_under_test(&UnderTest::default()).unwrap_err();
        assert!(error.contains("give it with --series"), "{error}");
    }

    /// A table that calls an unpatched kernel `serial` would be a lie.
    #[test]
    fn a_ready_kernel_has_no_series() {
        let ready = UnderTest {
            ready: true,
            ..UnderTest::default()
        };
        let tested = scenario(OURS).put_under_test(&ready).unwrap();
        assert_eq!(shown(&tested), ["stock - Serial "]);
        assert_eq!(tested.kernel, "ready-made");
        let only = scenario(
            "  stock: {series: ours, order: serial}\n  serial: {series: ours, order: serial}\n",
        );
        let error = only.put_under_test(&ready).unwrap_err();
        assert!(error.contains("leave `series` out"), "{error}");
    }

    #[test]
    fn nothing_given_changes_nothing() {
        let before = scenario(OURS);
        assert_eq!(
            before.put_under_test(&UnderTest::default()).unwrap(),
            before
        );
    }

    #[test]
    fn one_variant_alone() {
        let only = |names: &[&str]| UnderTest {
            only: names.iter().map(|&n| n.to_owned()).collect(),
            ..UnderTest::default()
        };
        let before = scenario(OURS);
        let tested = before.put_under_test(&only(&["stock"])).unwrap();
        assert_eq!(shown(&tested), ["stock - Serial "]);
        // What compares it with one that is gone goes too; what compares it with the ideal
        // stays.
        assert_eq!(tested.expect.len(), 1, "{:?}", tested.expect);
        assert_ne!(tested.hash, before.hash);
        let error = before.put_under_test(&only(&["stok"])).unwrap_err();
        assert!(
            error.contains("no variant `stok`") && error.contains("stock, serial"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let before = scenario(OURS);
        for (series, variant, want) in [
            (None, "a:b", "give it with --series"),
            (Some("x@1"), "stock:b", "already has a variant stock"),
        ] {
            let error = before
                .put_under_test(&under(series, &[variant]))
                .unwrap_err();
            assert!(error.contains(want), "{error}");
        }
        for (text, want) in [
            ("Async:x", "no name for a variant"),
            ("1:x", "no name for a variant"),
            ("ideal", "no name for a variant"),
            ("a:console=tty0", "is set by bootrig"),
            (&format!("a:{}", "x ".repeat(600)), "the limit is"),
        ] {
            let error = text.parse::<Switched>().unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
