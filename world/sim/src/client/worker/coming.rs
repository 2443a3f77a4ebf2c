//! A client's start: it identifies itself, has its earlier requests ended, and opens its volumes.

use nearflash_direct::Status;
use nearflash_direct::client::{ClientEvent, VolumeInfo};

use super::{Client, Common, Life, RING_ENTRIES_MAX};
use crate::client::link::Places;
use crate::line::Fate;
use crate::network::LinkId;
use crate::node::name_of;
use crate::outside::Outside;

impl Client {
    pub(super) fn take_events(&mut self, common: &mut Common, outside: &mut Outside) -> Fate {
        let is_crooked = self.plan.crooked.is_some();
        while let Some(connection) = &mut self.connection {
            let Some(event) = connection.session.poll_event() else { break };
            match event {
                ClientEvent::Ready if self.plan.claims && !is_crooked && !connection.is_bearers => {
                    let identity = [u8::try_from(self.number).expect("few clients"); 16];
                    connection.session.claim(identity).expect("the handshake is over");
                }
                ClientEvent::Claimed(result) if !is_crooked => {
                    assert_eq!(result, Ok(()), "client {}", self.number);
                    let link = connection.link;
                    let now = outside.tick();
                    outside.witness.is_back(self.who(), link, now);
                    let is_open = |link: &&LinkId| !outside.network.is_closed_by_node(**link);
                    let open = self.silenced.iter().find(is_open);
                    assert!(open.is_none(), "{open:?} was claimed, and the node has not closed it");
                    self.silenced.clear();
                    self.owned.claimed();
                    self.begin(outside);
                }
                ClientEvent::Ready => self.begin(outside),
                ClientEvent::Attached(made) if !is_crooked => {
                    connection.places = self.places.take().filter(|_| made.is_ok());
                    self.open(outside);
                }
                ClientEvent::SealKey { .. } | ClientEvent::Revoked { .. } if !is_crooked => {
                    self.seal_events.push(event);
                }
                ClientEvent::Files { .. } if !is_crooked => self.judge_files(event, common),
                ClientEvent::Opened { number, .. } if self.seals.has_asked(number) => {
                    self.seal_events.push(event);
                }
                ClientEvent::Opened { number, result } => {
                    if self.opened(number, result, outside) == Fate::Lost {
                        return Fate::Lost;
                    }
                }
                ClientEvent::Attached(_)
                | ClientEvent::Claimed(_)
                | ClientEvent::Received(_)
                | ClientEvent::SealKey { .. }
                | ClientEvent::Revoked { .. }
                | ClientEvent::Files { .. }
                | ClientEvent::Pong => {
                    assert!(is_crooked, "nobody asked");
                }
            }
        }
        if self.connection.is_some() { Fate::Lives } else { Fate::Lost }
    }

    /// Handles the answer that describes a volume, or refuses to open it. After the last one the
    /// client starts work.
    fn opened(
        &mut self,
        number: u32,
        result: Result<VolumeInfo, Status>,
        outside: &mut Outside,
    ) -> Fate {
        let Some(connection) = &mut self.connection else { return Fate::Lost };
        let asked = connection.asked.remove(&number).expect("it asked for that, once");
        let (volume, asked) = asked;
        if connection.is_bearers {
            assert_eq!(result.err(), Some(Status::NOT_GRANTED), "a bearer opens no volume");
            self.life = Life::Working;
            return Fate::Lives;
        }
        match result {
            Ok(info) => {
                connection.volumes.insert(volume, info.handle);
                if connection.asked.is_empty() {
                    self.life = Life::Working;
                }
                Fate::Lives
            }
            Err(status) => {
                let is_due = self.plan.crooked.is_some()
                    || asked < self.refusable_until
                        && [Status::NOT_GRANTED, Status::NO_SUCH_VOLUME].contains(&status);
                assert!(is_due, "client {}: its volume is refused: {status}", self.number);
                outside.note("client refused", &[]);
                Fate::Lost
            }
        }
    }

    /// Asks for all its volumes.
    fn open(&mut self, outside: &mut Outside) {
        let Some(connection) = &mut self.connection else { return };
        let field = self.workload.field.volumes.iter().map(|(volume, _)| *volume);
        let volumes: Vec<u32> = match self.plan.crooked {
            Some(_) => vec![self.route.node.junk_id()],
            None if connection.is_bearers => vec![self.route.node.shared_id()],
            None => {
                let files = self.plan.files.then(|| self.route.node.files_id());
                field.chain([self.route.node.shared_id()]).chain(files).collect()
            }
        };
        for volume in volumes {
            let number = connection.session.open(name_of(volume));
            let number = number.expect("the handshake is over");
            connection.asked.insert(number, (volume, outside.tick()));
        }
        self.life = Life::Opening;
    }

    /// The client is connected and its earlier requests are over: it asks for rings, or for its
    /// volumes.
    fn begin(&mut self, outside: &mut Outside) {
        let Some(connection) = &mut self.connection else { return };
        let is_crooked = self.plan.crooked.is_some();
        if self.plan.rings && !is_crooked {
            let agreed = connection.session.agreed().expect("the handshake is over");
            let entries = 1 << agreed.credits_max.min(RING_ENTRIES_MAX).ilog2();
            let (places, data_len) = Places::new(entries, self.ground.len_max);
            connection.session.attach(entries, data_len).expect("rings are offered");
            self.places = Some(places);
        } else {
            self.open(outside);
        }
    }

    /// Asks for a volume's description again.
    pub(super) fn refresh(&mut self, volume: u32, outside: &mut Outside) {
        let Some(connection) = &mut self.connection else { return };
        if connection.asked.values().any(|(asked, _)| *asked == volume) {
            return;
        }
        // A connection that is already closing fails by itself.
        if let Ok(number) = connection.session.refresh(connection.volumes[&volume]) {
            connection.asked.insert(number, (volume, outside.tick()));
            self.life = Life::Opening;
        }
    }
}
