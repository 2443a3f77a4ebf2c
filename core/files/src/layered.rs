//! Changes that are not in the store yet, as layers above it.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::ControlFlow;

use crate::{Table, Tables, TablesMut, Visit};

/// The changes of one table: the new value of a key, or `None` if it is removed.
type TableChanges = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// Changes of tables, in memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    tables: [TableChanges; Table::ALL.len()],
    len: usize,
}

impl Changes {
    /// The number of keys and the bytes of keys and values that were put, as an upper bound.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        self.len += key.len() + value.map_or(0, <[u8]>::len) + 1;
        self.tables[table.index()].insert(key.into(), value.map(Into::into));
    }

    fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.tables[table.index()].get(key).map(Option::as_deref)
    }

    /// Adds later changes.
    pub fn merge(&mut self, later: Self) {
        self.len += later.len;
        for (own, later) in self.tables.iter_mut().zip(later.tables) {
            own.extend(later);
        }
    }

    /// Makes the changes in `tables`.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn apply<T: TablesMut>(&self, tables: &mut T) -> Result<(), T::Error> {
        for (table, changes) in Table::ALL.into_iter().zip(&self.tables) {
            for (key, value) in changes {
                match value {
                    Some(value) => tables.put(table, key, value)?,
                    None => tables.remove(table, key)?,
                }
            }
        }
        Ok(())
    }
}

/// Tables with changes above them. Further changes are kept apart.
pub struct Layered<'a, B> {
    below: &'a B,
    /// The earlier layers, the latest last.
    layers: &'a [&'a Changes],
    own: Changes,
}

impl<'a, B: Tables> Layered<'a, B> {
    /// The tables of `below` with these changes, the latest last.
    pub fn new(below: &'a B, layers: &'a [&'a Changes]) -> Self {
        Self { below, layers, own: Changes::default() }
    }

    /// The changes that were made through this value.
    pub fn into_changes(self) -> Changes {
        self.own
    }

    fn latest_first(&self) -> impl Iterator<Item = &Changes> {
        std::iter::once(&self.own).chain(self.layers.iter().rev().copied())
    }
}

impl<B: Tables> Tables for Layered<'_, B> {
    type Error = B::Error;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, B::Error> {
        match self.latest_first().find_map(|changes| changes.get(table, key)) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => self.below.get(table, key),
        }
    }

    fn scan(&self, table: Table, from: &[u8], visit: &mut Visit<'_>) -> Result<(), B::Error> {
        let mut changed = Merged::new(self.latest_first(), table, from);
        let mut flow = ControlFlow::Continue(());
        self.below.scan(table, from, &mut |key, value| {
            flow = changed.visit_before(key, visit);
            if flow.is_continue() {
                flow = match changed.take(key) {
                    None => visit(key, value),
                    Some(None) => ControlFlow::Continue(()),
                    Some(Some(value)) => visit(key, value),
                };
            }
            flow
        })?;
        if flow.is_continue() {
            let _ = changed.visit_rest(visit);
        }
        Ok(())
    }
}

impl<B: Tables> TablesMut for Layered<'_, B> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), B::Error> {
        self.own.set(table, key, Some(value));
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<(), B::Error> {
        self.own.set(table, key, None);
        Ok(())
    }
}

type Range<'a> = Peekable<btree_map::Range<'a, Box<[u8]>, Option<Box<[u8]>>>>;

/// The changes of all layers in the order of their keys: of several to a key, the latest.
struct Merged<'a> {
    /// The latest first.
    layers: Vec<Range<'a>>,
}

