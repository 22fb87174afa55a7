// SPDX-License-Identifier: MIT OR Apache-2.0
//! report.html and trace.json of scripted runs: whole, true to the log, safe to open.
#![allow(missing_docs)]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use bootrig::core::{
    blame::{self, Wait},
    boot::{TrialResult, interpret},
    event::{BootLog, Callback, CallbackEvent, Mark},
    machine::{End, RawBoot},
    plan::Trial,
    report::{Made, View, html, trace},
    scenario::{NodeKind, Scenario, Strategy},
    summary::{Summary, summarise},
    units::Nanos,
};
use serde_json::Value;
use support::*;

/// A run of everything in `scenario`, with `boot` as its machine.
struct Run {
    plan: Vec<Trial>,
    results: BTreeMap<String, TrialResult>,
    summary: Summary,
}

fn made(scenario: Scenario, repeats: u32, boot: impl Fn(&Trial) -> RawBoot) -> Run {
    let plan = trials(scenario, repeats);
    let results: BTreeMap<_, _> = plan
        .iter()
        .map(|t| (t.id.clone(), interpret(t, &boot(t))))
        .collect();
    let summary = summarise("run", Value::Null, vec![], &plan, &results);
    Run {
        plan,
        results,
        summary,
    }
}

impl Run {
    fn view(&self) -> View<'_> {
        View {
            summary: &self.summary,
            plan: &self.plan,
            results: &self.results,
            made: Made {
                begun: "2026-01-01T00:00:00Z".into(),
                command: "cargo xtask bench scripted".into(),
                environment: vec![("QEMU".into(), "10.0.2".into())],
                kernels: vec![],
            },
            history: Default::default(),
            profiled: vec![],
            left_out: vec![],
        }
    }
    fn html(&self) -> String {
        html(&self.view())
    }
    fn trace(&self) -> Value {
        serde_json::from_str(&trace(&self.view())).unwrap()
    }
}

/// What is between the first `from` after which `to` comes, and that.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text
        .find(from)
        .unwrap_or_else(|| panic!("{from} is missing"));
    let rest = &text[start + from.len()..];
    &rest[..rest.find(to).unwrap()]
}

fn data(page: &str) -> Value {
    let json = between(
        page,
        "<script type=\"application/json\" id=\"timelines\">",
        "</script>",
    );
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_page_holds_tables_pictures_and_how_to_make_it_again() {
    let run = made(scenario(), 1, good);
    let page = run.html();
    for want in [
        "<!DOCTYPE html>",
        "<html lang=\"en\">",
        "default-src 'none'",
        "260.0 ms",
        "130.0 ms",
        "<canvas",
        "cargo xtask bench scripted",
        "10.0.2",
        "Critical path of device_shutdown",
        "facts checked, 0 violated",
    ] {
        assert!(page.contains(want), "{want}");
    }
    // Headings step down one at a time.
    let levels: Vec<u32> = page
        .match_indices("<h")
        .filter_map(|(at, _)| page[at + 2..at + 3].parse().ok())
        .collect();
    assert_eq!(levels[0], 1);
    assert!(
        levels.windows(2).all(|w| w[1] <= w[0] + 1 && w[1] > 1),
        "{levels:?}"
    );
    // Every picture says in words what it shows.
    for (at, _) in page.match_indices("role=\"img\"") {
        let tag = &page[page[..at].rfind('<').unwrap()..];
        let tag = &tag[..tag.find('>').unwrap()];
        assert!(tag.contains("aria-label=\""), "{tag}");
    }
    // An id is there once, and whatever is pointed at is there.
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|t| &t[..t.find('"').unwrap()])
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    for pointed in page.split("aria-describedby=\"").skip(1) {
        for id in pointed[..pointed.find('"').unwrap()].split(' ') {
            assert!(ids.contains(&id), "{id}");
        }
    }
}

