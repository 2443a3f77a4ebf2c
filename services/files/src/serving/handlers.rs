//! One handler for each operation.

use nearflash::direct::Rights;
use nearflash_files::{Entry, Inode, InodeNumber, Name, Permissions};
use nearflash_files_calls::answer::{EntryRecord, encode_names, encode_seal, push_entry};
use nearflash_files_calls::{DATA_LEN_MAX, Operation};
use nearflash_units::{ByteLen, ByteOffset};
use rustix::io::Errno;
use zerocopy::IntoBytes as _;

use super::{Asked, Done, Failed, FilesServer};
use crate::NewInode;
use crate::wire::{self, Linking};

type Handler = fn(&FilesServer, &Asked<'_>) -> Result<Done, Failed>;

/// The operations that a server carries out.
const HANDLERS: [(Operation, Handler); 26] = [
    (Operation::HELLO, hello),
    (Operation::LOOKUP, lookup),
    (Operation::INODE, inode),
    (Operation::LIST, list),
    (Operation::READ_LINK, read_link),
    (Operation::USAGE, usage),
    (Operation::ATTRIBUTE, attribute),
    (Operation::ATTRIBUTES, attributes),
    (Operation::RETAIN, retain),
    (Operation::RELEASE, release),
    (Operation::READ, read),
    (Operation::SYNC, sync),
    (Operation::SYNC_ALL, sync_all),
    (Operation::SEAL, seal),
    (Operation::CREATE, create),
    (Operation::LINK, link),
    (Operation::UNLINK, unlink),
    (Operation::RMDIR, rmdir),
    (Operation::RENAME, rename),
    (Operation::CHANGE, change),
    (Operation::SET_ATTRIBUTE, set_attribute),
    (Operation::REMOVE_ATTRIBUTE, remove_attribute),
    (Operation::WRITE, write),
    (Operation::APPEND, append),
    (Operation::ALLOCATE, allocate),
    (Operation::WRITTEN, written),
];

/// The most entries of an answer.
const ENTRIES_MAX: u64 = 4096;

pub(super) fn of(operation: Operation) -> Option<Handler> {
    let known = HANDLERS.iter().find(|(known, _)| *known == operation);
    known.map(|(_, handler)| *handler)
}

impl Asked<'_> {
    pub(super) fn inode(&self) -> InodeNumber {
        InodeNumber(self.request.head.inode.get())
    }

    pub(super) fn other(&self) -> InodeNumber {
        InodeNumber(self.request.head.other.get())
    }

    fn name(&self) -> Result<Name, Failed> {
        Ok(Name::new(self.request.name)?)
    }

    fn offset(&self) -> ByteOffset {
        ByteOffset(self.request.head.offset.get())
    }

    fn len(&self) -> ByteLen {
        ByteLen(self.request.head.len.get())
    }

    /// The variant of the operation.
    fn variant<T>(&self, known: fn(u8) -> Option<T>) -> Result<T, Failed> {
        known(self.request.head.variant).ok_or_else(|| {
            let name = self.request.head.operation().name();
            Failed::new(Errno::INVAL, format!("{name} has no such variant"))
        })
    }
}

impl Done {
    fn nothing() -> Self {
        Self { value: 0, payload: Vec::new() }
    }

    fn payload(payload: Vec<u8>) -> Self {
        Self { value: 0, payload }
    }

    fn inode(number: InodeNumber, inode: &Inode) -> Self {
        Self::payload(wire::inode_record(number, inode).as_bytes().to_vec())
    }
}

fn hello(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let id = asked.request.data.try_into();
    let id = id.map_err(|_| Failed::new(Errno::INVAL, "the number of a client has 16 bytes"))?;
    let is_known = server.join(asked.connection, id)?;
    let flags = u8::from(is_known) | u8::from(asked.allowed.may_write_some()) << 1;
    Ok(Done { value: server.life, payload: vec![flags] })
}

fn lookup(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let (number, inode) = server.files.lookup(asked.inode(), &asked.name()?)?;
    Ok(Done::inode(number, &inode))
}

fn inode(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    Ok(Done::inode(asked.inode(), &server.files.inode(asked.inode())?))
}

fn list(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let after = if asked.request.name.is_empty() { None } else { Some(asked.name()?) };
    let count_max = ByteLen(asked.len().0.min(ENTRIES_MAX)).to_usize();
    Ok(listed(&server.files.list(asked.inode(), after.as_ref(), count_max)?))
}

/// LIST of a directory that the client may only pass.
pub(super) fn list_steps(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let after = if asked.request.name.is_empty() { None } else { Some(asked.name()?) };
    let mut entries = server.steps(asked)?;
    entries.retain(|entry| after.as_ref().is_none_or(|after| entry.name > *after));
    entries.truncate(ByteLen(asked.len().0.min(ENTRIES_MAX)).to_usize());
    Ok(listed(&entries))
}

fn listed(entries: &[Entry]) -> Done {
    let mut payload = Vec::new();
    for entry in entries {
        let kind = wire::kind_number(entry.kind);
        let name = entry.name.as_bytes();
        // The client asks for the others behind the last one.
        if !push_entry(&mut payload, &EntryRecord { inode: entry.inode.0, kind, name }) {
            break;
        }
    }
    Done::payload(payload)
}

