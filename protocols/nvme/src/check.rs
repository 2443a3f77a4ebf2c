//! Properties that hold for any input, as functions that tests and fuzzers both call.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use nearflash_request::{ChangeResult, Support, VolumeId};
use nearflash_session::Origin;
use nearflash_units::{BlockSize, Blocks, ByteLen, MIB, Nanos};
use uuid::Uuid;
use zerocopy::FromBytes;

use crate::fabrics::{Connect, ConnectData, InvalidParameter};
use crate::feature::FeatureId;
use crate::identify::{parse_descriptors, parse_namespace_list};
use crate::io::{IoCommand, decode, dsm_ranges};
use crate::log::{LogId, TransportType};
use crate::property::{Capabilities, Configuration, offset};
use crate::reservation::EXTENDED;
use crate::serving::{
    Action, Arrival, Deallocation, HostAccess, Life, Limits, NamespaceConfig, Port, Target,
    TargetConfig,
};
use crate::tls::DoorTls;
use crate::{
    AdminOpcode, AsyncEvent, Command, CommandId, ControllerId, IoOpcode, NamespaceEntry,
    NamespaceId, NamespaceTable, Nqn, NqnField, Sgl, SglDescriptor, TransportAddress,
};

/// Decodes every 64-byte piece of `bytes`. Decoding never panics, and a decoded command addresses
/// the table's volume and transfers at most the maximum.
pub fn check_decode_never_panics(bytes: &[u8]) {
    let transfer_len_max = ByteLen(MIB);
    let entry = NamespaceEntry {
        volume: VolumeId(1),
        block_size: BlockSize::B512,
        blocks: Blocks(1 << 20),
        support: Support::ALL,
        write_protected: false,
    };
    let table = NamespaceTable::new([(NamespaceId(1), entry)], transfer_len_max);
    for piece in bytes.chunks_exact(Command::LEN) {
        let command = Command::read_from_bytes(piece).expect("the piece is a command long");
        if let Ok(IoCommand::Volume(decoded)) = decode(&command, &table) {
            assert!(decoded.transfer.len() <= transfer_len_max);
            assert_eq!(decoded.volume, entry.volume);
            let _ = command.sgl.check_to_host(decoded.transfer.len().0, bytes.len());
            let _ = command.sgl.locate_from_host(0..=u32::MAX, bytes.len());
        }
    }
    if let Ok(ranges) = dsm_ranges(bytes) {
        assert!(ranges.len() * 16 == bytes.len());
    }
}

/// Parses arbitrary lists and names. No parser panics.
pub fn check_parsers_never_panic(bytes: &[u8]) {
    let _ = parse_descriptors(bytes);
    assert!(parse_namespace_list(bytes).len() <= bytes.len() / 4);
    if let Ok((field, _)) = NqnField::ref_from_prefix(bytes)
        && let Ok(nqn) = field.get()
    {
        assert_eq!(NqnField::from(&nqn).get().as_ref(), Ok(&nqn));
    }
}

/// Sends an arbitrary Connect. The target creates a controller or refuses it, and never panics.
pub fn check_connect_never_panics(bytes: &[u8]) {
    let Ok((command, rest)) = Command::read_from_prefix(bytes) else { return };
    let Ok((data, _)) = ConnectData::read_from_prefix(rest) else { return };
    let mut target = target();
    let before = target.status().hosts.len();
    let connected = target.connect(Nanos(0), &command, &data, arrival());
    let made = target.status().hosts.len() - before;
    match connected {
        Ok(connected) => {
            let _ = connected.completion(command.command_id());
            assert!(made == 1 && connected.queue.is_admin());
        }
        Err(refusal) => assert!(made == 0 && !refusal.status.is_success()),
    }
}

