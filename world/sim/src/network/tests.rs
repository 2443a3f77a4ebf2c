//! Links between nodes, and partitions.

use nearflash_engine::CoreId;
use nearflash_shard::{Door, Interest, Received, Sent, SocketId};
use nearflash_units::Nanos;

use super::{Endpoint, Network, Signal};
use crate::machine::NodeId;
use crate::{Dice, Faults};

const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);
const CORE: CoreId = CoreId(1);

fn network() -> Network {
    Network::new(Faults::none().network, 2, Dice::new(1))
}

/// Delivers everything that is due, and what follows from it. Returns the signals.
fn deliver_all(network: &mut Network) -> Vec<Signal> {
    while !network.due.is_empty() {
        for (at, delivery) in std::mem::take(&mut network.due) {
            network.deliver(at, delivery);
        }
    }
    std::mem::take(&mut network.signals)
}

/// Two connected nodes: the socket of each.
fn connected(network: &mut Network) -> (SocketId, SocketId) {
    let door = Door::NvmeTcp { anonymous: true };
    let caller = network.connect_nodes(Nanos(0), (HERE, CORE), THERE, door);
    network.watch(HERE, CORE, caller, Interest::Output);
    let (link, side) = network.link_at(HERE, CORE, caller);
    let early = network.send(Nanos(0), link, side, b"early");
    assert_eq!(early, Sent::Bytes(0), "the other node has not accepted yet");
    let signals = deliver_all(network);
    let [Signal::Accepted(THERE, called, ..), Signal::Ready(HERE, CORE, ready)] = signals[..]
    else {
        panic!("{signals:?}")
    };
    assert_eq!(ready, caller);
    (caller, called)
}

fn send(network: &mut Network, (node, core): (NodeId, CoreId), socket: SocketId, bytes: &[u8]) {
    let (link, side) = network.link_at(node, core, socket);
    assert_eq!(network.send(Nanos(1), link, side, bytes), Sent::Bytes(bytes.len()));
}

fn receive(
    network: &mut Network,
    (node, core): (NodeId, CoreId),
    socket: SocketId,
) -> Option<Vec<u8>> {
    let (link, side) = network.link_at(node, core, socket);
    let mut bytes = vec![0; 64];
    match network.receive(Nanos(2), link, side, &mut bytes) {
        Received::Bytes(len) => Some(bytes[..len].to_vec()),
        Received::Nothing => Some(Vec::new()),
        Received::Closed => None,
    }
}

#[test]
fn a_node_connects_to_another_and_both_send_and_receive() {
    let mut network = network();
    let (caller, called) = connected(&mut network);
    send(&mut network, (HERE, CORE), caller, b"question");
    send(&mut network, (THERE, CoreId::FIRST), called, b"answer");
    deliver_all(&mut network);
    assert_eq!(receive(&mut network, (HERE, CORE), caller).unwrap(), b"answer");
    assert_eq!(receive(&mut network, (THERE, CoreId::FIRST), called).unwrap(), b"question");
}

#[test]
fn the_loss_of_a_node_breaks_what_it_called_and_what_called_it() {
    for lost in [HERE, THERE] {
        let mut network = network();
        let (caller, called) = connected(&mut network);
        network.lose_node(Nanos(2), lost);
        deliver_all(&mut network);
        let left = match lost {
            HERE => receive(&mut network, (THERE, CoreId::FIRST), called),
            _ => receive(&mut network, (HERE, CORE), caller),
        };
        assert_eq!(left, None);
        assert_eq!(network.open_at(lost).count(), 0);
    }
}

#[test]
fn a_node_that_is_not_there_refuses() {
    let mut network = network();
    network.stop_listening(THERE);
    let caller =
        network.connect_nodes(Nanos(0), (HERE, CORE), THERE, Door::NvmeTcp { anonymous: true });
    network.watch(HERE, CORE, caller, Interest::Output);
    let signals = deliver_all(&mut network);
    assert!(matches!(signals[..], [Signal::Ready(HERE, CORE, _)]), "{signals:?}");
    assert_eq!(receive(&mut network, (HERE, CORE), caller), None);
}

#[test]
fn a_partition_of_one_way_holds_back_what_goes_there_until_it_is_over() {
    let mut network = network();
    let (caller, called) = connected(&mut network);
    let way = (Endpoint::Node(HERE), Endpoint::Node(THERE));
    let partition = network.part([way]);
    let (link, _) = network.link_at(HERE, CORE, caller);
    send(&mut network, (HERE, CORE), caller, b"first ");
    send(&mut network, (HERE, CORE), caller, b"second");
    send(&mut network, (THERE, CoreId::FIRST), called, b"answer");
    deliver_all(&mut network);
    assert_eq!(receive(&mut network, (HERE, CORE), caller).unwrap(), b"answer");
    assert_eq!(receive(&mut network, (THERE, CoreId::FIRST), called).unwrap(), b"");
    assert!(network.was_cut(link));
    assert!(network.held_longer(Nanos::from_secs(1)).contains(&link));
    network.heal(Nanos::from_secs(2), partition);
    assert!(network.held_longer(Nanos::from_secs(3)).is_empty());
    let late = receive(&mut network, (THERE, CoreId::FIRST), called).unwrap();
    assert_eq!(late, b"first second");
}
