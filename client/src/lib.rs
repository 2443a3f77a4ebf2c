//! What applications link to reach flash behind the network.
//!
//! [`nvme_tcp`] is a host for any NVMe/TCP target, ours or another's: polled queue pairs over real
//! sockets. The protocol itself is `nearflash-nvme-tcp`'s host session; here are its sockets, its
//! memory and its patience.
//!
//! Knows nothing of nodes, maps or devices.

pub mod nvme_tcp;
