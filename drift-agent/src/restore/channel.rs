//! Sockets between processes, and descriptors through them.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use rustix::{
    fd::{AsFd, BorrowedFd},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};

/// Bytes of a message beside a descriptor, at most.
const MOST: usize = 1024;

/// Two ends, of messages: each arrives whole.
pub(super) fn messages() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::SEQPACKET)
}

/// Two ends, of a stream.
pub(super) fn stream() -> io::Result<(UnixStream, OwnedFd)> {
    let (one, other) = pair(SocketType::STREAM)?;
    Ok((one.into(), other))
}

fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends a message, and a descriptor with it. Never waits, and never ends the process with a signal.
pub(super) fn send(
    to: impl AsFd,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match sendmsg(&to, &[IoSlice::new(message)], &mut control, flags) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(Into::into),
        }
    }
}

/// A message, and the descriptor that came with it. `None`: the other end has gone. More descriptors than one are closed.
pub(super) fn receive(from: impl AsFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut bytes = [0; MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&from, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for each in descriptors {
                descriptor.get_or_insert(each);
            }
        }
    }
    if received.bytes == 0 && descriptor.is_none() {
        return Ok(None);
    }
    Ok(Some((bytes[..received.bytes].to_vec(), descriptor)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_descriptor_goes_through_and_the_end_is_seen() {
        let (one, other) = messages().expect("a pair");
        let (mut here, there) = stream().expect("a pair");
        send(&one, b"W", Some(there.as_fd())).expect("sent");
        drop(there);
        send(&one, b"plain", None).expect("sent");
        let (message, descriptor) = receive(&other).expect("read").expect("a message");
        assert_eq!(message, b"W");
        let mut through = UnixStream::from(descriptor.expect("a descriptor"));
        through.write_all(b"hello").expect("written");
        let mut read = [0; 5];
        here.read_exact(&mut read).expect("read");
        assert_eq!(&read, b"hello");
        let (message, descriptor) = receive(&other).expect("read").expect("a message");
        assert_eq!(
            (message.as_slice(), descriptor.is_none()),
            (&b"plain"[..], true)
        );
        drop(one);
        assert!(receive(&other).expect("the end").is_none());
    }
}
