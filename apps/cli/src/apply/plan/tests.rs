use nearflash_api::{ChapInfo, HostVolume, KeyedHost, VolumesOfHost};
use nearflash_config::{Demand, Derivation, DhchapSpec, Protocol, PskSpec};
use proptest::prelude::*;

use super::super::state::{Credential, Grant, Layout};
use super::*;
use crate::new_volume::on_device;

const DEVICES: [&str; 2] = ["flash", "fast"];

fn volume(name: &str, len: u64, device: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        len: ByteLen(len),
        device: device.to_owned(),
        block_size: 512,
        subsystem: name.to_owned(),
        provisioning: "thin".to_owned(),
        layout: None,
    }
}

/// A volume of the cluster.
fn shared(name: &str, len: u64) -> Volume {
    let (stripe_unit, placement) = (ByteLen(65536), "spread".to_owned());
    let layout = Layout { replicas: 2, stripe_unit, width: 3, placement };
    Volume { layout: Some(layout), block_size: 4096, ..volume(name, len, "") }
}

fn asked(text: &str) -> VolumeCreate {
    on_device(&nearflash_config::parse_volume(text).unwrap())
}

/// A volume without a device.
fn unplaced(name: &str, bytes: u64) -> VolumeCreate {
    VolumeCreate { name: name.to_owned(), bytes, ..VolumeCreate::default() }
}

/// A node with two devices.
fn node(volumes: Vec<Volume>) -> Running {
    let device = |name: &&str| Device {
        name: (*name).to_owned(),
        kind: "ram".to_owned(),
        len: ByteLen(1 << 30),
    };
    Running { volumes, devices: DEVICES.iter().map(device).collect(), ..Running::default() }
}

#[test]
fn a_volume_that_a_job_of_an_earlier_command_makes_is_not_what_is_declared_yet() {
    let declared = Declared { volumes: vec![unplaced("data", 1 << 30)], ..Declared::default() };
    let jobs = vec![("data".to_owned(), 4), ("other".to_owned(), 6)];
    let running = Running { jobs, ..node(vec![shared("data", 1 << 30)]) };
    let plan = Plan::of(&declared, &running, Permission::default());
    assert_eq!((plan.jobs.as_slice(), plan.is_empty()), (&[("data".to_owned(), 4)][..], false));
    let text = super::super::text::plan(&plan);
    assert!(text.starts_with("volume 'data': job 4 is under way, and is waited for"), "{text}");
}

fn declared(volumes: &[&str]) -> Declared {
    Declared { volumes: volumes.iter().map(|text| asked(text)).collect(), ..Declared::default() }
}

const ALL: Permission = Permission { prune: true, destroy: true, force: false };