impl<'a> Merged<'a> {
    fn new(latest_first: impl Iterator<Item = &'a Changes>, table: Table, from: &[u8]) -> Self {
        let from = std::ops::Bound::Included(from);
        let range = |changes: &'a Changes| {
            changes.tables[table.index()].range::<[u8], _>((from, std::ops::Bound::Unbounded))
        };
        Self { layers: latest_first.map(|changes| range(changes).peekable()).collect() }
    }

    /// The first key that is left.
    fn first(&mut self) -> Option<&'a [u8]> {
        self.layers.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| &***key)).min()
    }

    /// Removes a key, and returns its change.
    fn take(&mut self, key: &[u8]) -> Option<Option<&'a [u8]>> {
        let mut found = None;
        for layer in &mut self.layers {
            if let Some((_, value)) = layer.next_if(|(next, _)| ***next == *key) {
                found = found.or(Some(value.as_deref()));
            }
        }
        found
    }

    fn visit_before(&mut self, end: &[u8], visit: &mut Visit<'_>) -> ControlFlow<()> {
        while let Some(key) = self.first().filter(|key| *key < end) {
            self.visit_one(key, visit)?;
        }
        ControlFlow::Continue(())
    }

    fn visit_rest(&mut self, visit: &mut Visit<'_>) -> ControlFlow<()> {
        while let Some(key) = self.first() {
            self.visit_one(key, visit)?;
        }
        ControlFlow::Continue(())
    }

    fn visit_one(&mut self, key: &[u8], visit: &mut Visit<'_>) -> ControlFlow<()> {
        match self.take(key).flatten() {
            Some(value) => visit(key, value),
            None => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryTables;
    use proptest::prelude::*;

    /// Everything in a table from a key on.
    fn scanned<T: Tables>(tables: &T, from: &[u8], count_max: usize) -> Vec<(Vec<u8>, Vec<u8>)>
    where
        T::Error: std::fmt::Debug,
    {
        let mut found = Vec::new();
        let scanned = tables.scan(Table::Entries, from, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            if found.len() < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.unwrap();
        found
    }

    fn change<T: TablesMut>(tables: &mut T, (key, value): &(u8, Option<u8>))
    where
        T::Error: std::fmt::Debug,
    {
        match value {
            Some(value) => tables.put(Table::Entries, &[*key], &[*value]).unwrap(),
            None => tables.remove(Table::Entries, &[*key]).unwrap(),
        }
    }

    proptest! {
        /// Layers above a store read as the store does after the same changes.
        #[test]
        fn layers_read_as_the_changes_would(
            steps in prop::collection::vec((0_u8..12, prop::option::of(any::<u8>())), 0..60),
            cuts in (0_usize..60, 0_usize..60, 0_usize..60), from in 0_u8..12, count_max in 1_usize..20
        ) {
            let mut cuts = [cuts.0, cuts.1, cuts.2].map(|cut| cut.min(steps.len()));
            cuts.sort_unstable();
            let (mut below, mut expected) = (MemoryTables::default(), MemoryTables::default());
            steps.iter().for_each(|step| change(&mut expected, step));
            steps[..cuts[0]].iter().for_each(|step| change(&mut below, step));
            let mut first = Layered::new(&below, &[]);
            steps[cuts[0]..cuts[1]].iter().for_each(|step| change(&mut first, step));
            let first = first.into_changes();
            let layers = [&first];
            let mut second = Layered::new(&below, &layers);
            steps[cuts[1]..cuts[2]].iter().for_each(|step| change(&mut second, step));
            let second = second.into_changes();
            let layers = [&first, &second];
            let mut third = Layered::new(&below, &layers);
            steps[cuts[2]..].iter().for_each(|step| change(&mut third, step));
            prop_assert_eq!(scanned(&third, &[from], count_max), scanned(&expected, &[from], count_max));
            for key in 0..12 {
                let get = third.get(Table::Entries, &[key]).unwrap();
                prop_assert_eq!(get, expected.get(Table::Entries, &[key]).unwrap());
            }
            let third = third.into_changes();
            let mut merged = first.clone();
            merged.merge(second);
            merged.merge(third);
            merged.apply(&mut below).unwrap();
            prop_assert_eq!(below, expected);
        }
    }
}
