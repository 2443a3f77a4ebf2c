//! Clients whose grants are on directories, some of them hostile: they know all numbers of inodes.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use device::{Device, Dice};
use nearflash::Error;
use nearflash_files_calls::{Answer, Operation, Request};
use nearflash_files_service::{
    Allocation, Allowed, AskOwner, AttributeChanges, AttributeWrite, Below, ConnectionId,
    FileCalls, FileSystem, FilesServer, FormatOptions, InodeNumber, Kind, Name, NewInode, Opened,
    Path, Paths, Permissions, RemoteFiles, Renaming, Replace, UploadOptions, format,
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
    let permissions = Permissions { mode: 0o755, uid: 1, gid: 2 };
    NewInode { kind, permissions, device: 0, target: Vec::new() }
}

/// Grants on these directories; those that end with `!` may be written.
fn below(paths: &[&str]) -> Allowed {
    let below = paths.iter().map(|text| Below {
        path: path(text.trim_end_matches('!')),
        may_write: text.ends_with('!'),
    });
    Allowed { below: below.collect(), ..Allowed::default() }
}

struct Connection {
    id: ConnectionId,
    server: Arc<FilesServer>,
    allowed: Arc<Mutex<Allowed>>,
}

impl AskOwner for Connection {
    fn ask(&mut self, message: &[u8]) -> Result<Box<[u8]>, Error> {
        Ok(self.server.serve(self.id, &self.allowed.lock().unwrap().clone(), message).into())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.gone(self.id);
    }
}

/// The files of a node: `/in/f` and `/in/d/g`, `/out/s` and `/out/d`, with the name of each as its bytes.
struct Bench {
    device: Device,
    server: Arc<FilesServer>,
    connections: Arc<AtomicU64>,
    /// A client with all rights.
    all: Arc<Paths<RemoteFiles>>,
}

/// A client, and its grants.
struct Client {
    files: RemoteFiles,
    allowed: Arc<Mutex<Allowed>>,
}

impl Bench {
    fn new() -> Self {
        let device = Device::new(ByteLen(24 * MIB));
        format(device.disk(), FormatOptions { force: false }).unwrap();
        let files = FileSystem::open(device.disk()).unwrap();
        let (server, connections) = (Arc::new(FilesServer::new(files, 1)), Arc::default());
        let all = client(&server, &connections, Allowed::all(true)).files;
        let all = Arc::new(Paths::new(all));
        for directory in ["/in", "/in/d", "/out", "/out/d"] {
            all.mkdir(&path(directory)).unwrap();
        }
        for file in ["/in/f", "/in/d/g", "/out/s"] {
            let options = UploadOptions { size: None, replace: Replace::Never };
            all.put(&path(file), &mut file.as_bytes(), options, &mut |_| {}).unwrap();
        }
        Self { device, server, connections, all }
    }

    fn client(&self, allowed: Allowed) -> Client {
        client(&self.server, &self.connections, allowed)
    }

    fn number(&self, text: &str) -> InodeNumber {
        self.all.stat(&path(text)).unwrap().0
    }

    /// Moves a file or a directory, as another client with all rights.
    fn rename(&self, from: &str, to: &str) {
        self.all.rename(&path(from), &path(to), Replace::Never).unwrap();
    }
}

fn client(server: &Arc<FilesServer>, connections: &Arc<AtomicU64>, allowed: Allowed) -> Client {
    let allowed = Arc::new(Mutex::new(allowed));
    let (server, connections) = (Arc::clone(server), Arc::clone(connections));
    let theirs = Arc::clone(&allowed);
    let connect = move || {
        let number = connections.fetch_add(1, Ordering::Relaxed);
        let (id, server) = (ConnectionId { core: 0, number }, Arc::clone(&server));
        let allowed = Arc::clone(&theirs);
        Ok(Box::new(Connection { id, server, allowed }) as Box<dyn AskOwner>)
    };
    let files = RemoteFiles::over(Box::new(connect), "data", Duration::from_secs(5)).unwrap();
    Client { files, allowed }
}

