//! Descriptors that accompany bytes on a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The number of descriptors in one send.
const DESCRIPTORS_MAX: usize = 2;

/// Sends some of `bytes`, with the descriptors attached to the first of them, without waiting.
/// Returns the number of bytes sent, at least 1.
///
/// # Errors
/// When there is no room, or the other end is closed.
pub fn send_passing(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>; DESCRIPTORS_MAX],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    assert!(fits, "the space was made for as many");
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
}

/// Receives without waiting, and appends descriptors that accompany the bytes. Returns the number
/// of bytes, 0 when the other side has ended its sending.
///
/// # Errors
/// When there is nothing to receive yet, or the connection is broken.
pub fn receive_passed(
    socket: BorrowedFd<'_>,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(into)], &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn descriptors_arrive_with_the_bytes_that_they_were_sent_with() {
        let (one, other) = UnixStream::pair().unwrap();
        let file = rustix::fs::memfd_create("t", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let sent = send_passing(one.as_fd(), b"answer", &[file.as_fd(), one.as_fd()]);
        assert_eq!(sent.unwrap(), 6);
        let (mut bytes, mut descriptors) = ([0xA5; 64], Vec::new());
        let len = receive_passed(other.as_fd(), &mut bytes, &mut descriptors).unwrap();
        assert_eq!((&bytes[..len], descriptors.len()), (&b"answer"[..], 2));
        rustix::fs::ftruncate(&file, 7).unwrap();
        assert_eq!(rustix::fs::fstat(&descriptors[0]).unwrap().st_size, 7);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn an_empty_socket_is_not_waited_for() {
        let (one, _other) = UnixStream::pair().unwrap();
        let received = receive_passed(one.as_fd(), &mut [0; 8], &mut Vec::new());
        assert_eq!(received.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
