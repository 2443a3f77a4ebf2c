//! The command line that is equivalent to a point.

use nearflash_bench::floor::Headers;
use nearflash_bench::subject::Target;

use super::drive::range_per_client;
use super::file;
use super::node::{options, volume};
use super::ways::Place;
use crate::plan::{Door, FileWay, Layout, Load, Point, Subject};

/// For a point with one load on one volume. A node's volume is named as if the node listened on the
/// default ports.
pub(super) fn of(point: &Point, places: &[Place]) -> Option<String> {
    let [load] = &point.loads[..] else { return None };
    let target = match &point.subject {
        Subject::Wire(Headers { request_len, answer_len }) => {
            format!("floor://?headers={},{}", request_len.0, answer_len.0)
        }
        Subject::Node { door, media, session } => {
            let [medium] = &media[..] else { return None };
            let place = match door {
                Door::Iscsi => "iscsi://127.0.0.1:3260",
                Door::NvmeTcp => "nvme-tcp://127.0.0.1:4420",
                Door::Direct => "direct://127.0.0.1:4421",
                Door::DirectLocal => "direct+local:direct.sock",
            };
            format!("{place}/{}{}", volume(*medium), options(*door, *session))
        }
        // Each client of a space has a node of its own, and a model has no clients.
        Subject::Space { .. } | Subject::Model(_) => return None,
        Subject::File { .. } => return of_file(point, places.first()?),
        Subject::Local(_) | Subject::Url(_) | Subject::Peer { .. } => places.first()?.target.url(),
    };
    let place = places.first();
    let is_wire = matches!(point.subject, Subject::Wire(_));
    Some(format!("nearflash bench '{target}'{}", words(load, place, is_wire)))
}

/// A volume of files is named as if it were mounted on `mnt`.
fn of_file(point: &Point, place: &Place) -> Option<String> {
    let (Subject::File { way, .. }, [load]) = (&point.subject, &point.loads[..]) else {
        return None;
    };
    let mounted = || Place { target: Target::File("mnt/file".into()), ..place.clone() };
    let words = match way {
        FileWay::Kernel => file::words(*way, place, load),
        FileWay::Mount | FileWay::Interposed => file::words(*way, &mounted(), load),
    };
    Some(format!("nearflash {}", words.join(" ")))
}

fn words(load: &Load, place: Option<&Place>, is_wire: bool) -> String {
    let mut words = format!(" --rw {} --bs {}", load.pattern.name(), load.op_len.0);
    if load.pattern.single_direction().is_none() {
        words.push_str(&format!(" --rwmixread {}", load.read_percent));
    }
    words.push_str(&format!(" --iodepth {} --numjobs {}", load.depth, load.clients));
    if let Some(rate) = load.rate_iops {
        words.push_str(&format!(" --rate-iops {}", rate / u64::from(load.clients.max(1))));
    }
    if load.clients > 1 && !is_wire {
        words.push_str(" --threads 1");
    }
    let Some(Place { target, offset, len: Some(len) }) = place else { return words };
    let is_whole = !matches!(target, Target::File(_));
    match load.layout {
        Layout::Shared if is_whole => {}
        Layout::Shared => {
            words.push_str(&format!(" --offset {} --size {} --time-based", offset.0, len.0))
        }
        Layout::RangePerClient => {
            let share = range_per_client(*len, load.clients).0;
            let offset = offset.0;
            words.push_str(&format!(
                " --offset {offset} --size {share} --offset_increment {share} --time-based"
            ));
        }
    }
    words
}
