use super::*;
use crate::feature::{FeatureId, QueueCount};

fn set(feature: FeatureId, value: u32) -> Command {
    Command::set_features(feature, value)
}

fn get(feature: FeatureId) -> Command {
    Command::get_features(feature, 0)
}

fn value(target: &mut Target, controller: ControllerId, feature: FeatureId) -> u32 {
    let (completion, _) = ask(target, controller, get(feature));
    assert!(completion.status().is_success(), "{feature:?}");
    completion.dw0.get()
}

#[test]
fn values_that_are_only_remembered_are_remembered() {
    let (mut target, controller) = joined();
    let remembered = [
        (FeatureId::ARBITRATION, 0x0102_0304),
        (FeatureId::TEMPERATURE_THRESHOLD, 330),
        (FeatureId::ERROR_RECOVERY, 50),
        (FeatureId::WRITE_ATOMICITY, 1),
        (FeatureId::ASYNC_EVENT_CONFIGURATION, 0x100),
        (FeatureId::KEEP_ALIVE_TIMER, 15_000),
    ];
    for (feature, wanted) in remembered {
        assert!(status_of(&mut target, controller, set(feature, wanted)).is_success());
        assert_eq!(value(&mut target, controller, feature), wanted, "{feature:?}");
    }
}

#[test]
fn the_number_of_queues_is_granted_up_to_the_limit() {
    let (mut target, controller) = joined();
    for (asked, granted) in [(1, 1), (4, 4), (100, 4)] {
        let asked = QueueCount::pairs(asked).to_value();
        let (completion, _) = ask(&mut target, controller, set(FeatureId::NUMBER_OF_QUEUES, asked));
        assert_eq!(QueueCount::from_value(completion.dw0.get()).to_pairs(), granted);
    }
    let reserved = set(FeatureId::NUMBER_OF_QUEUES, 0xFFFF_FFFF);
    assert_eq!(status_of(&mut target, controller, reserved), Status::INVALID_FIELD.dnr());
    Host::of(&nqn("data")).on_queue(1, controller).connect(&mut target).unwrap();
    let late = set(FeatureId::NUMBER_OF_QUEUES, 0);
    assert_eq!(status_of(&mut target, controller, late), Status::COMMAND_SEQUENCE_ERROR.dnr());
}

#[test]
fn the_write_cache_is_reported_and_stays_on() {
    let (mut target, controller) = joined();
    assert_eq!(value(&mut target, controller, FeatureId::VOLATILE_WRITE_CACHE), 1);
    let on = set(FeatureId::VOLATILE_WRITE_CACHE, 1);
    assert!(status_of(&mut target, controller, on).is_success());
    let off = set(FeatureId::VOLATILE_WRITE_CACHE, 0);
    assert_eq!(status_of(&mut target, controller, off), Status::FEATURE_NOT_CHANGEABLE.dnr());
}

#[test]
fn what_cannot_be_set_is_refused_exactly() {
    let (mut target, controller) = joined();
    let refused = [
        (set(FeatureId::POWER_MANAGEMENT, 1), Status::INVALID_FIELD),
        (set(FeatureId::TEMPERATURE_THRESHOLD, 1 << 16), Status::INVALID_FIELD),
        (set(FeatureId::ERROR_RECOVERY, 1 << 16), Status::INVALID_FIELD),
        (set(FeatureId::ASYNC_EVENT_CONFIGURATION, 1 << 31), Status::INVALID_FIELD),
        (set(FeatureId::COMMAND_SET_PROFILE, 1), Status::COMMAND_SET_COMBINATION_REJECTED),
        (set(FeatureId::HOST_IDENTIFIER, 1), Status::COMMAND_SEQUENCE_ERROR),
        (set(FeatureId(0x08), 0), Status::INVALID_FIELD), // Interrupt Coalescing
        (set(FeatureId::RESERVATION_PERSISTENCE, 0), Status::INVALID_NAMESPACE),
        (get(FeatureId(0x09)), Status::INVALID_FIELD), // Interrupt Vector Configuration
        (get(FeatureId(0xC0)), Status::INVALID_FIELD),
    ];
    for (command, status) in refused {
        assert_eq!(status_of(&mut target, controller, command), status.dnr(), "{command:?}");
    }
    let mut saved = set(FeatureId::ARBITRATION, 0);
    saved.cdw10 = (saved.cdw10.get() | 1 << 31).into();
    let status = status_of(&mut target, controller, saved);
    assert_eq!(status, Status::FEATURE_NOT_SAVEABLE.dnr());
    let of_namespace = Command { nsid: 1.into(), ..set(FeatureId::ARBITRATION, 0) };
    let status = status_of(&mut target, controller, of_namespace);
    assert_eq!(status, Status::FEATURE_NOT_NAMESPACE_SPECIFIC.dnr());
}

