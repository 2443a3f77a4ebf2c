//! The iSCSI names of subsystems. RFC 7143, 4.2.7, and RFC 3722.
//!
//! Names of volumes and subsystems tell capital from small letters, and may have `_`; iSCSI names do
//! neither. So several subsystems can have the same iSCSI name. Creating such a one is refused where iSCSI
//! is served. Where they exist nevertheless, because no node served iSCSI when they were created, the name
//! is that of the only one whose space is the node's own, then of the only one of another node, then of
//! the cluster. If there are several, none has it: no record says which of them an initiator means.
//!
//! Invariant: an initiator that logs in by a name gets the volumes that were announced under it, or none.

use std::collections::BTreeMap;

use nearflash_iscsi::name_part;
use nearflash_planner::Refusal;
use nearflash_records::ClusterState;
use nearflash_records::record::Door;
use nearflash_space::{Home, Name, Space, Volume};

/// The prefix of every iSCSI target's name; the subsystem's name follows. RFC 7143, 4.2.7.4.
pub const IQN_PREFIX: &str = "iqn.2026-11.io.nearflash:";

/// The iSCSI name of the target that exports the subsystem with this name: in lower case, the form in
/// which such names are compared, and with `-` in place of `_`.
pub fn target_iqn(name: &Name) -> String {
    format!("{IQN_PREFIX}{}", name_part(name.as_str()))
}

/// The subsystems that have an iSCSI name, and those that have none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TargetNames {
    /// The subsystem of each name.
    named: BTreeMap<String, Name>,
    /// The subsystems without a name, by the name that they would have.
    left_out: BTreeMap<String, Vec<Name>>,
}

impl TargetNames {
    /// The names of the subsystems of these volumes.
    pub fn of<'a>(volumes: impl Iterator<Item = &'a Volume>) -> Self {
        let mut nearest: BTreeMap<&Name, u8> = BTreeMap::new();
        for volume in volumes {
            let distance = nearest.entry(&volume.subsystem).or_insert(u8::MAX);
            *distance = (*distance).min(self::distance(volume.home));
        }
        let mut alike: BTreeMap<String, Vec<(u8, &Name)>> = BTreeMap::new();
        for (name, distance) in nearest {
            alike.entry(target_iqn(name)).or_default().push((distance, name));
        }
        let mut it = Self::default();
        for (iqn, subsystems) in alike {
            let first = subsystems.iter().map(|(distance, _)| *distance).min();
            let mut candidates = subsystems.iter().filter(|(distance, _)| Some(*distance) == first);
            let named = match (candidates.next(), candidates.next()) {
                (Some((_, name)), None) => Some(*name),
                _ => None,
            };
            let rest = subsystems.iter().map(|(_, name)| *name).filter(|it| Some(*it) != named);
            let rest: Vec<Name> = rest.cloned().collect();
            if !rest.is_empty() {
                it.left_out.insert(iqn.clone(), rest);
            }
            if let Some(name) = named {
                it.named.insert(iqn, name.clone());
            }
        }
        it
    }

    /// The subsystem of a target; `None` if the node has no such target.
    pub fn subsystem(&self, iqn: &str) -> Option<&Name> {
        self.named.get(iqn)
    }

    /// Whether a subsystem has its iSCSI name.
    pub fn is_named(&self, subsystem: &Name) -> bool {
        self.subsystem(&target_iqn(subsystem)) == Some(subsystem)
    }

    /// Each name that subsystems are left out of, its holder, and those subsystems.
    pub fn clashes(&self) -> impl Iterator<Item = (&str, Option<&Name>, &[Name])> {
        let left_out = self.left_out.iter();
        left_out.map(|(iqn, names)| (iqn.as_str(), self.named.get(iqn), names.as_slice()))
    }
}

/// Whose space a volume has: the node's own comes first.
fn distance(home: Home) -> u8 {
    match home {
        Home::Node => 0,
        Home::OtherNode => 1,
        _ => 2,
    }
}

