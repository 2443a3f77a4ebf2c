//! The things that the thread `cluster` tells other threads: its view of the store, and the node's tables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearflash_cluster::StoreHealth;
use nearflash_cluster::compile::Tables;
use nearflash_records::ClusterState;
use nearflash_space::Name;

/// Takes the node's tables, or looks again at those that it has. Returns whether some of it waits for older
/// requests.
pub(crate) type OnTables = Box<dyn FnMut(Option<Tables>) -> bool + Send>;

/// The time after which what waits is looked at without a reason, and reported.
const LOOK_PERIOD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) view: Mutex<View>,
    /// The view has changed.
    pub(super) has_view: Condvar,
    pub(super) tables: Mutex<News>,
    pub(super) has_tables: Condvar,
    pub(super) is_over: AtomicBool,
    /// Set while this node does not serve the cluster's volumes.
    pub(super) absence: Mutex<Option<Absence>>,
}

/// The news for the thread that serves the tables.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The newest tables that have not been taken.
    pub(super) tables: Option<Tables>,
    /// Requests that those before them wait for have ended.
    pub(super) looks_again: bool,
}

/// The reason why a node that runs does not serve its cluster's volumes.
#[derive(Clone, Debug)]
pub(crate) struct Absence {
    /// The node's name in the cluster.
    pub(crate) node: Name,
    /// The reason why it does not try any more; `None` while it waits for the store.
    pub(crate) failure: Option<String>,
}

/// The known content of the store, and the connection to it.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) state: Arc<ClusterState>,
    pub(super) health: StoreHealth,
    pub(super) endpoints: Vec<String>,
}

impl Shared {
    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// Waits until the view has what is looked for, or the follower ends, for at most `timeout`.
    pub(super) fn wait<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&View) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + timeout;
        let mut view = self.view();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let found = find(&view);
            if found.is_some() || left.is_zero() || self.is_over.load(Ordering::SeqCst) {
                return found;
            }
            let waited = self.has_view.wait_timeout(view, left);
            view = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn publish(&self, tables: Tables) {
        lock(&self.tables).tables = Some(tables);
        self.has_tables.notify_all();
    }

    pub(super) fn end(&self) {
        // With the lock, so that no wait begins in between.
        let tables = lock(&self.tables);
        self.is_over.store(true, Ordering::SeqCst);
        drop(tables);
        self.has_tables.notify_all();
        drop(self.view());
        self.has_view.notify_all();
    }

    /// Hands the tables to the node, until the end.
    pub(super) fn tell(&self, mut on_tables: OnTables) {
        let mut waits = false;
        while let Some(News { tables, .. }) = self.next_news(waits) {
            waits = on_tables(tables);
        }
    }

    /// Waits for news, and not for long if something `waits` for older requests. `None` at the end.
    fn next_news(&self, waits: bool) -> Option<News> {
        let mut news = lock(&self.tables);
        loop {
            if self.is_over.load(Ordering::SeqCst) {
                return None;
            }
            if news.tables.is_some() || news.looks_again {
                return Some(std::mem::take(&mut *news));
            }
            if waits {
                let waited = self.has_tables.wait_timeout(news, LOOK_PERIOD);
                let timed;
                (news, timed) = waited.unwrap_or_else(PoisonError::into_inner);
                news.looks_again |= timed.timed_out();
            } else {
                news = self.has_tables.wait(news).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
