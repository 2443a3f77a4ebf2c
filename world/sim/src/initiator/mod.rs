//! Simulated iSCSI initiators: those that work, and fight over reservations.

pub(crate) mod connection;
pub(crate) mod initiator_plan;
pub(crate) mod rivalry;
pub(crate) mod work;
pub(crate) mod worker;