/// Sends arbitrary commands on an admin queue. None panics. Each gets one completion, except those
/// that wait for events, and no completion returns more data than the host's buffer holds.
pub fn check_admin_never_panics(bytes: &[u8]) {
    let mut target = target();
    let controller = enabled_controller(&mut target);
    let mut waiting = BTreeSet::new();
    for (piece, number) in bytes.chunks_exact(Command::LEN).zip(0_u16..) {
        let command = Command::read_from_bytes(piece).expect("the piece is a command long");
        let command = command.with_command_id(CommandId(number));
        let len = match command.sgl.locate_from_host(0..=4096, 0) {
            _ if !command.opcode_moves_from_host() => 0,
            Ok((_, len)) => usize::try_from(len).expect("it is at most 4096"),
            Err(_) => continue,
        };
        let from_host = bytes.iter().copied().cycle().take(len);
        let data: Vec<u8> = from_host.collect();
        waiting.insert(command.command_id());
        target.admin(Nanos(u64::from(number)), controller, &command, &data);
        while let Some(action) = target.poll_action() {
            if let Action::Change { controller, command_id, .. } = action {
                target.handle_change(controller, command_id, &ChangeResult::Done);
                continue;
            }
            check_action(&action, &command, &mut waiting);
        }
        let waits = waiting.contains(&command.command_id());
        assert!(!waits || command.opcode == AdminOpcode::ASYNC_EVENT_REQUEST.0);
    }
    target.handle_timeout(Nanos::NEVER);
    let _ = target.poll_timeout();
}

fn check_action(action: &Action, command: &Command, waiting: &mut BTreeSet<CommandId>) {
    let Action::Respond { completion, data, .. } = action else { return };
    let answered = completion.command_id();
    assert!(waiting.remove(&answered), "{answered:?} was answered twice");
    if data.is_empty() {
        return;
    }
    assert!(completion.status().is_success() && answered == command.command_id());
    let room = command.sgl.check_to_host(ByteLen::of(data).0, 0);
    assert!(room.is_ok(), "{} bytes for {:?}", data.len(), command.sgl);
    assert!(matches!(command.sgl.decode(), Sgl::Transport { .. }));
}

fn target() -> Target {
    let mut target = Target::new(TargetConfig {
        controller_ids: crate::serving::ALL_CONTROLLER_IDS,
        serial_seed: 1,
        model: "nearflash".to_owned(),
        firmware: "1".to_owned(),
        hosts: HostAccess::Any,
        ports: vec![Port { id: 1, listen: local(), advertise: Vec::new(), tls: DoorTls::Off }],
        limits: Limits::default(),
        life: Life::default(),
    });
    let namespace = NamespaceConfig {
        subsystem: name("nqn.2026-11.io.nearflash:check"),
        namespace: NamespaceId(1),
        volume: VolumeId(1),
        uuid: Uuid::from_u128(1),
        block_size: BlockSize::B512,
        blocks: Blocks(1 << 20),
        device_block_size: BlockSize::B4096,
        volatile_cache: true,
        deallocation: Deallocation::Unspecified,
        on_every_node: false,
        support: Support::ALL,
        write_protected: false,
    };
    target.publish(vec![namespace]).expect("one namespace contradicts nothing");
    target
}

fn enabled_controller(target: &mut Target) -> ControllerId {
    let subsystem = name("nqn.2026-11.io.nearflash:check");
    let host = name("nqn.2026-11.io.nearflash:host");
    let connect = Connect { queue_entries_zero_based: 31, ..Connect::default() }.to_command();
    let data = ConnectData::new(Uuid::from_u128(2), ControllerId::DYNAMIC, &subsystem, &host);
    let connected = target.connect(Nanos(0), &connect, &data, arrival());
    let controller = connected.expect("the names are known").controller;
    let enable = Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0);
    target.admin(Nanos(0), controller, &enable, &[]);
    while target.poll_action().is_some() {}
    controller
}

fn arrival() -> Arrival {
    Arrival {
        local: local(),
        origin: Origin::of([192, 0, 2, 7].into()),
        anonymous: true,
        tls: None,
    }
}

fn local() -> TransportAddress {
    TransportAddress::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4420)))
}

fn name(text: &str) -> Nqn {
    Nqn::new(text).expect("a name is given")
}

/// Constructors and accessors that only tests and properties use.
impl AsyncEvent {
    /// Decodes dword 0.
    pub fn from_result(dw0: u32) -> Self {
        let [event_type, information, log, _] = dw0.to_le_bytes();
        Self { event_type: event_type & 0b111, information, log: LogId(log) }
    }
}

impl InvalidParameter {
    /// Decodes dword 0.
    pub fn from_result(dw0: u32) -> Self {
        let [low, high, attribute, _] = dw0.to_le_bytes();
        let offset = u16::from_le_bytes([low, high]);
        if attribute & 1 == 0 { Self::Command(offset) } else { Self::Data(offset) }
    }
}

