//! The log of a node: its last lines, for those who ask; the changes that callers have made, in a file; refused logins;
//! and the bound on the lines that peers can cause. It is one for the process, as the log is.

mod changes;
pub mod events;
pub mod peer_lines;
pub mod refusals;
