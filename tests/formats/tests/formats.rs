//! `docs/internals/formats.md` says byte by byte what nearflash writes.
//!
//! The test knows no structure of a format, only its encoder. It changes one field at a time, and the bytes
//! that change must be those of the field's row. So a table cannot be wrong in a place, a length or a name, and
//! the code may order its structures as it likes, as long as the bytes stay.
#![allow(clippy::unwrap_used)] // a failed test says where

mod document;

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use document::{Format, Row, block, headings, rows};
use nearflash_device::MirrorKey;
use nearflash_direct::ownership::{OWNER_BLOCK_LEN, OwnerBlock, OwnerRecord, Term};
use nearflash_files::Run;
use nearflash_mirror::membership::wire::Hello;
use nearflash_records::token::Token;
use nearflash_space::slice::{self, MirrorNote, NOTES_PER_PAGE, NOTES_START, NotePage, Notes};
use nearflash_space::{LABEL_OFFSETS, Label};
use nearflash_units::{Blocks, ByteLen, ByteOffset, Lba, MIB};
use uuid::Uuid;

/// The sections whose tables are compared below.
const COMPARED: [&str; 8] = [
    "Label of a device",
    "Superblock of a slice",
    "Notes of a slice",
    "Note of a mirror",
    "Superblock of files",
    "Owner block",
    "Token of a cluster",
    "Pulse messages",
];

fn uuid(byte: u8) -> Uuid {
    Uuid::from_bytes([byte; 16])
}

#[test]
fn every_table_of_the_document_is_compared() {
    assert_eq!(headings(), COMPARED.into());
}

#[test]
fn a_label_stands_on_the_device_as_the_document_says() {
    let label = Label {
        generation: 7,
        device: uuid(0xd1),
        node: uuid(0x4e),
        cluster: Some(uuid(0xc1)),
        name: "flash".parse().unwrap(),
        device_len: ByteLen(64 * MIB),
        data_start: ByteOffset(MIB),
        data_len: ByteLen(63 * MIB),
    };
    assert_eq!(LABEL_OFFSETS.map(|offset| offset.0), [0, 512 << 10]);
    assert_eq!(Label::decode(&label.encode()).as_ref(), Ok(&label));
    let format = Format {
        heading: "Label of a device",
        rows: rows("Label of a device"),
        encode: &|label: &Label| label.encode().to_vec(),
        sample: label,
        checked_from: 0,
        constants: &["magic"],
        partial: &["version", "name"],
    };
    format.check(&[
        (&["generation"], &|it| it.generation = !it.generation),
        (&["device"], &|it| it.device = uuid(1)),
        (&["node"], &|it| it.node = uuid(1)),
        (&["device_len"], &|it| it.device_len.0 = !it.device_len.0),
        (&["data_start"], &|it| it.data_start.0 = !it.data_start.0),
        (&["data_len"], &|it| it.data_len.0 = !it.data_len.0),
        (&["name"], &|it| it.name = "z".repeat(63).parse().unwrap()),
        (&["version", "cluster"], &|it| it.cluster = None),
    ]);
}

#[test]
fn a_superblock_stands_on_the_slice_as_the_document_says() {
    let superblock = slice::Superblock {
        generation: 8,
        cluster: uuid(0xc1),
        slice: uuid(0xd1),
        node: uuid(0x4e),
        incarnation: 5,
        confirmed: 4,
        power_incarnation: 3,
        boot: uuid(0xb0),
    };
    assert_eq!(slice::SUPERBLOCK_OFFSETS.map(|offset| offset.0), [MIB, MIB + 4096]);
    assert_eq!(superblock.offset(), slice::SUPERBLOCK_OFFSETS[0], "an even generation");
    assert_eq!(slice::Superblock::decode(&superblock.encode()), Ok(superblock));
    let format = Format {
        heading: "Superblock of a slice",
        rows: rows("Superblock of a slice"),
        encode: &|superblock: &slice::Superblock| superblock.encode().to_vec(),
        sample: superblock,
        checked_from: 0,
        constants: &["magic", "version"],
        partial: &[],
    };
    format.check(&[
        (&["generation"], &|it| it.generation = !it.generation),
        (&["cluster"], &|it| it.cluster = uuid(1)),
        (&["slice"], &|it| it.slice = uuid(1)),
        (&["node"], &|it| it.node = uuid(1)),
        (&["incarnation"], &|it| it.incarnation = !it.incarnation),
        (&["confirmed"], &|it| it.confirmed = !it.confirmed),
        (&["power_incarnation"], &|it| it.power_incarnation = !it.power_incarnation),
        (&["boot"], &|it| it.boot = uuid(1)),
    ]);
}

