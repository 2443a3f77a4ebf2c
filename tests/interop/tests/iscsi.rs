//! The Linux kernel's iSCSI initiator against a node.
//!
//! With `NEARFLASH_SELF_CHECK=1`, the guests log in to the target of their own kernel instead,
//! which shows the harness's findings on a target that is known to be good.

use std::time::Duration;

use nearflash_interop::{Account, Guest, Node, Scratch, Script, is_self_check};

const TIMEOUT: Duration = Duration::from_secs(300);
const SECRET: &str = "secret-of-guest-1";
const NODE_SECRET: &str = "secret-of-node-1";

/// The action on the node at a mark of the script.
type Act = fn(&mut Node);

/// Runs a script in a guest against a node; at each mark, in this order, acts on the node.
fn run(script: &str, marks: &[(&str, Act)]) {
    let name = format!("iscsi-{script}");
    if is_self_check() {
        return run_self_check(script);
    }
    let scratch = Scratch::of(&name);
    let mut node = Node::start(&scratch);
    let (address, port) = node.iscsi_guest_side();
    let (_, nvme_port) = node.guest_side();
    let parameters = [
        ("TARGET_ADDRESS", address),
        ("TARGET_PORT", port.as_str()),
        ("NVME_PORT", nvme_port.as_str()),
        ("SECRET", SECRET),
        ("NODE_SECRET", NODE_SECRET),
    ];
    let parts = ["iscsi", script];
    let script = Script { parts: &parts, parameters: &parameters, timeout: TIMEOUT };
    let mut guest = Guest::boot(&scratch, &script);
    for (mark, act) in marks {
        guest.expect_mark(mark);
        act(&mut node);
        guest.answer("done");
    }
    guest.expect_success();
    node.terminate();
}

fn run_self_check(script: &str) {
    let scratch = Scratch::of(&format!("iscsi-{script}-self-check"));
    let parameters = [
        ("TARGET_ADDRESS", "127.0.0.1"),
        ("TARGET_PORT", "3260"),
        ("SECRET", SECRET),
        ("NODE_SECRET", NODE_SECRET),
    ];
    let parts = ["lio", "iscsi", script];
    let script = Script { parts: &parts, parameters: &parameters, timeout: TIMEOUT };
    Guest::boot(&scratch, &script).expect_success();
}

fn add_account(node: &mut Node) {
    node.add_account(&Account { user: ("guest", SECRET), node: None });
}

fn add_mutual_account(node: &mut Node) {
    node.remove_account("guest");
    node.add_account(&Account { user: ("guest", SECRET), node: Some(("node", NODE_SECRET)) });
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn session_outlives_idleness_resize_and_resets() {
    run("iscsi_sessions", &[("grow", |node| node.resize("data", "9GiB"))]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn fio_and_ext4_read_back_what_they_wrote_by_every_way_to_send_data() {
    run("iscsi_verify", &[]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn who_has_the_secret_comes_in_and_nobody_else() {
    run("iscsi_chap", &[("one_way", add_account), ("mutual", add_mutual_account)]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn reservation_binds_the_other_initiator_also_after_a_crash() {
    run("iscsi_reservations", &[("restart", Node::crash_and_restart)]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn nothing_acknowledged_is_lost_when_the_node_crashes_or_restarts() {
    run(
        "restart",
        &[("restart", Node::crash_and_restart), ("restart", Node::terminate_and_restart)],
    );
}

/// The kernel's own target serves only one protocol.
#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn volume_is_the_same_through_iscsi_and_nvme_tcp_at_a_time() {
    if !is_self_check() {
        run("iscsi_doors", &[]);
    }
}