/// The timelines hold each callback of the log, to the nanosecond.
#[test]
fn timelines_are_the_log() {
    let run = made(scenario(), 1, good);
    let timelines = data(&run.html());
    let timeline = &timelines[0];
    let phase = &timeline["phases"][0];
    assert_eq!(phase["name"], "device_shutdown");
    for lane in phase["lanes"].as_array().unwrap() {
        let id = format!("scripted/{}/0", lane["variant"].as_str().unwrap());
        let trial = run.plan.iter().find(|t| t.id == id).unwrap();
        let begin = Nanos(SHUTDOWN);
        let log = run.results[&id].log.as_ref().unwrap();
        let mut want: Vec<_> = log
            .shutdowns()
            .map(|e| {
                let name = trial.scenario.devices[e.device].name.clone();
                let [from, locked, to] =
                    [e.begin, e.locked, e.end.unwrap()].map(|t| (t - begin).0 as i64);
                (name, from, locked, to)
            })
            .collect();
        let spans: Vec<i64> = serde_json::from_value(lane["spans"].clone()).unwrap();
        let mut at = 0;
        let mut got: Vec<_> = spans
            .chunks(6)
            .map(|s| {
                at += s[1];
                let name = timeline["devices"][s[0] as usize].as_str().unwrap();
                (name.to_owned(), at, at + s[2], at + s[2] + s[3])
            })
            .collect();
        want.sort();
        got.sort();
        assert_eq!(got, want, "{id}");
        let waited: BTreeSet<_> = got.iter().filter(|g| g.2 > g.1).map(|g| &g.0).collect();
        let told = lane["locks"]["rtnl"].as_array().map_or(0, Vec::len);
        assert_eq!(told, waited.len());
        // The critical path goes without a gap from the begin to the end.
        let path: Vec<(usize, usize, i64)> = serde_json::from_value(lane["path"].clone()).unwrap();
        let mut now = 0;
        for (span, _, waited) in path {
            let of_lane: Vec<_> = spans.chunks(6).take(span + 1).collect();
            let begin: i64 = of_lane.iter().map(|s| s[1]).sum();
            now += waited;
            assert_eq!(begin + of_lane[span][2], now);
            now += of_lane[span][3];
        }
        assert_eq!(now, lane["window"].as_i64().unwrap());
    }
    // One by one above, side by side below.
    assert_eq!(phase["first"], serde_json::json!([0, 1]));
}

#[test]
fn the_critical_path_adds_up_to_the_window() {
    for trial in trials(scenario(), 1) {
        let result = interpret(&trial, &good(&trial));
        let log = result.log.as_ref().unwrap();
        let phases = [Callback::Probe, Callback::Shutdown];
        let sums = phases.map(|phase| way_of(&trial, log, phase).1);
        let times = result.times.clone().unwrap();
        assert_eq!(sums.map(Some), [times.probe, times.device_shutdown]);
    }
}

/// The devices of a phase's critical path from first to last, each with what it waited for,
/// and the sum of all that lies on it.
fn way_of(trial: &Trial, log: &BootLog, phase: Callback) -> (Vec<(usize, Wait)>, Nanos) {
    let way = blame::way(&trial.scenario, trial.variant(), log, phase).unwrap();
    let legs = way.legs.iter();
    let sum = legs.map(|l| l.waited + (l.span.end - l.span.locked));
    let sum: Nanos = sum.chain([way.rest]).sum();
    let (begin, end) = blame::window(log, phase).unwrap();
    assert_eq!(sum, end - begin);
    let legs = way.legs.iter().rev();
    (legs.map(|l| (l.span.device, l.after)).collect(), sum)
}

/// Probes that go on after the driver's attach has returned, and one that is put off once.
#[test]
fn the_critical_path_of_probing_is_that_of_its_tasks_and_locks() {
    let mut side_by_side = scenario();
    for variant in &mut side_by_side.variants {
        variant.probing.strategy = Strategy::PerDeviceKthread;
    }
    let trial = &trials(side_by_side, 1)[0];
    let mut log = interpret(trial, &good(trial)).log.unwrap();
    let begin = log.marks[&Mark::AttachBegin].mono.0;
    let probe = |device, pid, times: [u64; 3]| {
        let [begin, locked, end] = times.map(|t| Nanos(begin + t * MS));
        CallbackEvent {
            callback: Callback::Probe,
            device,
            begin,
            locked,
            end: Some(end),
            cpu: 0,
            pid,
            ret: 0,
        }
    };
    let rest = log
        .callbacks
        .iter()
        .filter(|e| e.callback != Callback::Probe);
    let rest: Vec<_> = rest.cloned().collect();
    let mut probes = |probes: Vec<CallbackEvent>, trial: &Trial| {
        log.callbacks = probes.into_iter().chain(rest.clone()).collect();
        way_of(trial, &log, Callback::Probe)
    };
    // Two that share a lock, and one that is alone and faster than both.
    let locked = vec![
        probe(1, 11, [1, 1, 60]),
        probe(3, 13, [1, 1, 41]),
        probe(4, 14, [2, 41, 81]),
    ];
    let (path, sum) = probes(locked, trial);
    assert_eq!(path, [(3, Wait::FirstCallback), (4, Wait::Lock)]);
    assert_eq!(sum, Nanos(81 * MS));
    // One by one it is the same whoever probes; a device may come twice.
    let serial = &trials(scenario(), 1)[0];
    let twice = vec![
        CallbackEvent {
            ret: -517,
            ..probe(0, 1, [0, 0, 1])
        },
        probe(1, 1, [1, 1, 9]),
        probe(0, 20, [10, 10, 30]),
    ];
    let (path, _) = probes(twice, serial);
    let devices: Vec<_> = path.iter().map(|p| p.0).collect();
    assert_eq!(devices, [0, 1, 0]);
}

