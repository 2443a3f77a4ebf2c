//! Simulated NVMe/TCP hosts: working and misbehaving ones.

pub(crate) mod misfit;
pub(crate) mod pending;
pub(crate) mod queue;
pub(crate) mod rivalry;
pub(crate) mod work;
pub(crate) mod worker;
pub(crate) mod worker_plan;
