// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a place is believed to be to blame: it differs from what comes before it, the new end
//! is well again without it, and its kernel is another one at all.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::over::{Over, Places};
use crate::{
    core::{
        boot::TrialResult,
        compare::{Wishes, compare},
        scenario::{Clock, Metric},
        search::{Proof, Question, Report, Seen, Sought, Symptom, gantt, window},
        stats::{
            median,
            verdict::{Limits, Verdict, exact, single},
        },
        units::Nanos,
    },
    rig::{places::Booth, sides},
};

/// Boots of each side in virtual time: so many phases against the timer's ticks.
const PHASES: u32 = 5;

/// What boots of a place showed.
struct Shown {
    results: Vec<TrialResult>,
    values: Vec<u64>,
    had: usize,
}

impl Shown {
    fn of(results: Vec<TrialResult>, symptom: Symptom) -> Self {
        let seen: Vec<_> = results.iter().filter_map(|r| symptom.see(r).ok()).collect();
        let value = |s: &Seen| match s {
            Seen::Value(value) => Some(*value),
            _ => None,
        };
        Self {
            values: seen.iter().filter_map(value).collect(),
            had: seen.iter().filter(|s| **s == Seen::Yes).count(),
            results,
        }
    }

    fn text(&self, symptom: Symptom) -> String {
        match symptom {
            Symptom::Slow(..) if !self.values.is_empty() => Nanos(median(&self.values)).to_string(),
            Symptom::Slow(..) => "no value".into(),
            _ => format!("{} of {} boots with", self.had, self.results.len()),
        }
    }
}

/// Adds to `report` what `place` is, every proof that can be tried, and the pictures.
pub fn prove(
    report: &mut Report,
    place: &str,
    over: &Over,
    places: &Places,
    booth: &mut Booth,
    question: &Question,
) -> Result<()> {
    let (blamed, before) = over.blame(place)?;
    let name = blamed.name.clone();
    report.found = format!("{name} is the first that is as the new end is");
    report.blamed = Some(blamed);
    let Some(parent) = before.first() else {
        let result = "nothing comes before it".into();
        report.proofs.push(Proof {
            tried: "against what comes before it".into(),
            result,
            holds: None,
        });
        return Ok(());
    };
    let boots = match question.clock {
        Clock::Virtual => question.patience.repeats.max(PHASES),
        Clock::Wall => question.patience.repeats,
    };
    booth.anew = question.clock == Clock::Wall;
    // A B B A.
    let half = boots.div_ceil(2);
    let mut sides = [None, None];
    for (side, boots) in [(0, half), (1, half), (1, boots), (0, boots)] {
        let at = [parent.as_str(), place][side];
        sides[side] = Some(booth.boots(at, boots)?);
    }
    let [Some(before), Some(after)] = sides else {
        unreachable!("both sides were booted");
    };
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => {
            report.proofs.push(Proof {
                tried: "against what comes before it".into(),
                result: why,
                holds: None,
            });
            return Ok(());
        }
    };
    let before = Shown::of(before, question.symptom);
    let after = Shown::of(after, question.symptom);
    title(report, &name, &before, &after, question);
    against(report, &before, &after, question);
    let reverted = without(
        place,
        over,
        places,
        booth,
        question,
        boots,
        [&before, &after],
    )?;
    report.proofs.push(reverted);
    let differs = image(parent, place, over, booth)?;
    report.proofs.push(differs);
    numbers(report, parent, place, booth)?;
    pictures(report, &before, &after, booth, question);
    for (at, when) in [(parent.as_str(), "before"), (place, "after")] {
        let path = booth.run_of(at).join("report.html");
        report.files.push(format!("{when}: {}", path.display()));
    }
    Ok(())
}

fn title(report: &mut Report, name: &str, before: &Shown, after: &Shown, question: &Question) {
    let Symptom::Slow(metric, _) = question.symptom else {
        report.found = format!(
            "{}: {} before {name}, {} with it",
            question.symptom,
            before.text(question.symptom),
            after.text(question.symptom)
        );
        return;
    };
    let (a, b) = (median(&before.values), median(&after.values));
    let change = (b as f64 / a.max(1) as f64 - 1.0) * 100.0;
    report.found = format!(
        "{}: {} before {name}, {} with it ({change:+.2} %)",
        metric.name(),
        Nanos(a),
        Nanos(b)
    );
}

