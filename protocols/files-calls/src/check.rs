//! The properties of messages, for any bytes.

use zerocopy::IntoBytes;

use crate::answer::{self, InodeRecord, UsageRecord, push_entry};
use crate::{Answer, DATA_LEN_MAX, NAME_LEN_MAX, Request};

/// For all bytes: they are no request, or a request within the bounds that is encoded as a request which
/// decodes to the same.
pub fn check_request(bytes: &[u8]) {
    let Ok(request) = Request::decode(bytes) else { return };
    assert!(request.name.len() <= NAME_LEN_MAX && request.second.len() <= NAME_LEN_MAX);
    assert!(request.data.len() <= DATA_LEN_MAX);
    let again = request.encode().expect("it has the lengths of a request");
    assert_eq!(again.len(), bytes.len());
    assert_eq!(Request::decode(&again), Ok(request));
}

/// For all bytes: they are no answer, or an answer that is encoded as the same bytes, whose payload is
/// read in every form without a panic.
pub fn check_answer(bytes: &[u8]) {
    let Ok(answer) = Answer::decode(bytes) else { return };
    assert_eq!(answer.encode().expect("it has the length of an answer"), bytes);
    let payload = answer.payload;
    if let Ok(entries) = answer::entries(payload) {
        let mut again = Vec::new();
        assert!(entries.iter().all(|entry| push_entry(&mut again, entry)));
        assert_eq!(again, payload);
    }
    if let Ok(names) = answer::names(payload) {
        assert_eq!(answer::encode_names(&names).as_deref(), Some(payload));
    }
    if let Ok((seal, bearer)) = answer::seal(payload) {
        assert_eq!(answer::encode_seal(seal, bearer).as_deref(), Some(payload));
    }
    if let Ok(record) = InodeRecord::decode(payload) {
        assert_eq!(record.as_bytes(), payload);
    }
    if let Ok(record) = UsageRecord::decode(payload) {
        assert_eq!(record.as_bytes(), payload);
    }
}
