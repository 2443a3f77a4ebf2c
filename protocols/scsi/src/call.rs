//! A command on its way to its handler.

use nearflash_request::Attention;

use crate::{Attentions, Cdb, CopyRecords, LogicalUnit, LogicalUnits};

/// A command, and where it has come to.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The command block.
    pub cdb: &'a Cdb,
    /// The unit that it is for; `None` if there is no unit of that number.
    pub unit: Option<&'a LogicalUnit>,
    /// All units of the target.
    pub units: &'a LogicalUnits,
    /// What the session has not been told yet.
    pub attentions: &'a Attentions,
    /// The session's copies.
    pub copies: &'a CopyRecords,
}

/// The same, for a handler: the unit is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) cdb: &'a Cdb,
    pub(crate) unit: &'a LogicalUnit,
    pub(crate) units: &'a LogicalUnits,
    pub(crate) copies: &'a CopyRecords,
}

/// REPORT LUNS tells what the units are, so that no attention needs to. SPC-4, 6.33.
pub(crate) fn units_are_told(asked: &Asked<'_>) {
    asked.attentions.withdraw_all(Attention::UnitsChanged);
}
