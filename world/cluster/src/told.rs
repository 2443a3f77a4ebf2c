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
pub type OnTables = Box<dyn FnMut(Option<Tables>) -> bool + Send>;

/// The time after which what waits is looked at without a reason, and reported.
const LOOK_PERIOD: Duration = Duration::from_secs(30);

/// The view of the store and the tables, for the other threads.
#[derive(Debug)]
pub struct Told {
    view: Mutex<View>,
    /// The view has changed.
    has_view: Condvar,
    tables: Mutex<News>,
    has_tables: Condvar,
    is_over: AtomicBool,
    /// Set while this node does not serve the cluster's volumes.
    absence: Mutex<Option<Absence>>,
}

/// The news for the thread that serves the tables.
#[derive(Debug, Default)]
struct News {
    /// The newest tables that have not been taken.
    tables: Option<Tables>,
    /// Requests that those before them wait for have ended.
    looks_again: bool,
}

/// The reason why a node that runs does not serve its cluster's volumes.
#[derive(Clone, Debug)]
pub struct Absence {
    /// The node's name in the cluster.
    pub node: Name,
    /// The reason why it does not try any more; `None` while it waits for the store.
    pub failure: Option<String>,
}

/// The known content of the store, and the connection to it.
#[derive(Clone, Debug)]
pub struct View {
    /// The content.
    pub state: Arc<ClusterState>,
    /// The connection.
    pub health: StoreHealth,
    /// The addresses of the store.
    pub endpoints: Vec<String>,
}

impl Told {
    /// Nothing but this view has been told.
    pub fn new(view: View) -> Self {
        Self {
            view: Mutex::new(view),
            has_view: Condvar::new(),
            tables: Mutex::default(),
            has_tables: Condvar::new(),
            is_over: AtomicBool::new(false),
            absence: Mutex::default(),
        }
    }

    /// The view. Nobody may wait for something while it is held.
    pub fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// Changes the view.
    pub fn show<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let changed = change(&mut self.view());
        self.has_view.notify_all();
        changed
    }

    /// Why this node does not serve the cluster's volumes, if it does not.
    pub fn absence(&self) -> Option<Absence> {
        lock(&self.absence).clone()
    }

    /// Notes that the node does not serve the cluster's volumes, or that it does.
    pub fn set_absence(&self, absence: Option<Absence>) {
        *lock(&self.absence) = absence;
    }

    /// Has the node look again at the tables that it has.
    pub fn look_again(&self) {
        lock(&self.tables).looks_again = true;
        self.has_tables.notify_all();
    }

    /// Waits until the view has what is looked for, or the follower ends, for at most `timeout`.
    pub fn wait<T>(
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

    /// New tables for the node.
    pub fn publish(&self, tables: Tables) {
        lock(&self.tables).tables = Some(tables);
        self.has_tables.notify_all();
    }

    /// Ends every wait.
    pub fn end(&self) {
        // With the lock, so that no wait begins in between.
        let tables = lock(&self.tables);
        self.is_over.store(true, Ordering::SeqCst);
        drop(tables);
        self.has_tables.notify_all();
        drop(self.view());
        self.has_view.notify_all();
    }

    /// Hands the tables to the node, until the end.
    pub fn tell(&self, mut on_tables: OnTables) {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
