//! `docs/internals/formats.md`: its tables of fields and its samples, and the comparison with an encoder.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const DOCUMENT: &str = include_str!("../../../../docs/internals/formats.md");

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) field: String,
    pub(crate) bytes: Range<usize>,
}

/// The text under a heading, to the next heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = DOCUMENT
        .split_once(&format!("# {heading}\n"))
        .unwrap_or_else(|| panic!("the document has no section '{heading}'"));
    rest.split_once("\n##").map_or(rest, |(section, _)| section)
}

/// The headings of all sections with a table of fields.
pub(crate) fn headings() -> BTreeSet<&'static str> {
    let sections = DOCUMENT.split("\n##").map(|section| section.trim_start_matches('#'));
    let has_fields = |section: &&str| section.contains("| offset | length | field |");
    sections
        .filter(has_fields)
        .filter_map(|section| section.lines().next())
        .map(str::trim)
        .collect()
}

/// The rows of a section's table. Each begins where the one before it ends.
pub(crate) fn rows(heading: &str) -> Vec<Row> {
    let lines = section(heading).lines().skip_while(|line| !line.starts_with("| offset |")).skip(2);
    let mut end = None;
    let mut rows = Vec::new();
    for line in lines.take_while(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [offset, len, field, ..] = cells[..] else { panic!("a row is incomplete: {line}") };
        let (offset, len): (usize, usize) = (offset.parse().unwrap(), len.parse().unwrap());
        assert!(
            end.is_none_or(|end| end == offset),
            "'{heading}': a gap or an overlap in front of {line}"
        );
        end = Some(offset + len);
        rows.push(Row { field: field.to_owned(), bytes: offset..offset + len });
    }
    rows
}

/// The first block of this language in a section.
pub(crate) fn block(heading: &str, language: &str) -> &'static str {
    let begin = format!("```{language}\n");
    let (_, rest) = section(heading).split_once(&begin).expect("a block");
    rest.split_once("```").expect("the block ends").0
}

/// The bytes of a section's sample. Lines that it leaves out are zero.
pub(crate) fn sample(heading: &str, len: usize) -> Vec<u8> {
    let dump = block(heading, "text");
    let mut bytes = vec![0; len];
    for line in dump.lines() {
        let (offset, numbers) = line.split_once("  ").expect("an offset and bytes");
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for (at, number) in numbers.split(' ').enumerate() {
            bytes[offset + at] = u8::from_str_radix(number, 16).unwrap();
        }
    }
    bytes
}

/// The bytes as the document shows them.
pub(crate) fn dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    let line = |(number, line): (usize, &[u8])| {
        let numbers: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:08x}  {}\n", 16 * number, numbers.join(" "))
    };
    lines.map(line).collect()
}

/// The fields that change, and the change.
pub(crate) type Change<'a, T> = (&'a [&'a str], &'a dyn Fn(&mut T));

/// An encoder, and what is known of its fields.
pub(crate) struct Format<'a, T> {
    pub(crate) heading: &'a str,
    pub(crate) rows: Vec<Row>,
    pub(crate) encode: &'a dyn Fn(&T) -> Vec<u8>,
    /// The structure whose bytes the document shows.
    pub(crate) sample: T,
    /// The first of the bytes that the checksum covers.
    pub(crate) checked_from: usize,
    /// Fields that always have the same bytes.
    pub(crate) constants: &'a [&'a str],
    /// Fields of which the changes below reach only some bytes: small numbers, padded texts.
    pub(crate) partial: &'a [&'a str],
}

impl<T: Clone> Format<'_, T> {
    /// Checks the sample, and that each change changes exactly its fields and the checksum.
    ///
    /// # Panics
    /// When document and code differ.
    pub(crate) fn check(&self, changes: &[Change<'_, T>]) {
        let bytes = (self.encode)(&self.sample);
        let heading = self.heading;
        assert_eq!(self.rows.last().unwrap().bytes.end, bytes.len(), "'{heading}': the length");
        let shown = sample(heading, bytes.len());
        assert_eq!(shown, bytes, "'{heading}': the sample is\n{}", dump(&bytes));
        self.check_checksum(&bytes);
        let mut reached: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (fields, change) in changes {
            let mut changed = self.sample.clone();
            change(&mut changed);
            for at in self.differences(&bytes, &(self.encode)(&changed)) {
                let row = self.rows.iter().find(|row| row.bytes.contains(&at)).unwrap();
                let field = row.field.as_str();
                assert!(
                    fields.contains(&field),
                    "'{heading}': {fields:?} changed byte {at} of {field}"
                );
                reached.entry(field).or_default().insert(at);
            }
        }
        for row in &self.rows {
            self.check_reached(row, reached.get(row.field.as_str()));
        }
    }

    fn check_reached(&self, row: &Row, reached: Option<&BTreeSet<usize>>) {
        let Row { field, bytes } = row;
        let is = |fields: &[&str]| fields.contains(&field.as_str());
        let count =
            reached.map_or(0, |reached| reached.iter().filter(|at| bytes.contains(at)).count());
        let is_right = match () {
            () if field == "checksum" || is(self.constants) || field == "reserved" => count == 0,
            () if is(self.partial) => reached.is_some_and(|reached| reached.contains(&bytes.start)),
            () => count == bytes.len(),
        };
        assert!(
            is_right,
            "'{}': {count} of {} bytes of {field} changed",
            self.heading,
            bytes.len()
        );
    }

    /// The bytes that differ, without the checksum.
    fn differences(&self, one: &[u8], other: &[u8]) -> Vec<usize> {
        assert_eq!(one.len(), other.len(), "the length is fixed");
        let checksum = self.rows.iter().find(|row| row.field == "checksum").map(|row| &row.bytes);
        let differ =
            |at: &usize| one[*at] != other[*at] && checksum.is_none_or(|it| !it.contains(at));
        (0..one.len()).filter(differ).collect()
    }

    fn check_checksum(&self, bytes: &[u8]) {
        let Some(row) = self.rows.iter().find(|row| row.field == "checksum") else { return };
        let mut without = bytes.to_vec();
        without[row.bytes.clone()].fill(0);
        let computed = crc32c::crc32c(&without[self.checked_from..]);
        assert_eq!(
            bytes[row.bytes.clone()],
            computed.to_le_bytes(),
            "'{}': the checksum",
            self.heading
        );
    }
}
