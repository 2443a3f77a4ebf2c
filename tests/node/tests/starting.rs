//! Starts that are refused, with a message of one line that names the thing and the remedy, and an
//! exit code that distinguishes a wrong configuration (2) from a system that is not ready (1).
//! Other nodes are not affected.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nearflash_node_tests::{Node, Place, Refusal, assert_serves, nearflash, refused};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

const RAM: [&str; 4] = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r"];

/// A start in this directory, on a port of its own, with these flags.
fn refused_start(place: &Place, flags: &[&str]) -> Refusal {
    let data_dir = place.data_dir();
    let first = ["serve", "--nvme-tcp", "127.0.0.1:0", "--data-dir", &data_dir];
    let Refusal { message, code } = refused(&[&first, flags].concat());
    Refusal { message: place.anonymous(&message), code }
}

fn refusal(code: i32, message: &str) -> Refusal {
    Refusal { message: message.to_owned(), code }
}

#[test]
fn a_data_directory_of_another_node_is_refused_by_its_process() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let expected = format!(
        "data directory DIR/data is in use by another node (process {}): stop that node, or choose \
         another directory with --data-dir",
        node.pid()
    );
    assert_eq!(refused_start(&place, &RAM), refusal(1, &expected));
    assert_serves(&node);
}

#[test]
fn a_device_of_another_node_is_refused() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let device = place.flash("16MiB");
    let node = Node::start(&place, &["--device", &device, "--volume", "data=8MiB@flash"]);
    let Refusal { message, code } = refused_start(&elsewhere, &["--device", &device]);
    let expected = format!(
        "device 'flash': DIR/flash.img is in use by process {} (nearflash): stop it first",
        node.pid()
    );
    assert_eq!((place.anonymous(&message), code), (expected, 1));
    assert_serves(&node);
}

#[test]
fn the_same_node_twice_is_refused_as_such_and_not_for_its_address() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let address = node.ready().nvme_tcp[0].to_string();
    let expected = format!(
        "data directory DIR/data is in use by another node (process {}): stop that node, or choose \
         another directory with --data-dir",
        node.pid()
    );
    let flags = [&RAM[..], &["--nvme-tcp", &address]].concat();
    assert_eq!(refused_start(&place, &flags), refusal(1, &expected));
    assert_serves(&node);
}

#[test]
fn a_signal_ends_a_start_that_waits_for_a_dead_node() {
    let place = Place::new();
    let device = place.flash("16MiB");
    drop(Node::start(&place, &["--device", &device])); // kills it
    // As the killed process does while its last operations are under way.
    let lock = std::fs::File::open(place.path("data/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let mut start = Command::new(nearflash())
            .args(["serve", "--nvme-tcp", "127.0.0.1:0", "--data-dir", &place.data_dir()])
            .args(["--device", &device])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(start.stderr.take().unwrap());
        assert!(log.lines().any(|line| line.unwrap().contains("waiting until process")));
        kill_process(Pid::from_child(&start), signal).unwrap();
        assert_eq!(start.wait().unwrap().signal(), Some(signal.as_raw()));
    }
    drop(lock);
    Node::start(&place, &["--device", &device]).terminate();
}

#[test]
fn a_file_is_refused_as_a_second_device() {
    let place = Place::new();
    let (device, path) = (place.flash("16MiB"), place.text("./flash.img"));
    let again = format!("again=file:{path},size=16MiB");
    let expected = "device 'again': DIR/./flash.img is device 'flash', too: name it once";
    assert_eq!(
        refused_start(&place, &["--device", &device, "--device", &again]),
        refusal(1, expected)
    );
    assert!(!place.path("flash.img").exists(), "nothing was touched");
}

#[test]
fn a_port_in_use_is_refused_with_another_to_choose() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = address.to_string();
    let flags = [&RAM[..], &["--nvme-tcp", &text]].concat();
    let expected = format!(
        "--nvme-tcp {address}: Address already in use (os error 98): another program is \
         listening there: stop it, or choose another port (0 selects a free one)"
    );
    assert_eq!(refused_start(&place, &flags), refusal(1, &expected));
    assert!(!Path::new(&place.data_dir()).exists(), "nothing was touched");
}

#[test]
fn a_device_file_shorter_than_the_catalog_says_is_refused() {
    let place = Place::new();
    let device = place.flash("16MiB");
    Node::start(&place, &["--device", &device, "--volume", "data=8MiB@flash"]).terminate();
    let file = std::fs::OpenOptions::new().write(true).open(place.path("flash.img")).unwrap();
    file.set_len(8 << 20).unwrap();
    let device = format!("flash=file:{}", place.text("flash.img"));
    let expected = "device 'flash': DIR/flash.img is 8MiB long, shorter than the 16MiB in the \
                    catalog: restore the missing part before starting";
    assert_eq!(refused_start(&place, &["--device", &device]), refusal(1, expected));
    std::fs::remove_file(place.path("flash.img")).unwrap();
    let expected = "device 'flash': DIR/flash.img does not exist, but the catalog has volumes on \
                    it: restore it, or correct the path";
    assert_eq!(refused_start(&place, &["--device", &device]), refusal(1, expected));
    assert!(!place.path("flash.img").exists(), "it is not made anew");
}

