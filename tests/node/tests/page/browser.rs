//! Headless Chromium, driven by its DevTools protocol.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_node_tests::Place;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Program names under which Chromium may be installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The time for whatever the browser or the page has to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    number: u64,
    faults: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Browser {
    pub(crate) fn start(place: &Place) -> Self {
        let found = BROWSERS.into_iter().find(|name| {
            Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success())
        });
        let browser =
            found.expect("Chromium is not installed: 'scripts/deps test-all' installs it");
        let profile = place.text("profile");
        let process = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--ignore-certificate-errors", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={profile}"))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The browser writes its port, and the path of its socket.
        let (port, path) = eventually("the port of the browser", || {
            let text = std::fs::read_to_string(format!("{profile}/DevToolsActivePort")).ok()?;
            let (port, path) = text.split_once('\n')?;
            Some((port.parse::<u16>().ok()?, path.to_owned()))
        });
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = tungstenite::client(url, stream).unwrap();
        let (session, faults) = (String::new(), Vec::new());
        let mut browser = Self { process, socket, session, number: 0, faults };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command, and returns its result.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut command = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        self.socket.send(Message::text(command.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let said: Value = serde_json::from_str(&text).unwrap();
            self.note(&said);
            if said["id"] == self.number {
                assert!(said.get("error").is_none(), "{method}: {said}");
                return said["result"].clone();
            }
        }
    }

    fn note(&mut self, said: &Value) {
        let entry = &said["params"]["entry"];
        match said["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.faults.push(said["params"].to_string()),
            Some("Log.entryAdded") if entry["level"] == "error" => {
                self.faults.push(entry["text"].to_string());
            }
            _ => {}
        }
    }

    /// Exceptions and errors that the browser has reported, except that a token was missing.
    pub(crate) fn faults(&mut self) -> Vec<String> {
        // An answer comes after what was reported before.
        self.run("0");
        let unlocked = |fault: &&String| !fault.contains("status of 401");
        self.faults.iter().filter(unlocked).cloned().collect()
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
        self.await_true("document.readyState === 'complete' && location.protocol === 'https:'");
    }

    /// Evaluates an expression.
    pub(crate) fn run(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.ask("Runtime.evaluate", asked);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    pub(crate) fn await_true(&mut self, expression: &str) {
        eventually(expression, || (self.run(expression) == true).then_some(()));
    }

    pub(crate) fn resize(&mut self, width: u32, is_dark: bool) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", features);
    }
}
