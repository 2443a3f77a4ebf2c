use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use nearflash_api::socket::socket_path;
use nearflash_api::{Request, parse_request};
use nearflash_units::ByteLen;
use serde_json::{Value, json};

use super::*;
use crate::new_volume::on_device;

/// The resources of a node that these tests change.
#[derive(Default)]
struct State {
    generation: u64,
    volumes: Vec<(String, u64)>,
    /// The changes that were refused because of their condition.
    refused: usize,
}

/// A node that has a device, and calls `also` after each of its answers.
struct Node {
    folder: tempfile::TempDir,
    state: Arc<Mutex<State>>,
}

impl Node {
    fn start(also: impl Fn(&str, &mut State) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = Arc::new(Mutex::new(State { generation: 5, ..State::default() }));
        let listener = UnixListener::bind(socket_path(folder.path())).unwrap();
        let served = Arc::clone(&state);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                let mut state = served.lock().unwrap();
                let request = parse_request(line.trim_end().as_bytes()).unwrap();
                let is_overtaken = request.if_generation.is_some_and(|it| it != state.generation);
                let answer = match is_overtaken {
                    true => state.refuse(),
                    false => json!({ "schema": 1, "answer": state.serve(&request.request) }),
                };
                also(request.request.name(), &mut state);
                writeln!(stream, "{answer}").unwrap();
            }
        });
        Self { folder, state }
    }

    /// Makes the volumes `a` and `b`, as planned on a generation.
    fn make(&self, generation: u64) -> (usize, End) {
        let volumes = ["a=1MiB@r", "b=2MiB@r"]
            .map(|it| on_device(&nearflash_config::parse_volume(it).unwrap()));
        let steps = volumes.clone().map(Step::VolumeCreate);
        let declared = Declared { volumes: volumes.into(), ..Declared::default() };
        make(self.folder.path(), (&declared, Permission::default()), (generation, &steps))
    }
}

impl State {
    fn refuse(&mut self) -> Value {
        self.refused += 1;
        let error = ApiError::new(ErrorCode::GenerationDiffers, "another generation");
        json!({ "schema": 1, "error": error })
    }

    fn serve(&mut self, request: &Request) -> Value {
        match request {
            Request::StatusShow(_) => json!({
                "version": "", "node": uuid::Uuid::nil(), "pid": 1, "uptime_seconds": 1, "nvme_tcp": [],
                "cores": [], "hosts": [], "generation": self.generation,
                "volumes": self.volumes.iter().map(volume).collect::<Vec<Value>>(),
                "devices": [{
                    "name": "r", "kind": "ram", "uuid": uuid::Uuid::nil(), "bytes": ByteLen(1 << 30).0,
                    "data_bytes": 0, "free_bytes": 0, "block_size": 512, "volatile_cache": false,
                }],
            }),
            Request::CredentialList(_) => json!({ "credentials": [] }),
            Request::GrantList(_) => json!({ "grants": [] }),
            Request::HostList(_) => json!({ "hosts": [] }),
            Request::ChapList(_) => json!({ "accounts": [] }),
            Request::VolumeCreate(call) => {
                self.add(&call.name, call.bytes);
                json!({ "volume": volume(&(call.name.clone(), call.bytes)) })
            }
            other => panic!("{} is not expected", other.name()),
        }
    }

    fn add(&mut self, name: &str, bytes: u64) {
        self.volumes.push((name.to_owned(), bytes));
        self.generation += 1;
    }
}

fn volume((name, bytes): &(String, u64)) -> Value {
    json!({
        "name": name, "nqn": format!("nqn.2026-11.io.nearflash:{name}"), "nsid": 1,
        "uuid": uuid::Uuid::nil(), "bytes": bytes, "block_size": 512, "device": "r",
    })
}

#[test]
fn a_plan_stops_when_another_command_changes_what_it_is_about() {
    let node = Node::start(|command, state| {
        if command == "volume-create" {
            state.add("b", 7 << 20);
        }
    });
    let (made, end) = node.make(5);
    assert!(made == 1 && matches!(end, End::Overtaken));
    assert_eq!(node.state.lock().unwrap().volumes.len(), 2, "the other command's volume stays");
}

#[test]
fn a_plan_on_an_old_state_is_not_begun_if_the_difference_is_another_one_now() {
    let node = Node::start(|_, _| ());
    node.state.lock().unwrap().add("a", 1 << 20);
    let (made, end) = node.make(5);
    assert!(made == 0 && matches!(end, End::Overtaken));
    assert_eq!(node.state.lock().unwrap().refused, 1);
}

#[test]
fn a_step_is_tried_again_when_the_change_of_another_does_not_concern_it() {
    let node = Node::start(|command, state| {
        // Behind the last call that reads the state.
        if command == "chap-list" && state.refused < 3 {
            state.generation += 1;
        }
    });
    let (made, end) = node.make(4);
    assert!(made == 2 && matches!(end, End::Made));
    assert_eq!(node.state.lock().unwrap().refused, 3);
}

#[test]
fn a_node_that_never_rests_ends_the_plan() {
    let node = Node::start(|_, state| state.generation += 1);
    let (made, end) = node.make(4);
    assert!(made == 0 && matches!(end, End::Overtaken));
    assert_eq!(node.state.lock().unwrap().refused, TRIES_MAX + 1);
}
