//! Which core gets which publication, and when; and what each core has answered.
//!
//! - **The first core is last.** Hosts learn of namespaces from the first core. A host that has been
//!   told must not find another core without the volume. So the first core gets a publication when
//!   every other core has shown it.
//! - **A core that is behind** has one publication that is due. Later ones merge: into that one, or,
//!   on the first core, into one that follows it. Otherwise a stream of publications could put off
//!   the first core's turn for as long as it lasts.
//! - **A silent core** has had a publication for [`SILENT_AFTER`] and shows nothing. No announcement
//!   waits for it. The end of its older requests is still awaited: they may write.
//!
//! `Shown` answers all numbers up to its own, because a core adopts publications in their order.
//! `Quiesced` answers its own number, and those that were merged into it. It does not answer an
//! earlier publication: its volumes may have requests on a device that hangs, for which no later
//! publication must wait.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use nearflash_mirror::Core;
use nearflash_request::{Raised, VolumeId};
use nearflash_units::Nanos;

use crate::served::{Publication, Served};

/// The time after which a core that does not show a publication is silent. A core turns many
/// thousand times a second; one that takes this long waits for a device that hangs.
pub const SILENT_AFTER: Nanos = Nanos::from_secs(30);

/// The publications of a node to its cores.
#[derive(Debug)]
pub struct Publisher {
    /// By number; the first core is the first.
    cores: Vec<Addressee>,
    /// The number of the last publication. The first one has number 1.
    last: u64,
    /// The publications whose older requests have not ended on every core.
    open: BTreeSet<u64>,
    /// Those that have, and were not polled.
    over: VecDeque<u64>,
    /// The time after which a core is silent.
    silent_after: Nanos,
}

/// The publications that a core has got, and its answers.
#[derive(Debug, Default)]
struct Addressee {
    due: Option<Unsent>,
    /// Only on the first core: everything after the one that is due.
    later: Option<Unsent>,
    /// The numbers of each publication that it has got and whose older requests have not ended.
    quiescing: Vec<Numbers>,
    /// The last number that it has got, and the last that it has shown.
    got: u64,
    shown: u64,
    /// Since when it owes an answer.
    asked_at: Option<Nanos>,
    is_silent: bool,
}

/// The publications that were merged into one.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    first: u64,
    last: u64,
}

#[derive(Debug)]
struct Unsent {
    first: u64,
    publication: Arc<Publication>,
}

impl Publisher {
    /// A publisher for so many cores, which have been started with the first state. A core that shows nothing for
    /// so long is silent: [`SILENT_AFTER`].
    pub fn new(cores: u16, silent_after: Nanos) -> Self {
        let cores = (0..cores).map(|_| Addressee::default()).collect();
        Self { cores, last: 0, open: BTreeSet::new(), over: VecDeque::new(), silent_after }
    }

    /// Every core gets this state. Returns its number.
    pub fn publish(
        &mut self,
        served: Arc<Served>,
        raised: Vec<Raised>,
        quiesce: Vec<VolumeId>,
    ) -> u64 {
        self.last += 1;
        self.open.insert(self.last);
        let (number, raised, quiesce) = (self.last, raised.into(), quiesce.into());
        let publication = Arc::new(Publication { number, served, raised, quiesce });
        for (index, core) in self.cores.iter_mut().enumerate() {
            core.add(&publication, index == FIRST);
        }
        self.last
    }

    /// Whether a publication waits for this core, and it is its turn. From then on the core can become
    /// silent, also if it has no room for the message.
    pub fn is_due(&mut self, core: Core, now: Nanos) -> bool {
        let index = usize::from(core.0);
        let Some(due) = &self.cores[index].due else { return false };
        let number = due.publication.number;
        let is_due = index != FIRST || self.have_shown(&self.cores[FIRST + 1..], number);
        if is_due {
            self.cores[index].asked_at.get_or_insert(now);
        }
        is_due
    }

    /// The next publication for this core, if it is its turn.
    pub fn poll(&mut self, core: Core, now: Nanos) -> Option<Arc<Publication>> {
        if self.is_due(core, now) { self.cores[usize::from(core.0)].take() } else { None }
    }

    /// The core serves by this publication.
    pub fn handle_shown(&mut self, core: Core, number: u64, now: Nanos) {
        let core = &mut self.cores[usize::from(core.0)];
        core.shown = core.shown.max(number.min(core.got));
        core.is_silent = false;
        core.asked_at = (core.shown < core.got).then_some(now);
    }

