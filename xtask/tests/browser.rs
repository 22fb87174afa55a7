// SPDX-License-Identifier: MIT OR Apache-2.0
//! report.html in a real browser, drawn from real boots that were recorded. Run by
//! `cargo xtask test`; leaves pictures in target/report/.
#![allow(missing_docs)]

mod chromium;
mod support;

use std::{
    collections::BTreeMap,
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use bootrig::{
    core::{
        boot::TrialResult,
        fault::Stopped,
        machine::{End, Machine, RawBoot},
        measure::{Options, Sink, measure},
        plan::{Overrides, Trial, plan},
        scenario::{Known, Scenario, parse},
        summary::summarise,
        trend::History,
    },
    edge::store::{Header, Run, SCHEMA},
    rig::draw,
};
use chromium::{Browser, pictures};
use serde_json::{Value, json};
use support::runs;

/// Boots that were made once, on Debian 12 with QEMU 10.0.2.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recorded");

/// Gives back what the real machine left behind.
struct Replay(PathBuf);

impl Machine for Replay {
    fn boot(&self, trial: &Trial) -> Result<RawBoot, Stopped> {
        let path = self.0.join(format!("{}.events", trial.file_stem()));
        Ok(RawBoot {
            end: End::Finished,
            channel: fs::read(path).unwrap(),
            console: Vec::new(),
        })
    }
}

struct ToRun(Run);

impl Sink for ToRun {
    fn started(&mut self, _: &Trial) {}
    fn again(&mut self, _: &Trial, _: &str) {}
    fn finished(
        &mut self,
        trial: &Trial,
        raw: &RawBoot,
        result: &TrialResult,
    ) -> anyhow::Result<()> {
        self.0.store(trial, raw, result)
    }
}

fn header() -> Header {
    Header {
        schema: SCHEMA,
        id: "recorded".into(),
        begun: "2026-11-30T17:14:31Z".into(),
        command: vec!["bench".into(), "shutdown-2018".into()],
        clock: None,
        repeats: None,
        debug: false,
        no_aa: false,
        under_test: Default::default(),
        scenarios: vec![],
        ready_kernel: None,
        shard: None,
        host: json!({"cpu": "A host's CPU", "cpus": 2, "distribution": "Debian GNU/Linux 12"}),
        machine: Default::default(),
        kernels: vec![],
    }
}

/// A run of `scenario` on `machine`, stored and drawn; the page's address.
fn drawn(results: &Path, scenario: Scenario, machine: &dyn Machine) -> String {
    let members = scenario.members().iter().cloned().map(Arc::new);
    let plan = plan(&members.collect::<Vec<_>>(), Overrides::default());
    let mut sink = ToRun(Run::create(results, &header()).unwrap());
    let options = Options {
        jobs: NonZeroUsize::MIN,
        keep_going: false,
        retries: 0,
    };
    measure(&plan, machine, options, &mut sink).unwrap();
    let mut run = sink.0;
    let summary = summarise("recorded", header().host, vec![], &plan, &run.results);
    let summary = summary.with_growth([&scenario]);
    run.finish(&summary).unwrap();
    draw(
        run.dir(),
        &header(),
        &summary,
        &plan,
        &run.results,
        History::default(),
    )
    .unwrap();
    let page = run.dir().join("report.html");
    format!("file://{}", page.canonicalize().unwrap().display())
}

fn recorded(results: &Path, name: &str) -> String {
    let dir = Path::new(RECORDED).join(name);
    let file = format!("{name}.yaml");
    let text = fs::read_to_string(dir.join(&file)).unwrap();
    let scenario = parse(&file, &text, &Known::default());
    let scenario = scenario.unwrap_or_else(|e| panic!("{e}"));
    drawn(results, scenario, &Replay(dir))
}

/// How many of the picture's pixels have which colour.
const COLORS: &str = "(() => { const c = document.querySelector('canvas'); \
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = {}; \
    for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) { \
      const k = [d[i], d[i + 1], d[i + 2]].join(); seen[k] = (seen[k] || 0) + 1; } return seen; })()";

/// Looks for a device by its name.
fn find(browser: &mut Browser, device: &str) {
    browser.eval(&format!(
        "(() => {{ const f = document.querySelector('[data-use=find]'); f.value = {device:?}; \
         f.dispatchEvent(new Event('change')); }})()"
    ));
    browser.settle();
}

/// What the picture shows, as it says itself.
const VIEW: &str = "document.querySelector('.view').textContent";
const READOUT: &str = "document.querySelector('.readout').textContent";

fn wide(browser: &mut Browser, url: &str) {
    browser.look(1280, false);
    browser.open(url);
}

/// The middle of something, in the window.
fn middle(browser: &mut Browser, selector: &str) -> (f64, f64) {
    let place = browser.eval(&format!(
        "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); \
         const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
    ));
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

fn click(browser: &mut Browser, selector: &str) {
    let (x, y) = middle(browser, selector);
    for kind in ["mousePressed", "mouseReleased"] {
        browser.mouse(kind, x, y, json!({"button": "left", "clickCount": 1}));
    }
}

#[test]
#[ignore = "browser"]
fn opens_without_a_complaint_and_asks_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let url = recorded(dir.path(), "shutdown-2018");
    let mut browser = Browser::start();
    wide(&mut browser, &url);
    // What it does when used may complain as well.
    for button in ["in", "right", "left", "out", "all"] {
        click(&mut browser, &format!("[data-do={button}]"));
    }
    browser.eval("for (const d of document.querySelectorAll('details')) d.open = true");
    browser.settle();
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
    assert_eq!(
        browser
            .requests()
            .into_iter()
            .filter(|u| *u != "data:,")
            .collect::<Vec<_>>(),
        [url.as_str()]
    );
    // A page that tried would be held back by its policy, and that would be seen here.
    browser.eval("fetch('http://127.0.0.1:9/').catch(() => 0)");
    browser.settle();
    assert!(!browser.complaints().is_empty());
}

#[test]
#[ignore = "browser"]
fn pictures_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let url = recorded(dir.path(), "shutdown-2018");
    let mut browser = Browser::start();
    wide(&mut browser, &url);
    let colors = browser.eval(COLORS);
    let count = |color: &str| colors[color].as_u64().unwrap_or(0);
    // The critical path in the one, most callbacks not on it in the other.
    assert!(count("184,70,14") > 2000, "{colors}");
    assert!(count("88,123,161") > 2000, "{colors}");
    let bars =
        "[...document.querySelectorAll('.bar rect.own')].map(r => r.getBoundingClientRect().width)";
    let bars: Vec<f64> = serde_json::from_value(browser.eval(bars)).unwrap();
    assert!(
        bars.len() >= 12 && bars.iter().all(|b| *b > 1.0),
        "{bars:?}"
    );
    let rows = browser.eval("document.querySelectorAll('tbody tr').length");
    assert!(rows.as_u64().unwrap() > 40, "{rows}");
}

