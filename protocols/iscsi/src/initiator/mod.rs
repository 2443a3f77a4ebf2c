//! The initiator's end of one connection.
