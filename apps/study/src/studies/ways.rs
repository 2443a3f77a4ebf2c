//! Ways to a medium, which studies compare: the series of their figures.

use nearflash_bench::floor::Headers;
use nearflash_units::Nanos;

use super::Setting;
use super::chart::{labelled, len_text};
use crate::exhibit::{Origin, Series};
use crate::plan::{Door, Medium, Peer, SessionOptions, Spread, Subject, Unable};

/// Every protocol, the slowest first.
pub(super) const DOORS: [Door; 4] = [Door::Iscsi, Door::NvmeTcp, Door::Direct, Door::DirectLocal];

/// The null device without delays.
pub(super) const NULL: Medium = Medium::Null { read_delay: Nanos(0), write_delay: Nanos(0) };

/// The user's device or file, or the first scratch file.
pub(super) const FILE: Medium = Medium::File(0);

/// A subject with its names.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Its part of point names.
    pub(super) key: String,
    /// Its label in legends.
    pub(super) label: String,
    /// Its style.
    pub(super) origin: Origin,
    pub(super) subject: Subject,
}

impl Way {
    /// The same way with another label.
    pub(super) fn called(self, label: &str) -> Self {
        Self { label: label.to_owned(), ..self }
    }

    /// Whether it leads through our node.
    pub(super) fn is_node(&self) -> bool {
        matches!(self.subject, Subject::Node { .. })
    }
}

/// The series of the ways that `is_so` accepts.
pub(super) fn series_of<'a>(
    ways: &[Way],
    series: &'a [Series],
    is_so: impl Fn(&Way) -> bool,
) -> Vec<&'a Series> {
    let wanted = ways.iter().filter(|way| is_so(way));
    wanted.filter_map(|way| labelled(series, &way.label)).collect()
}

/// The name of a protocol in point names, and its label in legends.
pub(super) fn door_names(door: Door) -> (&'static str, &'static str) {
    match door {
        Door::Iscsi => ("iscsi", "iSCSI"),
        Door::NvmeTcp => ("nvme-tcp", "NVMe/TCP"),
        Door::Direct => ("direct", "direct"),
        Door::DirectLocal => ("direct-local", "direct, shared memory"),
    }
}

/// The name and the label of a medium.
pub(super) fn medium_names(medium: Medium) -> (String, String) {
    match medium {
        NULL => ("null".into(), "null device".into()),
        Medium::Null { read_delay, write_delay } => {
            let micros = |delay: Nanos| delay.0 / 1000;
            let (read, write) = (micros(read_delay), micros(write_delay));
            let label = if read == write {
                format!("null device of {read} µs")
            } else {
                format!("null device of {read} µs reads, {write} µs writes")
            };
            (format!("null-{read}us-{write}us"), label)
        }
        Medium::Memory(0) => ("memory".into(), "memory".into()),
        Medium::Memory(index) => (format!("memory-{index}"), format!("memory {index}")),
        Medium::File(0) => ("file".into(), "file or device".into()),
        Medium::File(index) => (format!("file-{index}"), format!("file or device {index}")),
    }
}

/// A null device with the same delay for reads and writes.
pub(super) const fn delayed(micros: u64) -> Medium {
    let delay = Nanos::from_micros(micros);
    Medium::Null { read_delay: delay, write_delay: delay }
}

/// A medium of this machine, without a node.
pub(super) fn local(medium: Medium) -> Way {
    let (key, label) = medium_names(medium);
    Way {
        key: format!("local-{key}"),
        label: format!("local {label}"),
        origin: Origin::Limit,
        subject: Subject::Local(medium),
    }
}

/// Our node with one volume on `medium`.
pub(super) fn node(door: Door, medium: Medium) -> Way {
    node_of(door, vec![medium], SessionOptions::default())
}

/// Our node with one volume per medium. The session options are not part of its names.
pub(super) fn node_of(door: Door, media: Vec<Medium>, session: SessionOptions) -> Way {
    let (key, label) = door_names(door);
    let medium = media.first().map_or_else(String::new, |&medium| medium_names(medium).0);
    let count = if media.len() > 1 { format!("-{}x", media.len()) } else { String::new() };
    Way {
        key: format!("{key}-{medium}{count}"),
        label: label.to_owned(),
        origin: Origin::Measured,
        subject: Subject::Node { door, media, session },
    }
}

/// The name of a form of a space, in point names and in legends.
pub(super) fn spread_names(spread: Spread) -> &'static str {
    match spread {
        Spread::Distributed => "distributed",
        Spread::Centralized => "centralized",
    }
}