#[test]
#[ignore = "browser"]
fn waiting_for_a_lock_is_seen_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let url = recorded(dir.path(), "global-lock");
    let mut browser = Browser::start();
    wide(&mut browser, &url);
    let colors = browser.eval(COLORS);
    assert!(colors["210,160,47"].as_u64() > Some(1000), "{colors}");
    find(&mut browser, "ixgbe.0");
    let said = browser.text(READOUT);
    assert!(said.contains("for lock rtnl"), "{said}");
    browser.picture(&pictures().join("global-lock.png"));
}

const GROWN: &str = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 256 MiB}\n\
    profiles:\n  nic: {id: \"8086:1528\", about: a, source: s, shutdown: [{wait: 10 ms}]}\n\
    devices: [{name: nic, profile: nic, count: 1}]\n\
    variants: {serial: {order: serial}, parallel: {order: parallel}}\n\
    measure: [boot, device_shutdown]\nsweep:\n  devices: [1, 10, 100]\n  of: nic\n";

#[test]
#[ignore = "browser"]
fn growth_is_plotted_and_each_size_can_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let swept = parse("grown.yaml", GROWN, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    let url = drawn(dir.path(), swept, &support::Scripted::good());
    let mut browser = Browser::start();
    for (width, dark) in [(1280, false), (360, true)] {
        browser.look(width, dark);
        browser.open(&url);
        assert_eq!(browser.complaints(), Vec::<&Value>::new());
        let lines = browser.eval("document.querySelectorAll('.plot polyline, .plot path').length");
        assert!(lines.as_u64() > Some(3), "{lines}");
        let name = format!("growth-{width}.png");
        browser.picture(&pictures().join(name));
        // A timeline that was hidden is drawn when it is seen.
        let size = "[...document.querySelectorAll('details.size')].at(-1)";
        browser.eval(&format!("{size}.open = true"));
        browser.settle();
        browser.settle();
        let wide = browser.eval(&format!("{size}.querySelector('canvas').width"));
        assert!(wide.as_u64() > Some(200), "{wide}");
        let scroll = browser.eval("[document.documentElement.scrollWidth, window.innerWidth]");
        assert!(
            scroll[0].as_u64() <= scroll[1].as_u64(),
            "{width}: {scroll}"
        );
    }
}

/// A graph's frames: how wide the widest is, how many have no width, and the least contrast of
/// their words with what is behind them, by WCAG 2.2's formula.
const FRAMES: &str = "(() => {
  const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const frames = [...document.querySelectorAll('.flames svg svg')];
  const wide = frames.map((f) => f.querySelector('rect').getBoundingClientRect().width);
  const contrast = frames.filter((f) => f.querySelector('text')).map((f) => {
    const [a, b] = ['rect', 'text'].map((e) => light(getComputedStyle(f.querySelector(e)).fill));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
  return [Math.max(...wide), wide.filter((w) => w < 1).length, Math.min(...contrast), frames.length];
})()";

/// Twelve nights, of which the last has what the tracer saw.
#[test]
#[ignore = "browser"]
fn trends_and_flame_graphs_are_seen_at_any_width() {
    let dir = tempfile::tempdir().unwrap();
    let plain = GROWN.split("sweep:").next().unwrap();
    let scenario = parse("plain.yaml", plain, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    for night in 0..12 {
        let mut header = runs::header(&format!("night{night:02}"));
        header.begun = format!("2026-01-{:02}T03:00:00Z", night + 1);
        let more = u64::from(night >= 6) * support::MS;
        let machine = support::Scripted::new(move |trial, _| {
            let mut calls = support::shutdowns(trial, support::SHUTDOWN);
            calls.iter_mut().for_each(|call| call.3 += more);
            Ok(RawBoot {
                channel: support::channel(trial, &calls),
                ..support::good(trial)
            })
        });
        runs::bench(dir.path(), header, &scenario, 1, &machine);
    }
    for variant in ["serial", "parallel"] {
        let boot = format!("plain/{variant}");
        runs::traced(dir.path(), "night11", &boot, "nic_shutdown [dummy_pci]");
    }
    let results = dir.path().to_str().unwrap();
    let report = ["report", "night11", "--results", results];
    assert!(runs::xtask(&report).status.success());
    let page = dir.path().join("night11/report.html");
    let url = format!("file://{}", page.display());
    let mut browser = Browser::start();
    for (width, dark) in [(1280, false), (360, true)] {
        browser.look(width, dark);
        browser.open(&url);
        browser.eval("for (const d of document.querySelectorAll('details')) d.open = true");
        browser.settle();
        assert_eq!(browser.complaints(), Vec::<&Value>::new());
        let points = browser.eval("document.querySelectorAll('.plot circle').length");
        // Of one metric: 12 runs of two variants, and where each changed.
        assert_eq!(points, 2 * 12 + 2, "{width}");
        let frames = browser.eval(FRAMES);
        let figure = "document.querySelector('.flames').getBoundingClientRect().width";
        let figure = browser.eval(figure).as_f64().unwrap();
        // Interrupts are a tenth of the whole, tasks the rest.
        let widest = frames[0].as_f64().unwrap();
        assert!((widest / figure - 0.9).abs() < 0.01, "{frames} {figure}");
        assert_eq!((&frames[1], &frames[3]), (&json!(0), &json!(10)));
        assert!(frames[2].as_f64().unwrap() >= 4.5, "{frames}");
        assert_eq!(browser.eval(PALE), json!([]), "{width}");
        let scroll = browser.eval("[document.documentElement.scrollWidth, window.innerWidth]");
        assert!(
            scroll[0].as_u64() <= scroll[1].as_u64(),
            "{width}: {scroll}"
        );
        let name = format!("trend-{width}.png");
        browser.picture(&pictures().join(name));
    }
}

#[test]
#[ignore = "browser"]
fn zooms_by_button_wheel_key_finger_and_name() {
    let dir = tempfile::tempdir().unwrap();
    let url = recorded(dir.path(), "shutdown-2018");
    let mut browser = Browser::start();
    wide(&mut browser, &url);
    let all = browser.text(VIEW);
    assert!(
        all.contains("0 ns to 3.013 s") && all.ends_with("devices 1 to 15 of 15"),
        "{all}"
    );

    click(&mut browser, "[data-do=in]");
    let near = browser.text(VIEW);
    assert!(near.contains("753.2 ms to 2.260 s"), "{near}");
    click(&mut browser, "[data-do=right]");
    assert_ne!(browser.text(VIEW), near);
    click(&mut browser, "[data-do=all]");
    assert_eq!(browser.text(VIEW), all);

    // Without the focus the wheel scrolls the page; with Ctrl it zooms.
    let (x, y) = middle(&mut browser, "canvas");
    let wheel = |modifiers: u32| json!({"deltaX": 0, "deltaY": -200, "modifiers": modifiers});
    browser.mouse("mouseWheel", x, y, wheel(2));
    assert_ne!(browser.text(VIEW), all);
    click(&mut browser, "[data-do=all]");
    let (x, y) = middle(&mut browser, "canvas");
    browser.mouse("mouseWheel", x, y, wheel(0));
    assert_eq!(browser.text(VIEW), all);

    browser.eval("document.querySelector('canvas').focus()");
    browser.key("0");
    assert_eq!(browser.text(VIEW), all);
    browser.key("+");
    assert_eq!(browser.text(VIEW), near);
    browser.key("-");
    assert_eq!(browser.text(VIEW), all);
    browser.key("ArrowDown");
    let first = browser.text(READOUT);
    assert!(
        first.starts_with("rest.8. serial: from ") && first.contains("parallel: from "),
        "{first}"
    );
    browser.key("ArrowDown");
    assert!(browser.text(READOUT).starts_with("rest.7. "));

    find(&mut browser, "rest.3");
    let found = browser.text(READOUT);
    assert!(
        found.starts_with("rest.3. ") && found.contains("on the critical path"),
        "{found}"
    );
    assert_ne!(browser.text(VIEW), all);
    browser.eval("document.querySelector('canvas').focus()");
    browser.key("0");

    // Pointing at a bar tells whose it is.
    let (x, y) = middle(&mut browser, "canvas");
    browser.mouse("mouseMoved", x + 100.0, y - 40.0, json!({}));
    assert!(
        browser.text(READOUT).contains("took"),
        "{}",
        browser.text(READOUT)
    );

    browser.look(360, false);
    let (x, y) = middle(&mut browser, "canvas");
    browser.touch("touchStart", &[(x - 20.0, y), (x + 20.0, y)]);
    for far in [40.0, 60.0, 80.0] {
        browser.touch("touchMove", &[(x - far, y), (x + far, y)]);
    }
    browser.touch("touchEnd", &[]);
    assert_ne!(browser.text(VIEW), all);

    // The other phase, and other variants.
    browser.eval(
        "(() => { const p = document.querySelector('[data-use=phase]'); p.value = 1; \
         p.dispatchEvent(new Event('change')); })()",
    );
    browser.settle();
    assert!(browser.text(VIEW).starts_with("probe, "));
}

/// Text that is seen and has too little contrast, by WCAG 2.2's formula.
const PALE: &str = "(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const pale = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest('script, noscript')) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) pale.push(`${e.tagName} ${ratio.toFixed(2)} ${walk.currentNode.textContent.trim().slice(0, 40)}`);
  }
  return pale;
})()";

