//! A controller as its host sees it: the admin queue, and the properties read over it.

use std::time::Instant;

use nearflash_nvme::fabrics::PropertyAccess;
use nearflash_nvme::feature::{FeatureId, QueueCount};
use nearflash_nvme::identify::{Cns, Identify, IdentifyController, IdentifyNamespace};
use nearflash_nvme::identify::{IDENTIFY_LEN, parse_namespace_list};
use nearflash_nvme::property::{Capabilities, Configuration, ControllerStatus, offset};
use nearflash_nvme::{Command, CompletionEntry, ControllerId, NamespaceId, QueueId};
use nearflash_nvme_tcp::host::{CommandData, HostConfig};
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_units::{BlockSize, Blocks, ByteLen, Nanos};
use zerocopy::FromBytes;

use super::connection::{self, Connection, QueueSeat, join, turn_until};
use super::error::HostError;
use super::namespace::Namespace;
use super::options::Options;
use crate::memory::Memory;

/// The entries of the admin queue: the host's own commands are sent one after the other, along with
/// asynchronous events and keep-alives.
const ADMIN_ENTRIES: u16 = 32;
/// The length of the staging buffer: the session holds log pages and identify structures itself.
const ADMIN_STAGING_LEN: usize = 16 * 1024;
/// The interval between two reads of CSTS.RDY.
const READY_POLL_SPAN: std::time::Duration = std::time::Duration::from_millis(2);
/// The maximum length of one command's data where the controller reports no limit: every target
/// accepts this much.
const TRANSFER_LEN_DEFAULT: ByteLen = ByteLen(128 << 10);

/// The properties from Identify Controller and CAP that a host needs.
#[derive(Clone, Copy, Debug)]
struct Abilities {
    entries_max: u16,
    in_capsule_len_max: u32,
    transfer_len_max: ByteLen,
    volatile_cache: bool,
}

/// The host's end of a controller. Its queue pairs live only as long as the controller.
pub struct Controller {
    connection: Connection,
    options: Options,
    id: ControllerId,
    abilities: Abilities,
    spoke_at: Instant,
}

impl Controller {
    /// Connects the admin queue to a subsystem, enables the controller and reads its properties.
    ///
    /// # Errors
    /// When the target cannot be reached, refuses, or does not become ready.
    pub fn connect(options: &Options) -> Result<Self, HostError> {
        let mut connection = open_admin(options)?;
        let id = connection.session.controller().expect("the connection was accepted");
        let capabilities = enable(&mut connection, options)?;
        let data = identify(&mut connection, options, Cns::CONTROLLER, NamespaceId::NONE)?;
        let abilities = abilities(capabilities, &data)?;
        let options = options.clone();
        Ok(Self { connection, options, id, abilities, spoke_at: Instant::now() })
    }

    /// CNTLID.
    pub fn id(&self) -> ControllerId {
        self.id
    }

    /// The maximum length of the data of one command.
    pub fn transfer_len_max(&self) -> ByteLen {
        self.abilities.transfer_len_max
    }

    /// The maximum number of commands in flight on one queue pair.
    pub fn depth_max(&self) -> u16 {
        self.abilities.entries_max - 1
    }

    /// Whether a power cut may lose completed writes until a flush.
    pub fn has_volatile_cache(&self) -> bool {
        self.abilities.volatile_cache
    }

    /// Requests `count` I/O queue pairs, before the first is connected. Returns the granted number.
    ///
    /// # Errors
    /// When the controller refuses or the connection is lost.
    pub fn request_queue_pairs(&mut self, count: u16) -> Result<u16, HostError> {
        let value = QueueCount::pairs(count).to_value();
        let command = Command::set_features(FeatureId::NUMBER_OF_QUEUES, value);
        let (entry, _) = self.admin("Set Features", &command, CommandData::None)?;
        let granted = QueueCount::from_value(entry.dw0.get()).to_pairs();
        Ok(u16::try_from(granted).unwrap_or(u16::MAX).min(count))
    }

