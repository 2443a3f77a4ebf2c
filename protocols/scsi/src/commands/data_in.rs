//! Parameter data for an initiator.

use crate::Task;

/// Data truncated to an allocation length.
pub(crate) fn cut(mut data: Vec<u8>, allocation_len: u32) -> Vec<u8> {
    data.truncate(usize::try_from(allocation_len).unwrap_or(usize::MAX));
    data
}

/// Data truncated to an allocation length, as a task.
pub(crate) fn answer(data: Vec<u8>, allocation_len: u32) -> Task {
    Task::DataIn(cut(data, allocation_len))
}

/// The length in a field of one byte.
pub(crate) fn len_u8(len: usize) -> u8 {
    u8::try_from(len).unwrap_or(u8::MAX)
}

/// The length in a field of two bytes.
pub(crate) fn len_u16(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

/// The length in a field of four bytes.
pub(crate) fn len_u32(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

/// ASCII, padded with spaces or truncated to the field. Other characters become spaces.
pub(crate) fn ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (byte, char) in field.iter_mut().zip(text.chars()) {
        if char.is_ascii_graphic() {
            *byte = u8::try_from(char).unwrap_or(b' ');
        }
    }
    field
}
