// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real browser, driven over the DevTools protocol.
//!
//! Chromium speaks it on two pipes, as JSON texts that a NUL ends: no port, no web socket, and
//! it ends with us. That is why there is no crate for it here: those that know the protocol
//! bring a client of HTTP, TLS and an archive reader along.
#![allow(dead_code, missing_docs)]

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bootrig::edge::host::browser;
use serde_json::{Value, json};

/// A loaded machine is slow to start a browser.
const LIMIT: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    /// What it told unasked.
    pub events: Vec<Value>,
    _home: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let program = browser().expect("no Chromium here; `cargo xtask test --yes` installs it");
        let home = tempfile::tempdir().unwrap();
        // The protocol's pipes are the descriptors 3 and 4.
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                "sh",
            ])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-first-run"])
            .args(["--disable-gpu", "--disable-background-networking"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        let mut child = command.arg("about:blank").spawn().unwrap();
        let (send, output) = channel();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut text = Vec::new();
            while pipe.read_until(0, &mut text).is_ok_and(|n| n > 0) {
                let json = text.strip_suffix(b"\0").unwrap_or(&text);
                if send.send(serde_json::from_slice(json).unwrap()).is_err() {
                    break;
                }
                text.clear();
            }
        });
        let mut browser = Self {
            input: child.stdin.take().unwrap(),
            child,
            output,
            session: None,
            calls: 0,
            events: Vec::new(),
            _home: home,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol, and waits for its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        write!(self.input, "{message}\0").unwrap();
        self.input.flush().unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn next(&mut self) -> Value {
        let next = self.output.recv_timeout(LIMIT);
        next.expect("the browser is silent")
    }

    /// Opens a page and waits until it is loaded and drawn; how long that took.
    pub fn open(&mut self, url: &str) -> Duration {
        self.events.clear();
        let start = Instant::now();
        self.call("Page.navigate", json!({"url": url}));
        while !self.told("Page.loadEventFired") {
            let event = self.next();
            self.events.push(event);
        }
        self.settle();
        start.elapsed()
    }

    /// Waits until what was changed is drawn.
    pub fn settle(&mut self) {
        self.eval(
            "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))",
        );
    }

    fn told(&self, method: &str) -> bool {
        self.events.iter().any(|e| e["method"] == method)
    }

    /// The value of a script's expression.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        let wrong = &result["exceptionDetails"];
        assert!(wrong.is_null(), "{expression}: {wrong}");
        result["result"]["value"].clone()
    }

    pub fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap().to_owned()
    }

    /// A window of that width, light or dark.
    pub fn look(&mut self, width: u32, dark: bool) {
        let phone = width < 500;
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call(
            "Emulation.setTouchEmulationEnabled",
            json!({"enabled": phone}),
        );
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.settle();
    }

    /// Errors and warnings that the page, its policy or the browser had to say.
    pub fn complaints(&self) -> Vec<&Value> {
        let is = |e: &&Value| match e["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].contains(&e["params"]["type"].as_str().unwrap())
            }
            Some("Log.entryAdded") => {
                ["error", "warning"].contains(&e["params"]["entry"]["level"].as_str().unwrap())
            }
            _ => false,
        };
        self.events.iter().filter(is).collect()
    }

    /// What was asked for since the page was opened.
    pub fn requests(&self) -> Vec<&str> {
        let sent = self.events.iter();
        let sent = sent.filter(|e| e["method"] == "Network.requestWillBeSent");
        sent.map(|e| e["params"]["request"]["url"].as_str().unwrap())
            .collect()
    }

    /// The whole page as a picture.
    pub fn picture(&mut self, path: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}));
        let size = &size["cssContentSize"];
        let clip =
            json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", params);
        let bytes = BASE64_STANDARD.decode(picture["data"].as_str().unwrap());
        std::fs::write(path, bytes.unwrap()).unwrap();
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({"type": kind, "key": key});
            if kind == "keyDown" && key.len() == 1 {
                params["text"] = key.into();
            }
            if key == "Enter" {
                params["windowsVirtualKeyCode"] = 13.into();
                params["text"] = "\r".into();
            }
            if key == "Tab" {
                params["windowsVirtualKeyCode"] = 9.into();
            }
            self.call("Input.dispatchKeyEvent", params);
        }
        self.settle();
    }

    pub fn mouse(&mut self, kind: &str, x: f64, y: f64, more: Value) {
        let mut params = json!({"type": kind, "x": x, "y": y});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.call("Input.dispatchMouseEvent", params);
        self.settle();
    }

    pub fn touch(&mut self, kind: &str, points: &[(f64, f64)]) {
        let points: Vec<_> = points
            .iter()
            .enumerate()
            .map(|(id, (x, y))| json!({"x": x, "y": y, "id": id}))
            .collect();
        self.call(
            "Input.dispatchTouchEvent",
            json!({"type": kind, "touchPoints": points}),
        );
        self.settle();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked, it ends all that it started; the session would be gone with it.
        let _ = write!(
            self.input,
            "{}\0",
            json!({"id": 0, "method": "Browser.close"})
        );
        let _ = self.input.flush();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where pictures are kept to be looked at.
pub fn pictures() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("report");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