/// The error of each call on an inode by its number, except RELEASE.
fn tried(files: &RemoteFiles, number: InodeNumber) -> Vec<(&'static str, Option<Errno>)> {
    let mut bytes = [0; 16];
    let (at, one) = (ByteOffset(0), name("one"));
    let any = AttributeWrite::Any;
    let zero = Allocation::Zero;
    let mut tried = vec![
        ("INODE", files.inode(number).map(drop)),
        ("LIST", files.list(number, None, 9).map(drop)),
        ("LOOKUP", files.lookup(number, &name("d")).map(drop)),
        ("READ_LINK", files.link_target(number).map(drop)),
        ("ATTRIBUTE", files.attribute(number, b"user.a").map(drop)),
        ("ATTRIBUTES", files.attributes(number).map(drop)),
        ("RETAIN", files.retain(number)),
        ("READ", files.read(number, &mut bytes, at).map(drop)),
        ("SYNC", files.sync(number, false)),
        ("CREATE", files.create(number, &one, new(Kind::File)).map(drop)),
        ("UNLINK", files.unlink(number, &name("s"))),
        ("RMDIR", files.rmdir(number, &name("d"))),
        ("CHANGE", files.change(number, AttributeChanges::default()).map(drop)),
        ("SET_ATTRIBUTE", files.set_attribute(number, b"user.a", b"1", any)),
        ("REMOVE_ATTRIBUTE", files.remove_attribute(number, b"user.a")),
        ("WRITE", files.write(number, b"x", at)),
        ("APPEND", files.append(number, b"x").map(drop)),
        ("ALLOCATE", files.allocate(number, at, ByteLen(1), zero)),
    ];
    let directory = files.stat(&path("/in")).unwrap().0;
    tried.push(("LINK", files.link(number, directory, &one).map(drop)));
    tried.push(("LINK in", files.link(directory, number, &one).map(drop)));
    for renaming in [Renaming::Replace, Renaming::NoReplace, Renaming::Exchange] {
        let (here, there) = ((directory, &name("f")), (number, &name("s")));
        tried.push(("RENAME out", files.rename(here, there, renaming)));
        tried.push(("RENAME in", files.rename(there, here, renaming)));
    }
    tried.into_iter().map(|(what, done)| (what, done.err().map(|error| error.errno()))).collect()
}

#[test]
fn no_call_reaches_an_inode_outside_by_its_number() {
    let bench = Bench::new();
    let inside = bench.client(below(&["/in!"]));
    let missing = InodeNumber(9999);
    let outside = [bench.number("/out"), bench.number("/out/s"), bench.number("/out/d"), missing];
    for number in outside {
        for (what, errno) in tried(&inside.files, number) {
            assert_eq!(errno, Some(Errno::ACCESS), "{what} of {number:?}");
        }
    }
    // A file within is reached by the name under which the client has found it, and not before.
    let file = bench.number("/in/d/g");
    assert_eq!(inside.files.inode(file).unwrap_err().errno(), Errno::ACCESS);
    inside.files.stat(&path("/in/d/g")).unwrap();
    inside.files.inode(file).unwrap();
    assert_eq!(
        bench.all.files().inode(bench.number("/out/s")).unwrap().size,
        ByteLen(6),
        "unchanged"
    );
}

