//! Valid and invalid streams, sent to a target session in each of its states.

use std::sync::Arc;

use nearflash_request::{
    Attention, Change, ChangeKind, ChangeResult, Operation, Report, Request, Support, Tag, VolumeId,
};
use nearflash_scsi::{LogicalUnit, LogicalUnits, Provisioning};
use nearflash_session::Origin;
use nearflash_session::check::{Serving, Volume};
use nearflash_session::digest::digest;
use nearflash_units::{BlockSize, Blocks, Nanos};
use zerocopy::IntoBytes;
use zerocopy::big_endian::U32;

use crate::Digests;
use crate::error::PeerError;
use crate::login::LoginDemand;
use crate::params::DigestWish;
use crate::pdu::{
    DataSegmentLen, LoginFlags, LoginRequest, LoginStatus, Stage as LoginStage, padding_len,
};
use crate::serving::{
    Admission, Demand, Exports, Granted, NONCE_LEN, Portal, PortalConfig, ServingEnd,
    SessionConfig, TargetSession,
};

/// The target that checks are made with.
pub const TARGET: &str = "iqn.2026-11.io.nearflash:check";
/// The initiator that checks are made with.
pub(crate) const INITIATOR: &str = "iqn.2026-11.io.example:host";
/// Blocks of its volumes.
pub(crate) const VOLUME_BLOCKS: u64 = 4096;
/// The command window of a session.
pub(crate) const WINDOW: u32 = 8;
/// CmdSN of the login, and of the first command.
pub(crate) const FIRST_CMD_SN: u32 = u32::MAX - 2;

/// The state of a session before the stream begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Nothing was received.
    Login,
    /// A login waits for its answer.
    Granting,
    /// Commands may come.
    FullFeature,
    /// The session is for discovery.
    Discovery,
    /// The session is closing.
    Closing,
}

impl Stage {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::Login, Self::Granting, Self::FullFeature, Self::Discovery, Self::Closing];
}

/// The configuration of a session under check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// Header digests.
    pub header_digest: bool,
    /// Data digests.
    pub data_digest: bool,
    /// Additional keys, at the end of the login's operational text.
    pub keys: &'static str,
}

/// A session and its demands.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) end: Serving<TargetSession>,
    pub(crate) portal: Portal,
    pub(crate) volume: Volume,
    pub(crate) demands: Vec<Demand>,
    pub(crate) digests: Digests,
    /// Whether buffers are given as soon as they are wanted, instead of only when the session
    /// stands still.
    is_generous: bool,
    /// Whether there are buffers.
    pub(crate) has_buffers: bool,
    /// The report of a volume's reservations that the control side answers with.
    pub(crate) report: Report,
}

/// A volume that does what SCSI commands ask for.
pub(super) fn volume(blocks: usize) -> Volume {
    Volume::new(blocks * 512, BlockSize::B512, |operation| match operation {
        Operation::WriteBytes { skip, .. } => *skip == 0,
        Operation::ReadInto { .. }
        | Operation::CompareAndSwap { .. }
        | Operation::FetchAdd { .. } => false,
        _ => true,
    })
}

pub(crate) fn unit(lun: u16) -> LogicalUnit {
    LogicalUnit {
        lun,
        volume: VolumeId(u32::from(lun) + 7),
        uuid: [u8::try_from(lun).expect("few units"); 16],
        name: format!("check-{lun}"),
        block_size: BlockSize::B512,
        blocks: Blocks(VOLUME_BLOCKS),
        volatile_cache: true,
        provisioning: Provisioning::Thin,
        support: Support::ALL,
        on_every_node: false,
        write_protected: false,
        software_write_protected: false,
        descriptor_sense: false,
        epoch: 1,
    }
}

pub(crate) fn exports(units: u16) -> Exports {
    let units = Arc::new(LogicalUnits::new(TARGET, 1, (0..units).map(unit)));
    let portal = "127.0.0.1:3260".parse().expect("an address");
    Exports::new([(TARGET.into(), units)], [portal])
}

pub(crate) fn config() -> SessionConfig {
    let usual = SessionConfig::with_nonce([7; NONCE_LEN]);
    let mut offer = usual.offer;
    offer.receive_len_max = 4096;
    offer.session.first_burst_len = 8192;
    offer.session.max_burst_len = 16 * 1024;
    SessionConfig { anonymous: true, offer, ..usual }
}

pub(crate) fn portal() -> Portal {
    Portal::new(PortalConfig { window: WINDOW, ..PortalConfig::default() })
}

