//! The notices of the cores: log lines for the operator, and news for the parts of the control side.

use std::sync::Arc;

use nearflash_reactor::{NoticeSink, Reply};
use nearflash_shard::Notice;
use tracing::warn;

use super::common::Common;
use super::config::{Authentication, FilesNews, MirrorNews, News};
use super::faults::Faults;
use super::log::log;
use crate::asker::{AskedBy, Event};

/// Takes the notices of one core.
pub(super) fn notice_sink(common: &Common, news: &News) -> NoticeSink {
    let (replies, courier) = (Arc::clone(&common.replies), Arc::clone(&common.courier));
    let ledger = Arc::clone(&common.ledger);
    let News { changes, mirrors, files, authentication } = news.clone();
    let (mut faults, devices) = (Faults::new(&common.devices), common.devices.clone());
    Box::new(move |notice| match log(notice, &mut faults) {
        Some(Notice::DeviceFailed { device, .. }) => {
            let health = devices[usize::try_from(device.0).expect("few devices")].health();
            // Each core requests at most the operations that it has under way; then it sees that
            // the device is suspect.
            health.note_failure();
            changes.tell(Event::Suspect);
        }
        Some(Notice::Shown(core, number)) => courier.handle_shown(core, number),
        Some(Notice::Quiesced(core, number)) => courier.handle_quiesced(core, number),
        Some(Notice::MirrorsShown(core, number) | Notice::MirrorsDrained(core, number)) => {
            replies.give(number, core, Reply::Done);
        }
        Some(Notice::TraceComplete(_, number)) => replies.give_complete(number),
        Some(Notice::Change { core, owner, tag, change }) => {
            let by = AskedBy { core, owner, volume: change.volume, tag };
            changes.tell(Event::Change { by, change });
        }
        Some(Notice::SessionOver { nexus, identity }) => {
            changes.tell(Event::SessionOver { nexus, identity });
        }
        Some(Notice::Status(core, number, status)) => {
            replies.give(number, core, Reply::Status(status));
        }
        Some(Notice::Users(core, number, users)) => {
            replies.give(number, core, Reply::Users(users));
        }
        Some(Notice::Traced(core, number, traced)) => {
            replies.give(number, core, Reply::Traced(traced));
        }
        Some(Notice::RemoteResized { device, bytes }) => {
            changes.tell(Event::RemoteResized { device, bytes });
        }
        Some(Notice::ReplicaFailed { mirror, result, side }) => {
            let place = if side.is_local() { "here" } else { "on another node" };
            warn!(mirror = mirror.0, "a replica {place} failed: {result:?}");
            mirrors.tell(MirrorNews::Failed { mirror, side });
        }
        Some(Notice::ReadRepaired { mirror }) => {
            let repair =
                "a range that the device could not read is rewritten from the other replica";
            warn!(mirror = mirror.0, "{repair}");
        }
        Some(Notice::MirrorWritesLost { mirror }) => {
            mirrors.tell(MirrorNews::WritesLost { mirror });
        }
        Some(Notice::MirrorWritten { mirror, session, written }) => {
            mirrors.tell(MirrorNews::Written { mirror, session, written });
        }
        Some(Notice::Files { place, demand }) => files.tell(FilesNews::Asked { place, demand }),
        Some(Notice::Authentication { core, owner, peer, step }) => {
            authentication.tell(Authentication { core, owner, peer, step });
        }
        Some(Notice::FilesGone(place)) => files.tell(FilesNews::Gone(place)),
        Some(Notice::MirrorCopied(copied)) => mirrors.tell(MirrorNews::Copied(copied)),
        Some(Notice::Meter(core, opened)) => ledger.open(core, opened),
        Some(Notice::Drained(core)) => replies.give_drained(core),
        _ => {}
    })
}
