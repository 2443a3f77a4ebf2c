//! Fabrics commands: how a host connects to a controller and reads its properties.
//!
//! Spec: NVMe Base 2.0, 6. A Fabrics command is a [`Command`] whose opcode is [`FABRICS_OPCODE`]
//! and whose byte 4 is its type. This module has views of the other bytes and the constructors that
//! hosts use.

use nearflash_session::wire;
use uuid::Uuid;
use zerocopy::little_endian::U16;

use crate::{
    Command, ControllerId, FABRICS_OPCODE, FabricsType, NamespaceId, Nqn, NqnField, QueueId,
    SglDescriptor, Status,
};

wire! {
    /// The data of a Connect command, which identifies the host. NVMe Base 2.0, 6.3.
    pub struct ConnectData: [u8; ConnectData::LEN] {
        pub host_id: [u8; 16] = "HOSTID: the same for all queues of a host",
        /// CNTLID: [`ControllerId::DYNAMIC`] on an admin queue, the number on an I/O queue.
        pub controller_id: U16,
        pub(crate) reserved: [u8; 238],
        pub subsystem: NqnField = "SUBNQN: the name of the subsystem",
        pub host: NqnField = "HOSTNQN: the name of the host",
        pub(crate) reserved2: [u8; 256],
    }
}

impl ConnectData {
    /// Length in bytes. The data is always in the capsule.
    pub const LEN: usize = 1024;
    /// Offset of HOSTID.
    pub const HOST_ID_OFFSET: u16 = 0;
    /// Offset of CNTLID.
    pub const CONTROLLER_ID_OFFSET: u16 = 16;
    /// Offset of SUBNQN.
    pub const SUBSYSTEM_OFFSET: u16 = 256;
    /// Offset of HOSTNQN.
    pub const HOST_OFFSET: u16 = 512;

    /// The data with which `host` connects to `controller` of `subsystem`.
    pub fn new(host_id: Uuid, controller: ControllerId, subsystem: &Nqn, host: &Nqn) -> Self {
        Self {
            host_id: host_id.into_bytes(),
            controller_id: controller.0.into(),
            reserved: [0; 238],
            subsystem: subsystem.into(),
            host: host.into(),
            reserved2: [0; 256],
        }
    }

    /// CNTLID.
    pub fn controller_id(&self) -> ControllerId {
        ControllerId(self.controller_id.get())
    }
}

/// A Connect command's parameters. NVMe Base 2.0, 6.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Connect {
    /// RECFMT: 0 is the only format.
    pub record_format: u16,
    /// QID: the queue pair that this connection becomes.
    pub queue: QueueId,
    /// SQSIZE: the number of entries, 0's based.
    pub queue_entries_zero_based: u16,
    /// CATTR: priority class (bits 1:0), disable SQ flow control (bit 2).
    pub attributes: u8,
    /// KATO in milliseconds; 0 disables the keep-alive timer. Only the admin queue uses it.
    pub keep_alive_ms: u32,
}

impl Connect {
    /// CATTR bit 2: the host disables SQ flow control, so SQHD is not used.
    pub const DISABLE_SQ_FLOW_CONTROL: u8 = 1 << 2;
    /// Offset of QID in the command.
    pub const QUEUE_OFFSET: u16 = 42;
    /// Offset of SQSIZE in the command.
    pub const QUEUE_ENTRIES_OFFSET: u16 = 44;

    /// The number of entries of the queue, 1's based.
    pub fn queue_entries(&self) -> u32 {
        u32::from(self.queue_entries_zero_based) + 1
    }

    /// Whether the host disables SQ flow control.
    pub fn disables_sq_flow_control(&self) -> bool {
        self.attributes & Self::DISABLE_SQ_FLOW_CONTROL != 0
    }

    /// The command that carries [`ConnectData`] in its capsule.
    pub fn to_command(self) -> Command {
        let [entries_low, entries_high] = self.queue_entries_zero_based.to_le_bytes();
        Command {
            sgl: SglDescriptor::in_capsule(0, 1024),
            cdw10: (u32::from(self.queue.0) << 16 | u32::from(self.record_format)).into(),
            cdw11: u32::from_le_bytes([entries_low, entries_high, self.attributes, 0]).into(),
            cdw12: self.keep_alive_ms.into(),
            ..Command::fabrics(FabricsType::CONNECT)
        }
    }
}