/// The first proof: both are booted anew, as often as the ends.
fn against(report: &mut Report, before: &Shown, after: &Shown, question: &Question) {
    let symptom = question.symptom;
    let (told, holds) = match symptom {
        Symptom::Slow(..) => {
            let limits = Limits::by(question.clock);
            let (a, b) = (&before.values, &after.values);
            let judged = match question.clock {
                Clock::Virtual => exact(a, b, &limits),
                Clock::Wall => single(a, b, &limits),
            };
            let wanted = match question.sought {
                Sought::Symptom => Verdict::Slower,
                Sought::Fix => Verdict::Faster,
            };
            (judged.verdict.text(), judged.verdict == wanted)
        }
        _ => {
            let want = question.sought == Sought::Symptom;
            let holds = (after.had > 0) == want && (before.had > 0) != want;
            (
                if holds {
                    "they differ"
                } else {
                    "no difference"
                },
                holds,
            )
        }
    };
    report.proofs.push(Proof {
        tried: format!(
            "Against what comes before it, {} boots each",
            after.results.len()
        ),
        result: format!(
            "{}, then {}: {told}",
            before.text(symptom),
            after.text(symptom)
        ),
        holds: Some(holds),
    });
}

/// The second: the new end without it is, by at least half of what it changed, as it was.
fn without(
    place: &str,
    over: &Over,
    places: &Places,
    booth: &mut Booth,
    question: &Question,
    boots: u32,
    [before, after]: [&Shown; 2],
) -> Result<Proof> {
    let tried = "The new end without it".to_owned();
    let not = |why: String| Proof {
        tried: tried.clone(),
        result: why,
        holds: None,
    };
    let reverted = match over.without(place, places.history)? {
        Ok(reverted) => reverted,
        Err(why) => return Ok(not(format!("it cannot be taken out of the new end: {why}"))),
    };
    let new_end = over.new_end();
    let mut shown = Vec::new();
    for at in [new_end.as_str(), &reverted] {
        match booth.boots(at, boots)? {
            Ok(results) => shown.push(Shown::of(results, question.symptom)),
            Err(why) => return Ok(not(format!("what is left cannot be built: {why}"))),
        }
    }
    let (end, without) = (&shown[0], &shown[1]);
    let holds = match question.symptom {
        Symptom::Slow(..) if without.values.is_empty() => false,
        Symptom::Slow(..) => {
            let [a, b, end, without] =
                [before, after, end, without].map(|s| i128::from(median(&s.values)));
            // The same way, and half as far at least.
            let (changed, restored) = (b - a, end - without);
            changed.signum() == restored.signum() && 2 * restored.abs() >= changed.abs()
        }
        _ => (without.had > 0) == (question.sought == Sought::Fix),
    };
    Ok(Proof {
        tried,
        result: format!(
            "{} instead of {}",
            without.text(question.symptom),
            end.text(question.symptom)
        ),
        holds: Some(holds),
    })
}

/// The third: what does not change the kernel changes nothing.
fn image(parent: &str, place: &str, over: &Over, booth: &mut Booth) -> Result<Proof> {
    let tried = "Its kernel image against that before it".to_owned();
    if let Over::Words(_) = over {
        return Ok(Proof {
            tried,
            result: "the kernel is the same; the words of its command line differ".into(),
            holds: None,
        });
    }
    let mut images = Vec::new();
    for at in [parent, place] {
        let trial = booth.plan(at, 1)?.swap_remove(0);
        let path = booth.kernel(at, &trial)?.kernel.image;
        images.push(read(&path)?);
    }
    let differs = images[0] != images[1];
    Ok(Proof {
        tried,
        result: match differs {
            true => "it differs".into(),
            false => "it is the same to the last byte, so this changes nothing that runs".into(),
        },
        holds: Some(differs),
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn numbers(report: &mut Report, parent: &str, place: &str, booth: &Booth) -> Result<()> {
    let mut both = Vec::new();
    for (at, label) in [(parent, "before"), (place, "after")] {
        let run = booth.run_of(at);
        let mut side = sides::side(&booth.runs, &run.to_string_lossy())?;
        side.label = label.into();
        for measured in side.scenarios.values_mut() {
            // Words of the command line make another scenario: that is what is compared.
            measured.basis.scenario = String::new();
        }
        both.push(side);
    }
    match compare(&both[0], &both[1], &Wishes::default()) {
        Ok(compared) => {
            let devices = compared.changed_devices();
            report.devices = devices.into_iter().map(str::to_owned).collect();
            report.numbers = compared.text();
        }
        Err(reasons) => report.numbers = format!("Not compared: {}.\n", reasons.join("; ")),
    }
    Ok(())
}

fn pictures(
    report: &mut Report,
    before: &Shown,
    after: &Shown,
    booth: &Booth,
    question: &Question,
) {
    let metric = match question.symptom {
        Symptom::Slow(metric, _) => metric,
        _ => Metric::DeviceShutdown,
    };
    let log = |shown: &Shown| shown.results.first().and_then(|r| r.log.clone());
    let logs = [log(before), log(after)];
    let windows = logs.iter().flatten().filter_map(|l| window(l, metric));
    let Some(scale) = windows.max() else { return };
    for (log, when) in logs.iter().zip(["before", "after"]) {
        let drawn = log
            .as_ref()
            .and_then(|l| gantt(&booth.scenario, l, metric, scale));
        if let Some(picture) = drawn {
            let title = format!("{when}: {} wide", Nanos(scale));
            report.pictures.push((title, picture));
        }
    }
}
