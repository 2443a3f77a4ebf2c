//! TLS at a listening address, the same for every protocol.

/// Whether the connections to an address use TLS.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DoorTls {
    /// No connection does.
    #[default]
    Off,
    /// Those whose first bytes are a TLS handshake.
    Allowed,
    /// All connections do.
    Required,
}
