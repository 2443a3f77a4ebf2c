//! What must hold for any text that a user or a program hands to a node, as functions: tests and
//! fuzzers both call them. Each panics when its property does not hold.

use std::path::Path;

use crate::api::{Command, Document};
use crate::config::{Config, ServeArgs};
use crate::control;

/// Whatever a configuration file holds: it is understood or refused in one line.
pub fn check_config_file(text: &str) {
    if let Err(error) = Config::from_text(Path::new("node.toml"), text, ServeArgs::default()) {
        assert_one_line(&error.to_string());
    }
}

/// Whatever is said on the control socket: it is refused in one line, or a command that is written
/// as it was read.
pub fn check_control_request(line: &[u8]) {
    let parsed: Result<Command, String> = control::parse(line);
    match parsed {
        Ok(command) => {
            let written = Document::new(command.clone()).to_line();
            assert_eq!(control::parse(written.as_bytes()), Ok(command));
        }
        Err(error) => assert_one_line(&error),
    }
}

fn assert_one_line(message: &str) {
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?} is one line");
}
