use super::*;
use crate::feature::FeatureId;

fn joined_with_keep_alive(ms: u32) -> (Target, ControllerId) {
    let mut target = target();
    let mut host = Host::of(&nqn("data"));
    host.connect.keep_alive_ms = ms;
    let controller = host.connect(&mut target).unwrap().controller;
    ask(&mut target, controller, enable());
    (target, controller)
}

#[test]
fn a_host_that_falls_silent_loses_its_controller() {
    let (mut target, controller) = joined_with_keep_alive(5000);
    let due = NOW.plus(Nanos::from_secs(5));
    assert_eq!(target.poll_timeout(), Some(due));
    target.handle_timeout(Nanos(due.0 - 1));
    assert_eq!(actions(&mut target), []);
    target.handle_timeout(due);
    let reason = DisconnectReason::KeepAliveExpired;
    assert_eq!(actions(&mut target), [Action::Disconnect { controller, queue: None, reason }]);
    assert_eq!(target.poll_timeout(), None);
    assert!(target.status().hosts.is_empty());
}

#[test]
fn a_host_that_is_heard_of_keeps_its_controller() {
    let (mut target, controller) = joined_with_keep_alive(5000);
    let later = NOW.plus(Nanos::from_secs(4));
    target.admin(later, controller, &Command::keep_alive(), &[]);
    let [Action::Respond { completion, .. }] = &actions(&mut target)[..] else {
        panic!("one answer was expected")
    };
    assert!(completion.status().is_success());
    target.handle_timeout(NOW.plus(Nanos::from_secs(8)));
    assert_eq!(actions(&mut target), []);
    assert_eq!(target.poll_timeout(), Some(later.plus(Nanos::from_secs(5))));
}

#[test]
fn a_keep_alive_time_is_rounded_up_to_the_granularity() {
    let (mut target, controller) = joined_with_keep_alive(101);
    assert_eq!(target.poll_timeout(), Some(NOW.plus(Nanos::from_millis(200))));
    let get = Command::get_features(FeatureId::KEEP_ALIVE_TIMER, 0);
    assert_eq!(ask(&mut target, controller, get).0.dw0.get(), 200);
}

#[test]
fn a_discovery_controller_without_a_keep_alive_time_ends_after_two_minutes_of_silence() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    let due = NOW.plus(Nanos::from_secs(120));
    assert_eq!(target.poll_timeout(), Some(due));
    let get = Command::get_features(FeatureId::KEEP_ALIVE_TIMER, 0);
    assert_eq!(ask(&mut target, controller, get).0.dw0.get(), 120_000);
    let off = Command::set_features(FeatureId::KEEP_ALIVE_TIMER, 0);
    assert!(status_of(&mut target, controller, off).is_success());
    target.handle_timeout(due);
    let reason = DisconnectReason::KeepAliveExpired;
    assert_eq!(actions(&mut target), [Action::Disconnect { controller, queue: None, reason }]);
}

#[test]
fn without_a_keep_alive_time_silence_is_allowed() {
    let (mut target, controller) = joined_with_keep_alive(0);
    assert_eq!(target.poll_timeout(), None);
    target.handle_timeout(Nanos::NEVER);
    assert_eq!(actions(&mut target), []);
    let set = Command::set_features(FeatureId::KEEP_ALIVE_TIMER, 1000);
    assert!(status_of(&mut target, controller, set).is_success());
    assert_eq!(target.poll_timeout(), Some(NOW.plus(Nanos::from_secs(1))));
}

#[test]
fn a_host_that_must_authenticate_has_no_keep_alive_time_before_its_first_command() {
    let mut target = target();
    target.set_keyed_hosts(std::sync::Arc::new([nqn("host")].into_iter().collect()));
    let mut host = Host::of(&nqn("data"));
    host.connect.keep_alive_ms = 5000;
    let controller = host.connect(&mut target).unwrap().controller;
    assert_eq!(target.poll_timeout(), None);
    ask(&mut target, controller, enable());
    assert_eq!(target.poll_timeout(), Some(NOW.plus(Nanos::from_secs(5))));
}