    /// The requests that are older than this publication have ended on the core.
    pub fn handle_quiesced(&mut self, core: Core, number: u64) {
        let quiescing = &mut self.cores[usize::from(core.0)].quiescing;
        let Some(place) = quiescing.iter().position(|it| it.last == number) else { return };
        let Numbers { first, last } = quiescing.swap_remove(place);
        let open: Vec<u64> = self.open.range(first..=last).copied().collect();
        for number in open {
            if !self.cores.iter().any(|core| core.awaits(number)) {
                self.open.remove(&number);
                self.over.push_back(number);
            }
        }
    }

    /// Finds the cores that have become silent.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let patience = self.silent_after;
        for core in &mut self.cores {
            core.is_silent |= core.asked_at.is_some_and(|at| at.plus(patience) <= now);
        }
    }

    /// When a core becomes silent unless it answers.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let asked = self.cores.iter().filter(|core| !core.is_silent);
        asked.filter_map(|core| Some(core.asked_at?.plus(self.silent_after))).min()
    }

    /// A publication whose older requests have ended on every core. Each is returned once.
    pub fn poll_over(&mut self) -> Option<u64> {
        self.over.pop_front()
    }

    /// Whether every core that is not silent serves by this publication, or a later one.
    pub fn is_shown(&self, number: u64) -> bool {
        self.have_shown(&self.cores, number)
    }

    /// Whether the requests that are older than this publication have ended on every core.
    pub fn is_quiesced(&self, number: u64) -> bool {
        !self.open.contains(&number)
    }

    /// The first core that is silent.
    pub fn silent(&self) -> Option<Core> {
        let mut numbered = (0..).map(Core).zip(&self.cores);
        numbered.find(|(_, core)| core.is_silent).map(|(number, _)| number)
    }

    fn have_shown(&self, cores: &[Addressee], number: u64) -> bool {
        cores.iter().all(|core| core.is_silent || core.shown >= number)
    }
}

/// The place of the first core.
const FIRST: usize = 0;

impl Addressee {
    fn add(&mut self, publication: &Arc<Publication>, is_first: bool) {
        let slot = if is_first && self.due.is_some() { &mut self.later } else { &mut self.due };
        *slot = Some(match slot.take() {
            Some(unsent) => unsent.merged(publication),
            None => Unsent { first: publication.number, publication: Arc::clone(publication) },
        });
    }

    fn take(&mut self) -> Option<Arc<Publication>> {
        let Unsent { first, publication } = self.due.take()?;
        self.due = self.later.take();
        self.got = publication.number;
        self.quiescing.push(Numbers { first, last: publication.number });
        Some(publication)
    }

    /// Whether requests older than this publication may be under way.
    fn awaits(&self, number: u64) -> bool {
        let unsent = self.due.iter().chain(&self.later);
        let mut got = self.quiescing.iter();
        unsent.clone().any(|it| it.first <= number && number <= it.publication.number)
            || got.any(|it| it.first <= number && number <= it.last)
    }
}

impl Unsent {
    fn merged(self, later: &Publication) -> Self {
        let Self { first, publication } = self;
        Self { first, publication: Arc::new(publication.merged(later)) }
    }
}

#[cfg(test)]
mod tests {
    use nearflash_request::{Addressees, Attention};
    use proptest::prelude::*;

    use super::*;

    const NOW: Nanos = Nanos(0);
    const C0: Core = Core(0);
    const C1: Core = Core(1);
    const C2: Core = Core(2);

    fn raised(volume: u32) -> Raised {
        let attention = Attention::CapacityChanged;
        Raised { volume: Some(VolumeId(volume)), to: Addressees::All, attention }
    }

    fn publish(publisher: &mut Publisher, volume: u32) -> u64 {
        publisher.publish(Arc::default(), vec![raised(volume)], vec![VolumeId(volume)])
    }

    fn told(publication: &Publication) -> Vec<u32> {
        publication.raised.iter().filter_map(|raised| raised.volume).map(|it| it.0).collect()
    }