/// A PDU in wire format: header with DataSegmentLength set, data, padding, digests.
pub(crate) fn pdu_of(header: &[u8], data: &[u8], digests: Digests) -> Vec<u8> {
    let mut stream = header.to_vec();
    let len = DataSegmentLen::new(u32::try_from(data.len()).expect("short"));
    stream[5..8].copy_from_slice(len.as_bytes());
    if digests.header {
        stream.extend_from_slice(&digest(&stream.clone()).to_le_bytes());
    }
    let mut padded = data.to_vec();
    padded.resize(data.len() + padding_len(data.len()), 0);
    stream.extend_from_slice(&padded);
    if digests.data && !data.is_empty() {
        stream.extend_from_slice(&digest(&padded).to_le_bytes());
    }
    stream
}

/// A login in one request: straight to the full feature phase.
pub(crate) fn login_pdu(setup: Setup, tsih: u16, cid: u16, is_discovery: bool) -> Vec<u8> {
    let flags = LoginFlags::transit(LoginStage::Operational, LoginStage::FullFeature);
    let mut request = LoginRequest::new(flags, [0x80, 0, 0, 0, 0, 1], tsih, cid);
    request.cmd_sn = U32::new(FIRST_CMD_SN);
    let what = if is_discovery {
        "SessionType=Discovery\0".to_owned()
    } else {
        format!("SessionType=Normal\0TargetName={TARGET}\0")
    };
    let digest = |is| if is { "CRC32C" } else { "None" };
    let text = format!(
        "InitiatorName={INITIATOR}\0{what}HeaderDigest={}\0DataDigest={}\0{}",
        digest(setup.header_digest),
        digest(setup.data_digest),
        setup.keys.replace('&', "\0"),
    );
    pdu_of(request.as_bytes(), text.as_bytes(), Digests::NONE)
}

/// The login of a valid initiator without an account: of a new session that replaces its old one
/// (`tsih` 0), or of another connection of a session.
pub fn login_of(setup: Setup, tsih: u16, cid: u16) -> Vec<u8> {
    login_pdu(setup, tsih, cid, false)
}

impl Bench {
    pub(crate) fn new(stage: Stage, setup: Setup) -> Self {
        Self::of(stage, setup, exports(2), config())
    }

    pub(crate) fn of(stage: Stage, setup: Setup, exports: Exports, config: SessionConfig) -> Self {
        let local = "127.0.0.1:3260".parse().expect("an address");
        let mut config = config;
        let wish = |is| if is { DigestWish::PreferCrc } else { DigestWish::PreferNone };
        config.offer.header_digest = wish(setup.header_digest);
        config.offer.data_digest = wish(setup.data_digest);
        let mut bench = Self {
            end: Serving::new(TargetSession::new(config, Arc::new(exports), local, Nanos(0))),
            portal: portal(),
            volume: volume(usize::try_from(VOLUME_BLOCKS).expect("small")),
            demands: Vec::new(),
            digests: Digests::NONE,
            is_generous: true,
            has_buffers: true,
            report: Report::default(),
        };
        bench.advance_to(stage, setup);
        bench
    }

    fn advance_to(&mut self, stage: Stage, setup: Setup) {
        match stage {
            Stage::Login => return,
            Stage::Closing => {
                self.end.session.terminate(PeerError::ShuttingDown);
                return;
            }
            Stage::Granting | Stage::FullFeature | Stage::Discovery => {}
        }
        self.feed(&login_pdu(setup, 0, 1, stage == Stage::Discovery));
        if stage != Stage::Granting {
            self.grant();
            self.digests = Digests { header: setup.header_digest, data: setup.data_digest };
        }
        assert_eq!(self.end.error, None, "the login is sound");
        self.drain_output();
    }

    /// Answers the login that was handed out, as the first core would.
    pub(crate) fn grant(&mut self) {
        let Some(Demand::Login(demand)) = self.demands.pop() else {
            panic!("a login is handed out: {:?}", self.demands)
        };
        let granted = admit(&mut self.portal, &demand);
        if let Ok(granted) = &granted {
            // Checks ignore the first unit attentions of every session.
            let attentions = &granted.session.attentions;
            attentions.withdraw_all(Attention::PowerOn);
            attentions.withdraw_all(Attention::NexusLoss);
        }
        self.end.session.handle_login(granted);
    }

    /// A PDU of the full feature phase, with its digests.
    #[cfg(test)]
    pub(crate) fn send(&mut self, header: &[u8], data: &[u8]) {
        let stream = pdu_of(header, data, self.digests);
        self.feed(&stream);
    }

