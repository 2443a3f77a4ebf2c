//! Each call as a message.

use std::sync::atomic::Ordering;
use std::time::Instant;

use nearflash::direct::Rights;
use nearflash_files::{
    AttributeWrite, Entry, Inode, InodeNumber, Kind, Name, Permissions, Refusal, Renaming, Replace,
};
use nearflash_files_calls::answer::{UsageRecord, entries, names};
use nearflash_files_calls::{DATA_LEN_MAX, MessageError, Operation, Request};
use nearflash_units::{ByteLen, ByteOffset};
use zerocopy::little_endian::{U32, U64};

use super::passing::written;
use super::{Answered, RemoteFiles, Repeat, State};
use crate::{
    Allocation, AttributeChanges, FileCalls, FilesError, NewInode, SealedFile, Usage, wire,
};

impl RemoteFiles {
    fn ask(&self, request: &Request<'_>) -> Result<Answered, FilesError> {
        self.call(request, Repeat::Yes)
    }

    /// Makes a change of these inodes.
    fn make(&self, request: &Request<'_>, changed: &[InodeNumber]) -> Result<Answered, FilesError> {
        let answered = self.call(request, Repeat::No)?;
        let mut state = self.state();
        for number in changed {
            state.unsynced.changed(*number, answered.life);
        }
        Ok(answered)
    }

    fn inode_of(&self, answered: &Answered) -> Result<(InodeNumber, Inode), FilesError> {
        let (number, mut inode) = self.decoded(answered)?;
        inode.size = inode.size.max(ByteLen(self.state().growth.end(number)));
        Ok((number, inode))
    }

    fn read_piece(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<usize, FilesError> {
        let mut request = Request::new(Operation::READ, number.0);
        request.head.offset = U64::new(offset);
        request.head.len = U64::new(ByteLen::of(bytes).0);
        let answered = self.ask(&request)?;
        let place = bytes.get_mut(..answered.payload.len());
        let place = place.ok_or_else(|| self.damaged(MessageError::TooLong))?;
        place.copy_from_slice(&answered.payload);
        Ok(answered.payload.len())
    }

    /// Appends, and returns the offset. `request` has the bytes, or only their length.
    fn append_request(&self, request: &Request<'_>) -> Result<ByteOffset, FilesError> {
        let number = InodeNumber(request.head.inode.get());
        let answered = self.make(request, &[number])?;
        let start = answered.value;
        let end = start.saturating_add(ByteLen::of(request.data).0.max(request.head.len.get()));
        let written = if request.data.is_empty() { end..end } else { start..end };
        self.grew(number, &written, answered.life);
        Ok(ByteOffset(start))
    }

    fn read_whole(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        let passed = self.read_past(number, bytes, offset)?;
        if passed == bytes.len() {
            return Ok(passed);
        }
        let (bytes, offset) = (&mut bytes[passed..], offset.0 + ByteLen::from_usize(passed).0);
        let mut done = 0;
        for piece in bytes.chunks_mut(DATA_LEN_MAX) {
            let at = offset.saturating_add(done);
            let read = self.read_piece(number, piece, at)?;
            done += ByteLen::of(&piece[..read]).0;
            if read < piece.len() {
                break;
            }
        }
        Ok(passed + ByteLen(done).to_usize())
    }

    /// Reports changes that may be lost.
    fn reported(&self, is_whole: bool) -> Result<(), FilesError> {
        let volume = || self.volume.clone();
        if is_whole { Ok(()) } else { Err(FilesError::Restarted { volume: volume() }) }
    }
}

impl FileCalls for RemoteFiles {
    fn volume(&self) -> &str {
        &self.volume
    }

    fn lookup(
        &self,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        let request =
            Request { name: name.as_bytes(), ..Request::new(Operation::LOOKUP, directory.0) };
        let (number, inode) = self.inode_of(&self.ask(&request)?)?;
        if inode.kind != Kind::Directory {
            self.state().found(number, (directory, name));
        }
        let inode = if self.tell(number) { self.inode(number)? } else { inode };
        Ok((number, inode))
    }

    fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError> {
        self.tell(number);
        let answered = self.ask(&Request::new(Operation::INODE, number.0))?;
        Ok(self.inode_of(&answered)?.1)
    }

