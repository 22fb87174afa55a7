// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the timelines are drawn from: every callback of every device, written so that ten
//! thousand devices fit a page. `html/timeline.js` reads it.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::view::{Boot, View, pair};
use crate::core::{
    blame,
    event::{Callback, CallbackEvent},
    scenario::{Order, Scenario, Variant, group},
    units::Nanos,
};

/// The most callbacks that a page carries: some 30 bytes each.
pub const MOST_SPANS: usize = 130_000;

/// One scenario's.
#[derive(Debug, Serialize)]
pub struct Timeline<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// Groups of devices, in the rows' order: name, how many.
    pub groups: Vec<(&'a str, usize)>,
    /// The devices, a row each.
    pub devices: Vec<&'a str>,
    /// What a device on the critical path can have waited for.
    pub waits: Vec<&'static str>,
    /// In the order in which they are offered.
    pub phases: Vec<Phase<'a>>,
    /// Variants left out, because there are too many callbacks.
    #[serde(skip)]
    pub left_out: Vec<&'a str>,
}

/// One phase of all its boots.
#[derive(Debug, Serialize)]
pub struct Phase<'a> {
    /// The metric's name.
    pub name: &'static str,
    /// Whose critical path it has.
    #[serde(skip)]
    pub callback: Callback,
    /// A boot of each variant.
    pub lanes: Vec<Lane<'a>>,
    /// The lanes that are shown first, above and below.
    pub first: [Option<usize>; 2],
}

/// One phase of one boot. Times are nanoseconds from the phase's begin.
#[derive(Debug, Serialize)]
pub struct Lane<'a> {
    /// The variant's name.
    pub variant: &'a str,
    /// How long the phase took.
    pub window: u64,
    /// How long it would have had to take.
    pub ideal: Option<u64>,
    /// Six numbers a callback, by begin: its row, nanoseconds from the last one's begin to
    /// its own, for its lock, and with it (-1: it never returned), its task, its CPU.
    pub spans: Vec<i64>,
    /// The critical path, first to last: a callback, what it waited for, how long.
    pub path: Vec<(usize, usize, u64)>,
    /// Who waited for which lock: rows.
    pub locks: BTreeMap<&'a str, Vec<usize>>,
}

/// The timelines of a run, in the summary's order.
pub fn timelines<'a>(view: &View<'a>) -> Vec<Timeline<'a>> {
    let mut room = MOST_SPANS;
    let mut all = Vec::new();
    for part in &view.summary.scenarios {
        if let Some(scenario) = view.scenario(&part.name) {
            let boots = view.boots(scenario);
            all.extend(timeline(scenario, &boots, &mut room));
        }
    }
    all
}

fn timeline<'a>(
    scenario: &'a Scenario,
    boots: &[Boot<'a>],
    room: &mut usize,
) -> Option<Timeline<'a>> {
    let variants: Vec<_> = boots.iter().map(|b| b.trial.variant()).collect();
    let first = pair(&variants);
    let rows = Rows::new(scenario, boots.get(first[0]?)?, boots);
    if rows.order.is_empty() {
        return None;
    }
    // Those that are looked at first are the last to go.
    let mut wanted: Vec<usize> = (0..boots.len()).collect();
    wanted.sort_by_key(|b| !first.contains(&Some(*b)));
    wanted.retain(|b| {
        let needs = boots[*b].log.callbacks.len();
        let fits = needs <= *room;
        *room -= if fits { needs } else { 0 };
        fits
    });
    wanted.sort_unstable();
    let left_out = (0..boots.len()).filter(|b| !wanted.contains(b));
    let mut phases = Vec::new();
    for (name, callback) in [
        ("device_shutdown", Callback::Shutdown),
        ("probe", Callback::Probe),
    ] {
        let lanes = wanted
            .iter()
            .map(|b| (*b, lane(&boots[*b], callback, &rows)));
        let lanes: Vec<_> = lanes.filter_map(|(b, l)| Some((b, l?))).collect();
        let place = |boot: usize| lanes.iter().position(|(b, _)| *b == boot);
        let first = first.map(|f| f.and_then(place));
        if !lanes.is_empty() {
            let lanes = lanes.into_iter().map(|(_, lane)| lane).collect();
            phases.push(Phase {
                name,
                callback,
                lanes,
                first,
            });
        }
    }
    Some(Timeline {
        scenario: &scenario.name,
        groups: rows.groups,
        devices: rows.order.iter().map(|d| name(scenario, *d)).collect(),
        waits: blame::Wait::ALL.iter().map(|w| w.text()).collect(),
        phases,
        left_out: left_out.map(|b| variants[b].name.as_str()).collect(),
    })
}

fn name(scenario: &Scenario, device: usize) -> &str {
    &scenario.devices[device].name
}

