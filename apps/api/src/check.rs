//! The property of requests on the control socket, as a function for tests and fuzzers. It panics when it does
//! not hold.

use crate::{Document, parse_request};

/// Any line on the control socket is either refused with a message of one line, or a request that
/// survives a round trip through its text form.
pub fn check_control_request(line: &[u8]) {
    match parse_request(line) {
        Ok(request) => {
            let written = Document::new(request.clone()).to_line();
            assert_eq!(parse_request(written.as_bytes()), Ok(request));
        }
        Err(error) => assert_one_line(&error.message),
    }
}

fn assert_one_line(message: &str) {
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?} is one line");
}
