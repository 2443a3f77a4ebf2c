//! The interface over a node of a few lines: requests as bytes, over a real socket.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nearflash_api::{
    ApiError, CredentialInfo, Document, ErrorCode, JobInfo, JobState, Jobs, NewCredential, OneJob,
    OneVolume, Request, SecretText, TokenScope, VolumeCreate, VolumeDetail, VolumeInfo,
    VolumeLayout, Volumes,
};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::*;
use crate::body::BODY_LEN_MAX;

/// The number of the job that a volume larger than this needs.
const JOB: u64 = 7;
const LARGE: u64 = 1 << 30;

type Tell = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Fake {
    volumes: Mutex<BTreeMap<String, VolumeInfo>>,
    generation: AtomicU64,
    is_over: AtomicU64,
    tell: Mutex<Option<Tell>>,
    refused: Mutex<Vec<String>>,
}

impl Fake {
    fn job(&self) -> JobInfo {
        let is_over = self.is_over.load(Ordering::SeqCst) != 0;
        JobInfo {
            id: JOB,
            kind: "volume-create".to_owned(),
            volume: "large".to_owned(),
            state: if is_over { JobState::Done } else { JobState::Running },
            waits_for: Vec::new(),
            done_bytes: 0,
            total_bytes: LARGE,
            started_at: 1,
            ended_at: None,
            error: None,
        }
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        if let Some(tell) = &*self.tell.lock().unwrap() {
            tell();
        }
    }

    fn end_job(&self) {
        self.is_over.store(1, Ordering::SeqCst);
        self.changed();
    }

    fn create(&self, call: VolumeCreate) -> Result<OneVolume, ApiError> {
        let mut volumes = self.volumes.lock().unwrap();
        if volumes.contains_key(&call.name) {
            return Err(ApiError::new(ErrorCode::VolumeExists, "it exists"));
        }
        let job = (call.bytes > LARGE).then(|| self.job());
        let volume = VolumeInfo {
            nqn: format!("nqn.2026-11.io.nearflash:{}", call.name),
            nsid: 1,
            uuid: uuid::Uuid::nil(),
            bytes: call.bytes,
            block_size: 512,
            device: call.device.unwrap_or_default(),
            provisioning: "thin".to_owned(),
            job: job.as_ref().map(|job| job.id),
            state: None,
            files: None,
            name: call.name,
        };
        volumes.insert(volume.name.clone(), volume.clone());
        drop(volumes);
        self.changed();
        Ok(OneVolume { volume, job, note: None })
    }

    fn show(&self, name: &str) -> Result<VolumeInfo, ApiError> {
        let found = self.volumes.lock().unwrap().get(name).cloned();
        found.ok_or_else(|| ApiError::new(ErrorCode::VolumeNotFound, "there is none"))
    }
}

/// The layout of a volume that was created without a device.
fn layout() -> VolumeLayout {
    VolumeLayout {
        replicas: 2,
        stripe_unit: 65536,
        width: 3,
        placement: "spread".to_owned(),
        space_bytes: 0,
        zeroed_bytes: 0,
        mirrors: Vec::new(),
    }
}

fn text(answer: impl Serialize) -> Zeroizing<String> {
    Zeroizing::new(Document::new(answer).to_line())
}

