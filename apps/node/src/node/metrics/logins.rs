//! The metrics of refused logins, and of the log.

use std::collections::BTreeMap;
use std::fmt;

use nearflash_api::RefusalReason;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use super::label::Label;
use nearflash_journal::{events, refusals};

const REFUSED: Family = Family::plain(
    "nearflash_logins_refused",
    "Logins of peers that were refused, by protocol and reason",
);
const HELD_BACK: Family = Family::plain(
    "nearflash_log_lines_held_back",
    "Lines about peers that the log has as a number only, since there were too many",
);

const DROPPED: Family = Family::plain(
    "nearflash_log_lines_dropped",
    "Lines of the log that were dropped, since its reader is slow",
);

/// The protocols with logins.
const PROTOCOLS: [&str; 5] = ["direct", "http", "iscsi", "nvme-tcp", "pulse"];

/// A snapshot of the refusals.
#[derive(Debug)]
pub(super) struct LoginMetrics {
    refused: Vec<(Label, Label, u64)>,
    held_back: u64,
    dropped: u64,
}

impl LoginMetrics {
    pub(super) fn now() -> Self {
        let labels = |((protocol, reason), count): ((&'static str, RefusalReason), u64)| {
            (Label::plain(protocol), Label::plain(reason.as_str()), count)
        };
        // A rate needs a sample from before the first one.
        let mut counted: BTreeMap<_, u64> =
            PROTOCOLS.map(|it| ((it, RefusalReason::NotProved), 0)).into();
        counted.extend(refusals::counted());
        let refused = counted.into_iter().map(labels).collect();
        let dropped = u64::try_from(events::dropped()).unwrap_or(u64::MAX);
        Self { refused, held_back: refusals::held_back(), dropped }
    }
}

impl Collector for LoginMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let refused = self.refused.iter().map(|(protocol, reason, count)| {
            ([("protocol", protocol), ("reason", reason)], *count)
        });
        REFUSED.counters(encoder, refused)?;
        HELD_BACK.counters(encoder, [([], self.held_back)].into_iter())?;
        DROPPED.counters(encoder, [([], self.dropped)].into_iter())
    }
}