    /// Feeds `bytes` until the session fails or pauses.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            match self.end.receive(bytes) {
                Some(_) if bytes.is_empty() => break,
                Some(taken) => bytes = &bytes[taken..],
                None if self.goes_on() => continue,
                None => break,
            }
            self.take_demands();
        }
        while self.is_generous && self.has_buffers && self.end.provide_buffer() {}
        self.take_demands();
    }

    /// Whether a paused session can continue, with a buffer or without.
    fn goes_on(&mut self) -> bool {
        if !self.end.session.stands_still() {
            return false;
        }
        if self.has_buffers { self.end.provide_buffer() } else { self.end.session.give_way() }
    }

    pub(crate) fn take_demands(&mut self) {
        while let Some(demand) = self.end.session.poll_demand() {
            self.demands.push(demand);
        }
    }

    /// Answers everything that was handed out, as an engine and a control side would.
    pub(crate) fn answer_all(&mut self) {
        while !self.demands.is_empty() {
            for demand in std::mem::take(&mut self.demands) {
                match demand {
                    Demand::Request(request) => self.answer(request),
                    Demand::Change(tag, change) => self.answer_change(tag, &change),
                    Demand::Login(demand) => {
                        let granted = admit(&mut self.portal, &demand);
                        self.end.session.handle_login(granted);
                    }
                }
            }
            while self.is_generous && self.end.provide_buffer() {}
            self.take_demands();
        }
    }

    pub(crate) fn answer(&mut self, request: Request) {
        self.end.complete(request, &mut self.volume);
    }

    fn answer_change(&mut self, tag: Tag, change: &Change) {
        let result = match change.kind {
            ChangeKind::Report => ChangeResult::Report(Box::new(self.report.clone())),
            ChangeKind::Reserve { key: 13, .. } => ChangeResult::Conflict,
            _ => ChangeResult::Done,
        };
        self.end.session.handle_change(tag, &result);
    }

    /// All that the session has to send.
    pub(crate) fn drain_output(&mut self) -> Vec<u8> {
        self.end.take_output(usize::MAX)
    }

    /// Ends the connection, and checks that no buffer is missing.
    pub(crate) fn end(mut self) {
        let requests = self.demands.into_iter().filter_map(|demand| match demand {
            Demand::Request(request) => Some(request),
            _ => None,
        });
        self.end.end(requests, &mut self.volume);
    }
}

/// The answer of the first core to a login.
pub(crate) fn origin() -> Origin {
    Origin::of([192, 0, 2, 1].into())
}

pub(crate) fn admit(portal: &mut Portal, demand: &LoginDemand) -> Result<Granted, LoginStatus> {
    loop {
        match portal.login(demand, origin())? {
            Admission::Granted(granted) => return Ok(granted),
            Admission::AfterEnd(places) => {
                for place in places {
                    portal.connection_gone(place.tsih, place.cid);
                }
            }
        }
    }
}

/// The session never panics or loses a buffer, for every stream and every timing of answers.
pub fn check_target_never_panics(stage: Stage, setup: Setup, stream: &[u8], part_len: usize) {
    let mut bench = Bench::new(stage, setup);
    for (turn, part) in stream.chunks(part_len.max(1)).enumerate() {
        bench.feed(part);
        if turn % 3 != 2 {
            bench.answer_all();
        }
        if turn % 2 == 0 {
            bench.drain_output();
        }
        let now = Nanos::from_secs(u64::try_from(turn).expect("few turns"));
        let _ = bench.end.session.handle_timeout(now);
        assert!(bench.end.session.commands_in_flight() <= 64, "memory is bounded by the window");
    }
    let is_over = bench.end.error.is_some();
    assert!(!is_over || bench.end.session.is_closing());
    bench.end();
}

/// The session's output and its end do not depend on how the transport cuts the stream.
pub fn check_segmentation_does_not_matter(setup: Setup, stream: &[u8], part_len: usize) {
    let run = |part_len: usize| {
        let mut bench = Bench::new(Stage::FullFeature, setup);
        // The time of an R2T depends on when there is a buffer, which must not depend on the cuts.
        bench.is_generous = false;
        stream.chunks(part_len).for_each(|part| bench.feed(part));
        bench.is_generous = true;
        bench.feed(&[]);
        bench.answer_all();
        let (said, error) = (bench.drain_output(), bench.end.error);
        bench.end();
        (said, error)
    };
    let whole = run(stream.len().max(1));
    let parts = run(part_len.max(1));
    assert_eq!(whole, parts, "in parts of {part_len}");
}