    fn list(
        &self,
        directory: InodeNumber,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        let mut request = Request::new(Operation::LIST, directory.0);
        request.name = after.map_or(&[], |name| name.as_bytes());
        request.head.len = U64::new(u64::try_from(count_max).unwrap_or(u64::MAX));
        let answered = self.ask(&request)?;
        let found = entries(&answered.payload).map_err(|error| self.damaged(error))?;
        let entry = |record: nearflash_files_calls::answer::EntryRecord<'_>| {
            let name = Name::new(record.name).map_err(|_| MessageError::Value)?;
            let kind = wire::kind(record.kind).ok_or(MessageError::Value)?;
            Ok(Entry { name, inode: InodeNumber(record.inode), kind })
        };
        let found: Result<Vec<Entry>, MessageError> = found.into_iter().map(entry).collect();
        found.map_err(|error| self.damaged(error))
    }

    fn create(
        &self,
        directory: InodeNumber,
        name: &Name,
        new: NewInode,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        if new.target.len() > DATA_LEN_MAX {
            return Err(Refusal::TargetTooLong(new.target.len()).into());
        }
        let mut request = Request::new(Operation::CREATE, directory.0);
        (request.name, request.data) = (name.as_bytes(), &new.target);
        request.head.variant = wire::kind_number(new.kind);
        request.head.mode = U32::new(new.permissions.mode);
        request.head.uid = U32::new(new.permissions.uid);
        request.head.gid = U32::new(new.permissions.gid);
        request.head.device = U32::new(new.device);
        let answered = self.make(&request, &[directory])?;
        let (number, inode) = self.inode_of(&answered)?;
        let mut state = self.state();
        if inode.kind == Kind::File {
            state.unsynced.changed(number, answered.life);
        }
        if inode.kind != Kind::Directory {
            state.found(number, (directory, name));
        }
        drop(state);
        Ok((number, inode))
    }

    fn create_nameless(
        &self,
        directory: InodeNumber,
        permissions: Permissions,
    ) -> Result<InodeNumber, FilesError> {
        self.begin_nameless(directory, permissions)
    }

    fn publish(
        &self,
        number: InodeNumber,
        place: (InodeNumber, &Name),
        replace: Replace,
    ) -> Result<Inode, FilesError> {
        self.name_nameless(number, place, replace)
    }