/// Which device is in which row.
struct Rows<'a> {
    /// Devices by row.
    order: Vec<usize>,
    /// Rows by device.
    of: HashMap<usize, usize>,
    groups: Vec<(&'a str, usize)>,
}

impl<'a> Rows<'a> {
    /// Groups as they come in a shutdown of `first`, devices too within their group.
    fn new(scenario: &'a Scenario, first: &Boot, boots: &[Boot]) -> Self {
        let mut turn: HashMap<usize, usize> = HashMap::new();
        let all = boots.iter().flat_map(|b| &b.log.callbacks);
        for event in first.log.shutdowns().chain(all) {
            if event.device < scenario.devices.len() {
                let next = turn.len();
                turn.entry(event.device).or_insert(next);
            }
        }
        let mut devices: Vec<usize> = turn.keys().copied().collect();
        devices.sort_by_key(|d| turn[d]);
        let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for device in devices {
            let group = group(name(scenario, device));
            let place = *places.entry(group).or_insert(groups.len());
            if place == groups.len() {
                groups.push((group, Vec::new()));
            }
            groups[place].1.push(device);
        }
        let order: Vec<usize> = groups.iter().flat_map(|(_, d)| d).copied().collect();
        Self {
            of: order.iter().enumerate().map(|(row, d)| (*d, row)).collect(),
            groups: groups.into_iter().map(|(n, d)| (n, d.len())).collect(),
            order,
        }
    }
}

fn lane<'a>(boot: &Boot<'a>, callback: Callback, rows: &Rows) -> Option<Lane<'a>> {
    let (scenario, variant) = (&boot.trial.scenario, boot.trial.variant());
    let (begin, end) = blame::window(boot.log, callback)?;
    let of_phase = boot.log.callbacks.iter();
    let of_phase = of_phase.filter(|e| e.callback == callback);
    let mut events: Vec<&CallbackEvent> = of_phase
        .filter(|e| rows.of.contains_key(&e.device))
        .collect();
    if events.is_empty() {
        return None;
    }
    events.sort_by_key(|e| (e.begin, e.device));
    let mut lane = Lane {
        variant: &variant.name,
        window: (end - begin).0,
        ideal: None,
        spans: Vec::with_capacity(events.len() * 6),
        path: Vec::new(),
        locks: BTreeMap::new(),
    };
    let times = boot.result.times.as_ref();
    let ideal = times.and_then(|t| match callback {
        Callback::Probe => t.bound_ideal.as_ref().or(t.probe_ideal.as_ref()),
        _ => t.shutdown_ideal.as_ref(),
    });
    lane.ideal = ideal.map(|i| i.time.0);
    let mut at = begin;
    let mut places: HashMap<(usize, Nanos), usize> = HashMap::new();
    for (place, event) in events.into_iter().enumerate() {
        let row = rows.of[&event.device];
        let took = event.end.map_or(-1, |end| number((end - event.locked).0));
        // A callback of before the window begins with it.
        let (from, locked) = (event.begin.max(at), event.locked.max(at));
        lane.spans.extend([
            number(row as u64),
            number((from - at).0),
            number((locked - from).0),
            took,
            i64::from(event.pid),
            i64::from(event.cpu),
        ]);
        at = from;
        places.insert((event.device, event.begin), place);
        let lock = scenario.profile(variant, event.device);
        if let Some(lock) = lock.and_then(|p| p.lock.as_deref())
            && event.locked > event.begin
        {
            lane.locks.entry(lock).or_default().push(row);
        }
    }
    lane.path = path(boot, callback, &places);
    Some(lane)
}

fn path(
    boot: &Boot,
    callback: Callback,
    places: &HashMap<(usize, Nanos), usize>,
) -> Vec<(usize, usize, u64)> {
    let (scenario, variant) = (&boot.trial.scenario, boot.trial.variant());
    let way = blame::way(scenario, variant, boot.log, callback);
    let legs = way.map_or(Vec::new(), |w| w.legs);
    let legs = legs.iter().rev().filter_map(|leg| {
        let place = places.get(&(leg.span.device, leg.span.begin))?;
        let wait = blame::Wait::ALL.iter().position(|w| *w == leg.after)?;
        Some((*place, wait, leg.waited.0))
    });
    legs.collect()
}

/// Times of a guest that lies may be beyond any number.
fn number(value: u64) -> i64 {
    // The largest that a browser holds exactly.
    value.min(1 << 53) as i64
}

/// How a variant goes through its devices.
pub fn order_text(variant: &Variant, callback: Callback) -> &'static str {
    let parallel = match callback {
        Callback::Probe => variant.probing.strategy.is_parallel(),
        _ => variant.order == Order::Parallel,
    };
    if parallel {
        "in parallel"
    } else {
        "one by one"
    }
}