const HOSTILE: [&str; 7] = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "' autofocus onfocus='alert(1)",
    "<!--<script>",
    "&lt;b&gt;\u{2028}\u{2029}",
    "]]></style><style>*{display:none}",
];

/// Names are checked where scenarios are read; a page that is opened by a browser does not
/// rely on it.
#[test]
fn hostile_words_stay_words() {
    let mut hostile = scenario();
    hostile.devices.truncate(1);
    hostile.devices[0].parent = None;
    hostile.about = HOSTILE.join(" ");
    for word in HOSTILE {
        hostile
            .devices
            .push(device(word, None, NodeKind::Endpoint, Some("locked")));
    }
    let lock = hostile.profiles.get_mut("locked").unwrap();
    lock.lock = Some(HOSTILE[0].into());
    let devices = hostile.devices.len();
    let mut run = made(hostile, 1, |t| {
        if t.variant().name == "serial" {
            return good(t);
        }
        RawBoot {
            end: End::Machine(HOSTILE[1].into()),
            ..RawBoot::default()
        }
    });
    run.summary.notes = HOSTILE.map(String::from).into();
    run.summary.run = HOSTILE[0].into();
    run.summary.scenarios[0].variants[0].oracle.violations = HOSTILE.map(String::from).into();
    let mut view = run.view();
    view.made = Made {
        begun: HOSTILE[1].into(),
        command: HOSTILE[0].into(),
        environment: HOSTILE.map(|w| (w.to_owned(), w.to_owned())).into(),
        kernels: vec![[0, 1, 2, 3].map(|n| HOSTILE[n].to_owned())],
    };
    let page = html(&view);
    let count = |what: &str| page.matches(what).count();
    assert_eq!((count("<script"), count("</script")), (2, 2));
    assert_eq!((count("<style"), count("</style")), (1, 1));
    assert_eq!(count("<img") + count("<!--"), 0);
    // No attribute that we did not write: a quote in a name would have begun one.
    let values = regex::Regex::new("\"[^\"]*\"").unwrap();
    let tags = regex::Regex::new("<[a-z][^>]*>").unwrap();
    let markup = &page[page.find("</style>").unwrap()..page.find("<script").unwrap()];
    let markup = values.replace_all(markup, "");
    let mut all = tags.find_iter(&markup);
    assert!(all.by_ref().take(100).count() == 100);
    assert!(tags.find_iter(&markup).all(|t| !t.as_str().contains(" on")));
    let timelines = data(&page);
    let names: BTreeSet<_> = timelines[0]["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    assert_eq!(names.len(), devices);
    assert!(HOSTILE.iter().all(|w| names.contains(w)));
    let events: Value = serde_json::from_str(&trace(&view)).unwrap();
    assert_eq!(events["otherData"]["run"], HOSTILE[0]);
}

/// What failed has no bar and no lane; what was never made is no number either.
#[test]
fn failures_are_told_and_not_drawn() {
    let run = made(scenario(), 1, |t| RawBoot {
        console: match t.variant().name.as_str() {
            "serial" => b"Kernel panic - not syncing: out of luck\n".to_vec(),
            _ => Vec::new(),
        },
        ..good(t)
    });
    let page = run.html();
    assert!(page.contains("1 of 2 variants failed or incomplete") && page.contains("out of luck"));
    assert_eq!(
        data(&page)[0]["phases"][0]["lanes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let mut empty = made(scenario(), 1, good);
    empty.results.clear();
    empty.summary = summarise("run", Value::Null, vec![], &empty.plan, &empty.results);
    let page = empty.html();
    assert!(page.contains("not run") && !page.contains("<canvas"));
    assert_eq!(data(&page), serde_json::json!([]));
    assert_eq!(empty.trace()["traceEvents"], serde_json::json!([]));
}

#[test]
fn repeats_are_spread_out_only_where_they_differ() {
    let same = made(scenario(), 3, good).html();
    assert!(same.contains("All repeats of each variant are the same, to the nanosecond."));
    let differs = made(scenario(), 3, |t| {
        let late = SHUTDOWN + u64::from(t.repeat) * 1000;
        RawBoot {
            channel: channel(t, &shutdowns(t, late)),
            ..good(t)
        }
    });
    let page = differs.html();
    assert!(page.contains("device_shutdown: spread of the repeats"));
    assert_eq!(
        page.matches("<circle").count(),
        2 * 3 * 2,
        "device_shutdown and reboot"
    );
}

#[test]
fn ten_thousand_devices_fit_a_page() {
    let start = Instant::now();
    let run = made(ten_thousand(), 1, many);
    println!("made in {:?}", start.elapsed());
    let start = Instant::now();
    let page = run.html();
    println!("report.html: {} bytes in {:?}", page.len(), start.elapsed());
    assert!(page.len() <= 5_000_000, "{} bytes", page.len());
    let timelines = data(&page);
    let lanes = timelines[0]["phases"][0]["lanes"].as_array().unwrap();
    assert!(
        lanes
            .iter()
            .all(|l| l["spans"].as_array().unwrap().len() == 6 * 10_000)
    );
    // What a browser builds at once: rows of tables, not of devices.
    assert!(page.matches("<tr").count() < 1000);
}

/// Variants beyond what a page can carry are named, and what is looked at first stays.
#[test]
fn too_many_callbacks_are_left_out_and_named() {
    let mut big = ten_thousand();
    for copy in 0..6 {
        big.variants.insert(
            0,
            variant(
                &format!("more-{copy}"),
                bootrig::core::scenario::Order::Serial,
            ),
        );
    }
    let run = made(big, 1, many);
    let page = run.html();
    assert!(page.len() <= 5_000_000, "{} bytes", page.len());
    assert!(page.contains("in trace.json only: "));
    let phase = &data(&page)[0]["phases"][0];
    let first = phase["first"][1].as_u64().unwrap() as usize;
    assert_eq!(phase["lanes"][first]["variant"], "parallel");
}

/// Strictly what the Trace Event format's description asks for.
#[test]
fn the_trace_is_well_formed_and_true() {
    let run = made(scenario(), 1, good);
    let trace = run.trace();
    let events = trace["traceEvents"].as_array().unwrap();
    let mut tracks: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let mut open: BTreeMap<String, i32> = BTreeMap::new();
    for event in events {
        let number = |key: &str| {
            event[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {event}"))
        };
        assert!(event["name"].is_string(), "{event}");
        let track = (number("pid") as u64, number("tid") as u64);
        match event["ph"].as_str().unwrap() {
            "X" => tracks
                .entry(track)
                .or_default()
                .push((number("ts"), number("ts") + number("dur"))),
            "M" => assert!(event["args"].is_object(), "{event}"),
            "b" | "s" => *open.entry(id(event)).or_default() += 1,
            "e" | "f" => *open.entry(id(event)).or_default() -= 1,
            other => panic!("{other}: {event}"),
        }
    }
    assert!(open.values().all(|n| *n == 0), "{open:?}");
    // Slices of one track lie within one another or apart.
    for (track, mut slices) in tracks {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut around: Vec<f64> = Vec::new();
        for (from, to) in slices {
            around.retain(|end| *end > from);
            assert!(
                around.iter().all(|end| to <= *end + 0.0005),
                "{track:?}: {from} to {to} leaves {around:?}"
            );
            around.push(to);
        }
    }
    let of = |name: &str, cat: &str| -> f64 {
        let all = events
            .iter()
            .filter(|e| e["name"] == name && e["cat"] == cat);
        all.filter_map(|e| e["dur"].as_f64()).sum()
    };
    assert_eq!(of("device_shutdown", "phase"), 390_000.0, "260 and 130 ms");
    assert_eq!(of("slow", "shutdown"), 200_000.0, "100 ms in each variant");
    // Two devices share a lock for 40 ms each, in both phases and variants.
    let held = ["nic.0", "nic.1"].map(|n| of(n, "lock"));
    assert!(held.iter().all(|h| *h >= 80_000.0), "{held:?}");
    assert!(events.iter().any(|e| e["name"] == "waiting for rtnl"));
}

fn id(event: &Value) -> String {
    let id = &event["id"];
    let id = if id.is_null() {
        &event["id2"]["local"]
    } else {
        id
    };
    assert!(!id.is_null(), "{event}");
    format!("{}/{id}/{}", event["pid"], event["cat"])
}
