//! Input from a volume of files: superblocks, inodes, the keys and values of the tables, and names.

use std::convert::Infallible;

use nearflash_files::{
    DATA_START, FreeRuns, INODE_LEN, Inode, InodeNumber, MemoryTables, Name, Path, Place, Run,
    SUPERBLOCK_LEN, Superblock, Table, TablesMut, attribute, attributes, check, list, lookup, stat,
    target,
};
use nearflash_units::Blocks;

/// The blocks of the volume to which the tables belong.
const BLOCKS: Blocks = Blocks(1 << 16);
/// The place of a superblock's checksum.
const SUPERBLOCK_CHECKSUM: std::ops::Range<usize> = 12..16;
/// The place of an inode's checksum.
const INODE_CHECKSUM: std::ops::Range<usize> = INODE_LEN - 4..INODE_LEN;

/// Checks any contents of a volume of files.
pub fn check_files(input: &[u8]) {
    let Some((selector, bytes)) = input.split_first() else { return };
    match selector % 4 {
        0 => check_superblock(bytes),
        1 => check_inode(bytes),
        2 => check_path(bytes),
        _ => check_tables(bytes),
    }
}

/// As many of the bytes as there is room for; the rest is zero.
fn filled<const LEN: usize>(bytes: &[u8]) -> [u8; LEN] {
    let mut filled = [0; LEN];
    filled.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    filled
}

/// Checks a superblock with a valid checksum, so that its fields are examined.
fn check_superblock(fields: &[u8]) {
    let mut bytes: [u8; SUPERBLOCK_LEN] = filled(fields);
    let first = Superblock::decode(&bytes);
    bytes[..8].copy_from_slice(b"nrfiles\x1a");
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    bytes[SUPERBLOCK_CHECKSUM].fill(0);
    let checksum = crc32c::crc32c(&bytes);
    bytes[SUPERBLOCK_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    if let Ok(superblock) = Superblock::decode(&bytes) {
        assert_eq!(Superblock::decode(&superblock.encode()).as_ref(), Ok(&superblock));
        let _ = (superblock.support(), superblock.offset(), superblock.metadata_capacity());
        let chosen = Superblock::choose(first, Ok(superblock.clone()));
        assert!(chosen.is_ok_and(|chosen| chosen.generation >= superblock.generation));
    }
}

/// A record of this number with these fields and a valid checksum.
fn record(number: u64, fields: &[u8]) -> [u8; INODE_LEN] {
    let mut bytes: [u8; INODE_LEN] = filled(fields);
    bytes[INODE_CHECKSUM].fill(0);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &bytes);
    bytes[INODE_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn check_inode(bytes: &[u8]) {
    let number = InodeNumber(u64::from_le_bytes(filled(bytes)));
    let _ = Inode::decode(number, bytes);
    let fields = bytes.get(8..).unwrap_or_default();
    if let Ok(inode) = Inode::decode(number, &record(number.0, fields)) {
        assert_eq!(Inode::decode(number, &inode.encode(number)), Ok(inode));
    }
}

fn check_path(bytes: &[u8]) {
    if let Ok(name) = Name::new(bytes) {
        assert_eq!(name.as_bytes(), bytes);
    }
    let Ok(path) = Path::parse(bytes) else { return };
    let mut again = Vec::new();
    for name in path.names() {
        again.push(b'/');
        again.extend_from_slice(name.as_bytes());
    }
    assert_eq!(Path::parse(&again), Ok(path));
}

/// Checks tables with any keys and values: three bytes say which table, and how long both are.
fn check_tables(mut bytes: &[u8]) {
    let mut tables = MemoryTables::default();
    while let [table, key_len, value_len, rest @ ..] = bytes {
        let table = Table::ALL[usize::from(*table) % Table::ALL.len()];
        let (key, rest) = rest.split_at(usize::from(*key_len).min(rest.len()));
        let (value, rest) = rest.split_at(usize::from(*value_len).min(rest.len()));
        bytes = rest;
        let number = key.first_chunk().map(|number| u64::from_be_bytes(*number));
        let put = match number.filter(|_| table == Table::Inodes) {
            Some(number) => tables.put(table, key, &record(number, value)),
            None => tables.put(table, key, value),
        };
        let Ok::<(), Infallible>(()) = put;
        if let (Some(number), Some(name)) = (number, key.get(8..)) {
            read(&tables, InodeNumber(number), name);
        }
    }
    let mut free = FreeRuns::new(Run { start: DATA_START, count: BLOCKS });
    let Ok(_) = check(&tables, &mut free);
}

/// Reads what belongs to an inode; damaged tables are refused.
fn read(tables: &MemoryTables, number: InodeNumber, name: &[u8]) {
    let _ = (attribute(tables, number, name), attributes(tables, number), target(tables, number));
    let _ = list(tables, number, None, 16);
    if let Ok(name) = Name::new(name) {
        let _ = lookup(tables, Place::new(number, &name));
        let _ = list(tables, number, Some(&name), 16);
    }
    if let Ok(path) = Path::parse(name) {
        let _ = stat(tables, &path);
    }
}
