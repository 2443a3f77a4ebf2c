//! A transaction, carried out in one write transaction of the database.
//!
//! After an error of the commit, it is unknown whether the change took effect: the file can have it in the
//! system's cache alone, after a failed write of which nobody can tell how much is durable. So what was reported
//! as failed is not believed when it is read back. It is undone before the next change, and that change begins
//! with the records that the node knows.

use std::sync::{MutexGuard, PoisonError};

use nearflash_records::store::{Compare, Txn};
use redb::{ReadableTable as _, Table, WriteTransaction};
use zeroize::Zeroizing;

use crate::{Catalog, CatalogError, RECORDS};

/// A value before a change, with its revision; `None` if there was none. It may be a secret.
type Former = (String, Option<Zeroizing<Vec<u8>>>);

/// A change whose commit has failed: its effect is unknown.
pub(crate) struct Doubt {
    /// The generation before it.
    generation: u64,
    undo: Vec<Former>,
}

type Records<'txn> = Table<'txn, &'static str, &'static [u8]>;

/// The revision and the record of a value.
pub(crate) fn parse_value(value: &[u8]) -> Option<(u64, &[u8])> {
    let (revision, record) = value.split_first_chunk()?;
    Some((u64::from_le_bytes(*revision), record))
}

/// The value of a record that was last changed at that revision.
pub(crate) fn value_of(revision: u64, record: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new([&revision.to_le_bytes()[..], record].concat())
}

impl Catalog {
    /// Makes the change durable, as a whole or not at all, and returns its revision: the generation after it.
    ///
    /// # Errors
    /// When a compare does not hold, or the file cannot be written. Then the change has no effect.
    pub fn commit(&self, txn: &Txn) -> Result<u64, CatalogError> {
        self.settle()?;
        let committed = self.try_commit(txn);
        if committed.is_err() {
            // If the file still fails, the next change does this.
            let _ = self.settle();
        }
        committed
    }

    fn try_commit(&self, txn: &Txn) -> Result<u64, CatalogError> {
        let transaction = self.begin()?;
        let generation = self.generation(&transaction)?;
        let undo = {
            let mut records = transaction.open_table(RECORDS).map_err(|e| self.failed(e))?;
            txn.compares.iter().try_for_each(|compare| self.check(&records, compare))?;
            self.apply(&mut records, txn, generation + 1)?
        };
        self.set_meta(&transaction, "generation", &(generation + 1).to_string())?;
        *self.doubt() = Some(Doubt { generation, undo });
        transaction.commit().map_err(|e| self.failed(e))?;
        *self.doubt() = None;
        Ok(generation + 1)
    }

    fn check(&self, records: &Records<'_>, compare: &Compare) -> Result<(), CatalogError> {
        let (key, expected) = (compare.key.to_string(), compare.mod_revision.0);
        let found = records.get(key.as_str()).map_err(|e| self.failed(e))?;
        let revision = found.map(|value| parse_value(value.value()).map(|(revision, _)| revision));
        let found = match revision {
            Some(revision) => revision.ok_or_else(|| self.damaged(&key))?,
            None => 0,
        };
        if found == expected {
            return Ok(());
        }
        Err(CatalogError::Overtaken { path: self.path.clone(), key: key.into(), expected, found })
    }

    /// Deletes and writes the records of a change. Returns what they were, the last one first.
    fn apply(
        &self,
        records: &mut Records<'_>,
        txn: &Txn,
        revision: u64,
    ) -> Result<Vec<Former>, CatalogError> {
        let mut undo = Vec::new();
        for put in &txn.puts {
            let (key, value) = (put.key.to_string(), value_of(revision, &put.value));
            let former = records.insert(key.as_str(), value.as_slice());
            let former = former.map_err(|e| self.failed(e))?;
            let former = former.map(|value| value.value().to_vec().into());
            undo.push((key, former));
        }
        for key in &txn.deletes {
            let key = key.to_string();
            let former = records.remove(key.as_str()).map_err(|e| self.failed(e))?;
            let former = former.map(|value| value.value().to_vec().into());
            undo.push((key, former));
        }
        undo.reverse();
        Ok(undo)
    }

    /// After a change of which it is unknown whether it took effect, and which was reported as failed: undoes
    /// it if it did.
    fn settle(&self) -> Result<(), CatalogError> {
        let mut doubt = self.doubt();
        let Some(Doubt { generation, undo }) = &*doubt else { return Ok(()) };
        let transaction = self.begin()?;
        if self.generation(&transaction)? == generation + 1 {
            for (key, former) in undo {
                let mut records = transaction.open_table(RECORDS).map_err(|e| self.failed(e))?;
                let changed = match former {
                    Some(value) => records.insert(key.as_str(), value.as_slice()).map(drop),
                    None => records.remove(key.as_str()).map(drop),
                };
                changed.map_err(|e| self.failed(e))?;
            }
            self.set_meta(&transaction, "generation", &generation.to_string())?;
            transaction.commit().map_err(|e| self.failed(e))?;
        }
        *doubt = None;
        Ok(())
    }

    fn generation(&self, transaction: &WriteTransaction) -> Result<u64, CatalogError> {
        let text = self.meta(transaction, "generation")?;
        text.map_or(Ok(0), |text| text.parse().map_err(|_| self.damaged("generation")))
    }

    fn doubt(&self) -> MutexGuard<'_, Option<Doubt>> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