#[test]
fn the_directories_above_a_granted_one_show_only_the_way_to_it() {
    let bench = Bench::new();
    for directory in ["/in/d/deep", "/in/d/deeper"] {
        bench.all.mkdir(&path(directory)).unwrap();
    }
    let Client { files, .. } = bench.client(below(&["/in/d/deep", "/in/d/deeper", "/in/d/none"]));
    let names = |at| {
        let entries = files.list(at, None, 9).unwrap();
        entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(ROOT), ["in"]);
    let (directory, _) = files.lookup(ROOT, &name("in")).unwrap();
    assert_eq!(names(directory), ["d"]);
    assert_eq!(names(bench.number("/in/d")), ["deep", "deeper"]);
    let after = files.list(bench.number("/in/d"), Some(&name("deep")), 9).unwrap();
    assert_eq!((after.len(), &after[0].name), (1, &name("deeper")));
    assert_eq!(files.list(bench.number("/in/d"), None, 1).unwrap().len(), 1);
    for (at, other) in [(ROOT, "out"), (ROOT, "missing"), (directory, "f")] {
        assert_eq!(files.lookup(at, &name(other)).unwrap_err().errno(), Errno::ACCESS, "{other}");
    }
    // The number of a parent is known, and leads no further.
    let (_, granted) = files.stat(&path("/in/d/deep")).unwrap();
    assert_eq!(granted.parent, bench.number("/in/d"));
    let attributes = files.attributes(granted.parent);
    assert_eq!(attributes.unwrap_err().errno(), Errno::ACCESS);
    let message = Request { name: b"..", ..Request::new(Operation::LOOKUP, granted.parent.0) };
    let mut connection = Connection {
        id: ConnectionId { core: 9, number: 9 },
        server: Arc::clone(&bench.server),
        allowed: Arc::new(Mutex::new(below(&["/in/d/deep"]))),
    };
    let mut errno_of = |request: &Request<'_>| {
        let answer = connection.ask(&request.encode().unwrap()).unwrap();
        Answer::decode(&answer).unwrap().errno
    };
    let number = |errno: Errno| u32::try_from(errno.raw_os_error()).unwrap();
    assert_eq!(errno_of(&message), number(Errno::PROTO), "before HELLO");
    errno_of(&Request { data: &[7; 16], ..Request::new(Operation::HELLO, 0) });
    assert_eq!(errno_of(&message), number(Errno::ACCESS));
    let inside =
        Request { name: b"..", ..Request::new(Operation::LOOKUP, bench.number("/in/d/deep").0) };
    assert_eq!(errno_of(&inside), number(Errno::INVAL));
    for operation in [Operation::FORMAT, Operation(99)] {
        let errno = errno_of(&Request::new(operation, 1));
        assert!(errno == number(Errno::ACCESS) || errno == number(Errno::NOSYS), "{operation:?}");
    }
}

#[test]
fn a_client_that_may_change_nothing_makes_no_commits_for_others() {
    let bench = Bench::new();
    let reader = bench.client(below(&["/in"])).files;
    let writer = bench.client(below(&["/in", "/out/d!"])).files;
    bench.all.mkdir(&path("/in/new")).unwrap();
    let before = bench.device.operation_count();
    reader.sync_all().unwrap();
    assert_eq!(bench.device.operation_count(), before);
    writer.sync_all().unwrap();
    assert!(bench.device.operation_count() > before);
}

#[test]
fn a_grant_to_read_changes_nothing_and_a_grant_to_write_ends_at_its_border() {
    let bench = Bench::new();
    let Client { files, .. } = bench.client(below(&["/in", "/out/d!"]));
    let paths = Arc::new(Paths::new(files));
    let files = paths.files();
    assert!(files.is_writable());
    let (file, _) = files.stat(&path("/in/f")).unwrap();
    let (read_only, own) = (bench.number("/in"), bench.number("/out/d"));
    files.retain(file).unwrap();
    let mut bytes = [0; 9];
    assert_eq!(files.read(file, &mut bytes, ByteOffset(0)).unwrap(), 5);
    assert_eq!(bytes[..5], *b"/in/f");
    let refused = [
        files.write(file, b"x", ByteOffset(0)),
        files.change(file, AttributeChanges::default()).map(drop),
        files.create(read_only, &name("n"), new(Kind::File)).map(drop),
        // A name in a directory that may be written would make the file writable.
        files.link(file, own, &name("n")).map(drop),
        files.rename((read_only, &name("f")), (own, &name("n")), Renaming::Replace),
        files.unlink(read_only, &name("f")),
        files.rmdir(bench.number("/out"), &name("d")),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused.unwrap_err().errno(), Errno::ACCESS, "{at}");
    }
    let options = UploadOptions { size: None, replace: Replace::Allowed };
    paths.put(&path("/out/d/n"), &mut &b"new"[..], options, &mut |_| {}).unwrap();
    let (made, _) = files.create(own, &name("m"), new(Kind::File)).unwrap();
    files.rename((own, &name("m")), (own, &name("k")), Renaming::NoReplace).unwrap();
    files.change(made, AttributeChanges { mode: Some(0o600), ..Default::default() }).unwrap();
    files.rename((own, &name("n")), (own, &name("k")), Renaming::Exchange).unwrap();
    files.change(made, AttributeChanges::default()).unwrap();
    assert_eq!(files.stat(&path("/out/d/k")).unwrap().1.size, ByteLen(3));
    bench.all.mkdir(&path("/out/d/e")).unwrap();
    paths.rename(&path("/out/d/e"), &path("/out/d/f"), Replace::Never).unwrap();
    paths.remove(&path("/out/d/f")).unwrap();
}

