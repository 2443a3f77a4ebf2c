//! Get Features and Set Features. NVMe Base 2.0, 5.15 and 5.27.
//!
//! Each feature is a row in [`FEATURES`]. No value persists across resets.

use nearflash_units::Nanos;

use super::admin::{Admin, Answer, Reply};
use super::reservations;
use super::state::{ControllerKind, Features, HOST_BEHAVIOR_USED, supported_notices};
use crate::feature::{FeatureId, GetFeatures, QueueCount, Select, SetFeatures};
use crate::{NamespaceId, Notices, Status};

/// KAS is 1: the keep-alive timeout is rounded up to a multiple of this.
pub(super) const KEEP_ALIVE_GRANULARITY_MS: u32 = 100;

/// The keep-alive timeout of a discovery controller whose host asks for none. Its place is one of few.
const DISCOVERY_KEEP_ALIVE: Nanos = Nanos::from_secs(120);

const HOST_BEHAVIOR_LEN: usize = 512;
const TIMESTAMP_LEN: usize = 8;

type Get = fn(&Admin<'_>, &Features) -> Result<Answer, Status>;
type Set = fn(&mut Admin<'_>, u32) -> Result<u32, Status>;

struct Feature {
    id: FeatureId,
    /// Whether discovery controllers support it.
    discovery: bool,
    /// Whether it is namespace specific.
    of_namespace: bool,
    /// Whether only controllers with reservations support it.
    of_reservations: bool,
    get: Get,
    /// Returns dword 0 of the completion.
    set: Set,
}

const FEATURES: [Feature; 15] = [
    io_feature(
        FeatureId::ARBITRATION,
        |_, all| dword(all.arbitration),
        |admin, value| {
            admin.controller.features.arbitration = value;
            Ok(0)
        },
    ),
    io_feature(FeatureId::POWER_MANAGEMENT, |_, _| dword(0), set_power),
    io_feature(FeatureId::TEMPERATURE_THRESHOLD, get_temperature, set_temperature),
    namespace_feature(
        FeatureId::ERROR_RECOVERY,
        |_, all| dword(all.error_recovery),
        set_error_recovery,
    ),
    io_feature(FeatureId::VOLATILE_WRITE_CACHE, |_, _| dword(CACHE_ENABLED), set_cache),
    io_feature(FeatureId::NUMBER_OF_QUEUES, |_, all| dword(queue_count(all)), set_queues),
    io_feature(
        FeatureId::WRITE_ATOMICITY,
        |_, all| dword(all.write_atomicity),
        |admin, value| {
            admin.controller.features.write_atomicity = value & 1;
            Ok(0)
        },
    ),
    any_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, |_, all| dword(all.notices.0), set_notices),
    io_feature(FeatureId::TIMESTAMP, get_timestamp, set_timestamp),
    any_feature(
        FeatureId::KEEP_ALIVE_TIMER,
        |admin, _| dword(keep_alive_ms(admin.controller.keep_alive)),
        set_keep_alive,
    ),
    io_feature(FeatureId::HOST_BEHAVIOR, get_host_behavior, set_host_behavior),
    io_feature(FeatureId::COMMAND_SET_PROFILE, |_, _| dword(0), set_command_set_profile),
    // Over fabrics only Connect sets it.
    any_feature(FeatureId::HOST_IDENTIFIER, get_host_identifier, |_, _| {
        Err(Status::COMMAND_SEQUENCE_ERROR.dnr())
    }),
    reservation_feature(
        FeatureId::RESERVATION_NOTIFICATION,
        |admin, all| reservations::get_mask(admin, &all.notification_masks),
        reservations::set_mask,
    ),
    // The control side holds the value, see `Reply::Later`. The default is off.
    reservation_feature(
        FeatureId::RESERVATION_PERSISTENCE,
        |admin, _| reservations::default_persistence(admin),
        |_, _| Ok(0),
    ),
];

/// Of both kinds of controllers.
const fn any_feature(id: FeatureId, get: Get, set: Set) -> Feature {
    Feature { discovery: true, ..io_feature(id, get, set) }
}

const fn io_feature(id: FeatureId, get: Get, set: Set) -> Feature {
    Feature { id, discovery: false, of_namespace: false, of_reservations: false, get, set }
}

const fn namespace_feature(id: FeatureId, get: Get, set: Set) -> Feature {
    Feature { of_namespace: true, ..io_feature(id, get, set) }
}

/// Of a namespace with reservations.
const fn reservation_feature(id: FeatureId, get: Get, set: Set) -> Feature {
    Feature { of_reservations: true, ..namespace_feature(id, get, set) }
}

fn find(id: FeatureId, admin: &Admin<'_>) -> Result<&'static Feature, Status> {
    known(admin).find(|feature| feature.id == id).ok_or(Status::INVALID_FIELD.dnr())
}

fn known(admin: &Admin<'_>) -> impl Iterator<Item = &'static Feature> {
    let (kind, reservations) = (admin.controller.kind, admin.support().reservations);
    let is_known = move |feature: &&Feature| {
        (feature.discovery || kind == ControllerKind::Io)
            && (reservations || !feature.of_reservations)
    };
    FEATURES.iter().filter(is_known)
}

/// The features that the controller supports, and whether each is namespace specific.
pub(super) fn supported(admin: &Admin<'_>) -> impl Iterator<Item = (FeatureId, bool)> {
    known(admin).map(|feature| (feature.id, feature.of_namespace))
}

pub(super) fn get_features(admin: &mut Admin<'_>) -> Result<Reply, Status> {
    const CHANGEABLE: u32 = 1 << 2;
    const OF_NAMESPACE: u32 = 1 << 1;
    let asked = GetFeatures::from_command(admin.command);
    let feature = find(asked.feature, admin)?;
    let answer = match asked.select {
        Select::Current if feature.id == FeatureId::RESERVATION_PERSISTENCE => {
            return reservations::get_persistence(admin);
        }
        Select::Current => (feature.get)(admin, &admin.controller.features),
        // No value is saved, so the saved value is the default.
        Select::Default | Select::Saved => {
            let first = Features::new(admin.controller.kind, &admin.config.limits);
            (feature.get)(admin, &first)
        }
        Select::Capabilities if feature.of_namespace => {
            Ok(Answer::result(CHANGEABLE | OF_NAMESPACE))
        }
        Select::Capabilities => Ok(Answer::result(CHANGEABLE)),
        Select::Reserved => Err(Status::INVALID_FIELD.dnr()),
    };
    answer.map(Reply::Now)
}

pub(super) fn set_features(admin: &mut Admin<'_>) -> Result<Reply, Status> {
    let asked = SetFeatures::from_command(admin.command);
    let feature = find(asked.feature, admin)?;
    if asked.save {
        return Err(Status::FEATURE_NOT_SAVEABLE.dnr());
    }
    let whole_controller = [NamespaceId::NONE, NamespaceId::ALL];
    if !feature.of_namespace && !whole_controller.contains(&admin.command.namespace_id()) {
        return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.dnr());
    }
    if feature.id == FeatureId::RESERVATION_PERSISTENCE {
        return reservations::set_persistence(admin, asked.value);
    }
    (feature.set)(admin, asked.value).map(|result| Reply::Now(Answer::result(result)))
}

fn dword(value: u32) -> Result<Answer, Status> {
    Ok(Answer::result(value))
}

/// Power state 0 is the only one.
fn set_power(_: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    if value & 0x1F == 0 { Ok(0) } else { Err(Status::INVALID_FIELD.dnr()) }
}

/// The index of the threshold that dword 11 selects. THSEL is in bits 21:20. TMPSEL, bits 19:16,
/// must be the composite temperature or all sensors.
fn temperature_place(value: u32) -> Result<usize, Status> {
    let sensor = value >> 16 & 0xF;
    match (sensor, value >> 20 & 0b11) {
        (0 | 0xF, 0) => Ok(0),
        (0 | 0xF, 1) => Ok(1),
        _ => Err(Status::INVALID_FIELD.dnr()),
    }
}

fn get_temperature(admin: &Admin<'_>, all: &Features) -> Result<Answer, Status> {
    let place = temperature_place(admin.command.cdw11.get())?;
    dword(u32::from(all.temperature[place]))
}

fn set_temperature(admin: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    let place = temperature_place(value)?;
    let [low, high, ..] = value.to_le_bytes();
    admin.controller.features.temperature[place] = u16::from_le_bytes([low, high]);
    Ok(0)
}

/// DULBE (bit 16) is refused: no namespace supports errors for deallocated blocks.
fn set_error_recovery(admin: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    if value & 1 << 16 != 0 {
        return Err(Status::INVALID_FIELD.dnr());
    }
    admin.controller.features.error_recovery = value & 0xFFFF;
    Ok(0)
}

const CACHE_ENABLED: u32 = 1;

/// The cache belongs to devices that hosts share, so one host cannot disable it.
fn set_cache(_: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    let enabled = value & 1 == CACHE_ENABLED;
    if enabled { Ok(0) } else { Err(Status::FEATURE_NOT_CHANGEABLE.dnr()) }
}

fn queue_count(all: &Features) -> u32 {
    QueueCount::pairs(all.queues).to_value()
}

/// NVMe Base 2.0, 5.27.1.5: only allowed before I/O queues are connected.
fn set_queues(admin: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    let asked = QueueCount::from_value(value);
    if asked.submission_zero_based == u16::MAX || asked.completion_zero_based == u16::MAX {
        return Err(Status::INVALID_FIELD.dnr());
    }
    if admin.controller.open_queues().next().is_some() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.dnr());
    }
    let limit = admin.config.limits.io_queues_max;
    let granted = u16::try_from(asked.to_pairs()).map_or(limit, |pairs| pairs.min(limit));
    admin.controller.features.queues = granted;
    Ok(queue_count(&admin.controller.features))
}

