//! Discovery of targets and their addresses. RFC 7143, 4.3 and Appendix C.

use nearflash_iscsi::initiator::{DiscoveredTarget, Event};
use nearflash_iscsi::login::SessionKind;
use nearflash_units::ByteLen;

use super::connection::{SessionSeat, draw_isid, log_in, turn_until};
use super::error::InitiatorError;
use super::options::Options;
use crate::memory::Memory;

/// The length of the staging buffer: the session holds text itself.
const STAGING_LEN: usize = 16 * 1024;

/// Discovers the targets at `options.address`; `options.target` is ignored.
///
/// # Errors
/// When the target node cannot be reached, or refuses the login.
pub fn discover(options: &Options) -> Result<Vec<DiscoveredTarget>, InitiatorError> {
    let options =
        Options { connections: 1, digests: nearflash_iscsi::Digests::NONE, ..options.clone() };
    let seat = SessionSeat::new(draw_isid()?, SessionKind::Discovery);
    let room = (Memory::new(0, ByteLen(0)), STAGING_LEN);
    let (mut connection, _) = log_in(&options, &seat, 0, 1, room)?;
    connection.session.send_targets("All")?;
    let mut targets = None;
    turn_until(&mut connection, "SendTargets", options.timeout, |connection| {
        while let Some(event) = connection.session.poll_event() {
            if let Event::Targets(found) = event {
                targets = Some(found);
            }
        }
        targets.is_some()
    })?;
    Ok(targets.expect("they were awaited"))
}