/// A volume in the space of several nodes. The number of nodes is not part of its label.
pub(super) fn space(door: Door, nodes: u8, spread: Spread) -> Way {
    let (key, label) = door_names(door);
    let form = spread_names(spread);
    Way {
        key: format!("{key}-{form}-{nodes}-nodes"),
        label: format!("{label}, {form}"),
        origin: Origin::Measured,
        subject: Subject::Space { door, nodes, spread },
    }
}

/// The bare exchange with a protocol's headers; `None` for shared memory.
pub(super) fn wire(door: Door) -> Option<Way> {
    let headers = match door {
        Door::Iscsi => Headers::ISCSI,
        Door::NvmeTcp => Headers::NVME_TCP,
        Door::Direct => Headers::DIRECT,
        Door::DirectLocal => return None,
    };
    let (key, label) = door_names(door);
    Some(Way {
        key: format!("wire-{key}"),
        label: format!("wire, headers of {label}"),
        origin: Origin::Limit,
        subject: Subject::Wire(headers),
    })
}

/// The name of a peer's program, and its label in legends.
fn peer_names(peer: Peer) -> (&'static str, &'static str) {
    match peer {
        Peer::Fio => ("fio", "fio on the medium"),
        Peer::Tgt => ("tgt", "tgt (iSCSI)"),
        Peer::Nbdkit => ("nbdkit", "nbdkit (NBD)"),
    }
}

/// Other servers to compare our node with: peers on the same medium, and the user's targets.
pub(super) fn others(setting: &Setting, medium: Medium) -> Vec<Way> {
    let medium_key = medium_names(medium).0;
    let peers = setting.peers.iter().map(|&peer| {
        let (key, label) = peer_names(peer);
        // fio has no network in between: it measures the device alone.
        let origin = if peer == Peer::Fio { Origin::Limit } else { Origin::Measured };
        Way {
            key: format!("{key}-{medium_key}"),
            label: label.to_owned(),
            origin,
            subject: Subject::Peer { peer, medium },
        }
    });
    peers.chain(targets(setting)).collect()
}

/// The user's targets.
pub(super) fn targets(setting: &Setting) -> impl Iterator<Item = Way> {
    setting.targets.iter().map(|target| Way {
        key: format!("url={}", target.url()),
        label: target.url(),
        origin: Origin::Measured,
        subject: Subject::Url(target.clone()),
    })
}

/// The longest operation that a peer takes, if it is limited: tgt fails longer commands, as its
/// Block Limits VPD page announces.
fn op_len_max(peer: Peer) -> Option<u64> {
    match peer {
        Peer::Tgt => Some(128 << 10),
        Peer::Fio | Peer::Nbdkit => None,
    }
}

/// Whether a way takes operations of this length.
pub(super) fn takes(way: &Way, op_len: u64) -> bool {
    match way.subject {
        Subject::Peer { peer, .. } => op_len_max(peer).is_none_or(|max| op_len <= max),
        _ => true,
    }
}

/// A caveat about nbdkit's numbers, if there are any.
pub(super) fn nbdkit_note(setting: &Setting) -> Option<String> {
    setting.peers.contains(&Peer::Nbdkit).then(|| {
        "fio accesses nbdkit over a Unix socket, and nbdkit accesses its file through the page \
         cache. Part of its data therefore comes from memory, while all others access the device. \
         Neither nbdkit's wire nor its device is measured alone."
            .to_owned()
    })
}

/// The lengths that a requested peer does not take.
pub(super) fn too_long(setting: &Setting, lens: &[u64]) -> Vec<Unable> {
    let unable = |&peer: &Peer| {
        let max = op_len_max(peer).filter(|&max| lens.iter().any(|&len| len > max))?;
        let (name, label) = peer_names(peer);
        Some(Unable {
            what: format!("{label} with operations longer than {}", len_text(max)),
            why: format!("{name} refuses longer commands"),
            needs: format!("a {name} that takes them"),
        })
    };
    setting.peers.iter().filter_map(unable).collect()
}

/// Peers that are not part of this run.
pub(super) fn absent_peers(setting: &Setting) -> Vec<Unable> {
    [Peer::Fio, Peer::Tgt, Peer::Nbdkit]
        .into_iter()
        .filter(|peer| !setting.peers.contains(peer))
        .map(|peer| {
            let (name, label) = peer_names(peer);
            let (missing, needs) = match peer {
                Peer::Nbdkit => ("nbdkit, or its client fio,", "nbdkit and fio"),
                Peer::Fio | Peer::Tgt => (name, name),
            };
            Unable {
                what: format!("{label} next to nearflash"),
                why: format!("{missing} is not installed, or was not requested"),
                needs: format!("{needs} on this machine, and --peer {name}"),
            }
        })
        .collect()
}