fn read_link(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    Ok(Done::payload(server.files.link_target(asked.inode())?))
}

fn usage(server: &FilesServer, _: &Asked<'_>) -> Result<Done, Failed> {
    Ok(Done::payload(wire::usage_record(server.files.usage()?).as_bytes().to_vec()))
}

fn attribute(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    Ok(Done::payload(server.files.attribute(asked.inode(), asked.request.name)?))
}

fn attributes(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let payload = encode_names(&server.files.attributes(asked.inode())?);
    payload.map(Done::payload).ok_or_else(|| Failed::new(Errno::TOOBIG, "too many attributes"))
}

fn retain(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.retain(asked.connection, asked.inode(), asked.len().0)?;
    Ok(Done::nothing())
}

fn release(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.release(asked.connection, asked.inode())?;
    Ok(Done::nothing())
}

fn read(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let max = ByteLen(u64::try_from(DATA_LEN_MAX).unwrap_or(u64::MAX));
    let mut payload = vec![0; asked.len().min(max).to_usize()];
    let len = server.files.read(asked.inode(), &mut payload, asked.offset())?;
    payload.truncate(len);
    Ok(Done::payload(payload))
}

fn sync(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.files.sync(asked.inode(), asked.request.head.variant != 0)?;
    Ok(Done::nothing())
}

/// A client that may change nothing has nothing to make durable, and makes no commits for others.
fn sync_all(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    if asked.allowed.may_write_some() {
        server.files.sync_all()?;
    }
    Ok(Done::nothing())
}

fn create(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let head = &asked.request.head;
    let (uid, gid) = (head.uid.get(), head.gid.get());
    let new = NewInode {
        kind: asked.variant(wire::kind)?,
        permissions: Permissions { mode: head.mode.get(), uid, gid },
        device: head.device.get(),
        target: asked.request.data.to_vec(),
    };
    let (number, inode) = server.files.create(asked.inode(), &asked.name()?, new)?;
    Ok(Done::inode(number, &inode))
}

fn link(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let (number, name) = (asked.other(), asked.name()?);
    let inode = match asked.variant(wire::linking)? {
        Linking::Named => server.files.link(number, asked.inode(), &name),
        Linking::Open(replace) => server.files.link_open(number, (asked.inode(), &name), replace),
    }?;
    Ok(Done::inode(asked.other(), &inode))
}

fn unlink(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.files.unlink(asked.inode(), &asked.name()?)?;
    Ok(Done::nothing())
}

fn rmdir(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.files.rmdir(asked.inode(), &asked.name()?)?;
    Ok(Done::nothing())
}

fn rename(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let (old, new) = (asked.name()?, Name::new(asked.request.second)?);
    let renaming = asked.variant(wire::renaming)?;
    server.files.rename((asked.inode(), &old), (asked.other(), &new), renaming)?;
    Ok(Done::nothing())
}

fn change(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let changes = wire::changes_of(&asked.request.head);
    Ok(Done::inode(asked.inode(), &server.files.change(asked.inode(), changes)?))
}

fn set_attribute(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let write = asked.variant(wire::attribute_write)?;
    let (name, value) = (asked.request.name, asked.request.data);
    server.files.set_attribute(asked.inode(), name, value, write)?;
    Ok(Done::nothing())
}

fn remove_attribute(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.files.remove_attribute(asked.inode(), asked.request.name)?;
    Ok(Done::nothing())
}

fn write(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.files.write(asked.inode(), asked.request.data, asked.offset())?;
    Ok(Done::nothing())
}

fn append(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let ByteOffset(value) = match asked.request.data {
        [] => server.files.append_space(asked.inode(), asked.len())?,
        bytes => server.files.append(asked.inode(), bytes)?,
    };
    Ok(Done { value, payload: Vec::new() })
}

fn allocate(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    let allocation = asked.variant(wire::allocation)?;
    server.files.allocate(asked.inode(), asked.offset(), asked.len(), allocation)?;
    Ok(Done::nothing())
}

fn seal(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.check_open(asked.connection, asked.inode())?;
    let rights = asked.variant(wire::rights)?;
    // A seal is of blocks, which only grants on the whole volume give.
    if rights.has(Rights::WRITE) && !asked.allowed.may_write {
        return Err(server.no_right(Operation::SEAL));
    }
    let sealed = server.files.seal(asked.inode(), rights)?;
    let payload = encode_seal(&sealed.seal.encode(), &sealed.bearer.encode());
    let payload = payload.expect("a seal and a bearer are short");
    Ok(Done { value: sealed.reach.0, payload })
}

fn written(server: &FilesServer, asked: &Asked<'_>) -> Result<Done, Failed> {
    server.check_open(asked.connection, asked.inode())?;
    server.files.mark_written(asked.inode())?;
    Ok(Done::nothing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_but_format_has_a_handler() {
        for operation in Operation::all() {
            assert_eq!(of(operation).is_some(), operation != Operation::FORMAT, "{operation:?}");
        }
    }
}