/// A page of notes with one note, behind full pages.
#[derive(Clone)]
struct PageOfNotes {
    full_pages: u32,
    /// How often it was written before.
    writes: u32,
    slice: Uuid,
    mirror: MirrorKey,
    note: MirrorNote,
}

impl PageOfNotes {
    fn page(&self) -> NotePage {
        let mut notes = Notes::new(self.slice);
        for number in 0..self.full_pages * u32::try_from(NOTES_PER_PAGE).unwrap() {
            let mirror = MirrorKey { volume: uuid(2), number };
            notes.set(mirror, self.note, |_| true).unwrap();
        }
        for _ in 0..=self.writes {
            notes.note_written();
            notes.set(self.mirror, self.note, |_| true).unwrap();
        }
        let page = notes.changed().pop().unwrap();
        let mut area = vec![0; slice::NOTES_LEN];
        let at = usize::try_from(page.offset.0 - NOTES_START.0).unwrap();
        area[at..at + page.bytes.len()].copy_from_slice(&page.bytes[..]);
        let read = Notes::decode(self.slice, &area).unwrap();
        assert_eq!(read.get(&self.mirror), Some(self.note));
        page
    }
}

#[test]
fn notes_stand_on_the_slice_as_the_document_says() {
    let sample = PageOfNotes {
        full_pages: 0,
        writes: 0,
        slice: uuid(0xd1),
        mirror: MirrorKey { volume: uuid(0xa1), number: 3 },
        note: MirrorNote { ordinal: 1, term: 9, tokens: [Some(0x1122_3344_5566_7788), None] },
    };
    assert_eq!(NOTES_START.0, MIB + (64 << 10));
    assert_eq!(sample.page().offset.0, NOTES_START.0 + 4096, "an odd generation");
    let format = Format {
        heading: "Note of a mirror",
        rows: rows_of_notes(),
        encode: &|page: &PageOfNotes| page.page().bytes.to_vec(),
        sample,
        checked_from: 0,
        constants: &["magic", "further notes"],
        partial: &["number of the page", "generation", "token_count"],
    };
    format.check(&[
        (&["number of the page"], &|it| it.full_pages = 1),
        (&["generation"], &|it| it.writes = 1),
        (&["slice"], &|it| it.slice = uuid(1)),
        (&["volume"], &|it| it.mirror.volume = uuid(1)),
        (&["number"], &|it| it.mirror.number = !it.mirror.number),
        (&["term"], &|it| it.note.term = !it.note.term),
        (&["ordinal"], &|it| it.note.ordinal = !it.note.ordinal),
        (&["token_0"], &|it| it.note.tokens[0] = Some(1)),
        (&["token_count", "token_1"], &|it| it.note.tokens[1] = Some(u64::MAX)),
    ]);
}

/// The table of a page, with that of a note in place of the first one.
fn rows_of_notes() -> Vec<Row> {
    let mut page = rows("Notes of a slice");
    page.iter_mut().filter(|row| row.field == "number").for_each(|row| row.field += " of the page");
    let notes = page.pop().unwrap().bytes;
    let note = rows("Note of a mirror");
    let len = note.last().unwrap().bytes.end;
    assert_eq!(len * NOTES_PER_PAGE, notes.len());
    let shifted = note.into_iter().map(|Row { field, bytes }| Row {
        field,
        bytes: notes.start + bytes.start..notes.start + bytes.end,
    });
    page.extend(shifted);
    page.push(Row { field: "further notes".to_owned(), bytes: notes.start + len..notes.end });
    page
}

#[test]
fn a_superblock_stands_on_a_volume_of_files_as_the_document_says() {
    let run = |start, count| Run { start: Lba(start), count: Blocks(count) };
    let superblock = nearflash_files::Superblock {
        generation: 7,
        volume: uuid(0xa1),
        volume_len: ByteLen(64 * MIB),
        compatible: 0,
        write_incompatible: 0,
        incompatible: 0,
        metadata_len: ByteLen(8 * MIB),
        metadata_runs: vec![run(256, 2048)],
    };
    assert_eq!(nearflash_files::SUPERBLOCK_OFFSETS.map(|offset| offset.0), [0, 4096]);
    assert_eq!(superblock.offset().0, 4096, "an odd generation");
    assert_eq!(nearflash_files::Superblock::decode(&superblock.encode()).as_ref(), Ok(&superblock));
    let format = Format {
        heading: "Superblock of files",
        rows: rows("Superblock of files"),
        encode: &|superblock: &nearflash_files::Superblock| superblock.encode().to_vec(),
        sample: superblock,
        checked_from: 0,
        constants: &["magic", "version", "block_size"],
        partial: &["run_count"],
    };
    format.check(&[
        (&["generation"], &|it| it.generation = !it.generation),
        (&["volume"], &|it| it.volume = uuid(1)),
        (&["volume_len"], &|it| it.volume_len.0 = !it.volume_len.0),
        (&["compatible"], &|it| it.compatible = u64::MAX),
        (&["write_incompatible"], &|it| it.write_incompatible = u64::MAX),
        (&["incompatible"], &|it| it.incompatible = u64::MAX),
        (&["metadata_len"], &|it| it.metadata_len.0 = !it.metadata_len.0),
        (&["run_count", "runs"], &|it| it.metadata_runs = vec![run(u64::MAX, u64::MAX); 64]),
    ]);
}

