//! Copies to a replica that returns.

use std::ops::Range as Bytes;

use super::*;
use crate::Buffers;

/// As many buffers as are wanted, which are never different.
struct Endless(u32);

impl Buffers for Endless {
    fn take(&mut self, _: ByteLen) -> Option<BufferId> {
        self.0 += 1;
        Some(BufferId(self.0))
    }

    fn take_for_digests(&mut self, len: ByteLen) -> Option<BufferId> {
        self.take(len)
    }

    fn give(&mut self, _: BufferId) {}

    fn differing(
        &mut self,
        _: BufferId,
        _: BufferId,
        _: ByteLen,
        _: &DigestKey,
    ) -> Vec<Bytes<u64>> {
        Vec::new()
    }
}

#[test]
fn a_range_that_the_primary_cannot_read_is_reported_and_writes_do_not_wait_for_it() {
    let len = ByteLen(8192);
    let mut mirrors = mirrors(MirrorEntry { len, ..entry(Role::Primary) });
    mirrors.begin_copy(MirrorId(0), 9, None, [1; 16]);
    let mut buffers = Endless(0);
    mirrors.copy(&mut buffers);
    let (here, there) = (submitted(&mut mirrors).request.id, submitted(&mut mirrors).request.id);
    mirrors.submit(MirrorId(0), request(0, write()));
    assert_eq!(mirrors.poll_device(), None);
    // As long as the other node has not answered, an earlier attempt may be under way there.
    mirrors.handle_device(here, DeviceResult::MediumError);
    assert_eq!(mirrors.poll_failure(), Some((MirrorId(0), DeviceResult::MediumError, Side::Local)));
    assert_eq!(mirrors.poll_device(), None);
    mirrors.handle_device(there, DeviceResult::Done);
    let remote = submitted(&mut mirrors).request.id;
    // The piece waits for the write now.
    mirrors.set_now(mirrors.poll_timeout().expect("it is tried again"));
    mirrors.handle_timeout();
    mirrors.copy(&mut buffers);
    assert_eq!(mirrors.poll_device(), None);
    mirrors.handle_received(remote);
    let local = submitted(&mut mirrors).request.id;
    mirrors.handle_device(remote, DeviceResult::Done);
    mirrors.handle_device(local, DeviceResult::Done);
    assert_eq!(ended(&mut mirrors), DeviceResult::Done);
    assert_eq!(submitted(&mut mirrors).request.id, here);
}

/// The devices that are flushed before a copy is complete.
fn flushed_by_a_copy(mutant: Option<Mutant>) -> Vec<DeviceId> {
    let mut mirrors = mirrors(MirrorEntry { len: ByteLen(8192), ..entry(Role::Primary) });
    mirrors.mutant = mutant;
    mirrors.begin_copy(MirrorId(0), 9, None, [1; 16]);
    let mut flushed = Vec::new();
    loop {
        mirrors.copy(&mut Endless(0));
        let Some(Submission { request, .. }) = mirrors.poll_device() else { break };
        assert_eq!(mirrors.poll_copied(), None, "{request:?} is under way");
        if request.operation == DeviceOperation::Flush {
            flushed.push(request.device);
        }
        mirrors.handle_device(request.id, DeviceResult::Done);
    }
    assert!(mirrors.poll_copied().is_some());
    flushed
}

#[test]
fn a_copy_is_complete_when_both_replicas_have_flushed() {
    assert_eq!(flushed_by_a_copy(None), [REPLICA_FACE, LOCAL_DEVICE]);
    // What is equal in the cache of one is not equal after a loss of power.
    assert_eq!(flushed_by_a_copy(Some(Mutant::SourceUnflushed)), [REPLICA_FACE]);
    assert_eq!(flushed_by_a_copy(Some(Mutant::CopyUnflushed)), [LOCAL_DEVICE]);
}
