//! The properties of every text that a user or a program hands to a node, as functions for tests
//! and fuzzers. Each panics when its property does not hold.

use std::path::Path;

use nearflash_api::Document;

pub use crate::cluster::{check_pulse, check_token};
use crate::config::{Config, ServeArgs};
use crate::control;

/// Any configuration file is either valid or refused with a message of one line.
pub fn check_config_file(text: &str) {
    if let Err(error) = Config::from_text(Path::new("node.toml"), text, ServeArgs::default()) {
        assert_one_line(&error.to_string());
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