#[test]
fn a_file_that_holds_something_else_is_refused_and_left_alone() {
    let place = Place::new();
    let holiday = vec![7; 4 << 20];
    std::fs::write(place.path("flash.img"), &holiday).unwrap();
    let device = format!("flash=file:{}", place.text("flash.img"));
    let expected = "device 'flash' holds data that is not nearflash's: choose another device, or \
                    write 'flash=file:DIR/flash.img,wipe' to erase it";
    assert_eq!(refused_start(&place, &["--device", &device]), refusal(1, expected));
    assert_eq!(std::fs::read(place.path("flash.img")).unwrap(), holiday);
}

#[test]
fn a_volume_larger_than_its_device_is_refused() {
    let place = Place::new();
    let flags = ["--device", "r=ram:16MiB", "--volume", "data=17MiB@r"];
    let expected = "volume 'data': device 'r' is full: 17MiB requested, 16MiB free";
    assert_eq!(refused_start(&place, &flags), refusal(1, expected));
}

#[test]
fn an_unparsable_size_is_refused_where_it_stands() {
    let place = Place::new();
    let remedy = "is not a size: write a whole number and a unit, for example 512, 64KiB or 8GiB";
    for size in ["much", "-1", "1e9", "1.5GiB", "GiB", "99999999999GiB"] {
        let Refusal { message, code } =
            refused_start(&place, &["--device", &format!("r=ram:{size}")]);
        assert!(message.starts_with(&format!("--device: device 'r': '{size}' ")), "{message}");
        assert_eq!(code, 2);
    }
    let expected = format!("--device: device 'r': 'much' {remedy}");
    assert_eq!(refused_start(&place, &["--device", "r=ram:much"]), refusal(2, &expected));
    std::fs::write(place.path("node.toml"), "device = \"r=ram:much\"\n").unwrap();
    let expected = format!("DIR/node.toml, line 1: device: device 'r': 'much' {remedy}");
    let config = place.text("node.toml");
    assert_eq!(refused_start(&place, &["--config", &config]), refusal(2, &expected));
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let place = Place::new();
    let text = "device = \"r=ram:16MiB\"\nvolume = \"data=8MiB@r\"\nspeed = \"ludicrous\"\n";
    std::fs::write(place.path("node.toml"), text).unwrap();
    let config = place.text("node.toml");
    let expected = "DIR/node.toml, line 3: unknown key 'speed': the nearest key is 'spin'";
    assert_eq!(refused_start(&place, &["--config", &config]), refusal(2, expected));
}

#[test]
fn a_door_that_others_can_reach_is_refused_until_told_who_may_come_in() {
    let place = Place::new();
    let flags = [&RAM[..], &["--nvme-tcp", "0.0.0.0:0"]].concat();
    let expected = "--nvme-tcp: hosts must authenticate at 0.0.0.0:0, and no host has keys: start \
                    without this address, add keys with 'nearflash host add NQN', and start again; \
                    or name the hosts that may connect with --host NQN (repeatable), or use --host \
                    any";
    assert_eq!(refused_start(&place, &flags), refusal(2, expected));
    let _node = Node::start(&place, &[&flags[..], &["--host", "any"]].concat());
}

/// The default of containers, and profiles that allow a part. The filter applies to this thread and its
/// children, and needs no privileges.
#[test]
fn a_system_that_forbids_io_uring_or_a_part_of_it_is_named_with_how_to_allow_it() {
    let expected = "io_uring is not allowed here (Operation not permitted (os error 1)): nearflash \
                    needs it to reach its devices. In a container, allow the system calls \
                    io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile; on \
                    a host, set the sysctl kernel.io_uring_disabled to 0";
    for number in libc_numbers::IO_URING {
        let filter = SeccompFilter::new(
            [(number, Vec::new())].into_iter().collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(libc_numbers::EPERM),
            std::env::consts::ARCH.try_into().unwrap(),
        );
        let program: BpfProgram = filter.unwrap().try_into().unwrap();
        let forbidden = std::thread::spawn(move || {
            apply_filter(&program).unwrap();
            let place = Place::new();
            let device = place.flash("16MiB");
            refused_start(&place, &["--device", &device, "--volume", "data=8MiB@flash"])
        });
        assert_eq!(forbidden.join().unwrap(), refusal(1, expected), "system call {number}");
    }
}

/// The numbers in the filter, which are the same on every architecture.
mod libc_numbers {
    /// io_uring_setup, io_uring_enter and io_uring_register.
    pub(super) const IO_URING: [i64; 3] = [425, 426, 427];
    pub(super) const EPERM: u32 = 1;
}