    /// Reads the list of active namespaces.
    ///
    /// # Errors
    /// When the controller refuses or the connection is lost.
    pub fn active_namespaces(&mut self) -> Result<Vec<NamespaceId>, HostError> {
        let data = self.identify(Cns::ACTIVE_NAMESPACES, NamespaceId::NONE)?;
        Ok(parse_namespace_list(&data))
    }

    /// Reads a namespace's geometry.
    ///
    /// # Errors
    /// When the namespace does not exist, or the connection is lost.
    pub fn namespace(&mut self, id: NamespaceId) -> Result<Namespace, HostError> {
        let data = match self.identify(Cns::NAMESPACE, id) {
            Err(HostError::Command { status, .. })
                if status.code() == nearflash_nvme::Status::INVALID_NAMESPACE =>
            {
                return Err(HostError::NoNamespace(id));
            }
            other => other?,
        };
        geometry(id, &data).ok_or(HostError::NoNamespace(id))
    }

    /// Keeps the connection alive; the owner of the controller must call it a few times per
    /// keep-alive time-out. Sends a Keep Alive when it is due, and handles incoming messages.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn tend(&mut self) -> Result<(), HostError> {
        self.connection.turn()?;
        let span = self.options.keep_alive;
        let due = span.0 > 0 && self.spoke_at.elapsed() >= Nanos(span.0 / 3).to_duration();
        if due {
            self.admin("Keep Alive", &Command::keep_alive(), CommandData::None)?;
        }
        Ok(())
    }

    /// Shuts the controller down and closes the connection.
    ///
    /// # Errors
    /// When the connection is already lost.
    pub fn shut_down(mut self) -> Result<(), HostError> {
        let value = Configuration::ENABLE.with_normal_shutdown().0;
        let command = Command::property_set(offset::CONFIGURATION, value);
        self.admin("Property Set", &command, CommandData::None)?;
        Ok(())
    }

    /// Sends an admin command, and waits for its answer and data.
    pub(super) fn admin(
        &mut self,
        what: &'static str,
        command: &Command,
        data: CommandData,
    ) -> Result<(CompletionEntry, Vec<u8>), HostError> {
        self.spoke_at = Instant::now();
        admin(&mut self.connection, &self.options, what, command, data)
    }

    fn identify(&mut self, cns: Cns, nsid: NamespaceId) -> Result<Vec<u8>, HostError> {
        self.spoke_at = Instant::now();
        identify(&mut self.connection, &self.options, cns, nsid)
    }

    /// The parameters of an I/O queue of this controller.
    pub(super) fn seat(&self, queue: QueueId) -> QueueSeat {
        QueueSeat {
            options: self.options.clone(),
            controller: self.id,
            queue,
            entries_max: self.abilities.entries_max,
            in_capsule_len_max: self.abilities.in_capsule_len_max,
        }
    }
}

fn open_admin(options: &Options) -> Result<Connection, HostError> {
    let config = HostConfig {
        digests: options.digests,
        alignment: DataAlignment(0),
        queue: QueueId::ADMIN,
        sq_entries: ADMIN_ENTRIES,
        flow_control: true,
        in_capsule_len_max: 8 * 1024,
        controller: ControllerId::DYNAMIC,
        keep_alive_ms: u32::try_from(options.keep_alive.0 / 1_000_000).unwrap_or(u32::MAX),
        host_id: options.host.id,
        host: options.host.nqn.clone(),
        subsystem: options.subsystem.clone(),
    };
    let mut connection =
        connection::open(options, config, Memory::new(0, ByteLen(0)), ADMIN_STAGING_LEN)?;
    join(&mut connection, options)?;
    Ok(connection)
}