#[test]
fn an_owner_block_stands_on_a_volume_as_the_document_says() {
    let sample = (5, owner(5, "web1", "192.0.2.1:4421"));
    let encode = |(term, record): &(u64, OwnerRecord)| {
        let bytes = [&term.to_le_bytes()[..], &record.encode()].concat();
        let block: [u8; OWNER_BLOCK_LEN] = bytes.clone().try_into().unwrap();
        let decoded = OwnerBlock::decode(&block);
        assert_eq!((decoded.term, decoded.record), (Term(*term), Ok(Some(record.clone()))));
        bytes
    };
    let format = Format {
        heading: "Owner block",
        rows: rows("Owner block"),
        encode: &encode,
        sample,
        checked_from: 8,
        constants: &["magic", "version"],
        partial: &["name", "address"],
    };
    format.check(&[
        (&["term"], &|it| it.0 = !it.0),
        (&["record_term"], &|it| it.1.term.0 = !it.1.term.0),
        (&["beat"], &|it| it.1.beat = !it.1.beat),
        (&["state"], &|it| it.1.is_released = true),
        (&["name"], &|it| it.1 = owner(5, &"z".repeat(63), "192.0.2.1:4421")),
        (&["address"], &|it| it.1 = owner(5, "web1", &"z".repeat(127))),
    ]);
}

fn owner(term: u64, name: &str, address: &str) -> OwnerRecord {
    let mut record = OwnerRecord::new(Term(term), name, address);
    record.beat = 12;
    record
}

#[test]
fn a_pulse_begins_as_the_document_says() {
    let address = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
    let hello = Hello {
        cluster: uuid(0xc1),
        from: [0x4e; 16],
        to: [0x4f; 16],
        run: 0x1122_3344_5566_7788,
        addresses: (address("192.0.2.1", 50_000), address("192.0.2.2", 4422)),
        nonce: [0x99; 16],
    };
    assert_eq!(Hello::decode(&hello.encode()).unwrap(), hello);
    let format = Format {
        heading: "Pulse messages",
        rows: rows("Pulse messages"),
        encode: &|hello: &Hello| hello.encode().to_vec(),
        sample: hello,
        checked_from: 0,
        constants: &["magic", "version"],
        partial: &[],
    };
    let other_ip = "ffff:ffff:ffff:ffff:ffff:1:3f3f:3f3f";
    format.check(&[
        (&["cluster"], &|it| it.cluster = uuid(1)),
        (&["from"], &|it| it.from = [1; 16]),
        (&["to"], &|it| it.to = [1; 16]),
        (&["run"], &|it| it.run = !it.run),
        (&["own_ip"], &|it| it.addresses.0.set_ip(other_ip.parse().unwrap())),
        (&["own_port"], &|it| it.addresses.0.set_port(!50_000)),
        (&["peer_ip"], &|it| it.addresses.1.set_ip(other_ip.parse().unwrap())),
        (&["peer_port"], &|it| it.addresses.1.set_port(!4422)),
        (&["nonce"], &|it| it.nonce = [1; 16]),
    ]);
}

#[test]
fn a_token_is_written_as_the_document_says() {
    let heading = "Token of a cluster";
    let (json, file) = (block(heading, "json"), block(heading, "text"));
    let header: Vec<_> = rows(heading).into_iter().map(|row| (row.field, row.bytes)).collect();
    assert_eq!(header, [("magic".to_owned(), 0..4), ("checksum".to_owned(), 4..8)]);
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let bytes = STANDARD.decode(lines.collect::<String>()).unwrap();
    assert_eq!(&bytes[..4], b"NFT1");
    assert_eq!(bytes[4..8], crc32c::crc32c(&bytes[8..]).to_be_bytes());
    assert_eq!(std::str::from_utf8(&bytes[8..]).unwrap(), json.trim());
    let token = Token::decode(file.as_bytes()).unwrap();
    assert_eq!(token.encode(), file);
}
