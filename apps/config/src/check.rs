//! The property of configuration files, as a function for tests and fuzzers. It panics when it does not
//! hold.

use std::path::Path;

use super::{Config, Purpose};

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

fn assert_one_line(message: &str) {
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?} is one line");
}
