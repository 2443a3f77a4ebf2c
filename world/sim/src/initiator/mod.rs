//! Simulated iSCSI initiators: they read and write, and compete for reservations.

pub(crate) mod connection;
pub(crate) mod initiator_plan;
pub(crate) mod rivalry;
pub(crate) mod work;
pub(crate) mod worker;