impl Command {
    /// Get Features of the current value, with `data_len` bytes that the transport moves.
    pub fn get_features(feature: FeatureId, data_len: u32) -> Self {
        Self {
            sgl: SglDescriptor::transport(data_len),
            cdw10: u32::from(feature.0).into(),
            ..Self::new(AdminOpcode::GET_FEATURES.0, NamespaceId::NONE)
        }
    }

    /// Reservation Report of `len` bytes in the extended data structure. `len` must be a multiple
    /// of 4 and not 0.
    pub fn reservation_report(nsid: NamespaceId, len: u32) -> Self {
        Self {
            cdw10: (len / 4).saturating_sub(1).into(),
            cdw11: EXTENDED.into(),
            ..Self::new(IoOpcode::RESERVATION_REPORT.0, nsid)
        }
        .with_transport_data(len)
    }
}

impl TransportAddress {
    /// The address in a discovery log entry. `None` if the transport is not TCP or the address is
    /// not an IP address.
    pub fn from_discovery(transport: TransportType, address: &str, service: &str) -> Option<Self> {
        let socket = SocketAddr::new(address.parse().ok()?, service.parse().ok()?);
        (transport == TransportType::TCP).then(|| Self::tcp(socket))
    }
}

impl Capabilities {
    /// CSS bit 0: the NVM command set.
    pub fn has_nvm_command_set(self) -> bool {
        self.0 >> 37 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    /// A command whose fields have likely values, so that some of the commands are valid.
    fn likely_command() -> impl Strategy<Value = Vec<u8>> {
        let opcodes = prop::sample::select(vec![0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x18, 0x7F]);
        let first = prop::sample::select(vec![0, 1, 4, 8, 0xFFFF_FFFF_u32]);
        let lens = prop::sample::select(vec![0, 4, 8, 16, 512, 4096, 4100, u32::MAX]);
        let dwords = (0..0x90_u32, any::<u32>(), 0..8_u32, 0..4_u32, lens.clone());
        (opcodes, first, dwords, lens).prop_map(|(opcode, nsid, dwords, len)| {
            let (cdw10, high, cdw11, cdw12, log_len) = dwords;
            let numd = (log_len / 4).saturating_sub(1) << 16;
            Command {
                cdw10: (cdw10 | if high & 1 == 0 { high & !0xFF } else { numd }).into(),
                cdw11: cdw11.into(),
                cdw12: cdw12.into(),
                ..Command::new(opcode, NamespaceId(nsid)).with_transport_data(len)
            }
            .as_bytes()
            .to_vec()
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_decoding_panic(bytes in vec(any::<u8>(), 0..512)) {
            check_decode_never_panics(&bytes);
        }

        #[test]
        fn no_io_command_asks_for_more_than_allowed(
            opcode in 0..16_u8, nsid in 0..3_u32, cdw12: u32, len: u32,
        ) {
            let command = Command::new(opcode, NamespaceId(nsid)).with_transport_data(len);
            let command = Command { cdw12: cdw12.into(), ..command };
            check_decode_never_panics(command.as_bytes());
        }

        #[test]
        fn no_bytes_make_a_parser_panic(bytes in vec(any::<u8>(), 0..512)) {
            check_parsers_never_panic(&bytes);
        }

        #[test]
        fn no_bytes_make_connect_panic(bytes in vec(any::<u8>(), 1088..=1088)) {
            check_connect_never_panics(&bytes);
        }

        #[test]
        fn a_damaged_connect_is_refused_or_right(at in 0..1088_usize, byte: u8) {
            let subsystem = name("nqn.2026-11.io.nearflash:check");
            let id = Uuid::from_u128(2);
            let data = ConnectData::new(id, ControllerId::DYNAMIC, &subsystem, &subsystem);
            let connect = Connect { queue_entries_zero_based: 31, ..Connect::default() };
            let mut bytes = [connect.to_command().as_bytes(), data.as_bytes()].concat();
            bytes[at] = byte;
            check_connect_never_panics(&bytes);
        }

        #[test]
        fn no_bytes_make_an_admin_queue_panic(bytes in vec(any::<u8>(), 0..1024)) {
            check_admin_never_panics(&bytes);
        }

        #[test]
        fn likely_commands_are_each_answered_once(
            commands in vec(likely_command(), 0..24),
        ) {
            check_admin_never_panics(&commands.concat());
        }
    }
}
