//! Checks for tests and fuzzers.