/// A node as it is after a step, if every call does what it says.
fn make(running: &mut Running, step: &Step) {
    match step {
        Step::GrantRevoke { number, .. } => running.grants.retain(|it| it.number != *number),
        Step::VolumeRemove(gone) => {
            running.volumes.retain(|it| it != gone);
            running.grants.retain(|it| it.terms.volume != gone.name);
            for list in &mut running.lists {
                list.volumes.retain(|it| it.volume != gone.name);
            }
        }
        Step::VolumeShrink { volume, to } | Step::VolumeGrow { volume, to } => {
            let found = running.volumes.iter_mut().find(|it| *it == volume);
            found.expect("the volume is as it was planned on").len = *to;
        }
        Step::VolumeCreate(it) => {
            assert!(running.volumes.iter().all(|old| old.name != it.name));
            let made = match &it.device {
                None => shared(&it.name, it.bytes),
                Some(device) => volume(&it.name, it.bytes, device),
            };
            running.volumes.push(Volume {
                block_size: it.block_size.unwrap_or(made.block_size),
                subsystem: it.subsystem.as_ref().unwrap_or(&it.name).clone(),
                provisioning: it.provisioning.clone().unwrap_or_else(|| "thin".to_owned()),
                ..made
            });
        }
        Step::HostAdd(spec) => {
            assert!(running.hosts.iter().all(|old| old.nqn != spec.nqn.as_str()));
            running.hosts.push(keyed(spec));
            if let Some(volumes) = listed(spec) {
                set_list(running, spec.nqn.as_str(), volumes);
            }
        }
        Step::HostVolumes { nqn, volumes } => set_list(running, nqn, volumes.clone()),
        Step::HostUnlist { nqn } => running.lists.retain(|it| it.host != *nqn),
        Step::HostChange { spec, from } => {
            *running.hosts.iter_mut().find(|it| *it == from).expect("the host") = keyed(spec);
        }
        Step::ChapAdd(spec) => running.chap.push(account(spec)),
        Step::ChapChange { spec, from } => {
            *running.chap.iter_mut().find(|it| *it == from).expect("the user") = account(spec);
        }
        Step::CredentialCreate(spec) => {
            running.credentials.push(Credential { id: spec.id.to_string(), expires: false });
        }
        Step::GrantAdd(spec) => {
            let terms = terms(spec);
            assert!(running.volumes.iter().any(|it| it.name == terms.volume), "{terms:?}");
            assert!(running.credentials.iter().any(|it| it.id == terms.credential), "{terms:?}");
            let number = running.grants.iter().map(|it| it.number).max().unwrap_or(0) + 1;
            running.grants.push(Grant { number, terms, expires: false });
        }
        Step::HostRemove { nqn } => {
            running.hosts.retain(|it| it.nqn != *nqn);
            running.lists.retain(|it| it.host != *nqn);
        }
        Step::ChapRemove { user } => running.chap.retain(|it| it.user != *user),
        Step::CredentialRemove { id } => {
            running.credentials.retain(|it| it.id != *id);
            running.grants.retain(|it| it.terms.credential != *id);
        }
    }
}

fn set_list(running: &mut Running, nqn: &str, volumes: Vec<HostVolume>) {
    for it in &volumes {
        assert!(running.volumes.iter().any(|volume| volume.name == it.volume), "{it:?}");
    }
    running.lists.retain(|it| it.host != nqn);
    running.lists.push(VolumesOfHost { host: nqn.to_owned(), volumes });
}

/// The names of everything that a node has, with its kind.
fn names(running: &Running) -> Vec<(&'static str, String)> {
    let volumes = running.volumes.iter().map(|it| ("volume", it.name.clone()));
    let hosts = running.hosts.iter().map(|it| ("host", it.nqn.clone()));
    let lists = running.lists.iter().map(|it| ("host", it.host.clone()));
    let hosts = hosts.chain(lists);
    let chap = running.chap.iter().map(|it| ("chap", it.user.clone()));
    let credentials = running.credentials.iter().map(|it| ("credential", it.id.clone()));
    let grants = running.grants.iter().map(|it| ("grant", format!("{:?}", it.terms)));
    volumes.chain(hosts).chain(chap).chain(credentials).chain(grants).collect()
}

/// The names of everything that a file declares.
fn declared_names(declared: &Declared) -> Vec<(&'static str, String)> {
    let access = &declared.access;
    let volumes = declared.volumes.iter().map(|it| ("volume", it.name.clone()));
    let hosts = access.hosts.iter().map(|it| ("host", it.nqn.to_string()));
    let chap = access.chap.iter().map(|it| ("chap", it.user.to_string()));
    let credentials = access.credentials.iter().map(|it| ("credential", it.id.to_string()));
    let grants = access.grants.iter().map(|it| ("grant", format!("{:?}", terms(it))));
    volumes.chain(hosts).chain(chap).chain(credentials).chain(grants).collect()
}

/// Few names, so that states often have them in common.
fn chosen<T: Clone + std::fmt::Debug + 'static>(of: Vec<T>) -> impl Strategy<Value = Vec<T>> {
    let all = of.len();
    proptest::sample::subsequence(of, 0..=all)
}

/// Volumes that are mostly on the same devices with the same blocks, so that few states are in conflict.
fn any_volumes() -> impl Strategy<Value = Vec<Volume>> {
    let usually = || proptest::bool::weighted(0.97);
    let one = move |name: &'static str, device: usize| {
        (1u64..4, usually(), usually()).prop_map(move |(mib, is_there, is_small)| Volume {
            block_size: if is_small { 512 } else { 4096 },
            ..volume(name, mib << 20, DEVICES[if is_there { device } else { 1 - device }])
        })
    };
    (one("a", 0), one("b", 1), one("c", 0), one("d", 1))
        .prop_flat_map(|(a, b, c, d)| chosen(vec![a, b, c, d]))
}