#[test]
#[ignore = "browser"]
fn fits_a_phone_and_is_legible_light_and_dark() {
    let dir = tempfile::tempdir().unwrap();
    let url = recorded(dir.path(), "shutdown-2018");
    let mut browser = Browser::start();
    let mut grounds = BTreeMap::new();
    for (width, dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
        browser.look(width, dark);
        browser.open(&url);
        let name = format!("{width}-{}.png", if dark { "dark" } else { "light" });
        browser.picture(&pictures().join(name));
        browser.eval("for (const d of document.querySelectorAll('details')) d.open = true");
        browser.settle();
        let scroll = browser.eval("[document.documentElement.scrollWidth, window.innerWidth]");
        assert!(
            scroll[0].as_u64() <= scroll[1].as_u64(),
            "{width}: {scroll}"
        );
        assert_eq!(browser.eval(PALE), json!([]), "{width} {dark}");
        let ground = browser.text("getComputedStyle(document.body).backgroundColor");
        grounds.insert(dark, ground);
    }
    assert_ne!(grounds[&false], grounds[&true]);
}

#[test]
#[ignore = "browser"]
fn everything_has_a_name_and_a_place_for_the_keyboard() {
    let dir = tempfile::tempdir().unwrap();
    let url = recorded(dir.path(), "shutdown-2018");
    let mut browser = Browser::start();
    wide(&mut browser, &url);
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let named = [
        "button",
        "combobox",
        "searchbox",
        "image",
        "img",
        "region",
        "link",
        "table",
        "figure",
        "group",
    ];
    let mut roles: BTreeMap<String, u32> = BTreeMap::new();
    for node in tree["nodes"].as_array().unwrap() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        if node["ignored"] == true || !named.contains(&role) {
            continue;
        }
        *roles.entry(role.into()).or_default() += 1;
        let name = node["name"]["value"].as_str().unwrap_or_default();
        // A figure of bars is its bars, each of which has a name.
        assert!(
            !name.is_empty() || role == "figure" || role == "group",
            "{node:#}"
        );
    }
    for role in ["button", "combobox", "searchbox", "table"] {
        assert!(roles.get(role).is_some_and(|n| *n > 0), "{role}: {roles:?}");
    }
    // From the top, by Tab alone, to the picture, and into it.
    let mut seen = Vec::new();
    for _ in 0..20 {
        browser.key("Tab");
        let tag = browser.text("document.activeElement.tagName");
        seen.push(tag.clone());
        if tag == "CANVAS" {
            break;
        }
    }
    assert_eq!(seen.last().map(String::as_str), Some("CANVAS"), "{seen:?}");
    let outline = browser.text("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid");
}

