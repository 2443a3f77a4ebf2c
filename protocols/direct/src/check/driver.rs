//! A driver of a target: what it does for the demands of the session, and for its rings.

use nearflash_request::Request;
use nearflash_session::check::Serving;

use super::{NOW, range};
use crate::serving::{AttachDemand, Demand, Revoked, RingOutput, ServingEnd, TargetSession};
use crate::wire::HEADER_LEN;

/// Shows and meets every demand up to one for rings, which is returned. Requests on the volume are
/// collected.
pub(super) fn take_demands(
    end: &mut Serving<TargetSession>,
    revoked: &mut Revoked,
    requests: &mut Vec<Request>,
    mut show: impl FnMut(&Demand),
) -> Option<AttachDemand> {
    let Serving { session, memory, error } = end;
    while let Some(demand) = session.poll_demand() {
        show(&demand);
        match demand {
            Demand::Refused(_) => {}
            Demand::Request(request) => requests.push(request),
            Demand::Claim(_) => session.handle_claimed(),
            Demand::Seals => *error = session.handle_seals(revoked, NOW).err().or(error.take()),
            Demand::Revoke(demand) => {
                revoked.revoke(&demand.revocation, NOW);
                session.revoke(&demand.revocation);
                session.handle_revoked(demand.number, Ok(()));
            }
            // The owner of the files repeats the message.
            Demand::Files(demand) => session.handle_files(demand.number, Ok(&demand.payload)),
            Demand::Attach(attach) => return Some(attach),
            Demand::Lend(demand) => {
                assert!(range(demand.place).end <= memory.area.len(), "within the area");
                let buffer = memory.lend(range(demand.place));
                requests.push(demand.into_request(buffer));
            }
            Demand::CopyIn(demand) => {
                let bytes = memory.area[range(demand.place)].to_vec();
                memory.bytes_mut(demand.buffer)[demand.offset..][..bytes.len()]
                    .copy_from_slice(&bytes);
                requests.push(demand.request);
            }
        }
    }
    None
}

/// Passes in an entry of the submission ring.
pub(super) fn take_entry(end: &mut Serving<TargetSession>, entry: &[u8; HEADER_LEN]) {
    let area = &end.memory.area;
    let mut copy_in = |offset: u64, bytes: &mut [u8]| {
        let at = usize::try_from(offset).expect("within the area");
        bytes.copy_from_slice(&area[at..at + bytes.len()]);
    };
    if let Err(error) = end.session.handle_entry(entry, &mut copy_in) {
        assert!(end.session.is_closing(), "an error ends the session");
        end.error = Some(error);
    }
}

/// Does what the session has for its rings. Entries of the completion ring are passed on.
pub(super) fn take_ring_output(
    end: &mut Serving<TargetSession>,
    mut put: impl FnMut([u8; HEADER_LEN]),
) {
    let Serving { session, memory, .. } = end;
    while let Some(output) = session.poll_ring() {
        match output {
            RingOutput::Copy { buffer, offset, place } => {
                let place = range(place);
                let bytes = memory.bytes(buffer)[offset..][..place.len()].to_vec();
                memory.area[place].copy_from_slice(&bytes);
                memory.give_back(buffer);
            }
            RingOutput::Release(buffer) => memory.give_back(buffer),
            RingOutput::Zeroes(place) => memory.area[range(place)].fill(0),
            RingOutput::Entry(entry) => put(entry),
        }
    }
}