/// Refuses a subsystem whose iSCSI name another one of these has.
///
/// # Errors
/// If there is one.
pub fn check_new<'a>(
    (volume, subsystem): (&Name, &Name),
    mut others: impl Iterator<Item = &'a Name>,
) -> Result<(), Refusal> {
    let iqn = target_iqn(subsystem);
    match others.find(|other| *other != subsystem && target_iqn(other) == iqn) {
        None => Ok(()),
        Some(other) => {
            let (volume, other) = (volume.clone(), other.clone());
            Err(Refusal::IscsiNameTaken { volume, other, iqn: iqn.into() })
        }
    }
}

/// The subsystems that hosts and initiators may see.
pub fn subsystems(space: &Space) -> impl Iterator<Item = &Name> {
    space.volumes().filter(|volume| volume.home.is_public()).map(|volume| &volume.subsystem)
}

/// The subsystems of the cluster's volumes.
pub fn subsystems_of_cluster(state: &ClusterState) -> impl Iterator<Item = &Name> {
    state.volumes().values().map(|volume| &volume.subsystem)
}

/// Whether a node of the cluster serves iSCSI, as far as the store knows.
pub fn is_served_in(state: &ClusterState) -> bool {
    state
        .nodes()
        .values()
        .any(|node| node.addresses.get(&Door::Iscsi).is_some_and(|addresses| !addresses.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_device::DeviceId;
    use nearflash_space::{Epoch, Extent, Provisioning, Reservations, Stripes};
    use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};
    use uuid::Uuid;

    fn volume(name: &str, home: Home) -> Volume {
        let name: Name = name.parse().unwrap();
        Volume {
            id: nearflash_request::VolumeId(0),
            uuid: Uuid::nil(),
            subsystem: name.clone(),
            name,
            block_size: BlockSize::B512,
            blocks: Blocks(8),
            preparing: None,
            nsid: 1,
            epoch: Epoch(1),
            extents: vec![Extent { device: DeviceId(0), start: ByteOffset(0), len: ByteLen(4096) }],
            provisioning: Provisioning::Thin,
            reservations: Reservations::default(),
            home,
            stripes: Stripes::NONE,
        }
    }

    fn names(volumes: &[(&str, Home)]) -> TargetNames {
        let volumes: Vec<Volume> = volumes.iter().map(|(name, home)| volume(name, *home)).collect();
        TargetNames::of(volumes.iter())
    }

    fn named(names: &TargetNames, subsystem: &str) -> bool {
        names.is_named(&subsystem.parse().unwrap())
    }

    #[test]
    fn of_names_that_iscsi_does_not_tell_apart_no_initiator_gets_the_other() {
        let both = names(&[("Backup", Home::Node), ("backup", Home::Node), ("data", Home::Node)]);
        assert!(!named(&both, "Backup") && !named(&both, "backup") && named(&both, "data"));
        assert_eq!(both.subsystem("iqn.2026-11.io.nearflash:backup"), None);
        let [(_, served, left_out)] = both.clashes().collect::<Vec<_>>()[..] else {
            panic!("{both:?}")
        };
        let names: Vec<&str> = left_out.iter().map(Name::as_str).collect();
        assert_eq!((served, &names[..]), (None, &["Backup", "backup"][..]));
    }

    #[test]
    fn a_volume_of_the_node_keeps_its_name_when_the_cluster_gets_one_like_it() {
        for (own, other) in [("my-vol", "my_vol"), ("backup", "Backup"), ("Backup", "backup")] {
            let all = names(&[(other, Home::Cluster), (own, Home::Node)]);
            assert!(named(&all, own) && !named(&all, other), "{own}");
            let served = all.clashes().next().and_then(|(_, served, _)| served);
            assert_eq!(served.map(Name::as_str), Some(own));
        }
    }

    #[test]
    fn a_new_name_is_refused_only_if_another_subsystem_has_it() {
        let [backup, capital, under, minus]: [Name; 4] =
            ["backup", "Backup", "my_vol", "my-vol"].map(|it| it.parse().unwrap());
        let others = [backup.clone(), minus.clone()];
        let check = |subsystem: &Name| check_new((subsystem, subsystem), others.iter());
        assert!(check(&backup).is_ok() && check(&minus).is_ok(), "a second volume of a subsystem");
        for (new, of) in [(capital, "backup"), (under, "my-vol")] {
            let refused = check(&new).unwrap_err().to_string();
            assert!(refused.contains(&format!("subsystem '{of}'")), "{refused}");
            assert_eq!(refused.lines().count(), 1);
        }
    }
}
