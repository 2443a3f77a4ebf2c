//! The status of the cores, and the clients of a volume, from the answers of the cores.

use nearflash_api::{ClientInfo, CoreInfo, HostInfo, InitiatorInfo, PlaceInfo};
use nearflash_engine::{CoreId, Kind};
use nearflash_mirror::MirrorId;
use nearflash_reactor::{Ledger, Reply};
use nearflash_session::PlacesUsed;
use nearflash_shard::{ConnectedClient, ConnectedHost, ConnectedInitiator, PlaceKind, ShardStatus};
use nearflash_units::ByteLen;

/// The status of the cores.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct CoresStatus {
    /// One entry for each core that answered.
    pub(crate) cores: Vec<CoreInfo>,
    /// The processors of the cores that did not answer.
    pub(crate) silent: Vec<usize>,
    /// One entry for each controller.
    pub(crate) hosts: Vec<HostInfo>,
    /// One entry for each direct client, up to a limit.
    pub(crate) clients: Vec<ClientInfo>,
    /// One entry for each iSCSI session.
    pub(crate) initiators: Vec<InitiatorInfo>,
    /// The mirrors that are being copied, and how far each is.
    pub(crate) copies: Vec<(MirrorId, ByteLen)>,
    /// The use of each kind of places of hosts and clients.
    pub(crate) places: Vec<PlaceInfo>,
}

impl CoresStatus {
    /// The status from the answer of each core, which runs on its processor.
    pub(super) fn of(processors: &[usize], replies: Vec<(CoreId, Reply)>, ledger: &Ledger) -> Self {
        let has_said = |core: usize| replies.iter().any(|(said, _)| usize::from(said.0) == core);
        let silent = processors.iter().enumerate().filter(|(core, _)| !has_said(*core));
        let silent = silent.map(|(_, processor)| *processor).collect();
        let mut status = Self { silent, ..Self::default() };
        for (core, reply) in replies {
            if let Reply::Status(shard) = reply {
                status.add(core, *shard, processors, ledger);
            }
        }
        status
    }

    fn add(&mut self, core: CoreId, shard: ShardStatus, processors: &[usize], ledger: &Ledger) {
        let figures = ledger.of_core(core);
        let (read, write) = (figures.of(Kind::Read), figures.of(Kind::Write));
        let processor = |core: u16| processors.get(usize::from(core)).copied().unwrap_or_default();
        let core = processor(core.0);
        self.cores.push(CoreInfo {
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
        self.copies.extend(shard.copies);
        shard.places.into_iter().for_each(|(kind, used)| self.add_places(kind, used));
        self.clients.extend(shard.clients.into_iter().map(|it| client(it, core)));
        self.hosts.extend(shard.hosts.into_iter().map(host));
        let initiators = shard.initiators.into_iter();
        self.initiators.extend(initiators.map(|it| {
            let core = processor(it.status.core);
            initiator(it, core)
        }));
    }

    /// Adds the use of the places of one core to that of the cores before it.
    fn add_places(&mut self, kind: PlaceKind, used: PlacesUsed) {
        let (holder, held) =
            used.most.map(|(name, held)| (String::from(name), count(held))).unzip();
        let of_core = PlaceInfo {
            kind: kind.name().to_owned(),
            used: count(used.used),
            places: count(used.places),
            holder,
            held: held.unwrap_or_default(),
        };
        match self.places.iter_mut().find(|it| it.kind == of_core.kind) {
            None => self.places.push(of_core),
            Some(all) => {
                all.used += of_core.used;
                all.places += of_core.places;
                if of_core.held > all.held {
                    (all.holder, all.held) = (of_core.holder, of_core.held);
                }
            }
        }
    }
}

/// The clients of a volume, from the answer of each core.
pub(super) fn clients(processors: &[usize], replies: Vec<(CoreId, Reply)>) -> Vec<ClientInfo> {
    let of_core = |(core, reply): (CoreId, Reply)| {
        let core = processors.get(usize::from(core.0)).copied().unwrap_or_default();
        let Reply::Users(users) = reply else { return Vec::new() };
        users.into_iter().map(|it| client(it, core)).collect()
    };
    replies.into_iter().flat_map(of_core).collect()
}

fn client(client: ConnectedClient, core: usize) -> ClientInfo {
    ClientInfo {
        from: client.peer.to_string(),
        credential: client.key.map(String::from),
        is_in: client.is_ready,
        core,
        in_flight: count(client.requests_in_flight),
    }
}

fn host(host: ConnectedHost) -> HostInfo {
    HostInfo {
        host: host.status.host.to_string(),
        nqn: host.status.subsystem.to_string(),
        address: host.peer,
        io_queues: u32::try_from(host.status.queues.len()).unwrap_or(u32::MAX),
    }
}

fn initiator(session: ConnectedInitiator, core: usize) -> InitiatorInfo {
    let ConnectedInitiator { peer, status } = session;
    InitiatorInfo {
        initiator: status.initiator.into(),
        target: status.target.map(String::from),
        user: status.account.map(String::from),
        address: peer,
        connections: u32::try_from(status.connections.len()).unwrap_or(u32::MAX),
        core,
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
        assert_eq!(CoresStatus::of(&[4, 6, 7], said, &Ledger::default()).silent, [4, 7]);
    }
}
