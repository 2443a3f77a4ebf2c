use super::*;

/// A target with 64 places for I/O controllers, and four for discovery controllers.
fn small() -> Target {
    let limits = Limits { controllers_max: 64, discovery_controllers_max: 4, ..config().limits };
    let mut target = Target::new(TargetConfig { limits, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    target
}

/// `name` comes from the address 192.0.2.`last`.
fn come(
    target: &mut Target,
    subsystem: &Nqn,
    name: &str,
    last: u8,
) -> Result<ControllerId, Status> {
    arrive(target, subsystem, name, Arrival { origin: origin(last), ..arrival() })
}

fn arrive(
    target: &mut Target,
    subsystem: &Nqn,
    name: &str,
    arrival: Arrival,
) -> Result<ControllerId, Status> {
    let mut host = Host::of(subsystem);
    host.data.host = (&nqn(name)).into();
    let connected = target.connect(NOW, &host.connect.to_command(), &host.data, arrival);
    connected.map(|it| it.controller).map_err(|refusal| refusal.status)
}

/// The controllers that end because others needed their places.
fn ended(target: &mut Target) -> Vec<ControllerId> {
    let ended = actions(target).into_iter().map(|action| match action {
        Action::Disconnect { controller, queue: None, reason: DisconnectReason::PlaceTaken } => {
            controller
        }
        other => panic!("{other:?}"),
    });
    ended.collect()
}

fn keyed(target: &mut Target, hosts: &[&str]) {
    target.set_keyed_hosts(Arc::new(hosts.iter().map(|host| nqn(host)).collect()));
}

const BUSY: Status = Status::CONNECT_CONTROLLER_BUSY;

#[test]
fn when_all_controllers_are_taken_the_host_may_try_again_later() {
    let mut target = small();
    let data = nqn("data");
    for number in 0..64u8 {
        come(&mut target, &data, &format!("host-{}", number % 8), number).unwrap();
    }
    assert_eq!(come(&mut target, &data, "other", 99), Err(BUSY));
    target.queue_closed(ControllerId(3), QueueId::ADMIN);
    assert_eq!(come(&mut target, &data, "other", 99), Ok(ControllerId(65)));
    let places = target.places(ControllerKind::Io);
    assert_eq!((places.used, places.places), (64, 64));
    assert_eq!(places.most.map(|(_, count)| count), Some(8));
}

#[test]
fn discovery_controllers_take_no_place_of_others_and_an_address_takes_its_own() {
    let mut target = small();
    let discovery = Nqn::discovery();
    let friend = come(&mut target, &discovery, "friend", 1).unwrap();
    let greedy: Vec<_> =
        (0..9).map(|_| come(&mut target, &discovery, "greedy", 2).unwrap()).collect();
    assert_eq!(ended(&mut target), greedy[..6], "the oldest of the address that has the most");
    assert!(target.status().hosts.iter().any(|it| it.controller == friend));
    assert_eq!(target.places(ControllerKind::Discovery).used, 4);
    for number in 0..64u8 {
        come(&mut target, &nqn("data"), &format!("host-{}", number % 8), number).unwrap();
    }
    assert_eq!(ended(&mut target), []);
}

#[test]
fn no_host_has_more_than_a_quarter_of_the_controllers() {
    let mut target = small();
    let data = nqn("data");
    for last in 0..16 {
        come(&mut target, &data, "greedy", last).unwrap();
    }
    assert_eq!(come(&mut target, &data, "greedy", 99), Err(BUSY));
    assert!(come(&mut target, &data, "other", 1).is_ok());
}

#[test]
fn a_node_with_few_numbers_keeps_some_for_hosts_and_lets_one_of_them_have_half() {
    let mut target = Target::new(TargetConfig { controller_ids: 1..=34, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    for _ in 0..99 {
        come(&mut target, &Nqn::discovery(), "greedy", 2).unwrap();
    }
    let came = |target: &mut Target, name| {
        (0..99).filter(|_| come(target, &nqn("data"), name, 1).is_ok()).count()
    };
    assert_eq!(came(&mut target, "host"), 13);
}

#[test]
fn hosts_without_a_proof_share_their_address_and_leave_places_to_those_that_prove_their_names() {
    let mut target = small();
    let data = nqn("data");
    let mut names = (0..).map(|name| format!("name-{name}"));
    let mut come_as_new = |target: &mut Target, last| {
        let come = |_: &u8| come(target, &data, &names.next().expect("endless"), last).is_ok();
        (0..99).take_while(come).count()
    };
    assert_eq!(come_as_new(&mut target, 1), 32, "an address has half of them");
    keyed(&mut target, &["keyed"]);
    assert_eq!(come_as_new(&mut target, 2), 16, "a quarter is for hosts with keys");
    for _ in 0..16 {
        come(&mut target, &data, "keyed", 3).unwrap();
    }
}

#[test]
fn whoever_still_has_to_prove_its_name_gives_way_and_takes_no_share_of_the_host() {
    let mut target = small();
    let data = nqn("data");
    keyed(&mut target, &["host"]);
    let strangers: Vec<_> = (0..64).map(|_| come(&mut target, &data, "host", 9).unwrap()).collect();
    let host = come(&mut target, &data, "host", 1).unwrap();
    assert_eq!(ended(&mut target), strangers[..1]);
    assert!(ask(&mut target, host, enable()).0.status().is_success(), "it is proved now");
    for _ in 0..70 {
        come(&mut target, &data, "host", 9).unwrap();
    }
    let ended = ended(&mut target);
    assert!(ended.len() == 70 && !ended.contains(&host));
}

#[test]
fn a_host_that_proves_more_controllers_than_its_share_loses_the_last() {
    let mut target = small();
    keyed(&mut target, &["host"]);
    let ids: Vec<_> =
        (0..17).map(|_| come(&mut target, &nqn("data"), "host", 1).unwrap()).collect();
    for id in &ids[..16] {
        assert!(ask(&mut target, *id, enable()).0.status().is_success());
    }
    target.admin(NOW, ids[16], &enable(), &[]);
    let (controller, reason) = (ids[16], DisconnectReason::ShareTaken);
    assert_eq!(actions(&mut target), [Action::Disconnect { controller, queue: None, reason }]);
}

#[test]
fn a_host_has_only_so_many_io_queues() {
    let limits = Limits { host_queues_max: 3, ..config().limits };
    let mut target = Target::new(TargetConfig { limits, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    let ids = [(); 2].map(|()| join(&mut target, &nqn("data")));
    let mut queue = |id, queue| {
        let host = Host::of(&nqn("data")).on_queue(queue, id);
        host.connect(&mut target).map(drop).map_err(|refusal| refusal.status)
    };
    let all = [queue(ids[0], 1), queue(ids[0], 2), queue(ids[1], 1), queue(ids[1], 2)];
    assert_eq!(all, [Ok(()), Ok(()), Ok(()), Err(BUSY)]);
}
