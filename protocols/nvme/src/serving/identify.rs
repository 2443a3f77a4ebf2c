//! Identify in the controller. NVMe Base 2.0, 5.17; NVM Command Set 1.0, 4.1.5.
//!
//! Each structure is a row in [`STRUCTURES`].

use nearflash_request::Support;
use nearflash_units::{BlockSize, ByteLen};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::admin::{Admin, Answer, EVENT_REQUESTS_MAX};
use super::config::{Deallocation, NamespaceConfig};
use super::errors::ERROR_LOG_MAX;
use super::state::{ControllerKind, supported_notices};
use crate::identify::{
    COMMAND_SET_NVM, Cns, ControllerType, IDENTIFY_LEN, Identify, IdentifyController,
    IdentifyNamespace, IndependentNamespace, LbaFormat, NamespaceDescriptor, NamespaceFeatures,
    command_set_combinations, descriptor_list, namespace_list, zeroed,
};
use crate::property::Version;
use crate::{Ascii, ControllerId, NAMESPACE_ID_MAX, NamespaceId, NqnField, Status};

/// The ANA group of all namespaces.
pub(super) const ANA_GROUP: u32 = 1;

type Describe = fn(&Admin<'_>, &Identify) -> Result<Vec<u8>, Status>;

/// A structure: its CNS, whether discovery controllers support it, the function that fills it.
struct Row(Cns, bool, Describe);

const STRUCTURES: [Row; 9] = [
    Row(Cns::NAMESPACE, false, namespace),
    Row(Cns::CONTROLLER, true, |admin, _| Ok(controller(admin).as_bytes().to_vec())),
    Row(Cns::ACTIVE_NAMESPACES, false, |admin, _| active_namespaces(admin)),
    Row(Cns::NAMESPACE_DESCRIPTORS, false, descriptors),
    Row(Cns::COMMAND_SET_NAMESPACE, false, nvm_namespace),
    Row(Cns::COMMAND_SET_CONTROLLER, false, nvm_controller),
    Row(Cns::COMMAND_SET_ACTIVE_NAMESPACES, false, |admin, asked| {
        check_command_set(asked)?;
        active_namespaces(admin)
    }),
    Row(Cns::INDEPENDENT_NAMESPACE, false, independent_namespace),
    Row(Cns::COMMAND_SETS, false, command_sets),
];

pub(super) fn identify(admin: &mut Admin<'_>) -> Result<Answer, Status> {
    let asked = Identify::from_command(admin.command);
    let known = |row: &&Row| row.1 || admin.controller.kind == ControllerKind::Io;
    let row = STRUCTURES.iter().find(|row| row.0 == asked.cns).filter(known);
    let Row(_, _, describe) = row.ok_or(Status::INVALID_FIELD.dnr())?;
    let data = describe(admin, &asked)?;
    assert_eq!(data.len(), IDENTIFY_LEN, "all structures have one size");
    admin.check_room(ByteLen::of(&data).0)?;
    Ok(Answer::data(data))
}

fn check_command_set(asked: &Identify) -> Result<(), Status> {
    let nvm = asked.command_set == COMMAND_SET_NVM;
    if nvm { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
}

/// The requested namespace; `Ok(None)` if the number is valid but inactive.
fn find<'a>(admin: &'a Admin<'_>) -> Result<Option<&'a NamespaceConfig>, Status> {
    let nsid = admin.command.namespace_id();
    if !(1..=NAMESPACE_ID_MAX).contains(&nsid.0) {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    Ok(admin.namespaces().get(&nsid))
}

fn namespace(admin: &Admin<'_>, _: &Identify) -> Result<Vec<u8>, Status> {
    let described = find(admin)?.map_or_else(zeroed, describe_namespace);
    Ok(described.as_bytes().to_vec())
}

fn describe_namespace(config: &NamespaceConfig) -> Box<IdentifyNamespace> {
    let bytes = config.block_size.len(config.blocks).map_or(u64::MAX, |len| len.0);
    let mut described: Box<IdentifyNamespace> = zeroed();
    described.blocks = config.blocks.0.into();
    described.capacity = config.blocks.0.into();
    described.used = config.blocks.0.into();
    described.features = match config.deallocation {
        Deallocation::None => 0,
        Deallocation::Unspecified | Deallocation::ReadsZeroes => NamespaceFeatures::THIN,
    };
    described.multi_path = IdentifyNamespace::SHARED;
    described.reservations = reservation_capabilities(config);
    described.deallocate_features = match config.deallocation {
        Deallocation::None | Deallocation::Unspecified => 0,
        Deallocation::ReadsZeroes => {
            IdentifyNamespace::DEALLOCATED_READS_ZEROES
                | IdentifyNamespace::WRITE_ZEROES_DEALLOCATES
        }
    };
    describe_sizes(config, &mut described);
    described.nvm_capacity = u128::from(bytes).into();
    described.ana_group = ANA_GROUP.into();
    described.attributes = namespace_attributes(config);
    described.nguid = nguid(config);
    described.lba_formats[0] =
        LbaFormat { data_shift: config.block_size.shift(), ..LbaFormat::default() };
    described
}

/// NGUID: the bytes of the UUID, for hosts that know a namespace by its NGUID alone.
fn nguid(config: &NamespaceConfig) -> [u8; 16] {
    config.uuid.into_bytes()
}

/// The preferred write sizes, and the atomic write unit across a power failure.
fn describe_sizes(config: &NamespaceConfig, described: &mut IdentifyNamespace) {
    let blocks_in = |size: BlockSize| {
        let blocks = config.block_size.blocks_in(ByteLen(size.bytes().into())).0;
        U16::new(u16::try_from(blocks.saturating_sub(1)).unwrap_or(u16::MAX)) // 0's based
    };
    let physical = blocks_in(config.physical_block_size());
    described.features |= NamespaceFeatures::OPTIMAL_SIZES;
    described.write_granularity = physical;
    described.write_alignment = physical;
    described.deallocate_granularity = physical;
    described.deallocate_alignment = physical;
    described.write_size = physical;
    let atomic = blocks_in(config.device_block_size);
    if atomic != U16::ZERO {
        // Writes are atomic only within one block of the device, as the boundaries report. NABO is
        // 0.
        described.features |= NamespaceFeatures::ATOMICS;
        described.atomic_blocks = atomic;
        described.atomic_blocks_power_fail = atomic;
        described.boundary_blocks = atomic;
        described.boundary_blocks_power_fail = atomic;
    }
}

/// RESCAP.
fn reservation_capabilities(config: &NamespaceConfig) -> u8 {
    if config.support.reservations { IdentifyNamespace::RESERVATIONS } else { 0 }
}

fn namespace_attributes(config: &NamespaceConfig) -> u8 {
    if config.write_protected { IdentifyNamespace::WRITE_PROTECTED } else { 0 }
}

fn active_namespaces(admin: &Admin<'_>) -> Result<Vec<u8>, Status> {
    let after = admin.command.namespace_id();
    if after >= NamespaceId::MAX {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    Ok(namespace_list(admin.namespaces().keys().copied(), after))
}

fn descriptors(admin: &Admin<'_>, _: &Identify) -> Result<Vec<u8>, Status> {
    let config = find(admin)?.ok_or(Status::INVALID_NAMESPACE.dnr())?;
    Ok(descriptor_list(&[
        NamespaceDescriptor::Nguid(nguid(config)),
        NamespaceDescriptor::Uuid(config.uuid),
        NamespaceDescriptor::CommandSet(COMMAND_SET_NVM),
    ]))
}

/// NVM Command Set 1.0, 4.1.5.2. Without protection information all fields are zero.
fn nvm_namespace(admin: &Admin<'_>, asked: &Identify) -> Result<Vec<u8>, Status> {
    check_command_set(asked)?;
    find(admin)?;
    Ok(vec![0; IDENTIFY_LEN])
}

/// NVM Command Set 1.0, 4.1.5.
fn nvm_controller(_: &Admin<'_>, asked: &Identify) -> Result<Vec<u8>, Status> {
    /// WZSL: exponent of two in 4 KiB; the maximum length of a Write Zeroes.
    const WRITE_ZEROES_SHIFT_MAX: usize = 1;
    check_command_set(asked)?;
    let mut described = vec![0; IDENTIFY_LEN];
    // 32 MiB: a larger limit in 512-byte blocks does not fit into the 16 bits that some hosts use.
    described[WRITE_ZEROES_SHIFT_MAX] = 13;
    Ok(described)
}

fn independent_namespace(admin: &Admin<'_>, _: &Identify) -> Result<Vec<u8>, Status> {
    let mut described: Box<IndependentNamespace> = zeroed();
    if let Some(config) = find(admin)? {
        let cacheless = IndependentNamespace::CACHE_NOT_PRESENT;
        described.features = if config.volatile_cache { 0 } else { cacheless };
        described.multi_path = IdentifyNamespace::SHARED;
        described.reservations = reservation_capabilities(config);
        described.ana_group = ANA_GROUP.into();
        described.attributes = namespace_attributes(config);
        described.status = IndependentNamespace::READY;
    }
    Ok(described.as_bytes().to_vec())
}

/// Only for this controller, by its number or FFFFh.
fn command_sets(admin: &Admin<'_>, asked: &Identify) -> Result<Vec<u8>, Status> {
    let this = [admin.controller.id, ControllerId(0xFFFF)];
    if !this.contains(&asked.controller) {
        return Err(Status::INVALID_FIELD.dnr());
    }
    Ok(command_set_combinations())
}

fn controller(admin: &Admin<'_>) -> Box<IdentifyController> {
    let mut described: Box<IdentifyController> = zeroed();
    describe_any(admin, &mut described);
    match admin.controller.kind {
        ControllerKind::Discovery => described.controller_type = ControllerType::DISCOVERY,
        ControllerKind::Io => describe_io(admin, &mut described),
    }
    described
}

/// The fields that both kinds of controllers share.
fn describe_any(admin: &Admin<'_>, described: &mut IdentifyController) {
    let config = admin.config;
    let pages = config.limits.transfer_len_max.0 / 4096;
    described.serial = admin.subsystem().map_or(Ascii::new(""), |subsystem| subsystem.serial);
    described.model = Ascii::new(&config.model);
    described.firmware = Ascii::new(&config.firmware);
    described.transfer_shift_max = u8::try_from(pages.ilog2()).expect("a logarithm fits");
    described.controller_id = admin.controller.id.0.into();
    described.version = Version::V2_0.0.into();
    described.notices = supported_notices(admin.controller.kind).0.into();
    described.attributes = IdentifyController::HOST_ID_128.into();
    described.async_event_limit = EVENT_REQUESTS_MAX - 1;
    described.error_log_entries = ERROR_LOG_MAX - 1;
    described.log_page_attributes = IdentifyController::EXTENDED_LOG;
    described.keep_alive_granularity = 1.into();
    described.commands_max = config.limits.queue_entries_max.into();
    described.sgl_support = (IdentifyController::SGL
        | IdentifyController::SGL_OFFSET
        | IdentifyController::SGL_TRANSPORT)
        .into();
    described.subsystem = NqnField::from(&admin.controller.subsystem);
}

/// The fields of an I/O controller. A volatile write cache is always reported: a namespace on a
/// device with a cache may be added while hosts are connected, and a host that saw no cache would
/// never flush it. A namespace without a cache reports that itself.
fn describe_io(admin: &Admin<'_>, described: &mut IdentifyController) {
    let limits = &admin.config.limits;
    let Support { compound, reservations } = admin.support();
    described.controller_type = ControllerType::IO;
    described.multi_path =
        IdentifyController::SEVERAL_CONTROLLERS | IdentifyController::ANA_REPORTING;
    described.abort_limit = 3;
    described.firmware_updates = 1 << 1 | 1;
    described.log_page_attributes |= IdentifyController::NAMESPACE_HEALTH
        | IdentifyController::EFFECTS_LOG
        | IdentifyController::SUPPORTED_PAGES_LOG;
    described.ana_transition_time = 10;
    // Bit 6 (ANAGRPID does not change) is clear: if it is set, nvme-cli before 2.10 allocates no
    // space for the namespace numbers in its ANA log and prints wrong ones.
    described.ana_capabilities = IdentifyController::ANA_OPTIMIZED;
    described.ana_group_max = ANA_GROUP.into();
    described.ana_groups = 1.into();
    described.command_len_shifts = 6 << 4 | 6;
    described.completion_len_shifts = 4 << 4 | 4;
    described.namespaces = NAMESPACE_ID_MAX.into();
    described.namespaces_max = NAMESPACE_ID_MAX.into();
    described.nvm_commands = (IdentifyController::COMPARE
        | IdentifyController::DATASET_MANAGEMENT
        | IdentifyController::WRITE_ZEROES
        | IdentifyController::SAVE_AND_SELECT
        | IdentifyController::TIMESTAMP)
        .into();
    if reservations {
        described.nvm_commands |= IdentifyController::RESERVATIONS;
    }
    if compound {
        let compare_blocks = limits.transfer_len_max.0 / 4096 - 1;
        described.fused_operations = IdentifyController::COMPARE_AND_WRITE.into();
        described.atomic_compare_blocks = u16::try_from(compare_blocks).unwrap_or(u16::MAX).into();
    }
    described.volatile_cache = IdentifyController::CACHE_PRESENT | IdentifyController::FLUSH_ALL;
    described.io_command_capsule_len = (4 + limits.in_capsule_len_max / 16).into();
    described.io_response_capsule_len = 1.into();
    described.sgl_descriptors_max = 1;
    described.fabrics_commands = IdentifyController::DISCONNECT.into();
}
