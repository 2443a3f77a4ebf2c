//! What must hold for any text that a user or a program hands to a node, as functions: tests and
//! fuzzers both call them. Each panics when its property does not hold.

use std::path::Path;

use nearflash_api::Document;

use crate::config::{Config, ServeArgs};
use crate::control;

/// Whatever a configuration file holds: it is understood or refused in one line.
pub fn check_config_file(text: &str) {
    if let Err(error) = Config::from_text(Path::new("node.toml"), text, ServeArgs::default()) {
        assert_one_line(&error.to_string());
    }
}

/// Any line on the control socket is refused in one line, or is a request that is written as it was
/// read.
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