fn any_running() -> impl Strategy<Value = Running> {
    let host =
        |((nqn, mutual), (dhchap, tls)): ((&'static str, bool), (bool, Option<&str>))| KeyedHost {
            nqn: format!("nqn.2026-11.x:{nqn}"),
            dhchap: dhchap || tls.is_none(),
            mutual: mutual && (dhchap || tls.is_none()),
            tls: tls.map(str::to_owned),
            psk_derivation: tls.map(|_| "standard".to_owned()),
            ..KeyedHost::default()
        };
    let user = |(user, mutual): (&'static str, bool)| ChapInfo {
        user: user.to_owned(),
        mutual_user: mutual.then(|| "node".to_owned()),
        initiators: if mutual { vec!["iqn.a:b".to_owned()] } else { vec![] },
    };
    let credential =
        |(id, expires): (&'static str, bool)| Credential { id: id.to_owned(), expires };
    let pairs = || chosen(vec![("x", false), ("y", true), ("z", false)]);
    let psk =
        || proptest::option::weighted(0.3, proptest::sample::select(vec!["required", "allowed"]));
    let keys = proptest::collection::vec((proptest::bool::weighted(0.8), psk()), 3);
    let lists =
        proptest::collection::vec((0..4usize, proptest::sample::select(vec!["r", "rw"])), 0..3);
    (
        any_volumes(),
        (pairs(), keys),
        pairs(),
        pairs(),
        proptest::collection::vec((0..4usize, 0..3usize, any::<bool>()), 0..4),
        lists,
    )
        .prop_map(move |(volumes, (hosts, keys), users, ids, grants, lists)| {
            // Also of hosts without keys, and without volumes.
            let list = |(name, (volume, rights)): (&str, (usize, &str))| VolumesOfHost {
                host: format!("nqn.2026-11.x:{name}"),
                volumes: volumes.get(volume).map_or_else(Vec::new, |it| {
                    vec![HostVolume { volume: it.name.clone(), rights: rights.to_owned() }]
                }),
            };
            let lists = ["x", "y", "w"].into_iter().zip(lists).map(list).collect();
            let credentials: Vec<Credential> = ids.into_iter().map(credential).collect();
            let grant = |(number, (volume, id, expires)): (u64, (usize, usize, bool))| {
                let terms = Terms {
                    credential: credentials.get(id)?.id.clone(),
                    volume: volumes.get(volume)?.name.clone(),
                    place: "0..".to_owned(),
                    rights: "r".to_owned(),
                };
                Some(Grant { number, terms, expires })
            };
            let grants = (1u64..).zip(grants).filter_map(grant).collect();
            Running {
                hosts: hosts.into_iter().zip(keys).map(host).collect(),
                lists,
                chap: users.into_iter().map(user).collect(),
                grants,
                credentials,
                ..node(volumes)
            }
        })
}

fn any_declared() -> impl Strategy<Value = Declared> {
    let request = |it: Volume| {
        asked(&format!("{}={}@{},block-size={}", it.name, it.len, it.device, it.block_size))
    };
    let host =
        |((nqn, mutual), (dhchap, psk, volumes)): ((&'static str, bool), AnyHost)| HostSpec {
            dhchap: (dhchap || (psk.is_none() && volumes.is_none())).then(|| dhchap_spec(mutual)),
            psk: psk.map(psk_spec),
            volumes: volumes.map(|names| names.into_iter().map(host_volume).collect()),
            ..host_spec(nqn)
        };
    let user = |(user, mutual): (&'static str, bool)| ChapSpec {
        user: user.parse().unwrap(),
        secret_file: "s".into(),
        mutual: mutual.then(|| ("node".parse().unwrap(), "m".into())),
        initiators: std::collections::BTreeSet::new(),
    };
    let credential =
        |id: &'static str| CredentialSpec { id: id.parse().unwrap(), secret_file: "s".into() };
    let grant = |(id, volume): (&'static str, &'static str)| GrantSpec {
        credential: id.parse().unwrap(),
        volume: volume.parse().unwrap(),
        covers: Covered::Range(nearflash_access::GrantRange::WHOLE),
        rights: nearflash_access::Rights::Read,
    };
    let pairs = || chosen(vec![("x", true), ("y", true), ("z", false)]);
    let parts = proptest::collection::vec(any_host(), 3);
    (
        any_volumes(),
        (pairs(), parts),
        pairs(),
        chosen(vec!["x", "z"]),
        chosen(vec![("x", "a"), ("z", "b")]),
    )
        .prop_map(move |(volumes, (hosts, parts), users, ids, grants)| Declared {
            volumes: volumes.into_iter().map(request).collect(),
            access: nearflash_config::AccessConfig {
                hosts: hosts.into_iter().zip(parts).map(host).collect(),
                chap: users.into_iter().map(user).collect(),
                credentials: ids.into_iter().map(credential).collect(),
                grants: grants.into_iter().map(grant).collect(),
            },
            fixed: Vec::new(),
        })
}

/// Whether a host has a key, whether it must use TLS, and the volumes of its list.
type AnyHost = (bool, Option<Demand>, Option<Vec<&'static str>>);

fn any_host() -> impl Strategy<Value = AnyHost> {
    let demand = proptest::sample::select(vec![Demand::Required, Demand::Allowed]);
    let list = proptest::sample::subsequence(vec!["a", "b"], 0..=1);
    (
        proptest::bool::weighted(0.8),
        proptest::option::weighted(0.4, demand),
        proptest::option::weighted(0.4, list),
    )
}

/// A host of which the file says nothing yet.
fn host_spec(name: &str) -> HostSpec {
    HostSpec { nqn: nearflash_nqn(name), dhchap: None, psk: None, volumes: None }
}

fn dhchap_spec(mutual: bool) -> DhchapSpec {
    let controller_key_file = mutual.then(|| "c".into());
    DhchapSpec { key_file: "k".into(), controller_key_file, hash: None, group: None }
}

fn psk_spec(demand: Demand) -> PskSpec {
    PskSpec { file: "p".into(), derivation: Derivation::Standard, demand }
}

fn host_volume(name: &str) -> (nearflash_space::Name, nearflash_access::Rights) {
    (name.parse().unwrap(), nearflash_access::Rights::ReadWrite)
}

/// The name of a host in a configuration file.
fn nearflash_nqn(name: &str) -> nearflash_config::HostNqn {
    nearflash_config::HostNqn::new(&format!("nqn.2026-11.x:{name}")).unwrap()
}

proptest! {
    #[test]
    fn a_plan_that_is_made_gives_the_declared_state_and_leaves_nothing_to_do(
        declared in any_declared(), running in any_running(), prune: bool,
    ) {
        let may = Permission { prune, destroy: true, force: false };
        let plan = Plan::of(&declared, &running, may);
        prop_assume!(plan.conflicts.is_empty());
        let mut after = running.clone();
        for (made, step) in plan.steps.iter().enumerate() {
            // As the command does before each step.
            prop_assert_eq!(&Plan::of(&declared, &after, may).steps[..], &plan.steps[made..]);
            make(&mut after, step);
        }
        prop_assert!(Plan::of(&declared, &after, may).is_empty());
        let (has, wanted) = (names(&after), declared_names(&declared));
        prop_assert!(wanted.iter().all(|name| has.contains(name)), "{has:?}");
        prop_assert!(!prune || has.iter().all(|name| wanted.contains(name)), "{has:?}");
    }

    #[test]
    fn resources_that_the_file_does_not_name_stay_as_they_are_without_prune(
        declared in any_declared(), running in any_running(), destroy: bool,
    ) {
        let plan = Plan::of(&declared, &running, Permission { prune: false, destroy, force: false });
        let mut after = running.clone();
        prop_assume!(plan.conflicts.is_empty());
        plan.steps.iter().for_each(|step| make(&mut after, step));
        let named = declared_names(&declared);
        let kept = names(&running).into_iter().filter(|name| !named.contains(name));
        let has = names(&after);
        prop_assert!(kept.into_iter().all(|name| has.contains(&name)));
        for volume in running.volumes.iter().filter(|it| !named.contains(&("volume", it.name.clone()))) {
            prop_assert!(after.volumes.contains(volume));
        }
        // A part of a host that the file does not have is a resource, too.
        let specs = &declared.access.hosts;
        let spec = |nqn: &str| specs.iter().find(|spec| spec.nqn.as_str() == nqn);
        for host in &running.hosts {
            let found = after.hosts.iter().find(|it| it.nqn == host.nqn).expect("it is kept");
            let (has_key, has_psk) =
                spec(&host.nqn).map_or((false, false), |it| (it.dhchap.is_some(), it.psk.is_some()));
            let keys = |it: &KeyedHost| (it.dhchap, it.mutual, it.hash.clone(), it.group.clone());
            prop_assert!(has_key || keys(found) == keys(host));
            let psk = |it: &KeyedHost| (it.tls.clone(), it.psk_derivation.clone());
            prop_assert!(has_psk || psk(found) == psk(host));
        }
        for list in &running.lists {
            let has_list = spec(&list.host).is_some_and(|spec| spec.volumes.is_some());
            prop_assert!(has_list || after.lists.contains(list));
        }
    }

    #[test]
    fn a_new_host_never_has_keys_without_the_list_that_the_file_has(
        declared in any_declared(), running in any_running(), prune: bool,
    ) {
        let plan = Plan::of(&declared, &running, Permission { prune, destroy: true, force: false });
        prop_assume!(plan.conflicts.is_empty());
        let mut after = running.clone();
        for step in &plan.steps {
            make(&mut after, step);
            for spec in declared.access.hosts.iter().filter(|spec| spec.volumes.is_some()) {
                let nqn = spec.nqn.as_str();
                let is_new = running.hosts.iter().all(|it| it.nqn != nqn);
                let has_keys = after.hosts.iter().any(|it| it.nqn == nqn);
                let has_list = after.lists.iter().any(|it| it.host == nqn);
                prop_assert!(!is_new || !has_keys || has_list);
            }
        }
    }

    #[test]
    fn no_plan_destroys_data_without_permission(
        declared in any_declared(), running in any_running(), prune: bool,
    ) {
        let plan = Plan::of(&declared, &running, Permission { prune, destroy: false, force: false });
        prop_assert!(!plan.steps.iter().any(Step::destroys));
        let mut after = running.clone();
        prop_assume!(plan.conflicts.is_empty());
        plan.steps.iter().for_each(|step| make(&mut after, step));
        for old in &running.volumes {
            let new = after.volumes.iter().find(|it| it.name == old.name);
            prop_assert!(new.is_some_and(|new| new.len >= old.len && new.device == old.device));
        }
        // Together, the two parts are the plan with permission.
        let all = Plan::of(&declared, &running, Permission { prune, destroy: true, force: false });
        prop_assert_eq!(plan.steps.len() + plan.withheld.len(), all.steps.len());
        prop_assert!(plan.withheld.iter().all(Step::destroys));
    }
}

#[test]
fn a_property_that_a_volume_keeps_is_a_conflict_with_both_values() {
    let running = node(vec![volume("a", 1 << 20, "flash")]);
    let conflicts = |text: &str| Plan::of(&declared(&[text]), &running, ALL).conflicts;
    assert_eq!(
        conflicts("a=1MiB@fast"),
        ["volume 'a' keeps its device, flash, and the file has fast: correct the file, or remove \
             the volume and its data first"]
    );
    for text in [
        "a=1MiB@flash,block-size=4096",
        "a=1MiB@flash,provisioning=thick",
        "a=1MiB@flash,subsystem=s",
    ] {
        assert_eq!(conflicts(text).len(), 1, "{text}");
    }
    assert!(conflicts("a=2MiB@flash,block-size=512").is_empty());
}

#[test]
fn volumes_of_the_cluster_and_of_other_nodes_that_the_file_does_not_have_are_neither_changed_nor_pruned()
 {
    let foreign = vec!["far".to_owned()];
    let running = Running { foreign, ..node(vec![shared("s", 1 << 30)]) };
    assert!(Plan::of(&Declared::default(), &running, ALL).is_empty());
    let conflicts = Plan::of(&declared(&["far=1MiB@flash"]), &running, ALL).conflicts;
    assert!(conflicts[0].starts_with("volume 'far' is a volume of another node"), "{conflicts:?}");
}

#[test]
fn a_volume_of_the_cluster_is_created_once_grows_and_keeps_the_rest() {
    let plan = |volume: VolumeCreate, found: Vec<Volume>| {
        let declared = Declared { volumes: vec![volume], ..Declared::default() };
        Plan::of(&declared, &node(found), ALL)
    };
    let gib = 1 << 30;
    let is = || vec![shared("s", gib)];
    assert_eq!(plan(unplaced("s", gib), vec![]).steps, [Step::VolumeCreate(unplaced("s", gib))]);
    let all = VolumeCreate {
        replicas: Some(2),
        stripe_unit: Some(65536),
        width: Some(3),
        placement: Some("spread".to_owned()),
        ..unplaced("s", gib)
    };
    for same in [unplaced("s", gib), all.clone()] {
        let plan = plan(same, is());
        assert!(plan.is_empty() && plan.conflicts.is_empty(), "{plan:?}");
    }
    let (volume, to) = (shared("s", gib), ByteLen(2 * gib));
    assert_eq!(plan(unplaced("s", 2 * gib), is()).steps, [Step::VolumeGrow { volume, to }]);
    let shrinks = plan(unplaced("s", 4096), is());
    assert!(shrinks.steps.is_empty() && shrinks.conflicts[0].contains("cannot shrink"));
    let others = [
        VolumeCreate { replicas: Some(1), ..all.clone() },
        VolumeCreate { stripe_unit: Some(4096), ..all.clone() },
        VolumeCreate { width: Some(2), ..all.clone() },
        VolumeCreate { placement: Some("local:n1".to_owned()), ..all.clone() },
        VolumeCreate { subsystem: Some("other".to_owned()), ..all.clone() },
        VolumeCreate { provisioning: Some("thick".to_owned()), ..all.clone() },
        VolumeCreate { device: Some("flash".to_owned()), ..unplaced("s", gib) },
    ];
    for other in others {
        let plan = plan(other, is());
        assert!(plan.steps.is_empty() && plan.conflicts.len() == 1, "{plan:?}");
    }
    // Where the node put it on its only device.
    assert!(plan(unplaced("a", gib), vec![self::volume("a", gib, "flash")]).is_empty());
    let on_device =
        plan(VolumeCreate { name: "a".to_owned(), ..all }, vec![self::volume("a", gib, "flash")]);
    assert!(on_device.conflicts[0].contains("keeps its number of replicas, none"), "{on_device:?}");
}

#[test]
fn a_grant_on_a_volume_of_the_cluster_is_made_after_it_and_survives_a_prune() {
    let mut wanted = Declared { volumes: vec![unplaced("s", 1 << 30)], ..Declared::default() };
    let credential = "app".parse::<nearflash_space::Name>().unwrap();
    let (id, secret_file) = (credential.clone(), "s".into());
    wanted.access.credentials.push(CredentialSpec { id, secret_file });
    wanted.access.grants.push(GrantSpec {
        credential,
        volume: "s".parse().unwrap(),
        covers: Covered::Range(nearflash_access::GrantRange::WHOLE),
        rights: nearflash_access::Rights::Read,
    });
    let plan = Plan::of(&wanted, &node(Vec::new()), ALL);
    let [first, second, third] = &plan.steps[..] else { panic!("{plan:?}") };
    assert!(matches!(first, Step::VolumeCreate(_)) && matches!(second, Step::CredentialCreate(_)));
    assert!(matches!(third, Step::GrantAdd(_)));
    wanted.volumes.clear();
    let plan = Plan::of(&wanted, &node(vec![shared("s", 1 << 30)]), ALL);
    assert!(plan.conflicts.is_empty(), "{plan:?}");
}

#[test]
fn devices_and_addresses_need_a_restart_and_so_does_a_volume_on_a_new_device() {
    let mut running = node(Vec::new());
    running.addresses = vec![(Protocol::NvmeTcp, "127.0.0.1:4420".parse().unwrap())];
    let device = |name: &str, kind, len| Fixed::Device { name: name.to_owned(), kind, len };
    let address =
        |protocol, text: &str| Fixed::Address { protocol, address: text.parse().unwrap() };
    let same = [
        device("flash", "ram", Some(ByteLen(1 << 30))),
        device("flash", "ram", None),
        address(Protocol::NvmeTcp, "127.0.0.1:4420"),
        address(Protocol::NvmeTcp, "127.0.0.1:0"),
    ];
    let plan = |fixed: &[Fixed], volumes: &[&str]| {
        let declared = Declared { fixed: fixed.to_vec(), ..declared(volumes) };
        Plan::of(&declared, &running, Permission::default())
    };
    assert!(plan(&same, &[]).is_empty());
    let new = [
        device("flash", "file", None),
        device("new", "ram", None),
        address(Protocol::Iscsi, "127.0.0.1:0"),
        Fixed::Remote { name: "far".to_owned() },
    ];
    let found = plan(&new, &["a=1MiB@new", "b=1MiB@fast"]);
    assert_eq!(found.restarts.len(), 5, "{:?}", found.restarts);
    assert_eq!(found.steps, [Step::VolumeCreate(asked("b=1MiB@fast"))]);
    let none = plan(&[], &["a=1MiB@new"]);
    assert!(none.conflicts[0].contains("needs device 'new'"), "{:?}", none.conflicts);
}

#[test]
fn the_removal_of_the_last_account_is_warned_about_and_its_replacement_is_not() {
    let account =
        |user: &str| ChapInfo { user: user.to_owned(), mutual_user: None, initiators: vec![] };
    let running = Running { chap: vec![account("old")], ..node(Vec::new()) };
    let warnings = |declared: &Declared| Plan::of(declared, &running, ALL).warnings;
    let found = warnings(&Declared::default());
    assert!(found.len() == 1 && found[0].starts_with("no CHAP account is left"), "{found:?}");
    let mut wanted = Declared::default();
    let (user, secret_file) = ("new".parse().unwrap(), "s".into());
    let initiators = std::collections::BTreeSet::new();
    wanted.access.chap.push(ChapSpec { user, secret_file, mutual: None, initiators });
    let plan = Plan::of(&wanted, &running, ALL);
    assert!(plan.warnings.is_empty());
    // There is an account at every moment.
    assert!(matches!(plan.steps[..], [Step::ChapAdd(_), Step::ChapRemove { .. }]));
    assert!(Plan::of(&Declared::default(), &running, Permission::default()).warnings.is_empty());
}

#[test]
fn a_part_of_the_keys_that_the_file_does_not_have_is_kept_unless_the_plan_prunes() {
    let host = |dhchap: bool, mutual: bool| KeyedHost {
        nqn: "nqn.2026-11.x:x".to_owned(),
        dhchap,
        mutual,
        tls: Some("required".to_owned()),
        psk_derivation: Some("standard".to_owned()),
        ..KeyedHost::default()
    };
    let with_key = HostSpec { dhchap: Some(dhchap_spec(false)), ..host_spec("x") };
    let both = HostSpec { psk: Some(psk_spec(Demand::Required)), ..with_key.clone() };
    let list = HostSpec { volumes: Some(Vec::new()), ..host_spec("x") };
    let plan = |spec: &HostSpec, host: KeyedHost, may| {
        let mut wanted = Declared::default();
        wanted.access.hosts.push(spec.clone());
        let lists = vec![VolumesOfHost { host: host.nqn.clone(), volumes: Vec::new() }];
        Plan::of(&wanted, &Running { hosts: vec![host], lists, ..node(Vec::new()) }, may)
    };
    let (keeps, prunes) = (Permission::default(), ALL);
    for may in [keeps, prunes] {
        assert!(!plan(&both, host(true, false), may).steps.iter().any(is_change));
        assert!(plan(&both, host(false, false), may).steps.iter().any(is_change));
    }
    assert!(plan(&with_key, host(true, false), keeps).is_empty());
    assert!(plan(&with_key, host(true, false), prunes).steps.iter().any(is_change));
    // Only whole sets of keys are replaced, and the file does not have the PSK.
    let conflicts = plan(&with_key, host(true, true), keeps).conflicts;
    assert!(
        conflicts[0].contains("has a PSK for TLS, which the file does not declare"),
        "{conflicts:?}"
    );
    assert!(plan(&list, host(true, true), keeps).is_empty());
    let conflicts = plan(&list, host(true, true), prunes).conflicts;
    assert!(
        conflicts[0].contains("has a key for DH-HMAC-CHAP, which the file does not"),
        "{conflicts:?}"
    );
}

fn is_change(step: &Step) -> bool {
    matches!(step, Step::HostChange { .. })
}

#[test]
fn a_list_that_the_file_does_not_have_is_taken_away_only_with_prune_and_a_warning() {
    let list = |name: &str| VolumesOfHost {
        host: format!("nqn.2026-11.x:{name}"),
        volumes: vec![HostVolume { volume: "a".to_owned(), rights: "r".to_owned() }],
    };
    let mut wanted = declared(&["a=1MiB@flash"]);
    wanted.access.hosts.push(HostSpec { dhchap: Some(dhchap_spec(false)), ..host_spec("x") });
    let running = Running {
        hosts: vec![keyed(&wanted.access.hosts[0])],
        lists: vec![list("x"), list("y")],
        ..node(vec![volume("a", 1 << 20, "flash")])
    };
    assert!(Plan::of(&wanted, &running, Permission::default()).is_empty());
    let plan = Plan::of(&wanted, &running, ALL);
    let [unlisted, removed] = ["x", "y"].map(|name| format!("nqn.2026-11.x:{name}"));
    assert_eq!(plan.steps, [Step::HostUnlist { nqn: unlisted }, Step::HostRemove { nqn: removed }]);
    assert!(plan.warnings[0].starts_with("a host without a list sees no volume"), "{plan:?}");
}

#[test]
fn a_host_waits_for_the_volumes_of_its_list() {
    let mut wanted = declared(&["a=1MiB@new"]);
    let volumes = Some(vec![host_volume("a")]);
    let dhchap = Some(dhchap_spec(false));
    wanted.access.hosts.push(HostSpec { dhchap, volumes, ..host_spec("x") });
    wanted.fixed = vec![Fixed::Device { name: "new".to_owned(), kind: "ram", len: None }];
    let plan = Plan::of(&wanted, &node(Vec::new()), ALL);
    assert!(plan.steps.is_empty(), "a host without its list would see other volumes: {plan:?}");
    assert!(plan.restarts.iter().any(|it| it.contains("waits for volume 'a'")), "{plan:?}");
    wanted.volumes.clear();
    let plan = Plan::of(&wanted, &node(Vec::new()), ALL);
    assert!(
        plan.conflicts[0].ends_with("needs volume 'a': add a table [[volume]] for it"),
        "{plan:?}"
    );
}

#[test]
fn a_grant_needs_its_volume_and_its_credential() {
    let grant = GrantSpec {
        credential: "app".parse().unwrap(),
        volume: "a".parse().unwrap(),
        covers: Covered::Range(nearflash_access::GrantRange::WHOLE),
        rights: nearflash_access::Rights::Read,
    };
    let mut wanted = Declared::default();
    wanted.access.grants.push(grant);
    let mut running = node(vec![volume("a", 1 << 20, "flash")]);
    let conflicts = |running: &Running, may| Plan::of(&wanted, running, may).conflicts;
    assert_eq!(conflicts(&running, Permission::default()).len(), 1);
    running.credentials.push(Credential { id: "app".to_owned(), expires: false });
    assert!(conflicts(&running, Permission::default()).is_empty());
    // Pruning would remove both.
    let found = conflicts(&running, ALL);
    assert_eq!(found.len(), 2);
    assert!(found[0].ends_with("needs volume 'a': add a table [[volume]] for it"), "{found:?}");
}
