use nearflash_access::{ChapUser, GrantRange, Holder};
use nearflash_device::DeviceId;
use nearflash_nvme::auth::{HostKeys, Key, Policy};
use nearflash_space::{Provisioning, VolumeRequest, empty_device};
use nearflash_units::{BlockSize, ByteLen, ByteOffset, MIB};

use super::*;

const NOW: UnixTime = UnixTime(1_000);
const LEN: ByteLen = ByteLen(64 * MIB);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn host(text: &str) -> HostName {
    text.parse().unwrap()
}

/// A node with the volumes `a` and `b`, and a list or keys of hosts as a test wants them.
struct World {
    space: Space,
    keys: HostTable,
    lists: HostVolumes,
}

impl World {
    fn new() -> Self {
        let area = (ByteOffset(MIB), LEN);
        let device =
            empty_device(DeviceId(0), name("d"), Uuid::from_u128(9), BlockSize::B4096, area);
        let mut space = Space::new(vec![device]);
        for (number, text) in (1..).zip(["a", "b"]) {
            let asked = VolumeRequest {
                name: name(text),
                len: ByteLen(16 * MIB),
                device: name("d"),
                block_size: None,
                subsystem: None,
                provisioning: Provisioning::Thin,
            };
            space.create(&asked, Uuid::from_u128(number)).unwrap();
        }
        Self { space, keys: HostTable::default(), lists: HostVolumes::default() }
    }

    fn hosts(&mut self) -> Hosts<'_> {
        let Self { space, keys, lists } = self;
        Hosts { keys, lists, space, unlisted: None }
    }

    /// The names of the volumes of a host; `None` if it has no list.
    fn listed(&self, of: &str) -> Option<Vec<&str>> {
        let list = self.lists.get(&host(of))?;
        let volumes = self.space.volumes().filter(|it| list.contains_key(&it.uuid));
        Some(volumes.map(|it| it.name.as_str()).collect())
    }
}

fn listed(names: &[&str]) -> Vec<Listed> {
    names.iter().map(|text| (name(text), Rights::ReadWrite)).collect()
}

fn secrets(byte: u8) -> HostSecrets {
    HostKeys::new(Key::new(None, &[byte; 32]).unwrap(), None, Policy::default()).unwrap().into()
}

#[test]
fn a_list_gets_volumes_that_exist_and_loses_those_that_are_denied() {
    let mut it = World::new();
    let one = host("nqn.2026-11.test:1");
    it.hosts().allow(&one, &listed(&["a"]), false).unwrap();
    it.hosts().allow(&one, &listed(&["b"]), false).unwrap();
    assert_eq!(it.listed(one.as_str()), Some(vec!["a", "b"]));
    it.hosts().allow(&one, &listed(&["b"]), true).unwrap();
    assert_eq!(it.listed(one.as_str()), Some(vec!["b"]));
    let unknown = Refusal::Volume(VolumeError::NotFound(name("x")));
    assert_eq!(it.hosts().allow(&one, &listed(&["x"]), false), Err(unknown.clone()));
    assert_eq!(it.hosts().deny(&one, &[name("x")]), Err(unknown));
    it.hosts().deny(&one, &[name("b"), name("a")]).unwrap();
    assert_eq!(it.listed(one.as_str()), Some(vec![]), "an empty list is a list");
}

#[test]
fn a_host_that_sees_every_volume_loses_one_only_by_a_list() {
    let mut it = World::new();
    let one = host("iqn.2026-11.test:1");
    assert_eq!(it.hosts().deny(&one, &[name("a")]), Err(Refusal::NoList(one.clone())));
    assert_eq!(it.listed(one.as_str()), None);
    it.hosts().deny(&one, &[]).unwrap();
    assert_eq!(it.listed(one.as_str()), Some(vec![]), "nothing named means all");
    let other = host("iqn.2026-11.test:2");
    it.hosts().deny(&other, &[name("a")]).unwrap();
    assert_eq!(it.listed(other.as_str()), Some(vec![]), "it sees none since the first list");
    let mut open = Hosts { unlisted: Some(UnlistedHosts::All), ..it.hosts() };
    let third = host("iqn.2026-11.test:3");
    assert_eq!(open.deny(&third, &[name("a")]), Err(Refusal::NoList(third)));
}

