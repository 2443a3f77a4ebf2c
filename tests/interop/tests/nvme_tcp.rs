//! The Linux kernel's NVMe/TCP host against a node.
//!
//! With `NEARFLASH_SELF_CHECK=1`, the guests connect to the target of their own kernel instead,
//! which shows the harness's findings on a target that is known to be good.

use std::time::Duration;

use nearflash_interop::{
    Cluster, Guest, HostKeys, Node, Scratch, Script, is_self_check, offer, stripped_program,
};

const TIMEOUT: Duration = Duration::from_secs(240);

/// The action on the node at a mark of the script.
type Act = fn(&mut Node);

/// Runs a script in a guest against a node; at each mark, in this order, acts on the node.
fn run(script: &str, marks: &[(&str, Act)]) {
    if is_self_check() {
        return run_self_check(script);
    }
    let scratch = Scratch::of(script);
    let mut node = Node::start(&scratch);
    let side = node.guest_side();
    run_in_guest(script, &scratch, side, &mut node, marks);
    node.terminate();
}

/// Runs a script in a guest against the node at `side`; at each mark, acts on `node`.
fn run_in_guest(
    script: &str,
    scratch: &Scratch,
    (address, port): (&'static str, String),
    node: &mut Node,
    marks: &[(&str, Act)],
) {
    let parameters = [("TARGET_ADDRESS", address), ("TARGET_PORT", port.as_str())];
    run_with(script, scratch, &parameters, node, marks);
}

/// The same with these parameters of the script.
fn run_with(
    script: &str,
    scratch: &Scratch,
    parameters: &[(&str, &str)],
    node: &mut Node,
    marks: &[(&str, Act)],
) {
    run_parts(&[script], scratch, parameters, node, marks);
}

/// The same with these files of a script.
fn run_parts(
    parts: &[&str],
    scratch: &Scratch,
    parameters: &[(&str, &str)],
    node: &mut Node,
    marks: &[(&str, Act)],
) {
    let script = Script { parts, parameters, timeout: TIMEOUT };
    let mut guest = Guest::boot(scratch, &script);
    for (mark, act) in marks {
        guest.expect_mark(mark);
        act(node);
        guest.answer("done");
    }
    guest.expect_success();
}

fn run_self_check(script: &str) {
    let scratch = Scratch::of(&format!("{script}-self-check"));
    let parameters = [("TARGET_ADDRESS", "127.0.0.1"), ("TARGET_PORT", "4420")];
    let parts = ["nvmet", script];
    let script = Script { parts: &parts, parameters: &parameters, timeout: TIMEOUT };
    Guest::boot(&scratch, &script).expect_success();
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn host_discovers_connects_and_reads_every_page() {
    run("identify", &[]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn ext4_and_xfs_are_sound_on_a_volume() {
    run("file_systems", &[]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn fio_reads_back_what_it_wrote_from_512_bytes_to_1_mib() {
    run("verify", &[]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn each_command_does_what_it_says_or_is_refused_by_its_own_error() {
    run("commands", &[]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn what_a_host_reserves_binds_the_other_and_outlives_the_node() {
    run("reservations", &[("restart", Node::crash_and_restart)]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn connection_outlives_idleness_resize_and_reset() {
    run("sessions", &[("grow", |node| node.resize("data", "9GiB"))]);
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn nothing_acknowledged_is_lost_when_the_node_crashes_or_restarts() {
    run(
        "restart",
        &[("restart", Node::crash_and_restart), ("restart", Node::terminate_and_restart)],
    );
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn a_file_system_on_another_node_outlives_that_nodes_crash() {
    if is_self_check() {
        return; // the guest's own kernel has no such volumes
    }
    let scratch = Scratch::of("remote");
    let mut owner = Node::start(&scratch);
    let mut front = Node::in_front_of(&scratch, &owner);
    let marks: &[(&str, Act)] = &[("restart", Node::crash_and_restart)];
    run_in_guest("remote", &scratch, front.guest_side(), &mut owner, marks);
    front.terminate();
    owner.terminate();
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn a_host_reaches_a_volume_of_a_cluster_over_two_nodes_and_loses_one_of_them() {
    if is_self_check() {
        return; // the guest's own kernel has no such volumes
    }
    let scratch = Scratch::of("cluster");
    let cluster = Cluster::new(&scratch);
    let (mut first, mut second) = (cluster.serve(&scratch, 0), cluster.serve(&scratch, 1));
    first.create_in_cluster("n1");
    let ((address, port), (_, second_port)) = (first.guest_side(), second.guest_side());
    let parameters =
        [("TARGET_ADDRESS", address), ("TARGET_PORT", &port), ("SECOND_PORT", &second_port)];
    let marks: &[(&str, Act)] = &[("kill", Node::kill)];
    run_with("cluster", &scratch, &parameters, &mut second, marks);
    first.terminate();
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn a_node_that_stood_still_executes_no_write_that_the_kernels_multipath_has_repeated_elsewhere() {
    if is_self_check() {
        return; // the guest's own kernel has no such volumes
    }
    let scratch = Scratch::of("stale");
    let cluster = Cluster::new(&scratch);
    let (mut first, mut second) = (cluster.serve(&scratch, 0), cluster.serve(&scratch, 1));
    first.create_mirrored();
    let ((address, port), (_, second_port)) = (first.guest_side(), second.guest_side());
    let parameters =
        [("TARGET_ADDRESS", address), ("TARGET_PORT", &port), ("SECOND_PORT", &second_port)];
    let marks: &[(&str, Act)] = &[
        ("freeze", Node::freeze),
        ("thaw", Node::thaw),
        ("freeze", Node::freeze),
        ("thaw", Node::thaw),
    ];
    run_with("stale", &scratch, &parameters, &mut first, marks);
    first.terminate();
    second.terminate();
}

/// The NQN of the guest.
const GUEST: &str = "nqn.2014-08.org.nvmexpress:uuid:6e666c61-7368-4e51-8e01-000000000001";
/// Keys of 32, 48 and 32 bytes; the first two are transformed.
const KEY: &str = "DHHC-1:01:H0D8ktokFpR1CXnubPWC8tXX0o4YM13gWrxU0FYOD1PSgP0x:";
const NODE_KEY: &str =
    "DHHC-1:02:Umd2iCLuYk1I/OFexcp5y9YCy39MIVelFlVpkfIu+Me173sY0f9BxZNw77CFhlHUMfrrXw==:";
const WRONG_KEY: &str = "DHHC-1:00:rMKNsr63tCuqHLAkPUAcy04/zkTXsCh5pSeZqt/1QVLMNNKi:";
const NEW_KEY: &str = "DHHC-1:00:gS1Dv2TK7Z7axpVWJVQMTv1zsy4z0as1OL20N/pEd57u95Jd:";

/// PSKs of 32 bytes, which are turned into retained PSKs. The guest's daemon cannot use 48 bytes: OpenSSL refuses
/// its ClientHello.
const PSK: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const OTHER_PSK: &str = "NVMeTLSkey-1:01:LFKHx3GLh/WxQ3Qix/hiXhgJO/Ixkvwbye6I1Ys3uH5JBiAx:";

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn a_host_with_the_psk_uses_tls_with_both_identities_and_no_other_host_connects() {
    if is_self_check() {
        return; // nvmet.sh configures no keys
    }
    let scratch = Scratch::of("tls");
    let mut node = Node::secured(&scratch);
    let (address, port) = node.guest_side();
    let parameters = [
        ("TARGET_ADDRESS", address),
        ("TARGET_PORT", port.as_str()),
        ("PSK", PSK),
        ("OTHER_PSK", OTHER_PSK),
    ];
    let marks: &[(&str, Act)] =
        &[("added", |node| node.add_psk(GUEST, PSK)), ("removed", |node| node.remove_host(GUEST))];
    run_parts(&["tls_host", "tls"], &scratch, &parameters, &mut node, marks);
    node.terminate();
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn the_kernel_of_a_node_handles_the_records_of_tls() {
    if is_self_check() {
        return; // it runs a node in the guest
    }
    let scratch = Scratch::of("ktls");
    let port = offer(&stripped_program(&scratch));
    let parameters = [
        ("TARGET_ADDRESS", "127.0.0.1"),
        ("TARGET_PORT", "4420"),
        ("NODE_PORT", port.as_str()),
        ("PSK", PSK),
    ];
    let parts = ["tls_host", "ktls"];
    let script = Script { parts: &parts, parameters: &parameters, timeout: TIMEOUT };
    Guest::boot(&scratch, &script).expect_success();
}

fn one_way(node: &mut Node) {
    node.add_host(&HostKeys { nqn: GUEST, key: KEY, controller_key: None, only: None });
}

fn two_way(node: &mut Node) {
    replace(node, None);
}

fn replace(node: &mut Node, only: Option<(&str, &str)>) {
    node.remove_host(GUEST);
    node.add_host(&HostKeys { nqn: GUEST, key: KEY, controller_key: Some(NODE_KEY), only });
}

#[test]
#[ignore = "boots a virtual machine, which takes minutes: run by make test-guest"]
fn a_host_with_the_key_authenticates_in_one_and_both_directions_and_no_other_host_connects() {
    if is_self_check() {
        return; // nvmet.sh configures no keys
    }
    let scratch = Scratch::of("dhchap");
    let mut node = Node::start(&scratch);
    let (address, port) = node.guest_side();
    let parameters = [
        ("TARGET_ADDRESS", address),
        ("TARGET_PORT", port.as_str()),
        ("KEY", KEY),
        ("NODE_KEY", NODE_KEY),
        ("WRONG_KEY", WRONG_KEY),
        ("NEW_KEY", NEW_KEY),
    ];
    let marks: &[(&str, Act)] = &[
        ("one_way", one_way),
        ("two_way", two_way),
        ("sha256", |node| replace(node, Some(("sha256", "null")))),
        ("sha384", |node| replace(node, Some(("sha384", "ffdhe2048")))),
        ("sha512", |node| replace(node, Some(("sha512", "ffdhe3072")))),
        ("rotated", |node| node.rotate_key(GUEST, NEW_KEY, Some("1h"))),
        ("replaced", |node| node.rotate_key(GUEST, WRONG_KEY, None)),
        ("removed", |node| node.remove_host(GUEST)),
    ];
    run_with("dhchap", &scratch, &parameters, &mut node, marks);
    node.terminate();
}