#[test]
fn what_another_client_moves_out_of_the_directory_is_out_of_reach_and_open_files_are_too() {
    let bench = Bench::new();
    let Client { files, .. } = bench.client(below(&["/in!"]));
    let (file, _) = files.stat(&path("/in/d/g")).unwrap();
    let directory = bench.number("/in/d");
    files.retain(file).unwrap();
    let mut bytes = [0; 9];
    let mut read = || files.read(file, &mut bytes, ByteOffset(0)).map_err(|error| error.errno());
    assert_eq!(read(), Ok(7));
    // A directory above the file, then the file itself, then the granted directory.
    bench.rename("/in/d", "/out/moved");
    assert_eq!(read(), Err(Errno::ACCESS));
    assert_eq!(files.list(directory, None, 9).unwrap_err().errno(), Errno::ACCESS);
    bench.rename("/out/moved", "/in/d");
    assert_eq!(read(), Ok(7), "it is back");
    bench.rename("/in/d/g", "/out/g");
    assert_eq!(read(), Err(Errno::ACCESS));
    bench.rename("/out/s", "/in/d/g");
    assert_eq!(read(), Err(Errno::ACCESS), "another file has its name");
    bench.all.remove(&path("/out/g")).unwrap();
    assert_eq!(read(), Err(Errno::ACCESS), "it lost its last name outside");
    files.release(file);
    bench.rename("/in", "/old");
    assert_eq!(files.inode(bench.number("/old")).unwrap_err().errno(), Errno::ACCESS);
    assert_eq!(files.inode(directory).unwrap_err().errno(), Errno::ACCESS);
    // The grant is on the path.
    bench.rename("/out", "/in");
    files.stat(&path("/in/d")).unwrap();
}

#[test]
fn an_open_file_that_another_client_renames_within_the_directory_stays_within() {
    let bench = Bench::new();
    let Client { files, .. } = bench.client(below(&["/in"]));
    let (file, _) = files.stat(&path("/in/d/g")).unwrap();
    let (other, _) = files.stat(&path("/in/f")).unwrap();
    let read = |number| {
        let mut bytes = [0; 9];
        let read = files.read(number, &mut bytes, ByteOffset(0));
        read.map(|len| bytes[..len].to_vec()).map_err(|error| error.errno())
    };
    files.retain(file).unwrap();
    files.retain(other).unwrap();
    bench.rename("/in/d/g", "/in/h");
    assert_eq!(read(file), Ok(b"/in/d/g".to_vec()));
    let directory = bench.number("/in");
    let (one, two) = ((directory, &name("h")), (directory, &name("f")));
    bench.all.files().rename(one, two, Renaming::Exchange).unwrap();
    assert_eq!((read(file), read(other)), (Ok(b"/in/d/g".to_vec()), Ok(b"/in/f".to_vec())));
    // Both have the names that they were given last, and follow these out and back.
    bench.rename("/in/f", "/out/f");
    assert_eq!((read(file), read(other)), (Err(Errno::ACCESS), Ok(b"/in/f".to_vec())));
    bench.rename("/out/f", "/in/d/again");
    assert_eq!(read(file), Ok(b"/in/d/g".to_vec()));
    // A rename that replaces it takes its last name.
    bench
        .all
        .files()
        .rename(one, (bench.number("/in/d"), &name("again")), Renaming::Replace)
        .unwrap();
    assert_eq!((read(file), read(other)), (Ok(b"/in/d/g".to_vec()), Ok(b"/in/f".to_vec())));
}

