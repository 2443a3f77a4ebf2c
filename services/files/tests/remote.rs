//! Clients of an owner of files, over connections in memory that can be lost before or after the owner has
//! carried out a message.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use device::{Device, Dice};
use nearflash::Error;
use nearflash::direct::Lost;
use nearflash_files_calls::{Answer, OPEN_MAX, Operation, Request};
use nearflash_files_service::{
    Allocation, Allowed, AskOwner, AttributeChanges, AttributeWrite, ConnectionId, FileCalls,
    FileSystem, FilesError, FilesServer, FormatOptions, InodeNumber, Kind, Name, NewInode, Path,
    Paths, Permissions, RemoteFiles, Renaming, Replace, UploadOptions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use rustix::io::Errno;

const ROOT: InodeNumber = InodeNumber::ROOT;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

fn new(kind: Kind) -> NewInode {
    let permissions = Permissions { mode: 0o644, uid: 1, gid: 2 };
    NewInode { kind, permissions, device: 0, target: Vec::new() }
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Answered,
    /// The connection is lost before the owner gets the message.
    LostBefore,
    /// The connection is lost before the answer.
    LostAfter,
}

/// A node that owns files.
struct Node {
    device: Device,
    server: Mutex<Option<Arc<FilesServer>>>,
    lives: AtomicU64,
    connections: AtomicU64,
    /// The fate of the next message.
    next: Mutex<Fate>,
    /// Connections live on when another owner begins, as those of a node that opens its files again.
    lives_on: AtomicBool,
    may_write: bool,
}

impl Node {
    fn new() -> Arc<Self> {
        Self::with_rights(true)
    }

    fn with_rights(may_write: bool) -> Arc<Self> {
        let device = Device::new(ByteLen(24 * MIB));
        format(device.disk(), FormatOptions { force: false }).unwrap();
        let (server, next) = (Mutex::new(None), Mutex::new(Fate::Answered));
        let (lives, connections) = (AtomicU64::new(0), AtomicU64::new(0));
        let lives_on = AtomicBool::new(false);
        let node = Self { device, server, lives, connections, next, lives_on, may_write };
        node.restart();
        Arc::new(node)
    }

    /// Another owner begins. Changes that were not synchronised are lost.
    fn restart(&self) {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        // The former one is dropped without a commit.
        *self.server.lock().unwrap() = None;
        let files = FileSystem::open(self.device.disk()).unwrap();
        *self.server.lock().unwrap() = Some(Arc::new(FilesServer::new(files, life)));
    }

    fn server(&self) -> Arc<FilesServer> {
        self.server.lock().unwrap().clone().unwrap()
    }

    fn client(self: &Arc<Self>) -> RemoteFiles {
        let node = Arc::clone(self);
        let connect = move || {
            let number = node.connections.fetch_add(1, Ordering::Relaxed);
            let id = ConnectionId { core: 0, number };
            let (node, server) = (Arc::clone(&node), Arc::downgrade(&node.server()));
            Ok(Box::new(Connection { id, node, server, is_lost: false }) as Box<dyn AskOwner>)
        };
        RemoteFiles::over(Box::new(connect), "data", Duration::from_secs(5)).unwrap()
    }

    fn lose(&self, fate: Fate) {
        *self.next.lock().unwrap() = fate;
    }
}

struct Connection {
    id: ConnectionId,
    node: Arc<Node>,
    /// It ends with its node, and writes nothing once the next one has begun.
    server: Weak<FilesServer>,
    is_lost: bool,
}

impl AskOwner for Connection {
    fn ask(&mut self, message: &[u8]) -> Result<Box<[u8]>, Error> {
        let fate = std::mem::replace(&mut *self.node.next.lock().unwrap(), Fate::Answered);
        let lost = || Err(Error::ConnectionLost(Lost::System(io::ErrorKind::ConnectionReset)));
        if self.node.lives_on.load(Ordering::Relaxed) {
            self.server = Arc::downgrade(&self.node.server());
        }
        let server = self.server.upgrade().filter(|_| !self.is_lost && fate != Fate::LostBefore);
        let Some(server) = server else {
            self.is_lost = true;
            return lost();
        };
        let answer = server.serve(self.id, &Allowed::all(self.node.may_write), message);
        if fate == Fate::LostAfter {
            self.is_lost = true;
            return lost();
        }
        Ok(answer.into())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(server) = self.server.upgrade() {
            server.gone(self.id);
        }
    }
}

fn contents(files: &dyn FileCalls, number: InodeNumber) -> Vec<u8> {
    files.retain(number).unwrap();
    let mut bytes = vec![0; 4 << 20];
    let len = files.read(number, &mut bytes, ByteOffset(0)).unwrap();
    files.release(number);
    bytes.truncate(len);
    bytes
}

/// A random change of a file by one of the clients.
fn change_contents(files: &RemoteFiles, number: InodeNumber, dice: &mut Dice) -> bool {
    let (offset, len) = (ByteOffset(dice.below(200_000)), dice.below(150_000));
    let bytes = vec![u8::try_from(dice.below(256)).unwrap(); usize::try_from(len).unwrap()];
    files.retain(number).unwrap();
    let done = match dice.below(5) {
        0 | 1 => files.write(number, &bytes, offset),
        2 => files.append(number, &bytes).map(drop),
        3 => files.allocate(number, offset, ByteLen(len + 1), Allocation::Zero),
        _ => {
            let size = Some(ByteLen(offset.0));
            files.change(number, AttributeChanges { size, ..Default::default() }).map(drop)
        }
    };
    files.release(number);
    done.is_ok()
}

#[test]
fn every_client_sees_each_change_of_the_others_as_the_owner_does() {
    let node = Node::new();
    let clients = [node.client(), node.client(), node.client()];
    let mut dice = Dice(7);
    let mut changed = 0;
    for _ in 0..400 {
        let files = &clients[usize::try_from(dice.below(3)).unwrap()];
        let names = ["a", "b", "c", "d"].map(name);
        let mut any = || names[usize::try_from(dice.below(4)).unwrap()].clone();
        let (one, two) = (any(), any());
        let found = files.lookup(ROOT, &one).ok().filter(|(_, inode)| inode.kind == Kind::File);
        let is_done = match (dice.below(6), found) {
            (0, _) => files.create(ROOT, &one, new(Kind::File)).is_ok(),
            (1, _) => files.unlink(ROOT, &one).is_ok(),
            (2, _) => files.rename((ROOT, &one), (ROOT, &two), Renaming::Exchange).is_ok(),
            (3, Some((number, _))) => files.link(number, ROOT, &two).is_ok(),
            (_, Some((number, _))) => change_contents(files, number, &mut dice),
            (_, None) => false,
        };
        changed += u32::from(is_done);
        let (server, other) = (node.server(), &clients[usize::try_from(dice.below(3)).unwrap()]);
        let entries = server.files().list(ROOT, None, 9).unwrap();
        assert_eq!(other.list(ROOT, None, 9).unwrap(), entries);
        for entry in entries {
            let inode = server.files().inode(entry.inode).unwrap();
            assert_eq!(other.inode(entry.inode).unwrap(), inode);
            assert!(contents(other, entry.inode) == contents(server.files(), entry.inode));
        }
    }
    assert!(changed > 100, "{changed}");
    assert_eq!(clients[0].usage().unwrap(), node.server().files().usage().unwrap());
}

#[test]
fn links_and_attributes_of_every_length_are_those_that_were_set() {
    let node = Node::new();
    let (one, two) = (node.client(), node.client());
    let target = vec![b't'; 4095];
    let link = NewInode { target: target.clone(), ..new(Kind::Symlink) };
    let (number, _) = one.create(ROOT, &name("link"), link).unwrap();
    assert_eq!(two.link_target(number).unwrap(), target);
    for len in [0, 1, 65_536] {
        one.set_attribute(number, b"user.a", &vec![7; len], AttributeWrite::Any).unwrap();
        assert_eq!(two.attribute(number, b"user.a").unwrap(), vec![7; len]);
    }
    let long = one.set_attribute(number, b"user.b", &vec![7; 65_537], AttributeWrite::Any);
    assert_eq!(long.unwrap_err().errno(), Errno::TOOBIG);
    let again = two.set_attribute(number, b"user.a", b"", AttributeWrite::Create);
    assert_eq!(again.unwrap_err().errno(), Errno::EXIST);
    assert_eq!(two.attributes(number).unwrap(), [b"user.a"]);
    two.remove_attribute(number, b"user.a").unwrap();
    assert_eq!(one.attribute(number, b"user.a").unwrap_err().errno(), Errno::NODATA);
}

#[test]
fn a_lost_read_is_repeated_and_a_lost_change_fails_but_may_have_been_made() {
    let node = Node::new();
    let files = node.client();
    let (number, _) = files.create(ROOT, &name("file"), new(Kind::File)).unwrap();
    files.retain(number).unwrap();
    files.write(number, b"before", ByteOffset(0)).unwrap();
    for fate in [Fate::LostBefore, Fate::LostAfter] {
        node.lose(fate);
        assert_eq!(contents(&files, number), b"before");
        node.lose(fate);
        let error = files.create(ROOT, &name("other"), new(Kind::File)).unwrap_err();
        assert!(matches!(error, FilesError::Unknown { .. }) && error.errno() == Errno::IO);
        let is_made = files.lookup(ROOT, &name("other")).is_ok();
        assert_eq!(is_made, fate == Fate::LostAfter);
    }
    // It is still open, over the third connection.
    files.write(number, b"after!", ByteOffset(0)).unwrap();
    assert_eq!(contents(&files, number), b"after!");
}

#[test]
fn retains_and_releases_are_counted_whatever_is_lost() {
    let node = Node::new();
    let (files, other) = (node.client(), node.client());
    let (number, _) = files.create(ROOT, &name("file"), new(Kind::File)).unwrap();
    for fate in [Fate::Answered, Fate::LostBefore, Fate::LostAfter] {
        node.lose(fate);
        files.retain(number).unwrap();
        files.retain(number).unwrap();
        node.lose(fate);
        files.release(number);
        files.write(number, b"x", ByteOffset(0)).unwrap();
        files.release(number);
        let closed = other.read(number, &mut [0], ByteOffset(0)).unwrap_err();
        assert_eq!(closed.errno(), Errno::STALE, "{fate:?}: it is open nowhere");
    }
}

#[test]
fn the_end_of_a_client_closes_what_it_has_open() {
    let node = Node::new();
    let (files, other) = (node.client(), node.client());
    let free = || node.server().files().usage().unwrap().inodes;
    let (number, _) = files.create(ROOT, &name("file"), new(Kind::File)).unwrap();
    let before = free();
    other.retain(number).unwrap();
    files.unlink(ROOT, &name("file")).unwrap();
    assert_eq!((free(), node.server().client_count()), (before, 2));
    drop(other);
    assert_eq!((free(), node.server().client_count()), (before - 1, 1));
    assert_eq!(files.inode(number).unwrap_err().errno(), Errno::STALE);
}

#[test]
fn after_a_restart_of_the_owner_the_next_sync_of_each_changed_inode_fails_once() {
    let node = Node::new();
    let files = node.client();
    let create = |text: &str| files.create(ROOT, &name(text), new(Kind::File)).unwrap().0;
    let (kept, lost) = (create("kept"), create("lost"));
    for number in [kept, lost] {
        files.retain(number).unwrap();
        files.write(number, b"bytes", ByteOffset(0)).unwrap();
    }
    files.sync_all().unwrap();
    files.write(lost, b"more", ByteOffset(5)).unwrap();
    node.restart();
    files.sync(kept, false).unwrap();
    assert!(matches!(files.sync_all(), Err(FilesError::Restarted { .. })));
    assert!(matches!(files.sync(lost, false), Err(FilesError::Restarted { .. })));
    files.sync(lost, false).unwrap();
    files.sync_all().unwrap();
    files.release(lost);
    assert_eq!(contents(&files, lost), b"bytes");
    files.write(kept, b"BYTES", ByteOffset(0)).unwrap();
    files.sync(kept, true).unwrap();
}

#[test]
fn a_client_lives_on_when_the_node_opens_its_files_again() {
    let node = Node::new();
    let files = node.client();
    let kept = files.create(ROOT, &name("kept"), new(Kind::File)).unwrap().0;
    files.retain(kept).unwrap();
    files.write(kept, b"bytes", ByteOffset(0)).unwrap();
    files.sync_all().unwrap();
    node.lives_on.store(true, Ordering::Relaxed);
    for round in 0..3 {
        node.restart();
        let made = format!("new {round}");
        let number = files.create(ROOT, &name(&made), new(Kind::File)).unwrap().0;
        assert_eq!(files.lookup(ROOT, &name(&made)).unwrap().0, number, "it was made once");
        assert_eq!(contents(&files, kept), b"bytes");
        files.sync(kept, false).unwrap();
    }
    files.release(kept);
}

#[test]
fn bytes_that_an_open_file_lost_with_the_owner_are_not_absent_ones() {
    let node = Node::new();
    let files = node.client();
    let create = |text: &str| files.create(ROOT, &name(text), new(Kind::File)).unwrap().0;
    let (grown, cut) = (create("grown"), create("cut"));
    for number in [grown, cut] {
        files.retain(number).unwrap();
        files.write(number, &[1; 1000], ByteOffset(0)).unwrap();
    }
    files.sync_all().unwrap();
    files.append(grown, &[2; 500]).unwrap();
    let size = |size| AttributeChanges { size: Some(ByteLen(size)), ..Default::default() };
    files.change(cut, size(100)).unwrap();
    files.write(cut, &[2; 300], ByteOffset(100)).unwrap();
    node.restart();
    let read = |number, at| {
        let mut bytes = [9; 2000];
        let len = files.read(number, &mut bytes, ByteOffset(at)).map_err(|error| error.errno())?;
        Ok(bytes[..len].to_vec())
    };
    // The size stays, and the lost bytes are not those of an earlier time, nor the end of the file.
    assert_eq!(read(grown, 0), Ok(vec![1; 1000]));
    assert_eq!(read(cut, 0), Ok(vec![1; 100]));
    for (number, lost) in [(grown, 1000), (grown, 1499), (cut, 100), (cut, 399), (cut, 999)] {
        assert_eq!(read(number, lost), Err(Errno::IO), "{lost}");
    }
    assert_eq!(files.inode(grown).unwrap().size, ByteLen(1500));
    assert_eq!(read(grown, 1500), Ok(vec![]));
    // Others see the files as they are.
    assert_eq!(contents(&node.client(), grown), [1; 1000]);
    // Later bytes are behind the lost ones, and those that are written again are back.
    assert_eq!(files.append(grown, b"later").unwrap(), ByteOffset(1500));
    assert_eq!(read(grown, 1500), Ok(b"later".to_vec()));
    assert_eq!(read(grown, 1200), Err(Errno::IO));
    files.write(grown, &[3; 500], ByteOffset(1000)).unwrap();
    assert_eq!(read(grown, 0), Ok([&[1; 1000][..], &[3; 500], b"later"].concat()));
    files.change(cut, size(100)).unwrap();
    assert_eq!(read(cut, 0), Ok(vec![1; 100]));
    for number in [grown, cut] {
        assert!(matches!(files.sync(number, false), Err(FilesError::Restarted { .. })));
        files.sync(number, false).unwrap();
    }
    node.restart();
    assert_eq!(read(cut, 0), Ok(vec![1; 100]));
    assert_eq!(read(grown, 1495), Ok(b"\x03\x03\x03\x03\x03later".to_vec()));
}

#[test]
fn clients_without_the_right_to_write_read_and_change_nothing() {
    let node = Node::with_rights(false);
    let files = node.client();
    assert!(!files.is_writable() && files.list(ROOT, None, 9).unwrap().is_empty());
    let error = files.create(ROOT, &name("file"), new(Kind::File)).unwrap_err();
    assert_eq!(error.errno(), Errno::ACCESS);
    assert!(error.to_string().contains("--rights rw"), "{error}");
    files.sync_all().unwrap();
}

#[test]
fn wrong_messages_are_answered_with_their_error() {
    let node = Node::new();
    let server = node.server();
    let connection = ConnectionId { core: 9, number: 9 };
    let errno = |request: &[u8]| {
        let answer = server.serve(connection, &Allowed::all(true), request);
        Answer::decode(&answer).unwrap().errno
    };
    let errno_of = |request: Request<'_>| errno(&request.encode().unwrap());
    let number = |errno: Errno| u32::try_from(errno.raw_os_error()).unwrap();
    assert_eq!(errno(b"nothing"), number(Errno::INVAL));
    assert_eq!(errno_of(Request::new(Operation(99), 1)), number(Errno::NOSYS));
    assert_eq!(errno_of(Request::new(Operation::RETAIN, 1)), number(Errno::PROTO));
    let id = [1; 16];
    let hello = Request { data: &id, ..Request::new(Operation::HELLO, 0) };
    assert_eq!((errno_of(hello), errno_of(hello)), (0, number(Errno::INVAL)));
    let short = Request { data: &id[1..], ..hello };
    assert_eq!(errno_of(short), number(Errno::INVAL));
    let mut retain = Request::new(Operation::RETAIN, 1);
    assert_eq!(errno_of(retain), number(Errno::NFILE), "not at all");
    retain.head.len = (u64::try_from(OPEN_MAX).unwrap() + 1).into();
    assert_eq!(errno_of(retain), number(Errno::NFILE), "too often");
    let mut create = Request { name: b"a/b", ..Request::new(Operation::CREATE, 1) };
    create.head.variant = 1;
    assert_eq!(errno_of(create), number(Errno::INVAL));
    create = Request { name: b"a", ..create };
    create.head.variant = 9;
    assert_eq!(errno_of(create), number(Errno::INVAL));
}

#[test]
fn a_file_that_is_put_gets_its_name_when_it_is_complete() {
    let node = Node::new();
    let files = Arc::new(Paths::new(node.client()));
    let bytes: Vec<u8> = (0..2_500_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let put = |bytes: &[u8], size, replace| {
        let options = UploadOptions { size, replace };
        files.put(&path("/d/f"), &mut &*bytes, options, &mut |_| {})
    };
    assert_eq!(put(&bytes, None, Replace::Never).unwrap_err().errno(), Errno::NOENT);
    files.mkdir(&path("/d")).unwrap();
    let len = Some(ByteLen::of(&bytes));
    put(&bytes, len, Replace::Never).unwrap();
    let mut got = Vec::new();
    files.get(&path("/d/f"), &mut got, &mut |_| {}).unwrap();
    assert!(got == bytes);
    assert_eq!(put(b"x", None, Replace::Never).unwrap_err().errno(), Errno::EXIST);
    // The source may have changed since its length was found.
    for (expected, len) in [(Some(ByteLen(9)), bytes.len()), (len, 5000), (len, 0), (None, 1)] {
        put(&bytes[..len], expected, Replace::Allowed).unwrap();
        let mut got = Vec::new();
        let inode = files.get(&path("/d/f"), &mut got, &mut |_| {}).unwrap();
        assert!(got == bytes[..len]);
        let space: u64 = inode.runs.iter().map(|run| run.len().0).sum();
        assert_eq!(space, ByteLen::from_usize(len).0.next_multiple_of(4096), "{expected:?}");
    }
    let options = UploadOptions { size: Some(ByteLen(2)), replace: Replace::Allowed };
    let mut short = files.upload(&path("/d/f"), options).unwrap();
    short.write(b"x").unwrap();
    let short = short.finish().unwrap_err();
    assert!(matches!(short, FilesError::SourceShort { .. }));
    let entries = files.list(&path("/d"), None, 9).unwrap();
    assert_eq!(entries.len(), 1, "no part is left: {entries:?}");
    assert_eq!(files.remove(&path("/d")).unwrap_err().errno(), Errno::NOTEMPTY);
    files.rename(&path("/d/f"), &path("/g"), Replace::Never).unwrap();
    files.remove(&path("/d")).unwrap();
    assert_eq!(files.stat(&path("/g")).unwrap().1.size, ByteLen(1));
}

#[test]
fn a_file_that_arrives_in_pieces_has_no_name_before_its_end_and_leaves_nothing_without_one() {
    let node = Node::new();
    let (files, other) = (Arc::new(Paths::new(node.client())), node.client());
    let options = |replace| UploadOptions { size: None, replace };
    let begin = |replace| files.upload(&path("/f"), options(replace));
    let free = other.usage().unwrap();
    let (mut one, mut two) = (begin(Replace::Never).unwrap(), begin(Replace::Allowed).unwrap());
    let bytes = vec![7; 1_100_000];
    for pending in [&mut one, &mut two] {
        pending.write(&bytes[..3]).unwrap();
        pending.write(&bytes[3..]).unwrap();
    }
    assert_eq!(other.list(ROOT, None, 9).unwrap(), [], "nobody finds them");
    let (number, inode) = two.finish().unwrap();
    assert_eq!((inode.links, inode.size), (1, ByteLen::of(&bytes)));
    assert_eq!(contents(&other, number), bytes);
    assert_eq!(one.finish().unwrap_err().errno(), Errno::EXIST, "it appeared meanwhile");
    let lost = begin(Replace::Allowed).unwrap();
    drop((lost, files));
    other.unlink(ROOT, &name("f")).unwrap();
    assert_eq!(other.usage().unwrap(), free, "the end of a client removes files without a name");
    assert!(node.server().files().list(ROOT, None, 9).unwrap().is_empty());
}

#[test]
fn a_file_that_arrives_in_pieces_is_lost_with_its_owner_and_says_so() {
    let node = Node::new();
    let files = Arc::new(Paths::new(node.client()));
    let options = UploadOptions { size: Some(ByteLen(5)), replace: Replace::Never };
    let mut pending = files.upload(&path("/f"), options).unwrap();
    pending.write(b"12345").unwrap();
    node.restart();
    assert!(pending.finish().is_err());
    assert_eq!(files.stat(&path("/f")).unwrap_err().errno(), Errno::NOENT);
}

#[test]
fn a_file_that_a_client_has_written_between_others_moves_to_one_run() {
    let node = Node::new();
    let paths = Arc::new(Paths::new(node.client()));
    let files = paths.files();
    // Files of 1 MiB fill the volume. The space of every other one is a gap.
    for nth in 0.. {
        let (number, _) = files.create(ROOT, &name(&nth.to_string()), new(Kind::File)).unwrap();
        files.retain(number).unwrap();
        let reserved = files.allocate(number, ByteOffset(0), ByteLen(MIB), Allocation::KeepSize);
        files.release(number);
        if reserved.is_err() {
            break;
        }
    }
    let remove = |numbers: &mut dyn Iterator<Item = u32>| {
        numbers.for_each(|number| files.unlink(ROOT, &name(&number.to_string())).unwrap());
        files.sync_all().unwrap();
    };
    remove(&mut (1..9).step_by(2));
    let bytes = vec![9; ByteLen(2 * MIB + 5000).to_usize()];
    let options = UploadOptions { size: None, replace: Replace::Never };
    let mut pending = paths.upload(&path("/f"), options).unwrap();
    bytes.chunks(300_000).for_each(|piece| pending.write(piece).unwrap());
    remove(&mut (11..17));
    let (number, inode) = pending.finish().unwrap();
    assert_eq!(inode.size, ByteLen::of(&bytes));
    node.server().files().tidy();
    files.sync_all().unwrap();
    assert_eq!(node.server().files().inode(number).unwrap().runs.len(), 1);
    node.restart();
    assert_eq!(node.server().files().inode(number).unwrap().runs.len(), 1, "it is durable");
    assert!(contents(node.server().files(), number) == bytes);
}
