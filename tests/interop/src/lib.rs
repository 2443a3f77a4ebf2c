//! Real peers against a real node.