#[test]
fn a_hard_link_gives_access_only_where_it_is_within() {
    let bench = Bench::new();
    let secret = bench.number("/out/s");
    let Client { files, .. } = bench.client(below(&["/in"]));
    bench.all.files().link(secret, bench.number("/in"), &name("link")).unwrap();
    assert_eq!(files.inode(secret).unwrap_err().errno(), Errno::ACCESS, "not found yet");
    files.stat(&path("/in/link")).unwrap();
    files.inode(secret).unwrap();
    bench.all.files().unlink(bench.number("/in"), &name("link")).unwrap();
    assert_eq!(files.inode(secret).unwrap_err().errno(), Errno::ACCESS);
}

#[test]
fn an_open_file_that_lost_its_name_within_stays_open_until_the_grant_is_revoked() {
    let bench = Bench::new();
    let Client { files, allowed } = bench.client(below(&["/in!"]));
    let paths = Arc::new(Paths::new(files));
    let files = paths.files();
    let other = bench.client(below(&["/in"]));
    let (file, _) = files.stat(&path("/in/f")).unwrap();
    other.files.stat(&path("/in/f")).unwrap();
    files.retain(file).unwrap();
    bench.all.files().unlink(bench.number("/in"), &name("f")).unwrap();
    files.write(file, b"x", ByteOffset(0)).unwrap();
    files.sync(file, false).unwrap();
    let closed = other.files.retain(file).unwrap_err();
    assert_eq!(closed.errno(), Errno::ACCESS, "only those who have it open");
    let options = UploadOptions { size: None, replace: Replace::Never };
    let mut pending = paths.upload(&path("/in/new"), options).unwrap();
    pending.write(b"12345").unwrap();
    *allowed.lock().unwrap() = below(&["/in"]);
    assert_eq!(files.write(file, b"x", ByteOffset(0)).unwrap_err().errno(), Errno::ACCESS);
    files.read(file, &mut [0; 9], ByteOffset(0)).unwrap();
    assert_eq!(pending.finish().unwrap_err().errno(), Errno::ACCESS);
    *allowed.lock().unwrap() = Allowed::default();
    for done in [
        files.read(file, &mut [0; 9], ByteOffset(0)).map(drop),
        files.inode(bench.number("/in")).map(drop),
        files.lookup(ROOT, &name("in")).map(drop),
        files.list(ROOT, None, 9).map(drop),
    ] {
        assert_eq!(done.unwrap_err().errno(), Errno::ACCESS);
    }
}

fn cut(len: u64) -> AttributeChanges {
    AttributeChanges { size: Some(ByteLen(len)), ..Default::default() }
}

#[test]
fn a_reader_lists_and_reads_what_its_grant_covers_and_keeps_files_that_are_open() {
    let bench = Bench::new();
    (0..9).for_each(|at| bench.all.mkdir(&path(&format!("/in/d/{at}"))).unwrap());
    let Client { files, .. } = bench.client(below(&["/in"]));
    let reader = Arc::new(Paths::new(files));
    let names = |at, after: Option<&str>, count| {
        let listed = reader.list(&path(at), after.map(name).as_ref(), count).unwrap();
        listed.into_iter().map(|(entry, inode)| (entry.name.to_string(), inode.size.0))
    };
    assert!(names("/", None, 9).eq([("in".to_owned(), 0)]));
    assert!(names("/in", None, 9).eq([("d".to_owned(), 0), ("f".to_owned(), 5)]));
    assert_eq!((names("/in/d", None, 9).count(), names("/in/d", Some("7"), 9).count()), (9, 2));
    let refused = reader.open_file(&path("/out/s")).unwrap_err();
    assert_eq!(refused.errno(), Errno::ACCESS);
    assert!(refused.to_string().starts_with("/out/s: "), "{refused}");
    let (missing, directory) = (reader.open_file(&path("/in/x")), reader.open_file(&path("/in/d")));
    assert_eq!(missing.unwrap_err().errno(), Errno::NOENT);
    assert_eq!(directory.unwrap_err().errno(), Errno::ISDIR);

    let read = |file: &Opened<RemoteFiles>, len, at| {
        let mut bytes = vec![0; len];
        let done = file.read_at(&mut bytes, ByteOffset(at)).map(|()| bytes);
        done.map_err(|error| error.errno())
    };
    let (removed, shorter) = (path("/in/d/g"), path("/in/f"));
    let (removed, shorter) = (reader.open_file(&removed).unwrap(), reader.open_file(&shorter));
    let (shorter, inodes) = (shorter.unwrap(), || bench.server.files().usage().unwrap().inodes);
    let before = inodes();
    bench.all.remove(removed.path()).unwrap();
    assert_eq!((read(&removed, 3, 4), inodes()), (Ok(b"d/g".to_vec()), before));
    assert_eq!(read(&removed, 3, 5), Err(Errno::IO), "behind its end");
    // It is closed some time after its last use.
    drop(removed);
    reader.stat(&path("/in")).unwrap();
    assert_eq!(inodes(), before - 1);
    bench.all.files().change(shorter.number(), cut(2)).unwrap();
    assert_eq!(
        (read(&shorter, 2, 0), read(&shorter, 5, 0)),
        (Ok(b"/i".to_vec()), Err(Errno::STALE))
    );
}