/// Enables the controller: reads CAP, sets CC.EN and waits for CSTS.RDY for at most CAP.TO. NVMe
/// Base 2.0, 3.5.
fn enable(connection: &mut Connection, options: &Options) -> Result<Capabilities, HostError> {
    let command = Command::property_get(offset::CAPABILITIES, PropertyAccess::SIZE_8);
    let (entry, _) = admin(connection, options, "Property Get", &command, CommandData::None)?;
    let capabilities = Capabilities(entry.result());
    let command = Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0);
    admin(connection, options, "Property Set", &command, CommandData::None)?;
    let timeout = Nanos::from_millis(500 * u64::from(capabilities.timeout_500ms().max(1)));
    let start = Instant::now();
    loop {
        let command = Command::property_get(offset::STATUS, PropertyAccess::SIZE_4);
        let (entry, _) = admin(connection, options, "Property Get", &command, CommandData::None)?;
        let status = ControllerStatus(entry.dw0.get());
        if status.is_fatal() {
            return Err(HostError::Fatal);
        }
        if status.is_ready() {
            return Ok(capabilities);
        }
        if start.elapsed() > timeout.to_duration() {
            let within = timeout.to_duration();
            return Err(HostError::Silent { what: "CC.EN", within });
        }
        std::thread::sleep(READY_POLL_SPAN);
    }
}

fn admin(
    connection: &mut Connection,
    options: &Options,
    what: &'static str,
    command: &Command,
    data: CommandData,
) -> Result<(CompletionEntry, Vec<u8>), HostError> {
    let cid = connection.session.submit(command, data, &[])?;
    let mut answer = None;
    turn_until(connection, what, options.timeout, |connection| {
        while let Some(done) = connection.session.poll_completion() {
            // Any other completion belongs to a command that has timed out.
            if done.cid == cid {
                answer = Some(done);
            }
        }
        answer.is_some()
    })?;
    let done = answer.expect("it was awaited");
    match done.entry.status() {
        status if status.is_success() => Ok((done.entry, done.data)),
        status => Err(HostError::Command { what, status }),
    }
}

fn identify(
    connection: &mut Connection,
    options: &Options,
    cns: Cns,
    nsid: NamespaceId,
) -> Result<Vec<u8>, HostError> {
    let command = Identify::new(cns).to_command(nsid);
    let len = u32::try_from(IDENTIFY_LEN).expect("4096 bytes");
    let data = CommandData::SmallIncoming(len);
    Ok(admin(connection, options, "Identify", &command, data)?.1)
}

fn abilities(capabilities: Capabilities, data: &[u8]) -> Result<Abilities, HostError> {
    let (identify, _) = IdentifyController::ref_from_prefix(data).map_err(|_| short("Identify"))?;
    let transfer = identify.transfer_len_max().map_or(TRANSFER_LEN_DEFAULT, ByteLen);
    Ok(Abilities {
        entries_max: capabilities.queue_entries_zero_based().saturating_add(1).max(2),
        in_capsule_len_max: identify.in_capsule_len_max(),
        transfer_len_max: transfer,
        volatile_cache: identify.volatile_cache & IdentifyController::CACHE_PRESENT != 0,
    })
}

/// The error of an answer that is shorter than its structure.
pub(super) fn short(what: &'static str) -> HostError {
    HostError::Command { what, status: nearflash_nvme::Status::DATA_TRANSFER_ERROR }
}

fn geometry(id: NamespaceId, data: &[u8]) -> Option<Namespace> {
    let (identify, _) = IdentifyNamespace::ref_from_prefix(data).ok()?;
    // FLBAS: bits 3:0 are the low bits of the format's index, and bits 6:5 the bits above them.
    let format = usize::from(identify.format & 0xF | identify.format >> 1 & 0x30);
    let shift = u32::from(identify.lba_formats.get(format)?.data_shift);
    let block_size = BlockSize::from_bytes(1u32.checked_shl(shift)?)?;
    let blocks = Blocks(identify.blocks.get());
    (blocks.0 > 0).then_some(Namespace { id, blocks, block_size })
}
