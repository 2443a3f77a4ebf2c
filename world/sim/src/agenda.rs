//! The agenda: future events, in the order of time.

use std::collections::BTreeMap;

use nearflash_units::Nanos;

/// Events by time; events of the same moment keep the order in which they were put in.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: BTreeMap<(Nanos, u64), T>,
    count: u64,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { entries: BTreeMap::new(), count: 0 }
    }

    pub(crate) fn push(&mut self, at: Nanos, entry: T) {
        self.count += 1;
        self.entries.insert((at, self.count), entry);
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        self.entries.pop_first().map(|((at, _), entry)| (at, entry))
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.entries.retain(|_, entry| keep(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_at_one_moment_keeps_its_order() {
        let mut agenda = Agenda::new();
        agenda.push(Nanos(2), 'c');
        agenda.push(Nanos(1), 'a');
        agenda.push(Nanos(1), 'b');
        let order: String = std::iter::from_fn(|| agenda.pop()).map(|(_, entry)| entry).collect();
        assert_eq!(order, "abc");
    }
}
