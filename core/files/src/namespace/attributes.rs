//! Changing extended attributes, with the limits of Linux.

use super::access::{attributes, inode};
use super::{Change, Error, Refusal};
use crate::tables::named_key;
use crate::{InodeNumber, NAME_LEN_MAX, Table, TablesMut};

/// The longest value, `XATTR_SIZE_MAX`.
pub const ATTRIBUTE_LEN_MAX: usize = 64 << 10;

/// The length of all names with a NUL after each, `XATTR_LIST_MAX`.
pub const ATTRIBUTES_LEN_MAX: usize = 64 << 10;

/// How an existing attribute is treated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AttributeWrite {
    /// The attribute is created or replaced.
    Any,
    /// `XATTR_CREATE`: it must not exist.
    Create,
    /// `XATTR_REPLACE`: it must exist.
    Replace,
}

impl<T: TablesMut> Change<'_, T> {
    /// Sets an extended attribute.
    ///
    /// # Errors
    /// When the inode does not exist, the name or the value is too long, or `write` forbids it.
    pub fn set_attribute(
        &mut self,
        number: InodeNumber,
        name: &[u8],
        value: &[u8],
        write: AttributeWrite,
    ) -> Result<(), Error<T::Error>> {
        if name.is_empty() || name.len() > NAME_LEN_MAX || name.contains(&0) {
            return Err(Refusal::AttributeName.into());
        }
        if value.len() > ATTRIBUTE_LEN_MAX {
            return Err(Refusal::AttributeTooLong(value.len()).into());
        }
        let names = attributes(self.tables, number)?;
        match (names.iter().any(|known| known == name), write) {
            (true, AttributeWrite::Create) => {
                return Err(Refusal::AttributeExists(number).into());
            }
            (false, AttributeWrite::Replace) => return Err(Refusal::NoAttribute(number).into()),
            _ => {}
        }
        let others = names.iter().filter(|known| *known != name);
        let len: usize = others.map(|name| name.len() + 1).sum();
        if len + name.len() >= ATTRIBUTES_LEN_MAX {
            return Err(Refusal::TooManyAttributes(number).into());
        }
        let key = named_key(number, name);
        self.tables.put(Table::Attributes, &key, value).map_err(Error::Store)?;
        self.update(number, |_| {}).map(drop)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// When the inode or the attribute does not exist.
    pub fn remove_attribute(
        &mut self,
        number: InodeNumber,
        name: &[u8],
    ) -> Result<(), Error<T::Error>> {
        super::attribute(self.tables, number, name)?;
        let key = named_key(number, name);
        self.tables.remove(Table::Attributes, &key).map_err(Error::Store)?;
        self.update(number, |_| {}).map(drop)
    }

    /// Removes all extended attributes of an inode that is being removed.
    pub(super) fn remove_attributes(&mut self, number: InodeNumber) -> Result<(), Error<T::Error>> {
        inode(self.tables, number)?;
        for name in attributes(self.tables, number)? {
            let key = named_key(number, &name);
            self.tables.remove(Table::Attributes, &key).map_err(Error::Store)?;
        }
        Ok(())
    }
}