    #[test]
    fn the_first_core_is_last() {
        let mut publisher = Publisher::new(3, SILENT_AFTER);
        let number = publish(&mut publisher, 1);
        assert!(publisher.poll(C0, NOW).is_none());
        assert_eq!(publisher.poll(C1, NOW).unwrap().number, number);
        assert_eq!(publisher.poll(C2, NOW).unwrap().number, number);
        publisher.handle_shown(C2, number, NOW);
        assert!(publisher.poll(C0, NOW).is_none());
        publisher.handle_shown(C1, number, NOW);
        assert!(!publisher.is_shown(number));
        assert_eq!(publisher.poll(C0, NOW).unwrap().number, number);
        publisher.handle_shown(C0, number, NOW);
        assert!(publisher.is_shown(number));
        assert!(publisher.poll(C0, NOW).is_none() && publisher.poll(C1, NOW).is_none());
    }

    #[test]
    fn a_stream_of_publications_does_not_put_off_the_first_core() {
        let mut publisher = Publisher::new(2, SILENT_AFTER);
        let first = publish(&mut publisher, 1);
        publisher.poll(C1, NOW).unwrap();
        let [_, third] = [publish(&mut publisher, 2), publish(&mut publisher, 3)];
        publisher.handle_shown(C1, first, NOW);
        assert_eq!(publisher.poll(C0, NOW).unwrap().number, first);
        assert!(publisher.poll(C0, NOW).is_none());
        let merged = publisher.poll(C1, NOW).unwrap();
        assert_eq!((merged.number, told(&merged)), (third, vec![2, 3]));
        publisher.handle_shown(C1, third, NOW);
        assert_eq!(told(&publisher.poll(C0, NOW).unwrap()), [2, 3]);
    }

    #[test]
    fn a_core_that_is_behind_gets_one_publication_with_everything() {
        let mut publisher = Publisher::new(2, SILENT_AFTER);
        for volume in [7, 5, 7] {
            publish(&mut publisher, volume);
        }
        let merged = publisher.poll(C1, NOW).unwrap();
        assert_eq!((merged.number, told(&merged)), (3, vec![7, 5, 7]));
        assert_eq!(*merged.quiesce, [VolumeId(5), VolumeId(7)]);
        assert!(publisher.poll(C1, NOW).is_none());
    }

    #[test]
    fn a_publication_is_over_when_every_core_says_so_of_it_or_of_one_with_it() {
        let mut publisher = Publisher::new(2, SILENT_AFTER);
        let hung = publish(&mut publisher, 1);
        publisher.poll(C1, NOW).unwrap();
        publisher.handle_shown(C1, hung, NOW);
        publisher.poll(C0, NOW).unwrap();
        publisher.handle_quiesced(C0, hung);
        let both = [publish(&mut publisher, 2), publish(&mut publisher, 3)];
        publisher.poll(C1, NOW).unwrap();
        publisher.handle_shown(C1, both[1], NOW);
        publisher.handle_quiesced(C1, both[1]);
        assert!(!publisher.is_quiesced(both[0]), "the first core has not got it");
        for number in both {
            assert_eq!(publisher.poll(C0, NOW).unwrap().number, number);
            publisher.handle_quiesced(C0, number);
        }
        assert_eq!([publisher.poll_over(), publisher.poll_over()], both.map(Some));
        assert!(!publisher.is_quiesced(hung), "requests on its volume hang");
        publisher.handle_quiesced(C1, hung);
        assert_eq!((publisher.poll_over(), publisher.poll_over()), (Some(hung), None));
        assert!(publisher.is_quiesced(hung));
    }

    #[test]
    fn a_silent_core_delays_announcements_no_longer_and_its_requests_still_count() {
        let mut publisher = Publisher::new(3, SILENT_AFTER);
        let number = publish(&mut publisher, 1);
        publisher.poll(C1, NOW).unwrap();
        publisher.poll(C2, NOW).unwrap();
        publisher.handle_shown(C2, number, NOW);
        let due = publisher.poll_timeout().unwrap();
        publisher.handle_timeout(Nanos(due.0 - 1));
        assert!(publisher.silent().is_none() && publisher.poll(C0, due).is_none());
        publisher.handle_timeout(due);
        assert_eq!((publisher.silent(), publisher.poll_timeout()), (Some(C1), None));
        publisher.poll(C0, due).unwrap();
        publisher.handle_shown(C0, number, due);
        for core in [C0, C2] {
            publisher.handle_quiesced(core, number);
        }
        assert!(publisher.is_shown(number) && !publisher.is_quiesced(number));
        publisher.handle_shown(C1, number, due);
        assert_eq!(publisher.silent(), None);
        publisher.handle_quiesced(C1, number);
        assert!(publisher.is_quiesced(number));
    }

