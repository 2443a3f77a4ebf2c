//! The properties of every text that a user or a program hands to a node, as functions for tests
//! and fuzzers. Each panics when its property does not hold.

use std::path::Path;

use nearflash_api::Document;

use crate::config::{Config, Purpose};
use crate::control;

/// Any configuration file is either valid or refused with messages of one line each, in the order of the
/// lines. A file that a node can start with is valid alone.
pub fn check_config_file(text: &str) {
    let read = |purpose| Config::of_text(Path::new("node.toml"), text, purpose);
    let (served, alone) = (read(Purpose::Serve), read(Purpose::Read));
    assert!(served.is_err() || alone.is_ok(), "a file for a node is valid alone");
    for errors in [served, alone].into_iter().filter_map(Result::err) {
        assert!(!errors.is_empty() && errors.is_sorted_by_key(|error| error.line()));
        errors.iter().for_each(|error| assert_one_line(&error.to_string()));
    }
}

/// Any line on the control socket is either refused with a message of one line, or a request that
/// survives a round trip through its text form.
pub fn check_control_request(line: &[u8]) {
    match control::parse(line) {
        Ok(request) => {
            let written = Document::new(request.clone()).to_line();
            assert_eq!(control::parse(written.as_bytes()), Ok(request));
        }
        Err(error) => assert_one_line(&error.message),
    }
}

fn assert_one_line(message: &str) {
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?} is one line");
}