/// Critical warnings (bits 7:0) may be enabled, but are never raised.
fn set_notices(admin: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    let known = supported_notices(admin.controller.kind).0 | 0xFF;
    if value & !known != 0 {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let notices = Notices(value);
    admin.controller.features.notices = notices;
    admin.controller.events.retain(notices);
    Ok(0)
}

/// NVMe Base 2.0, 5.27.1 (FID 0Eh): milliseconds since 1970, counted on from the set value.
fn get_timestamp(admin: &Admin<'_>, all: &Features) -> Result<Answer, Status> {
    const SET_BY_HOST: u8 = 0b001 << 1;
    admin.check_room(8)?;
    let elapsed_ms = |at: Nanos| admin.now.since(at).0 / 1_000_000;
    let now_ms = all.timestamp.map_or(0, |(ms, set_at)| ms.saturating_add(elapsed_ms(set_at)));
    let mut data = now_ms.to_le_bytes();
    data[6] = if all.timestamp.is_some() { SET_BY_HOST } else { 0 };
    data[7] = 0;
    Ok(Answer::data(data.to_vec()))
}

fn set_timestamp(admin: &mut Admin<'_>, _: u32) -> Result<u32, Status> {
    let data = admin.data_exactly(TIMESTAMP_LEN)?;
    let mut bytes = [0; TIMESTAMP_LEN];
    bytes[..6].copy_from_slice(&data[..6]);
    admin.controller.features.timestamp = Some((u64::from_le_bytes(bytes), admin.now));
    Ok(0)
}

/// The keep-alive timeout for KATO, rounded up. 0 disables the timer of an I/O controller.
pub(super) fn keep_alive_from_ms(kind: ControllerKind, ms: u32) -> Option<Nanos> {
    let granules = u64::from(ms.div_ceil(KEEP_ALIVE_GRANULARITY_MS));
    match (kind, ms) {
        (ControllerKind::Io, 0) => None,
        (ControllerKind::Discovery, 0) => Some(DISCOVERY_KEEP_ALIVE),
        _ => Some(Nanos::from_millis(granules * u64::from(KEEP_ALIVE_GRANULARITY_MS))),
    }
}

fn keep_alive_ms(span: Option<Nanos>) -> u32 {
    span.map_or(0, |span| u32::try_from(span.0 / 1_000_000).unwrap_or(u32::MAX))
}

fn set_keep_alive(admin: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    admin.controller.keep_alive = keep_alive_from_ms(admin.controller.kind, value);
    Ok(0)
}

fn get_host_behavior(admin: &Admin<'_>, all: &Features) -> Result<Answer, Status> {
    admin.check_room(512)?;
    let mut data = vec![0; HOST_BEHAVIOR_LEN];
    data[..HOST_BEHAVIOR_USED].copy_from_slice(&all.host_behavior);
    Ok(Answer::data(data))
}

fn set_host_behavior(admin: &mut Admin<'_>, _: u32) -> Result<u32, Status> {
    let data = admin.data_exactly(HOST_BEHAVIOR_LEN)?;
    let mut used = [0; HOST_BEHAVIOR_USED];
    used.copy_from_slice(&data[..HOST_BEHAVIOR_USED]);
    if used.iter().any(|byte| *byte > 1) {
        return Err(Status::INVALID_FIELD.dnr());
    }
    admin.controller.features.host_behavior = used;
    Ok(0)
}

/// Combination 0 of I/O command sets is the only one.
fn set_command_set_profile(_: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    let known = value & 0x1FF == 0;
    if known { Ok(0) } else { Err(Status::COMMAND_SET_COMBINATION_REJECTED.dnr()) }
}

/// Over fabrics the identifier always has 128 bits (EXHID). NVMe Base 2.0, 5.27.1 (FID 81h).
fn get_host_identifier(admin: &Admin<'_>, _: &Features) -> Result<Answer, Status> {
    if admin.command.cdw11.get() & 1 == 0 {
        return Err(Status::HOST_IDENTIFIER_INCONSISTENT.dnr());
    }
    admin.check_room(16)?;
    Ok(Answer::data(admin.controller.host_id.to_vec()))
}
