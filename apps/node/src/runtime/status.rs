//! The status of the cores, and the clients of a volume, from the answers of the cores.

use nearflash_engine::{CoreId, Kind};
use nearflash_session::PlacesUsed;
use nearflash_shard::PlaceKind;

use super::replies::Reply;
use crate::Ledger;
use crate::runtime_face::{
    ConnectedClient, ConnectedHost, ConnectedInitiator, CoreStatus, PlaceUse, RuntimeStatus,
};

/// The status of the cores, from the answer of each; it lists the processors of cores that did not
/// answer.
pub(super) fn status(
    processors: &[usize],
    replies: Vec<(CoreId, Reply)>,
    ledger: &Ledger,
) -> RuntimeStatus {
    let has_said = |core: usize| replies.iter().any(|(said, _)| usize::from(said.0) == core);
    let silent = processors.iter().enumerate().filter(|(core, _)| !has_said(*core));
    let silent = silent.map(|(_, processor)| *processor).collect();
    let mut status = RuntimeStatus { silent, ..RuntimeStatus::default() };
    for (core, reply) in replies {
        let Reply::Status(shard) = reply else { continue };
        let figures = ledger.of_core(core);
        let (read, write) = (figures.of(Kind::Read), figures.of(Kind::Write));
        let core = processors.get(usize::from(core.0)).copied().unwrap_or_default();
        status.cores.push(CoreStatus {
            core,
            connections: count(shard.connections),
            in_flight: count(shard.requests_in_flight),
            reads: read.done,
            writes: write.done,
            read_bytes: read.bytes,
            written_bytes: write.bytes,
            errors: figures.errors(),
            pool_free_bytes: shard.pool_free.0,
            clients: count(shard.client_count),
        });
        status.copies.extend(shard.copies);
        shard
            .places
            .into_iter()
            .for_each(|(kind, used)| add_places(&mut status.places, kind, used));
        status.clients.extend(shard.clients.into_iter().map(|it| client(it, core)));
        status.initiators.extend(shard.initiators.into_iter().map(|session| {
            let on = usize::from(session.status.core);
            ConnectedInitiator {
                initiator: session.status.initiator.into(),
                target: session.status.target.map(String::from),
                user: session.status.account.map(String::from),
                address: session.peer,
                connections: u32::try_from(session.status.connections.len()).unwrap_or(u32::MAX),
                core: processors.get(on).copied().unwrap_or_default(),
            }
        }));
        status.hosts.extend(shard.hosts.into_iter().map(|host| ConnectedHost {
            host: host.status.host,
            subsystem: host.status.subsystem,
            address: host.peer,
            io_queues: u32::try_from(host.status.queues.len()).unwrap_or(u32::MAX),
        }));
    }
    status
}

/// Adds the use of the places of one core to that of the cores before it.
fn add_places(places: &mut Vec<PlaceUse>, kind: PlaceKind, used: PlacesUsed) {
    let (holder, held) = used.most.map(|(name, held)| (String::from(name), count(held))).unzip();
    let of_core = PlaceUse {
        kind,
        used: count(used.used),
        places: count(used.places),
        holder,
        held: held.unwrap_or_default(),
    };
    match places.iter_mut().find(|it| it.kind == kind) {
        None => places.push(of_core),
        Some(all) => {
            all.used += of_core.used;
            all.places += of_core.places;
            if of_core.held > all.held {
                (all.holder, all.held) = (of_core.holder, of_core.held);
            }
        }
    }
}

/// The clients of a volume, from the answer of each core.
pub(super) fn clients(processors: &[usize], replies: Vec<(CoreId, Reply)>) -> Vec<ConnectedClient> {
    let of_core = |(core, reply): (CoreId, Reply)| {
        let core = processors.get(usize::from(core.0)).copied().unwrap_or_default();
        let Reply::Users(users) = reply else { return Vec::new() };
        users.into_iter().map(|it| client(it, core)).collect()
    };
    replies.into_iter().flat_map(of_core).collect()
}

fn client(client: nearflash_shard::ConnectedClient, core: usize) -> ConnectedClient {
    ConnectedClient {
        from: client.peer.to_string(),
        credential: client.key.map(String::from),
        is_in: client.is_ready,
        core,
        in_flight: count(client.requests_in_flight),
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_says_nothing_is_named_by_its_processor() {
        let said = vec![(CoreId(1), Reply::Done)];
        assert_eq!(status(&[4, 6, 7], said, &Ledger::default()).silent, [4, 7]);
    }
}
