//! The memberships of mirrors, as the cluster's store has them and as [`nearflash_mirror::membership`] has them.

use nearflash_cluster::compile::MirrorLayout;
use nearflash_mirror::Term;
use nearflash_mirror::membership::{Element, Known, Record, Token};
use nearflash_records::record::{InSyncRecord, MirrorRecord, Schema};
use nearflash_units::ByteLen;

/// The membership that a record of the store says.
pub fn known(layout: &MirrorLayout) -> Known {
    let revision = i64::try_from(layout.revision).unwrap_or(i64::MAX);
    Known { record: record_of(&layout.record), revision }
}

/// A record of the store in the terms of the membership.
pub fn record_of(record: &MirrorRecord) -> Record {
    let element = |it: &InSyncRecord| Element { replica: it.replica, incarnation: it.incarnation };
    Record {
        term: Term(record.term),
        primary: record.primary,
        in_sync: record.in_sync.iter().map(element).collect(),
        kept_since: Term(record.kept_since),
        token: Token(record.token),
    }
}

/// A membership in the terms of the store.
pub fn mirror_record(record: &Record, len: ByteLen) -> MirrorRecord {
    let element = |it: &Element| InSyncRecord { replica: it.replica, incarnation: it.incarnation };
    MirrorRecord {
        schema: Schema,
        len,
        term: record.term.0,
        primary: record.primary,
        in_sync: record.in_sync.iter().map(element).collect(),
        kept_since: record.kept_since.0,
        token: record.token.0,
    }
}