/// A Property Get or Property Set. NVMe Base 2.0, 6.5 and 6.6.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PropertyAccess {
    /// ATTRIB bits 2:0: 0 is 4 bytes, 1 is 8 bytes, others are reserved.
    pub size: u8,
    /// OFST: the offset of the property.
    pub offset: u32,
    /// VALUE: only for a Property Set.
    pub value: u64,
}

impl PropertyAccess {
    /// ATTRIB for a 4-byte property.
    pub const SIZE_4: u8 = 0;
    /// ATTRIB for an 8-byte property.
    pub const SIZE_8: u8 = 1;

    fn to_command(self, fabrics_type: FabricsType) -> Command {
        let mut command = Command {
            cdw10: u32::from(self.size).into(),
            cdw11: self.offset.into(),
            ..Command::fabrics(fabrics_type)
        };
        command.set_cdw12_13(self.value);
        command
    }
}

/// The parameters of an Authentication Send or Receive. NVMe Base 2.0, 6.1 and 6.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AuthenticationTransfer {
    /// SPSP0 and SPSP1.
    pub specific: [u8; 2],
    /// SECP.
    pub protocol: u8,
    /// TL or AL: the length of the message, or of the host's buffer.
    pub len: u32,
}

impl AuthenticationTransfer {
    /// SECP of NVMe's own authentication protocols.
    pub const NVME: u8 = 0xE9;
    /// SPSP0 and SPSP1 of NVMe's own authentication protocols.
    pub const NVME_SPECIFIC: [u8; 2] = [1, 1];

    fn to_command(self, fabrics_type: FabricsType, sgl: SglDescriptor) -> Command {
        let [first, second] = self.specific;
        Command {
            sgl,
            cdw10: u32::from_le_bytes([0, first, second, self.protocol]).into(),
            cdw11: self.len.into(),
            ..Command::fabrics(fabrics_type)
        }
    }

    fn of(len: u32) -> Self {
        Self { specific: Self::NVME_SPECIFIC, protocol: Self::NVME, len }
    }

    /// The length of the message, or of the host's buffer, which is not zero.
    ///
    /// # Errors
    /// If the protocol is another one, or the length is zero.
    pub fn checked_len(&self) -> Result<u32, Status> {
        let is_nvme = self.protocol == Self::NVME && self.specific == Self::NVME_SPECIFIC;
        if is_nvme && self.len > 0 { Ok(self.len) } else { Err(Status::INVALID_FIELD.dnr()) }
    }
}

impl Command {
    /// Authentication Send of a message of this length, which is in the capsule.
    pub fn authentication_send(len: u32) -> Self {
        let sgl = SglDescriptor::in_capsule(0, len);
        AuthenticationTransfer::of(len).to_command(FabricsType::AUTHENTICATION_SEND, sgl)
    }

    /// Authentication Receive of a message of at most this length.
    pub fn authentication_receive(len: u32) -> Self {
        let sgl = SglDescriptor::transport(len);
        AuthenticationTransfer::of(len).to_command(FabricsType::AUTHENTICATION_RECEIVE, sgl)
    }

    /// Whether this is an Authentication Send or Receive.
    pub fn is_authentication(&self) -> bool {
        let types = [FabricsType::AUTHENTICATION_SEND, FabricsType::AUTHENTICATION_RECEIVE];
        self.is_fabrics() && types.contains(&self.fabrics_type())
    }

    /// The parameters of an Authentication Send or Receive. Only valid for these commands.
    pub fn as_authentication(&self) -> AuthenticationTransfer {
        let [_, first, second, protocol] = self.cdw10.get().to_le_bytes();
        AuthenticationTransfer { specific: [first, second], protocol, len: self.cdw11.get() }
    }

