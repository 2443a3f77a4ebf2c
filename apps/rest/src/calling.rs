//! Calls: each runs on a thread that may block, and each change leaves a line in the log, whatever
//! becomes of the connection that asked for it.

use std::sync::Arc;

use nearflash_api::{ApiError, ErrorCode, Request, TokenScope};
use nearflash_units::OneLine;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::Face;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::repeat;

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

/// The answer of a call.
pub(crate) struct Answered {
    /// The document.
    pub(crate) text: Zeroizing<String>,
    /// The resource existed already, with the same content.
    pub(crate) is_repeated: bool,
}

impl Calls {
    pub(crate) fn new(face: Arc<dyn Face>) -> Self {
        Self { face, running: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Executes a change, or a query. It goes on if the caller of this function gives up.
    pub(crate) async fn ask(&self, asked: Asked) -> Result<Answered, Refusal> {
        Ok(self.run(move |face| execute(face, asked)).await??)
    }

    /// The metrics.
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

/// The name of this interface in the log.
pub(crate) const HTTP: &str = "http";

/// The target of the lines about changes. The node keeps them apart from all others.
pub const CHANGES: &str = "nearflash::changes";

/// Who asks for a change, and over which interface.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    /// The interface.
    pub through: &'a str,
    /// The user or the token.
    pub who: &'a str,
    /// The address; empty if the user tells enough.
    pub peer: &'a str,
}

impl Audit<'_> {
    /// The line in the log of a change: which call, its subject and the result.
    pub fn log(&self, call: &str, subject: &str, done: Result<(), &ApiError>) {
        let Self { through, who, peer } = self;
        // A subject is a peer's text, which an error may quote.
        let subject = OneLine(subject).to_string();
        match done {
            Ok(()) => {
                tracing::info!(target: CHANGES, who, call, subject, result = "ok", through, peer, "change");
            }
            Err(error) => {
                let (result, error) = (error.code.as_str(), OneLine(error).to_string());
                tracing::info!(target: CHANGES, who, call, subject, result, through, peer, error, "change");
            }
        }
    }
}