#[test]
fn the_host_identifier_is_that_of_connect() {
    let (mut target, controller) = joined();
    let long = Command { cdw11: 1.into(), ..Command::get_features(FeatureId::HOST_IDENTIFIER, 16) };
    let (completion, data) = ask(&mut target, controller, long);
    assert!(completion.status().is_success());
    assert_eq!(data, Uuid::from_u128(0x1234).as_bytes());
    let short = Command::get_features(FeatureId::HOST_IDENTIFIER, 8);
    let status = status_of(&mut target, controller, short);
    assert_eq!(status, Status::HOST_IDENTIFIER_INCONSISTENT.dnr());
}

#[test]
fn a_timestamp_goes_on_from_where_the_host_set_it() {
    let (mut target, controller) = joined();
    let set = Command::set_features(FeatureId::TIMESTAMP, 0).with_transport_data(8);
    let at = 1_700_000_000_000_u64;
    ask_with(&mut target, controller, set, &at.to_le_bytes());
    let get = Command::get_features(FeatureId::TIMESTAMP, 8);
    target.admin(NOW.plus(Nanos::from_secs(3)), controller, &get, &[]);
    let [Action::Respond { data, .. }] = &actions(&mut target)[..] else {
        panic!("one answer was expected")
    };
    assert_eq!(data[..6], (at + 3000).to_le_bytes()[..6]);
    assert_eq!(data[6..], [0b010, 0]);
}

#[test]
fn host_behavior_is_512_bytes_or_nothing() {
    let (mut target, controller) = joined();
    let set = Command::set_features(FeatureId::HOST_BEHAVIOR, 0).with_transport_data(512);
    let mut behavior = [0; 512];
    behavior[0] = 1;
    let (completion, _) = ask_with(&mut target, controller, set, &behavior);
    assert!(completion.status().is_success());
    let get = Command::get_features(FeatureId::HOST_BEHAVIOR, 512);
    assert_eq!(ask(&mut target, controller, get).1, behavior);
    let (completion, _) = ask_with(&mut target, controller, set, &behavior[..511]);
    assert_eq!(completion.status(), Status::SGL_LENGTH_INVALID.dnr());
}

#[test]
fn defaults_and_capabilities_can_be_asked_for() {
    let (mut target, controller) = joined();
    ask(&mut target, controller, set(FeatureId::ARBITRATION, 7));
    let select = |select: u32| Command {
        cdw10: (select << 8 | u32::from(FeatureId::ARBITRATION.0)).into(),
        ..get(FeatureId::ARBITRATION)
    };
    for (selected, expected) in [(0, 7), (1, 0), (2, 0), (3, 0b100)] {
        assert_eq!(ask(&mut target, controller, select(selected)).0.dw0.get(), expected);
    }
    let status = status_of(&mut target, controller, select(4));
    assert_eq!(status, Status::INVALID_FIELD.dnr());
}

#[test]
fn a_discovery_controller_has_the_features_of_one() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    let keep_alive = set(FeatureId::KEEP_ALIVE_TIMER, 1000);
    assert!(status_of(&mut target, controller, keep_alive).is_success());
    let notices = value(&mut target, controller, FeatureId::ASYNC_EVENT_CONFIGURATION);
    assert_eq!(notices, 1 << 31);
    let queues = get(FeatureId::NUMBER_OF_QUEUES);
    assert_eq!(status_of(&mut target, controller, queues), Status::INVALID_FIELD.dnr());
}