    /// A Fabrics command whose other fields are zero.
    pub fn fabrics(fabrics_type: FabricsType) -> Self {
        Self::new(FABRICS_OPCODE, NamespaceId(u32::from(fabrics_type.0)))
    }

    /// Property Get of `offset`; `size` is [`PropertyAccess::SIZE_4`] or `SIZE_8`.
    pub fn property_get(offset: u32, size: u8) -> Self {
        PropertyAccess { size, offset, value: 0 }.to_command(FabricsType::PROPERTY_GET)
    }

    /// Property Set at `offset`. Every property that a host may set has 4 bytes.
    pub fn property_set(offset: u32, value: u32) -> Self {
        PropertyAccess { size: PropertyAccess::SIZE_4, offset, value: u64::from(value) }
            .to_command(FabricsType::PROPERTY_SET)
    }

    /// Disconnect, which deletes this I/O queue. NVMe Base 2.0, 6.4.
    pub fn disconnect() -> Self {
        Self::fabrics(FabricsType::DISCONNECT)
    }

    /// Whether this is a Fabrics command.
    pub fn is_fabrics(&self) -> bool {
        self.opcode == FABRICS_OPCODE
    }

    /// FCTYPE. Only valid for a Fabrics command.
    pub fn fabrics_type(&self) -> FabricsType {
        FabricsType(self.nsid.get().to_le_bytes()[0])
    }

    /// The parameters of a Connect. Only valid for a Connect.
    pub fn as_connect(&self) -> Connect {
        let [record_low, record_high, queue_low, queue_high] = self.cdw10.get().to_le_bytes();
        let [entries_low, entries_high, attributes, _] = self.cdw11.get().to_le_bytes();
        Connect {
            record_format: u16::from_le_bytes([record_low, record_high]),
            queue: QueueId(u16::from_le_bytes([queue_low, queue_high])),
            queue_entries_zero_based: u16::from_le_bytes([entries_low, entries_high]),
            attributes,
            keep_alive_ms: self.cdw12.get(),
        }
    }

    /// The parameters of a Property Get or Property Set. Only valid for these commands.
    pub fn as_property_access(&self) -> PropertyAccess {
        PropertyAccess {
            size: self.cdw10.get().to_le_bytes()[0] & 0b111,
            offset: self.cdw11.get(),
            value: self.cdw12_13(),
        }
    }
}

/// The invalid parameter of a refused Connect, in dword 0 of the completion with
/// [`Status::CONNECT_INVALID_PARAMETERS`](crate::Status::CONNECT_INVALID_PARAMETERS). NVMe Base
/// 2.0, 6.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidParameter {
    /// IATTR 0: the byte at this offset of the command.
    Command(u16),
    /// IATTR 1: the byte at this offset of the [`ConnectData`].
    Data(u16),
}