#[test]
fn a_client_that_may_read_all_files_changes_only_those_that_its_path_covers() {
    let bench = Bench::new();
    let Client { files, .. } = bench.client(Allowed { may_read: true, ..below(&["/in!"]) });
    let (secret, _) = files.stat(&path("/out/s")).unwrap();
    files.retain(secret).unwrap();
    assert_eq!(files.list(ROOT, None, 9).unwrap().len(), 2);
    assert_eq!(files.write(secret, b"x", ByteOffset(0)).unwrap_err().errno(), Errno::ACCESS);
    let (file, _) = files.stat(&path("/in/f")).unwrap();
    files.retain(file).unwrap();
    files.write(file, b"x", ByteOffset(0)).unwrap();
}

#[test]
fn random_moves_by_others_never_let_a_client_reach_what_is_outside() {
    let bench = Bench::new();
    let Client { files, .. } = bench.client(below(&["/in"]));
    let mut dice = Dice(7);
    let names = ["f", "g", "s", "d", "x", "in", "out"];
    let directories: Vec<InodeNumber> = [ROOT]
        .into_iter()
        .chain(["/in", "/in/d", "/out", "/out/d"].map(|text| bench.number(text)))
        .collect();
    let inodes: Vec<InodeNumber> = directories
        .iter()
        .copied()
        .chain(["/in/f", "/in/d/g", "/out/s"].map(|it| bench.number(it)))
        .collect();
    let (mut within, mut outside) = (0, 0);
    for _ in 0..3000 {
        let place = |dice: &mut Dice| {
            let directory = directories[usize::try_from(dice.below(5)).unwrap()];
            (directory, name(names[usize::try_from(dice.below(7)).unwrap()]))
        };
        let (from, to) = (place(&mut dice), place(&mut dice));
        // Many fail: the names do not exist, or a directory would become part of itself.
        let _ = bench.all.files().rename((from.0, &from.1), (to.0, &to.1), Renaming::NoReplace);
        let _ = files.lookup(to.0, &to.1);
        let granted = bench
            .all
            .files()
            .lookup(ROOT, &name("in"))
            .ok()
            .filter(|it| it.1.kind == Kind::Directory);
        for number in &inodes {
            let reached = files.inode(*number).is_ok() && *number != ROOT;
            let is_within = granted
                .as_ref()
                .is_some_and(|(root, _)| is_below(bench.all.files(), *root, *number));
            assert!(is_within || !reached, "{number:?}");
            (within, outside) = (within + u32::from(reached), outside + u32::from(!reached));
        }
    }
    assert!(within > 1000 && outside > 1000, "both occur: {within}, {outside}");
}

/// Whether an inode is a directory, or somewhere below it.
fn is_below(files: &RemoteFiles, directory: InodeNumber, number: InodeNumber) -> bool {
    directory == number
        || files.list(directory, None, 99).unwrap().iter().any(|entry| match entry.kind {
            Kind::Directory => is_below(files, entry.inode, number),
            _ => entry.inode == number,
        })
}
