//! The keys of TLS 1.3 with a pre-shared key (PSK): their text, their identities and their derivation.
//!
//! Spec: NVMe/TCP Transport 1.0 and later, 3.6.1 (transport layer security); RFC 8446, 7.1
//! (HKDF-Expand-Label); RFC 5869 (HKDF).
//!
//! An operator configures the same PSK on a host and on the node. Each end derives the TLS PSK from it, for one
//! host, one subsystem and one hash. The host names the TLS PSK by a [`PskIdentity`]. [`TlsHosts`] has the
//! configured PSK of each host, and answers with the TLS PSK of an identity. There are no records, handshakes or
//! connections here.
//!
//! Invariants: keys are overwritten when dropped and never printed. A derived key is only returned for an
//! identity whose host has a configured PSK of the same hash.

mod derive;
mod hosts;
mod identity;
mod psk;

pub use derive::{Derivation, DeriveError, ParseDerivationError, TlsKey};
pub use hosts::{Demand, KeyRefused, ParseDemandError, TlsHost, TlsHosts};
pub use identity::{IDENTITY_LEN_MAX, IdentityError, PskIdentity, Version};
pub use nearflash_session::DoorTls;
pub use psk::{Psk, PskError, Suite};