impl Face for Fake {
    fn serve(
        &self,
        request: Request,
        expected: Option<u64>,
    ) -> Result<Zeroizing<String>, ApiError> {
        if expected.is_some_and(|expected| expected != self.generation()) {
            return Err(ApiError::new(ErrorCode::GenerationDiffers, "another"));
        }
        Ok(match request {
            Request::VolumeCreate(call) => text(self.create(call)?),
            Request::VolumeList(_) => {
                let volumes = self.volumes.lock().unwrap().values().cloned().collect();
                text(Volumes { volumes })
            }
            Request::VolumeShow(call) => {
                let volume = self.show(&call.name)?;
                let layout = volume.device.is_empty().then(layout);
                text(VolumeDetail { volume, layout })
            }
            Request::VolumeRemove(call) => {
                let volume = self.show(&call.name)?;
                self.volumes.lock().unwrap().remove(&call.name);
                self.changed();
                text(OneVolume { volume, job: None, note: None })
            }
            Request::JobShow(_) => text(OneJob { job: self.job() }),
            Request::JobList(_) => text(Jobs { jobs: vec![self.job()] }),
            Request::CredentialCreate(call) => {
                let credential =
                    CredentialInfo { id: call.id, expires_at: None, expired: false, grants: 0 };
                text(NewCredential {
                    unconfirmed: Vec::new(),
                    credential,
                    secret: SecretText("geheim".to_owned()),
                })
            }
            other => panic!("no test makes {other:?}"),
        })
    }

    fn metrics(&self) -> String {
        "# EOF\n".to_owned()
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn bearer(&self, secret: &str) -> Option<Bearer> {
        let scope: TokenScope = secret.parse().ok()?;
        Some(Bearer { name: format!("t-{scope}"), scope })
    }

    fn refused(&self, refused: &crate::RefusedCaller<'_>) {
        let crate::RefusedCaller { who, what, reason, .. } = refused;
        let line = format!("{} '{who}' '{what}'", reason.as_str());
        self.refused.lock().unwrap().push(line);
    }

    fn on_change(&self, tell: Tell) {
        *self.tell.lock().unwrap() = Some(tell);
    }
}

/// A running server; dropping it stops it.
struct Served {
    folder: TempDir,
    fake: Arc<Fake>,
    server: Option<HttpServer>,
    network: Option<(std::net::SocketAddr, Arc<rustls::ClientConfig>)>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.take().unwrap().stop();
    }
}

impl Served {
    fn locally() -> Self {
        Self::start(None)
    }

    fn over_tls() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self::start(Some((made.cert.pem(), made.signing_key.serialize_pem())))
    }

    fn start(pair: Option<(String, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let local = UnixListener::bind(folder.path().join("http.sock")).unwrap();
        let mut listeners = Listeners { local: Some(local), network: None };
        let mut network = None;
        if let Some((cert, key)) = pair {
            let paths = [folder.path().join("cert.pem"), folder.path().join("key.pem")];
            std::fs::write(&paths[0], &cert).unwrap();
            std::fs::write(&paths[1], key).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            network = Some((listener.local_addr().unwrap(), trusting(&cert)));
            let certified = Certified::read(&paths[0], &paths[1], Instant::now()).unwrap();
            listeners.network = Some((listener, certified));
        }
        let fake = Arc::new(Fake::default());
        let face: Arc<dyn Face> = fake.clone();
        let server = Some(HttpServer::start(listeners, face).unwrap());
        Self { folder, fake, server, network }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("http.sock")).unwrap()
    }

    fn send(&self, request: &str) -> Response {
        exchange(self.connect(), request)
    }

    fn get(&self, path: &str) -> Response {
        self.send(&written("GET", path, "", ""))
    }

    fn post(&self, path: &str, body: &str) -> Response {
        self.send(&written("POST", path, "", body))
    }

    /// A request over TLS, with these headers.
    fn securely(&self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        exchange(self.secured(), &written(method, path, headers, body))
    }

    fn secured(&self) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
        let (address, config) = self.network.clone().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let session = rustls::ClientConnection::new(config, name).unwrap();
        rustls::StreamOwned::new(session, TcpStream::connect(address).unwrap())
    }
}

fn trusting(cert: &str) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let cert = rustls::pki_types::CertificateDer::from_pem_slice(cert.as_bytes()).unwrap();
    roots.add(cert).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