    #[test]
    fn a_core_that_has_nothing_to_answer_is_never_silent() {
        let mut publisher = Publisher::new(2, SILENT_AFTER);
        let number = publish(&mut publisher, 1);
        publisher.poll(C1, NOW).unwrap();
        publisher.handle_timeout(SILENT_AFTER);
        assert_eq!(publisher.silent(), Some(C1), "and not the first one, which waits for it");
        publisher.poll(C0, SILENT_AFTER).unwrap();
        publisher.handle_shown(C0, number, SILENT_AFTER);
        publisher.handle_timeout(Nanos(u64::MAX));
        assert_eq!(publisher.silent(), Some(C1));
    }

    /// A step of a run: the argument chooses the core.
    #[derive(Clone, Debug)]
    enum Step {
        Publish,
        Poll(usize),
        Show(usize),
        Quiesce(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let core = 0..3_usize;
        prop_oneof![
            Just(Step::Publish),
            core.clone().prop_map(Step::Poll),
            core.clone().prop_map(Step::Show),
            core.prop_map(Step::Quiesce),
        ]
    }

    /// A core: what it has got, adopts in order, and ends in any order.
    #[derive(Default)]
    struct Model {
        got: VecDeque<Arc<Publication>>,
        adopted: Vec<Arc<Publication>>,
        told: Vec<u32>,
        shown: u64,
    }

    fn number_of(publication: &Publication) -> u32 {
        u32::try_from(publication.number).unwrap()
    }

    proptest! {
        /// Whatever the order of the answers, every core is told everything once and in order, the
        /// first core is last, and a publication is over when each core has ended it.
        #[test]
        fn cores_get_everything_in_order(steps in prop::collection::vec(step(), 0..200)) {
            let mut publisher = Publisher::new(3, SILENT_AFTER);
            let mut cores = [(); 3].map(|()| Model::default());
            let (mut count, mut over) = (0, BTreeSet::new());
            let rest = (0..8).flat_map(|_| {
                (0..3).flat_map(|core| [Step::Poll(core), Step::Show(core), Step::Quiesce(core)])
            });
            let drain: Vec<Step> = rest.cycle().take(9 * 8 * 64).collect();
            for step in steps.into_iter().chain(drain) {
                match step {
                    Step::Publish => {
                        count += 1;
                        publish(&mut publisher, count);
                    }
                    Step::Poll(core) => {
                        let id = Core(u16::try_from(core).unwrap());
                        let Some(publication) = publisher.poll(id, NOW) else { continue };
                        if core == FIRST {
                            let others = cores[1..].iter().all(|it| it.shown >= publication.number);
                            prop_assert!(others, "the first core is last");
                        }
                        cores[core].told.extend(told(&publication));
                        let awaited: BTreeSet<u32> =
                            publication.quiesce.iter().map(|volume| volume.0).collect();
                        prop_assert_eq!(awaited, told(&publication).into_iter().collect());
                        let last = cores[core].told.last().copied();
                        prop_assert_eq!(last, Some(number_of(&publication)));
                        cores[core].got.push_back(publication);
                    }
                    Step::Show(core) => {
                        let Some(publication) = cores[core].got.pop_front() else { continue };
                        cores[core].shown = publication.number;
                        let id = Core(u16::try_from(core).unwrap());
                        publisher.handle_shown(id, publication.number, NOW);
                        cores[core].adopted.push(publication);
                    }
                    Step::Quiesce(core) => {
                        // The newest one first: requests of an older one may hang.
                        let Some(publication) = cores[core].adopted.pop() else { continue };
                        let id = Core(u16::try_from(core).unwrap());
                        publisher.handle_quiesced(id, publication.number);
                    }
                }
                while let Some(number) = publisher.poll_over() {
                    for core in &cores {
                        let waits = core.got.iter().chain(&core.adopted);
                        let volume = VolumeId(u32::try_from(number).unwrap());
                        let mut waits = waits.map(|it| it.quiesce.contains(&volume));
                        prop_assert!(core.told.contains(&volume.0) && !waits.any(|it| it));
                    }
                    prop_assert!(over.insert(number));
                }
            }
            prop_assert_eq!(over.len(), usize::try_from(count).unwrap());
            for core in &cores {
                prop_assert_eq!(&core.told, &(1..=count).collect::<Vec<_>>());
            }
        }
    }
}