impl InvalidParameter {
    /// Encodes dword 0: IPO in bits 15:0, IATTR in bit 16.
    pub fn to_result(self) -> u32 {
        match self {
            Self::Command(offset) => u32::from(offset),
            Self::Data(offset) => 1 << 16 | u32::from(offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::CommandId;

    #[test]
    fn a_connect_has_the_bytes_that_hosts_send() {
        let connect = Connect {
            queue: QueueId(3),
            queue_entries_zero_based: 127,
            attributes: Connect::DISABLE_SQ_FLOW_CONTROL,
            keep_alive_ms: 5000,
            ..Connect::default()
        };
        let mut expected = [0; 64];
        expected[..5].copy_from_slice(&[0x7F, 0x40, 0xCD, 0xAB, 0x01]);
        // The data is in the capsule: length 1024, data block with an offset.
        expected[32..40].copy_from_slice(&[0, 4, 0, 0, 0, 0, 0, 0x01]);
        expected[40..52].copy_from_slice(&[0, 0, 3, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
        let command = connect.to_command().with_command_id(CommandId(0xABCD));
        assert_eq!(command.as_bytes(), expected);
    }

    #[test]
    fn property_commands_have_the_bytes_that_hosts_send() {
        let get = Command::property_get(0x00, PropertyAccess::SIZE_8);
        assert_eq!(get.as_bytes()[4..8], [0x04, 0, 0, 0]);
        assert_eq!(get.as_bytes()[40..48], [1, 0, 0, 0, 0, 0, 0, 0]);
        let set = Command::property_set(0x14, 0x0046_0001);
        assert_eq!(set.as_bytes()[4..8], [0x00, 0, 0, 0]);
        let expected = [0, 0, 0, 0, 0x14, 0, 0, 0, 1, 0, 0x46, 0, 0, 0, 0, 0];
        assert_eq!(set.as_bytes()[40..56], expected);
    }

    #[test]
    fn authentication_commands_have_the_bytes_that_hosts_send() {
        let send = Command::authentication_send(72);
        assert_eq!(send.as_bytes()[4..5], [0x05]);
        assert_eq!(send.as_bytes()[40..48], [0, 1, 1, 0xE9, 72, 0, 0, 0]);
        assert_eq!(send.as_authentication().checked_len(), Ok(72));
        let receive = Command::authentication_receive(4096);
        assert_eq!(receive.as_bytes()[4..5], [0x06]);
        assert_eq!(receive.as_bytes()[40..48], [0, 1, 1, 0xE9, 0, 16, 0, 0]);
        assert!(send.is_authentication() && receive.is_authentication());
        assert!(!Command::disconnect().is_authentication());
    }

    #[test]
    fn another_security_protocol_is_refused() {
        let ours = Command::authentication_send(72).as_authentication();
        for other in [
            AuthenticationTransfer { protocol: 0, ..ours },
            AuthenticationTransfer { specific: [1, 0], ..ours },
            AuthenticationTransfer { len: 0, ..ours },
        ] {
            assert_eq!(other.checked_len(), Err(Status::INVALID_FIELD.dnr()));
        }
    }

    #[test]
    fn names_and_numbers_stand_where_the_offsets_say() {
        let host = Nqn::new("nqn.2026-11.io.nearflash:host").unwrap();
        let data = ConnectData::new(Uuid::max(), ControllerId(0x1234), &Nqn::discovery(), &host);
        let bytes = data.as_bytes();
        let at = |offset: u16| &bytes[usize::from(offset)..];
        assert_eq!(at(ConnectData::HOST_ID_OFFSET)[..16], [0xFF; 16]);
        assert_eq!(at(ConnectData::CONTROLLER_ID_OFFSET)[..2], [0x34, 0x12]);
        assert!(at(ConnectData::SUBSYSTEM_OFFSET).starts_with(b"nqn.2014-08.org."));
        assert!(at(ConnectData::HOST_OFFSET).starts_with(b"nqn.2026-11.io."));
    }

    #[test]
    fn an_invalid_parameter_is_told_by_place_and_offset() {
        let subsystem = InvalidParameter::Data(ConnectData::SUBSYSTEM_OFFSET);
        assert_eq!(subsystem.to_result(), 0x0001_0100);
        for parameter in [subsystem, InvalidParameter::Command(Connect::QUEUE_OFFSET)] {
            assert_eq!(InvalidParameter::from_result(parameter.to_result()), parameter);
        }
    }

    proptest! {
        #[test]
        fn a_connect_is_read_as_it_was_built(
            record_format: u16, queue: u16, entries: u16, attributes: u8, keep_alive_ms: u32,
        ) {
            let connect = Connect {
                record_format,
                queue: QueueId(queue),
                queue_entries_zero_based: entries,
                attributes,
                keep_alive_ms,
            };
            let command = connect.to_command();
            prop_assert!(command.is_fabrics());
            prop_assert_eq!(command.fabrics_type(), FabricsType::CONNECT);
            prop_assert_eq!(command.as_connect(), connect);
        }

        #[test]
        fn a_property_set_is_read_as_it_was_built(offset: u32, value: u32) {
            let access = Command::property_set(offset, value).as_property_access();
            let size = PropertyAccess::SIZE_4;
            prop_assert_eq!(access, PropertyAccess { size, offset, value: u64::from(value) });
        }
    }
}