fn written(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn exchange(mut stream: impl Read + Write, request: &str) -> Response {
    // A server that refuses a request may close before it has read all of it.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    // The end of a TLS stream can be an abrupt one.
    let _ = stream.read_to_end(&mut bytes);
    Response(String::from_utf8(bytes).unwrap())
}

struct Response(String);

impl Response {
    fn status(&self) -> u16 {
        let status = self.0.split(' ').nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{:?}", self.0))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let (head, _) = self.0.split_once("\r\n\r\n").unwrap();
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").unwrap().1
    }

    fn json(&self) -> Value {
        serde_json::from_str(self.body()).unwrap_or_else(|error| panic!("{error}: {}", self.0))
    }

    fn code(&self) -> (u16, String) {
        let code = self.json()["error"]["code"].as_str().unwrap_or("-").to_owned();
        (self.status(), code)
    }
}

const DATA: &str = r#"{"name":"data","bytes":4096,"device":"flash"}"#;

#[test]
fn a_volume_is_created_listed_shown_and_removed() {
    let served = Served::locally();
    let made = served.post("/v1/volumes", DATA);
    assert_eq!((made.status(), made.header("location")), (201, Some("/v1/volumes/data")));
    assert_eq!(made.json()["volume"]["bytes"], 4096);
    let all = served.get("/v1/volumes");
    assert_eq!((all.status(), all.header("etag")), (200, Some("\"1\"")));
    assert_eq!(all.header("cache-control"), Some("no-store"));
    assert_eq!(all.json()["schema"], 1);
    assert_eq!(all.json()["volumes"][0]["name"], "data");
    assert_eq!(served.get("/v1/volumes/d%61ta").json()["volume"]["name"], "data");
    let gone = served.send(&written("DELETE", "/v1/volumes/data?force=true", "", ""));
    assert_eq!(gone.status(), 200);
    assert_eq!(served.get("/v1/volumes/data").code(), (404, "volume-not-found".to_owned()));
}

#[test]
fn integers_may_have_a_fraction_of_zero_and_no_other() {
    let served = Served::locally();
    let with = |bytes: &str| {
        let body = format!(r#"{{"name":"data","bytes":{bytes},"device":"flash"}}"#);
        served.post("/v1/volumes", &body)
    };
    for bytes in ["4096.5", "-4096.0", "9007199254740992.0", "1e300", "\"4096\""] {
        let refused = with(bytes);
        assert_eq!(refused.code(), (400, "invalid-request".to_owned()), "{bytes}");
    }
    for bytes in ["4096.0", "4.096e3", "4096"] {
        assert_eq!(with(bytes).json()["volume"]["bytes"], 4096, "{bytes}");
    }
}

#[test]
fn the_same_volume_again_is_no_error_and_another_of_its_name_is() {
    let served = Served::locally();
    assert_eq!(served.post("/v1/volumes", DATA).status(), 201);
    let again = served.post("/v1/volumes", DATA);
    assert_eq!((again.status(), again.header("location")), (200, Some("/v1/volumes/data")));
    assert_eq!(again.json()["volume"]["name"], "data");
    for other in [
        r#"{"name":"data","bytes":8192,"device":"flash"}"#,
        r#"{"name":"data","bytes":4096,"device":"other"}"#,
        r#"{"name":"data","bytes":4096,"device":"flash","block_size":4096}"#,
        r#"{"name":"data","bytes":4096,"device":"flash","subsystem":"other"}"#,
        r#"{"name":"data","bytes":4096,"device":"flash","provisioning":"thick"}"#,
        r#"{"name":"data","bytes":4096,"replicas":1}"#,
        r#"{"name":"data","bytes":4096,"placement":"spread"}"#,
    ] {
        let refused = served.post("/v1/volumes", other);
        assert_eq!(refused.code(), (409, "volume-exists".to_owned()), "{other}");
    }
}

#[test]
fn a_volume_of_a_cluster_has_the_same_body_and_may_say_less_when_it_is_repeated() {
    let served = Served::locally();
    let post = |rest: &str| {
        let body = format!(r#"{{"name":"data","bytes":4096{rest}}}"#);
        served.post("/v1/volumes", &body)
    };
    assert_eq!(post("").status(), 201);
    let same = [
        "",
        r#","replicas":2"#,
        r#","stripe_unit":65536,"width":3"#,
        r#","placement":"spread","replicas":2"#,
    ];
    for rest in same {
        let again = post(rest);
        assert_eq!(again.status(), 200, "{rest}: {}", again.body());
    }
    let others = [
        r#","replicas":1"#,
        r#","stripe_unit":4096"#,
        r#","width":2"#,
        r#","placement":"central:n1""#,
        r#","device":"flash""#,
    ];
    for rest in others {
        assert_eq!(post(rest).code(), (409, "volume-exists".to_owned()), "{rest}");
    }
}

#[test]
fn long_work_is_a_job_that_a_request_can_wait_for() {
    let served = Served::locally();
    let large = format!(r#"{{"name":"large","bytes":{},"device":"flash"}}"#, 2 * LARGE);
    let made = served.post("/v1/volumes", &large);
    assert_eq!((made.status(), made.header("location")), (202, Some("/v1/jobs/7")));
    let running = served.get("/v1/jobs/7?wait=0");
    assert_eq!(running.json()["job"]["state"], "running");
    let over = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| served.get("/v1/jobs/7?wait=60"));
        served.fake.end_job();
        waiting.join().unwrap()
    });
    assert_eq!(over.json()["job"]["state"], "done");
}

#[test]
fn a_change_with_the_tag_of_an_older_state_has_no_effect() {
    let served = Served::locally();
    served.post("/v1/volumes", DATA);
    let tag = served.get("/v1/volumes/data").header("etag").unwrap().to_owned();
    served.fake.changed();
    let removed = |tag: &str| {
        let header = format!("If-Match: {tag}\r\n");
        served.send(&written("DELETE", "/v1/volumes/data", &header, ""))
    };
    assert_eq!(removed(&tag).code(), (412, "generation-differs".to_owned()));
    assert_eq!(served.get("/v1/volumes/data").status(), 200);
    for bad in ["data", "\"x\"", "W/\"2\"", "\"2\", \"3\""] {
        assert_eq!(removed(bad).status(), 400, "{bad}");
    }
    let tag = served.get("/v1/volumes/data").header("etag").unwrap().to_owned();
    assert_eq!(removed(&tag).status(), 200);
}

#[test]
fn requests_that_are_not_documented_are_refused_in_one_line() {
    let served = Served::locally();
    let message = |response: &Response| response.json()["error"]["message"].to_string();
    for (response, status, text) in [
        (served.get("/v2/volumes"), 404, "there is no such path"),
        (served.send(&written("PUT", "/v1/volumes", "", "")), 405, "does not have this method"),
        (served.get("/v1/volumes?sort=name"), 400, "unknown parameter 'sort'"),
        (served.get("/v1/jobs/seven"), 400, "'id' is a number"),
        (served.get("/v1/jobs/+7"), 400, "'id' is a number"),
        (served.get("/v1/jobs/7?wait=1&wait=2"), 400, "'wait' is given twice"),
        (served.get("/v1/grants?credential=%ff"), 400, "'credential' is not UTF-8"),
        (served.post("/v1/volumes", "hello"), 400, "the body is invalid"),
        (served.post("/v1/volumes", "[]"), 400, "the body is invalid"),
        (served.post("/v1/volumes", "{}"), 400, "missing field `name`"),
        (served.post("/v1/volumes", r#"{"schema":2}"#), 400, "the body needs schema 1"),
        (served.post("/v1/volumes", r#"{"name":"x","colour":1}"#), 400, "unknown field `colour`"),
        (served.post("/v1/volumes", r#"{"command":"status"}"#), 400, "unknown field `command`"),
        (served.post("/v1/devices/flash/clear", "{}"), 400, "this request has no body"),
        (
            served.send(&written("PATCH", "/v1/volumes/a", "", r#"{"name":"b","bytes":1}"#)),
            400,
            "'name' is in the path",
        ),
    ] {
        assert_eq!(response.status(), status, "{}", response.0);
        assert!(message(&response).contains(text), "{}", response.0);
        assert_eq!(response.body().lines().count(), 1);
    }
    let head = served.send(&written("PUT", "/v1/volumes", "", ""));
    assert!(head.header("allow").is_some_and(|allow| allow.contains("POST")), "{}", head.0);
}

#[test]
fn heads_and_bodies_have_a_maximum_length() {
    let served = Served::locally();
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(BODY_LEN_MAX));
    assert_eq!(served.post("/v1/volumes", &long).status(), 413);
    let header = format!("X: {}\r\n", "x".repeat(64 << 10));
    assert_eq!(served.send(&written("GET", "/v1/volumes", &header, "")).status(), 431);
    assert_eq!(served.get("/v1/volumes").status(), 200);
}

#[test]
fn peers_that_say_nothing_do_not_stop_others() {
    let served = Served::over_tls();
    let (address, _) = served.network.clone().unwrap();
    // As many as the network may have, and a few that begin requests on this machine.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut begun: Vec<UnixStream> = (0..8).map(|_| served.connect()).collect();
    for stream in &mut begun {
        stream.write_all(b"POST /v1/volumes HTTP/1.1\r\nContent-Length: 9\r\n").unwrap();
    }
    assert_eq!(served.get("/healthz").body(), "ok\n");
    drop(silent);
}

#[test]
fn strangers_do_not_keep_a_caller_with_a_token_out() {
    let served = Served::over_tls();
    let (address, _) = served.network.clone().unwrap();
    let health = "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";
    let strangers: Vec<_> = (0..100)
        .map(|number| {
            let mut stream = served.secured();
            stream.write_all(health.as_bytes()).unwrap();
            (number % 2 == 0).then_some(stream)
        })
        .collect();
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let token = "Authorization: Bearer read\r\n";
    let answer = served.securely("GET", "/v1/volumes", token, "");
    assert_eq!((answer.status(), answer.header("connection")), (200, Some("close")));
    // The operator learns why.
    let refused = served.fake.refused.lock().unwrap().clone();
    assert!(refused.contains(&"limit '' ''".to_owned()), "{refused:?}");
    drop((strangers, silent));
}

#[test]
fn a_connection_without_a_token_ends_with_its_first_response() {
    let served = Served::over_tls();
    let request = |token: &str| format!("GET /healthz HTTP/1.1\r\nHost: node\r\n{token}\r\n");
    let once = exchange(served.secured(), &request("").repeat(3));
    assert_eq!(once.0.matches("HTTP/1.1 200").count(), 1, "{}", once.0);
    assert_eq!(once.header("strict-transport-security"), Some("max-age=31536000"));
    let listed = "GET /v1/volumes HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer read\r\n";
    let both = format!("{listed}\r\n{listed}Connection: close\r\n\r\n");
    let answers = exchange(served.secured(), &both);
    assert_eq!(answers.0.matches("HTTP/1.1 200").count(), 2, "{}", answers.0);
}

#[test]
fn a_request_has_one_host_and_a_client_may_end_its_half() {
    let served = Served::locally();
    let get =
        |headers: &str| format!("GET /healthz HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    for wrong in ["", "Host: node\r\nHost: node\r\n", "Host: a b\r\n", "Host: node:x\r\n"] {
        assert_eq!(served.send(&get(wrong)).status(), 400, "{wrong:?}");
    }
    assert_eq!(served.send("GET /healthz HTTP/1.0\r\n\r\n").status(), 200);
    let mut stream = served.connect();
    stream.write_all(get("Host: node\r\n").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn the_network_needs_a_token_whose_scope_suffices() {
    let served = Served::over_tls();
    let with = |secret: &str, method: &str, path: &str, body: &str| {
        let header = format!("Authorization: Bearer {secret}\r\n");
        served.securely(method, path, &header, body)
    };
    assert_eq!(served.securely("GET", "/healthz", "", "").body(), "ok\n");
    for path in ["/v1/volumes", "/v1/events", "/openapi.json", "/v1/jobs/1?wait=1"] {
        let refused = served.securely("GET", path, "", "");
        assert_eq!(refused.code(), (401, "token-refused".to_owned()), "{path}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        assert_eq!(with("wrong", "GET", path, "").status(), 401, "{path}");
    }
    let basic = served.securely("GET", "/v1/volumes", "Authorization: Basic cmVhZA==\r\n", "");
    assert_eq!(basic.status(), 401);
    assert_eq!(with("read", "GET", "/v1/volumes", "").status(), 200);
    let refused = with("read", "POST", "/v1/volumes", DATA);
    assert_eq!(refused.code(), (403, "scope-missing".to_owned()));
    assert_eq!(with("operate", "POST", "/v1/volumes", DATA).status(), 201);
    assert_eq!(with("operate", "DELETE", "/v1/volumes/data", "").status(), 403);
    let shrink = r#"{"bytes":512,"shrink":true}"#;
    assert_eq!(with("operate", "PATCH", "/v1/volumes/data", shrink).status(), 403);
    assert_eq!(with("operate", "POST", "/v1/credentials", r#"{"id":"a"}"#).status(), 403);
    // Both can lose data of others.
    assert_eq!(with("operate", "DELETE", "/v1/reservations/data", "").status(), 403);
    assert_eq!(with("operate", "POST", "/v1/devices/flash/clear", "").status(), 403);
    assert_eq!(with("admin", "POST", "/v1/credentials", r#"{"id":"a"}"#).status(), 201);
    assert_eq!(with("admin", "DELETE", "/v1/volumes/data", "").status(), 200);
}

/// Reads a stream of events until it has this text.
fn read_until(stream: &mut UnixStream, text: &str) -> String {
    let mut all = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert_ne!(count, 0, "the stream ended: {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&part[..count]);
        let seen = String::from_utf8_lossy(&all).into_owned();
        if seen.contains(text) {
            return seen;
        }
    }
}

#[test]
fn events_begin_with_the_present_and_tell_changes_and_the_end_of_jobs() {
    let served = Served::locally();
    let mut stream = served.connect();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let first = read_until(&mut stream, "\"state\":\"running\"");
    assert!(first.contains("text/event-stream"), "{first}");
    assert!(first.contains("event: state\ndata: {\"schema\":1,\"generation\":0}\n\n"), "{first}");
    served.post("/v1/volumes", DATA);
    let next = read_until(&mut stream, "event: state\n");
    assert!(!next.contains("event: job"), "the job has not changed: {next}");
    served.fake.end_job();
    read_until(&mut stream, "\"state\":\"done\"");
    // The end of the node ends the stream.
    drop(served);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

#[test]
fn a_stream_of_events_too_many_is_refused() {
    let served = Served::locally();
    let open = || {
        let mut stream = served.connect();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        read_until(&mut stream, "\r\n\r\n");
        stream
    };
    let _open: Vec<UnixStream> = (0..events::STREAMS_MAX).map(|_| open()).collect();
    let refused = served.get("/v1/events");
    assert_eq!(refused.code(), (503, "busy".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(served.get("/v1/volumes").status(), 200);
}

#[test]
fn the_document_of_the_interface_is_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let document = openapi_document();
    if std::env::var_os("WRITE_OPENAPI").is_some() {
        std::fs::write(path, &document).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let remedy = "WRITE_OPENAPI=1 cargo test -p nearflash-rest document_of_the_interface";
    assert!(found == document, "docs/openapi.json differs: write it with '{remedy}'");
    let served = Served::locally();
    assert!(served.get("/openapi.json").body() == found);
}

#[test]
fn the_metrics_are_text_of_openmetrics_and_need_a_token_on_the_network() {
    let served = Served::over_tls();
    let answer = served.get("/metrics");
    assert_eq!(answer.body(), "# EOF\n");
    let media_type = answer.header("content-type").unwrap();
    assert!(media_type.starts_with("application/openmetrics-text; version=1.0.0"), "{media_type}");
    assert_eq!(served.securely("GET", "/metrics", "", "").status(), 401);
    let header = "Authorization: Bearer read\r\n";
    assert_eq!(served.securely("GET", "/metrics", header, "").body(), "# EOF\n");
}

#[test]
fn the_page_needs_no_token_and_loads_nothing_from_elsewhere() {
    let served = Served::over_tls();
    for (path, media_type) in
        [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")]
    {
        let answer = served.securely("GET", path, "", "");
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(media_type), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"), "{policy}");
        let body = answer.body().replace("http://www.w3.org/2000/svg", "");
        assert!(!body.contains("http:") && !body.contains("https:"), "{path}");
        assert!(!body.contains("innerHTML"), "{path} sets text as markup");
    }
}

#[test]
fn another_site_changes_nothing_through_a_forwarded_port() {
    let served = Served::locally();
    let origin = "Origin: https://evil.example\r\n";
    for path in ["/v1/volumes", "/v1/credentials"] {
        let refused = served.send(&written("POST", path, origin, DATA));
        assert_eq!(refused.status(), 403, "{}", refused.0);
    }
    let rebound =
        written("GET", "/v1/volumes", "", "").replace("Host: localhost", "Host: evil.example");
    assert_eq!(served.send(&rebound).status(), 403);
    assert_eq!(served.get("/v1/volumes").json()["volumes"].as_array().unwrap().len(), 0);
}

#[test]
fn every_call_has_a_route() {
    // A request for a job waits by itself.
    let routed: Vec<&str> = routes::ROUTES.iter().map(|route| route.call).collect();
    // The path of the metrics is the one that Prometheus expects.
    let elsewhere = ["job-wait", "metrics-show"];
    let missing: Vec<&&str> = Request::NAMES
        .iter()
        .filter(|name| !routed.contains(*name) && !elsewhere.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let of_unknown: Vec<&&str> =
        routed.iter().filter(|name| !Request::NAMES.contains(*name)).collect();
    assert!(of_unknown.is_empty(), "{of_unknown:?}");
}

#[test]
fn every_reference_of_the_document_leads_to_its_component() {
    let document: Value = serde_json::from_str(&openapi_document()).unwrap();
    let text = document.to_string();
    for part in text.split("\"$ref\":\"#").skip(1) {
        let path = part.split('"').next().unwrap();
        assert!(document.pointer(path).is_some(), "{path}");
    }
    let mut ids = std::collections::HashSet::new();
    let paths = document["paths"].as_object().unwrap().values();
    for operation in paths.flat_map(|path| path.as_object().unwrap().values()) {
        assert!(ids.insert(operation["operationId"].to_string()), "{operation}");
    }
}

#[test]
fn a_refused_caller_is_told_with_what_it_asked_for_and_why() {
    let served = Served::over_tls();
    let token = |secret: &str| format!("Authorization: Bearer {secret}\r\n");
    assert_eq!(served.securely("GET", "/v1/volumes", &token("wrong"), "").status(), 401);
    assert_eq!(served.securely("GET", "/metrics", "", "").status(), 401);
    assert_eq!(served.securely("POST", "/v1/volumes", &token("read"), DATA).status(), 403);
    assert_eq!(served.securely("GET", "/v1/volumes", &token("read"), "").status(), 200);
    let (address, _) = served.network.clone().unwrap();
    let _ = exchange(TcpStream::connect(address).unwrap(), "GET / HTTP/1.1\r\n\r\n");
    let refused = || served.fake.refused.lock().unwrap().join("\n");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !refused().contains("tls") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let expected = [
        "not-proved '' '/v1/volumes'",
        "not-proved '' '/metrics'",
        "scope 'token t-read' 'volume-create data'",
        "tls '' ''",
    ];
    assert_eq!(refused(), expected.join("\n"));
}
