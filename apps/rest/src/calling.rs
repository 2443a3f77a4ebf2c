//! Calls: each runs on a thread that may block, and each change leaves a line in the log, whatever
//! becomes of the connection that asked for it.

use std::sync::Arc;

use nearflash_api::{ApiError, ErrorCode, Request, TokenScope};
use tokio::sync::Semaphore;

use crate::Face;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::repeat::{self, Answered};

/// The maximum number of calls at a time; a further one is refused as busy.
pub const CALLS_MAX: usize = 16;

/// Executes calls.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) face: Arc<dyn Face>,
    running: Arc<Semaphore>,
}

/// A call as a caller makes it.
pub(crate) struct Asked {
    pub(crate) caller: Caller,
    pub(crate) request: Request,
    pub(crate) subject: String,
    /// The generation of `If-Match`.
    pub(crate) expected: Option<u64>,
}

impl Calls {
    pub(crate) fn new(face: Arc<dyn Face>) -> Self {
        Self { face, running: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Executes a change, or a query. It goes on if the caller of this function gives up.
    pub(crate) async fn ask(&self, asked: Asked) -> Result<Answered, Refusal> {
        Ok(self.run(move |face| execute(face, asked)).await??)
    }

    pub(crate) async fn metrics(&self) -> Result<String, Refusal> {
        self.run(|face| face.metrics()).await
    }

    /// Runs on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn Face) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let permit = Arc::clone(&self.running).try_acquire_owned();
        let permit = permit
            .map_err(|_| Refusal::busy("the node has too many requests: try again in a second"))?;
        let face = Arc::clone(&self.face);
        let done = tokio::task::spawn_blocking(move || {
            let done = act(&*face);
            // In this order: once all permits are back, no thread holds the node.
            drop(face);
            drop(permit);
            done
        });
        let failed = |_| ApiError::new(ErrorCode::System, "the call failed: see the node's log");
        Ok(done.await.map_err(failed)?)
    }
}

fn execute(face: &dyn Face, asked: Asked) -> Result<Answered, ApiError> {
    let Asked { caller, request, subject, expected } = asked;
    let call = request.name();
    let is_query = nearflash_api::rule(&request).0 == TokenScope::Read;
    let done = repeat::serve(face, request, expected);
    if !is_query {
        caller.audit(call, &subject, done.as_ref().map(drop));
    } else if let Err(error) = &done {
        tracing::debug!("refused: {error}");
    }
    done
}