#[test]
fn the_first_list_is_refused_while_hosts_without_one_are_connected() {
    let mut it = World::new();
    let (all, none) = (UnlistedHosts::All, UnlistedHosts::None);
    it.hosts().allow(&host("nqn.2026-11.test:1"), &listed(&["a"]), false).unwrap();
    let check = |was, is, connected: &[&str]| {
        check_first_list((was, is), &it.lists, connected.iter().map(ToString::to_string))
    };
    assert_eq!(check(all, none, &["nqn.2026-11.test:1"]), Ok(()));
    let (three, two) = ("nqn.2026-11.test:3", "iqn.2026-11.test:2");
    let losers = [two, three].map(str::to_owned).to_vec();
    assert_eq!(check(all, none, &[three, two, three]), Err(Refusal::FirstList { hosts: losers }));
    assert_eq!(check(all, all, &[two]), Ok(()), "the configuration lets them see every volume");
    assert_eq!(check(none, none, &[two]), Ok(()), "they saw none before");
}

#[test]
fn keys_and_lists_of_a_host_come_and_go_together() {
    let mut it = World::new();
    let (one, nqn) = (host("nqn.2026-11.test:1"), Nqn::new("nqn.2026-11.test:1").unwrap());
    assert_eq!(it.hosts().remove(&one, false), Err(Refusal::NoHost(one.clone())));
    let volumes = listed(&["a"]);
    it.hosts().add(&nqn, secrets(1), false, Some((&one, &volumes))).unwrap();
    assert_eq!(it.listed(one.as_str()), Some(vec!["a"]));
    assert!(matches!(it.hosts().add(&nqn, secrets(2), false, None), Err(Refusal::HostTable(_))));
    it.hosts().add(&nqn, secrets(2), true, None).unwrap();
    assert_eq!(it.keys.get(&nqn), Some(&secrets(2)));
    assert_eq!(it.listed(one.as_str()), Some(vec!["a"]), "no list was named, so it stays");
    assert_eq!(it.hosts().remove(&one, false), Ok(Some(secrets(2))));
    assert_eq!(it.listed(one.as_str()), None);
    assert_eq!(it.keys.removed().collect::<Vec<_>>(), [&nqn], "it enters with new keys only");
    assert_eq!(it.hosts().remove(&one, false), Err(Refusal::NoHost(one.clone())));
    assert_eq!(it.hosts().remove(&one, true), Ok(None));
    assert_eq!(it.keys.removed().count(), 0);
    let initiator = host("iqn.2026-11.test:2");
    it.hosts().allow(&initiator, &volumes, false).unwrap();
    assert_eq!(it.hosts().remove(&initiator, false), Ok(None), "a list alone is something");
}

#[test]
fn a_grant_on_files_needs_their_owner_and_every_grant_its_volume() {
    let it = World::new();
    let mut grants = Grants::default();
    let id = name("app");
    let secret = nearflash_access::Secret::new([7; nearflash_access::SECRET_LEN]);
    grants.create(&id, secret, None, NOW).unwrap();
    let asked = |covers| GrantRequest {
        holder: Holder::Credential(name("app")),
        covers,
        rights: Rights::Read,
        expires: None,
    };
    let files = || Covered::Files("/models".parse().unwrap());
    let mut add = |volume: &str, owns_files, covers| {
        add_grant(&mut grants, &it.space, (&name(volume), owns_files), asked(covers), NOW)
    };
    let no_files = Refusal::Grant(GrantError::NoFiles(name("a")));
    assert_eq!(add("a", false, files()), Err(no_files));
    assert_eq!(add("a", true, files()).unwrap().covers, files());
    let whole = Covered::Range(GrantRange::WHOLE);
    assert_eq!(add("a", false, whole.clone()).unwrap().number.0, 2);
    let unknown = Refusal::Volume(VolumeError::NotFound(name("x")));
    assert_eq!(add("x", true, whole), Err(unknown));
}

#[test]
fn an_account_is_replaced_only_if_its_caller_wants_that() {
    let mut accounts = Accounts::default();
    let user: ChapUser = "app".parse().unwrap();
    let account = |secret: &str| ChapAccount {
        user: user.clone(),
        secret: secret.parse().unwrap(),
        mutual: None,
        initiators: [].into(),
    };
    add_account(&mut accounts, account("first-secret-1"), true).unwrap();
    let again = add_account(&mut accounts, account("other-secret-2"), false);
    assert!(matches!(again, Err(Refusal::Account(_))), "{again:?}");
    add_account(&mut accounts, account("other-secret-2"), true).unwrap();
    assert_eq!(accounts.iter().collect::<Vec<_>>(), [&account("other-secret-2")]);
}