#[test]
#[ignore = "browser"]
fn ten_thousand_devices_open_and_can_be_zoomed_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let url = drawn(
        dir.path(),
        support::ten_thousand(),
        &support::Scripted::new(|t, _| Ok(support::many(t))),
    );
    let mut browser = Browser::start();
    browser.look(1280, false);
    println!("opened and drawn in {:?}", browser.open(&url));
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
    assert!(browser.text(VIEW).ends_with("devices 1 to 10000 of 10000"));
    browser.picture(&pictures().join("10000-devices.png"));
    let (x, y) = middle(&mut browser, "canvas");
    browser.mouse("mouseMoved", x, y - 60.0, json!({}));
    let group = browser.text(READOUT);
    assert!(group.contains(" devices at work "), "{group}");
    find(&mut browser, "disk.4242");
    let one = browser.text(READOUT);
    assert!(
        one.starts_with("disk.4242. ") && one.contains("took 100.0 ms"),
        "{one}"
    );
    let view = browser.text(VIEW);
    let (from, to) = view
        .rsplit_once("devices ")
        .unwrap()
        .1
        .split_once(" to ")
        .unwrap();
    let to = to.split(' ').next().unwrap();
    let rows = to.parse::<u32>().unwrap() - from.parse::<u32>().unwrap();
    assert!(rows < 30, "{view}");
    browser.picture(&pictures().join("10000-devices-zoomed.png"));
}
