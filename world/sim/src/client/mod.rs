//! Simulated direct clients: they share blocks with each other, byte by byte, and words.

pub(crate) mod checks;
pub(crate) mod client_plan;
pub(crate) mod grants;
pub(crate) mod ground;
pub(crate) mod link;
pub(crate) mod ownership;
pub(crate) mod words;
pub(crate) mod worker;