    fn link(
        &self,
        number: InodeNumber,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<Inode, FilesError> {
        self.tell(number);
        let mut request = Request::new(Operation::LINK, directory.0);
        request.name = name.as_bytes();
        request.head.other = U64::new(number.0);
        let answered = self.make(&request, &[directory, number])?;
        self.state().found(number, (directory, name));
        Ok(self.inode_of(&answered)?.1)
    }

    fn unlink(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError> {
        let request =
            Request { name: name.as_bytes(), ..Request::new(Operation::UNLINK, directory.0) };
        self.make(&request, &[directory]).map(drop)
    }

    fn rmdir(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError> {
        let request =
            Request { name: name.as_bytes(), ..Request::new(Operation::RMDIR, directory.0) };
        self.make(&request, &[directory]).map(drop)
    }

    fn rename(
        &self,
        from: (InodeNumber, &Name),
        to: (InodeNumber, &Name),
        renaming: Renaming,
    ) -> Result<(), FilesError> {
        let mut request = Request::new(Operation::RENAME, from.0.0);
        (request.name, request.second) = (from.1.as_bytes(), to.1.as_bytes());
        request.head.other = U64::new(to.0.0);
        request.head.variant = wire::renaming_number(renaming);
        self.make(&request, &[from.0, to.0])?;
        self.state().places.renamed(from, to, renaming == Renaming::Exchange);
        Ok(())
    }

    fn link_target(&self, number: InodeNumber) -> Result<Vec<u8>, FilesError> {
        Ok(self.ask(&Request::new(Operation::READ_LINK, number.0))?.payload)
    }

    fn change(&self, number: InodeNumber, changes: AttributeChanges) -> Result<Inode, FilesError> {
        self.tell(number);
        let mut request = Request::new(Operation::CHANGE, number.0);
        wire::put_changes(&mut request.head, &changes);
        let answered = self.make(&request, &[number])?;
        if let Some(size) = changes.size {
            let mut state = self.state();
            if state.open.contains_key(&number) {
                state.growth.resized(number, size.0);
            }
        }
        Ok(self.inode_of(&answered)?.1)
    }

    fn attribute(&self, number: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FilesError> {
        let request = Request { name, ..Request::new(Operation::ATTRIBUTE, number.0) };
        Ok(self.ask(&request)?.payload)
    }

    fn attributes(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>, FilesError> {
        let answered = self.ask(&Request::new(Operation::ATTRIBUTES, number.0))?;
        names(&answered.payload).map_err(|error| self.damaged(error))
    }

    fn set_attribute(
        &self,
        number: InodeNumber,
        name: &[u8],
        value: &[u8],
        write: AttributeWrite,
    ) -> Result<(), FilesError> {
        if value.len() > nearflash_files::ATTRIBUTE_LEN_MAX {
            return Err(Refusal::AttributeTooLong(value.len()).into());
        }
        let mut request = Request::new(Operation::SET_ATTRIBUTE, number.0);
        (request.name, request.data) = (name, value);
        request.head.variant = wire::attribute_write_number(write);
        self.make(&request, &[number]).map(drop)
    }

    fn remove_attribute(&self, number: InodeNumber, name: &[u8]) -> Result<(), FilesError> {
        let request = Request { name, ..Request::new(Operation::REMOVE_ATTRIBUTE, number.0) };
        self.make(&request, &[number]).map(drop)
    }

    fn retain(&self, number: InodeNumber) -> Result<(), FilesError> {
        let mut request = Request::new(Operation::RETAIN, number.0);
        request.head.len = U64::new(1);
        loop {
            let answered = self.ask(&request)?;
            let mut state = self.state();
            // Otherwise, the client of the answer has ended, and so have its open inodes.
            if answered.id == state.id {
                *state.open.entry(number).or_default() += 1;
                return Ok(());
            }
        }
    }

    fn release(&self, number: InodeNumber) {
        // Without the node, the owner closes everything itself.
        let Ok(mut link) = self.link(Instant::now()) else {
            self.forget(number);
            return;
        };
        self.writes.tell(number, || {
            // If the connection is lost, the next message says so.
            let _ = self.ask_over(&mut link, &written(number));
        });
        if link.id == self.forget(number) {
            let asked = self.ask_over(&mut link, &Request::new(Operation::RELEASE, number.0));
            match asked {
                Err(FilesError::Open(error)) if error.status().is_none() => self.lose(&link),
                _ => self.give_back(link),
            }
        }
    }

    fn read(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        let read = self.read_whole(number, bytes, offset)?;
        // The owner may have started again meanwhile.
        if !self.has_lost.load(Ordering::Acquire) {
            return Ok(read);
        }
        let asked = offset.0..offset.0.saturating_add(ByteLen::of(bytes).0);
        match self.state().growth.readable(number, &asked) {
            Some(readable) => Ok(read.min(ByteLen(readable).to_usize())),
            None => self.reported(false).map(|()| 0),
        }
    }

    fn write(
        &self,
        number: InodeNumber,
        bytes: &[u8],
        offset: ByteOffset,
    ) -> Result<(), FilesError> {
        let passed = self.write_past(number, bytes, offset)?;
        let mut place = offset.0 + ByteLen::from_usize(passed).0;
        for piece in bytes[passed..].chunks(DATA_LEN_MAX) {
            let mut request = Request::new(Operation::WRITE, number.0);
            request.data = piece;
            request.head.offset = U64::new(place);
            let answered = self.make(&request, &[number])?;
            let end = place.saturating_add(ByteLen::of(piece).0);
            self.grew(number, &(place..end), answered.life);
            place = end;
        }
        Ok(())
    }

    fn append(&self, number: InodeNumber, bytes: &[u8]) -> Result<ByteOffset, FilesError> {
        // Bytes behind lost ones stay behind them.
        let lost_end = self.state().growth.end(number);
        if lost_end != 0 && self.inode(number)?.size.0 == lost_end {
            self.write(number, bytes, ByteOffset(lost_end))?;
            return Ok(ByteOffset(lost_end));
        }
        let mut request = Request::new(Operation::APPEND, number.0);
        if bytes.len() <= DATA_LEN_MAX {
            request.data = bytes;
            return self.append_request(&request);
        }
        // The bytes of one call stay together.
        request.head.len = U64::new(ByteLen::of(bytes).0);
        let offset = self.append_request(&request)?;
        self.write(number, bytes, offset)?;
        Ok(offset)
    }

    fn allocate(
        &self,
        number: InodeNumber,
        offset: ByteOffset,
        len: ByteLen,
        allocation: Allocation,
    ) -> Result<(), FilesError> {
        let mut request = Request::new(Operation::ALLOCATE, number.0);
        request.head.variant = wire::allocation_number(allocation);
        (request.head.offset, request.head.len) = (U64::new(offset.0), U64::new(len.0));
        let answered = self.make(&request, &[number])?;
        if matches!(allocation, Allocation::Extend | Allocation::ZeroAndExtend) {
            let end = offset.0.saturating_add(len.0);
            self.grew(number, &(end..end), answered.life);
        }
        Ok(())
    }

    fn sync(&self, number: InodeNumber, is_data_only: bool) -> Result<(), FilesError> {
        self.tell(number);
        let covered = self.state().unsynced.now();
        let mut request = Request::new(Operation::SYNC, number.0);
        request.head.variant = u8::from(is_data_only);
        let answered = self.ask(&request)?;
        let mut state = self.state();
        let is_whole = state.unsynced.synced(number, covered, answered.life);
        if !state.unsynced.has(number) {
            state.growth.synced(number);
        }
        if state.handed_over.contains(&number) {
            state.unsynced.changed(number, answered.life);
        }
        drop(state);
        self.reported(is_whole)
    }

    fn sync_all(&self) -> Result<(), FilesError> {
        let covered = self.state().unsynced.now();
        let answered = self.ask(&Request::new(Operation::SYNC_ALL, 0))?;
        let mut state = self.state();
        let is_whole = state.unsynced.synced_all(covered, answered.life);
        let State { growth, unsynced, .. } = &mut *state;
        growth.synced_all(|number| !unsynced.has(number));
        let State { handed_over, unsynced, .. } = &mut *state;
        handed_over.iter().for_each(|number| unsynced.changed(*number, answered.life));
        drop(state);
        self.reported(is_whole)
    }

    fn usage(&self) -> Result<Usage, FilesError> {
        let answered = self.ask(&Request::new(Operation::USAGE, 0))?;
        let record = UsageRecord::decode(&answered.payload);
        record.map(|record| wire::usage_of(&record)).map_err(|error| self.damaged(error))
    }

    fn seal(&self, number: InodeNumber, rights: Rights) -> Result<SealedFile, FilesError> {
        if self.state().growth.has_lost(number) {
            let reason = "it has lost bytes with the node: open it again";
            return Err(FilesError::NoSeal { volume: self.volume.clone(), reason });
        }
        let (sealed, life) = self.ask_seal(number, rights)?;
        if rights.has(Rights::WRITE) {
            let mut state = self.state();
            state.handed_over.insert(number);
            state.unsynced.changed(number, life);
        }
        Ok(sealed)
    }

    /// Only the owner voids seals, and it does not know of the pages that this client's kernel keeps.
    fn seal_without_pages(&self, _: InodeNumber, _: Rights) -> Result<SealedFile, FilesError> {
        let (volume, reason) = (self.volume.clone(), "its node owns the files");
        Err(FilesError::NoSeal { volume, reason })
    }

    /// Only the owner knows, and a sync asks it.
    fn durable_size(&self, _: InodeNumber) -> Result<ByteLen, FilesError> {
        let (volume, reason) = (self.volume.clone(), "its node owns the files");
        Err(FilesError::NoSeal { volume, reason })
    }

    /// No seal depends on pages.
    fn keep_pages(&self, _: InodeNumber) -> Result<(), FilesError> {
        Ok(())
    }

    fn mark_written(&self, number: InodeNumber) -> Result<(), FilesError> {
        self.writes.add(number);
        Ok(())
    }

    fn tell_owner(&self) {
        for number in self.writes.numbers() {
            self.tell(number);
        }
    }

    /// The owner releases what is open when the connections end.
    fn close(self: Box<Self>) -> Result<(), FilesError> {
        self.sync_all()
    }
}
