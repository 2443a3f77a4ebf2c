//! Get Log Page in the controller. NVMe Base 2.0, 5.16.
//!
//! Each page is a row in [`PAGES`]. Invariant: the returned data never exceeds the maximum data
//! length of a command.

use nearflash_request::Traffic;
use nearflash_units::ByteLen;
use zerocopy::little_endian::{U32, U128};
use zerocopy::{FromZeros, IntoBytes};

use super::admin::{Admin, Answer};
use super::identify::ANA_GROUP;
use super::state::ControllerKind;
use super::{discovery, features, reservations};
use crate::identify::COMMAND_SET_NVM;
use crate::log::{
    AnaGroup, AnaHeader, AnaState, CommandEffects, FirmwareSlots, GetLogPage, HealthInformation,
    LogId, changed_namespaces,
};
use crate::{Ascii, AsyncEvent, IoOpcode, NAMESPACE_ID_MAX, NamespaceId, Status};

type Fill = fn(&mut Admin<'_>, &GetLogPage) -> Result<Vec<u8>, Status>;

/// The kinds of controllers that support a page.
#[derive(Clone, Copy, Eq, PartialEq)]
enum On {
    Io,
    /// I/O controllers with reservations.
    Reservations,
    Discovery,
    Both,
}

/// A page: its identifier, controllers, the event that reading clears, and its contents.
struct Row(LogId, On, Option<AsyncEvent>, Fill);

const PAGES: [Row; 10] = [
    Row(LogId::SUPPORTED_PAGES, On::Both, None, |admin, _| Ok(supported_pages(admin))),
    Row(LogId::ERROR, On::Both, None, |admin, _| Ok(admin.controller.errors.page())),
    Row(LogId::HEALTH, On::Io, None, health),
    Row(LogId::FIRMWARE_SLOTS, On::Io, None, |admin, _| Ok(firmware_slots(admin))),
    Row(LogId::CHANGED_NAMESPACES, On::Io, Some(AsyncEvent::NAMESPACE_CHANGED), changed),
    Row(LogId::COMMAND_EFFECTS, On::Io, None, command_effects),
    Row(LogId::ANA, On::Io, Some(AsyncEvent::ANA_CHANGED), |admin, asked| Ok(ana(admin, asked))),
    Row(LogId::FEATURE_EFFECTS, On::Io, None, |admin, _| Ok(feature_effects(admin))),
    // The handler clears the notification and its event.
    Row(LogId::RESERVATION_NOTIFICATION, On::Reservations, None, |admin, asked| {
        Ok(reservations::page(admin, asked.retain_event))
    }),
    Row(LogId::DISCOVERY, On::Discovery, Some(AsyncEvent::DISCOVERY_CHANGED), |admin, _| {
        Ok(discovery::log(admin))
    }),
];

pub(super) fn get_log_page(admin: &mut Admin<'_>) -> Result<Answer, Status> {
    let asked = GetLogPage::from_command(admin.command);
    let Row(_, _, event, fill) = find(asked.log, admin)?;
    if asked.offset_is_index || asked.len() > admin.config.limits.transfer_len_max.0 {
        return Err(Status::INVALID_FIELD.dnr());
    }
    admin.check_room(asked.len())?;
    let page = fill(admin, &asked)?;
    let data = part(&page, asked.offset, ByteLen(asked.len()).to_usize())?;
    if let Some(event) = event.filter(|_| !asked.retain_event) {
        admin.controller.events.clear(event);
    }
    Ok(Answer::data(data))
}

fn find(log: LogId, admin: &Admin<'_>) -> Result<&'static Row, Status> {
    let row = PAGES.iter().find(|row| row.0 == log && has(row, admin));
    row.ok_or(Status::INVALID_LOG_PAGE.dnr())
}

fn has(row: &Row, admin: &Admin<'_>) -> bool {
    let is_io = admin.controller.kind == ControllerKind::Io;
    match row.1 {
        On::Both => true,
        On::Io => is_io,
        On::Reservations => is_io && admin.support().reservations,
        On::Discovery => !is_io,
    }
}

/// `len` bytes of a page from `offset`, padded with zeroes past the page's end.
fn part(page: &[u8], offset: u64, len: usize) -> Result<Vec<u8>, Status> {
    let offset = usize::try_from(offset).ok().filter(|offset| *offset <= page.len());
    let rest = &page[offset.ok_or(Status::INVALID_FIELD.dnr())?..];
    let mut data = rest[..rest.len().min(len)].to_vec();
    data.resize(len, 0);
    Ok(data)
}

/// NVMe Base 2.0, 5.16.1.1: bit 0 of a page's dword is set if the page is supported.
fn supported_pages(admin: &Admin<'_>) -> Vec<u8> {
    let mut page = [U32::ZERO; 256];
    for row in PAGES.iter().filter(|row| has(row, admin)) {
        page[usize::from(row.0.0)] = 1.into();
    }
    page.as_bytes().to_vec()
}

/// NVMe Base 2.0, 5.16.1.3: the page of one namespace, or of all that the controller can access. It
/// counts the I/O of all protocols over the lifetime of the volumes. Power cycles are the node's
/// starts.
fn health(admin: &mut Admin<'_>, _: &GetLogPage) -> Result<Vec<u8>, Status> {
    const HOUR: u64 = 3_600_000_000_000;
    let asked = admin.command.namespace_id();
    let is_whole = [NamespaceId::NONE, NamespaceId::ALL].contains(&asked);
    if !is_whole && !admin.namespaces().contains_key(&asked) {
        return Err(Status::INVALID_NAMESPACE.dnr());
    }
    let life = &admin.config.life;
    let meant = admin.namespaces().iter().filter(|(nsid, _)| is_whole || **nsid == asked);
    let done = meant.filter_map(|(_, config)| Some(life.usage.as_ref()?.of(config.volume)));
    let done = done.fold(Traffic::default(), Traffic::plus);
    // Without wear, and without a temperature sensor.
    let mut health = HealthInformation { available_spare: 100, ..FromZeros::new_zeroed() };
    health.data_units_read = data_units(done.read_bytes);
    health.data_units_written = data_units(done.written_bytes);
    health.host_reads = u128::from(done.reads).into();
    health.host_writes = u128::from(done.writes).into();
    health.power_cycles = u128::from(life.starts).into();
    health.power_on_hours = u128::from(life.ran.plus(admin.now).0 / HOUR).into();
    health.unsafe_shutdowns = u128::from(life.unsafe_ends).into();
    health.media_errors = u128::from(done.media_errors).into();
    health.error_entries = u128::from(admin.controller.errors.count()).into();
    Ok(health.as_bytes().to_vec())
}

/// Thousands of 512 bytes, rounded up.
fn data_units(bytes: u64) -> U128 {
    u128::from(bytes.div_ceil(512_000)).into()
}

fn firmware_slots(admin: &Admin<'_>) -> Vec<u8> {
    FirmwareSlots::new(Ascii::new(&admin.config.firmware)).as_bytes().to_vec()
}

/// NVMe Base 2.0, 5.16.1.5. Reading clears the list, unless RAE is set.
fn changed(admin: &mut Admin<'_>, asked: &GetLogPage) -> Result<Vec<u8>, Status> {
    let list: Vec<_> = admin.controller.changed_namespaces.iter().copied().collect();
    if !asked.retain_event {
        admin.controller.changed_namespaces.clear();
    }
    Ok(changed_namespaces(&list))
}

/// NVMe Base 2.0, 5.16.1.6.
///
/// For an I/O command set other than NVM, the page reports no supported I/O command. An error would
/// not do: hosts query several command sets (nvme-cli also queries zoned namespaces) and report the
/// error.
fn command_effects(admin: &mut Admin<'_>, asked: &GetLogPage) -> Result<Vec<u8>, Status> {
    let reads = [IoOpcode::FLUSH, IoOpcode::READ, IoOpcode::COMPARE];
    let reservations: &[IoOpcode] =
        if admin.support().reservations { &IoOpcode::RESERVATIONS } else { &[] };
    let writes = [IoOpcode::WRITE, IoOpcode::WRITE_ZEROES, IoOpcode::DATASET_MANAGEMENT];
    let mut effects = CommandEffects::NONE;
    for opcode in (admin.opcodes)(admin.controller.kind) {
        effects.admin[usize::from(opcode.0)] = CommandEffects::SUPPORTED.into();
    }
    if asked.command_set != COMMAND_SET_NVM {
        return Ok(effects.as_bytes().to_vec());
    }
    for opcode in reads.iter().chain(reservations) {
        effects.io[usize::from(opcode.0)] = CommandEffects::SUPPORTED.into();
    }
    for opcode in writes {
        effects.io[usize::from(opcode.0)] =
            (CommandEffects::SUPPORTED | CommandEffects::CHANGES_BLOCKS).into();
    }
    Ok(effects.as_bytes().to_vec())
}

/// NVMe Base 2.0, 5.16.1 (LID 12h): bit 0 of a feature's dword is set if the feature is supported,
/// bit 20 if its scope is a namespace, bit 21 if it is the controller.
fn feature_effects(admin: &Admin<'_>) -> Vec<u8> {
    let mut page = [U32::ZERO; 256];
    for (feature, of_namespace) in features::supported(admin) {
        let scope = if of_namespace { 1 << 20 } else { 1 << 21 };
        page[usize::from(feature.0)] = (scope | 1).into();
    }
    page.as_bytes().to_vec()
}

/// NVMe Base 2.0, 5.16.1.13: one group, always optimized. The page is padded with zeroes to the
/// length for the maximum number of namespaces, because some hosts read that length. For example
/// nvme-cli before 2.10 reads it in parts, also if it asks for groups only, and fails if the second
/// part is refused.
fn ana(admin: &Admin<'_>, asked: &GetLogPage) -> Vec<u8> {
    const GROUPS_ONLY: u8 = 1;
    let changes = admin.subsystem().map_or(0, |subsystem| subsystem.generation);
    let listed = asked.specific & GROUPS_ONLY == 0;
    let namespaces: Vec<_> = admin.namespaces().keys().filter(|_| listed).collect();
    let count = u32::try_from(namespaces.len()).expect("numbers are at most NAMESPACE_ID_MAX");
    let header = AnaHeader { changes: changes.into(), groups: 1.into(), ..AnaHeader::default() };
    let group = AnaGroup {
        id: ANA_GROUP.into(),
        namespaces: count.into(),
        changes: changes.into(),
        state: AnaState::OPTIMIZED,
        ..AnaGroup::default()
    };
    let mut page = [header.as_bytes(), group.as_bytes()].concat();
    page.extend(namespaces.iter().flat_map(|nsid| nsid.0.to_le_bytes()));
    let numbers = usize::try_from(NAMESPACE_ID_MAX).expect("usize is at least 32 bits wide");
    page.resize(size_of::<AnaHeader>() + size_of::<AnaGroup>() + 4 * numbers, 0);
    page
}
