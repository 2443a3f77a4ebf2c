//! The node as the HTTP interface and the control socket use it.

use nearflash_api::{ApiError, Conditional, Request};
use nearflash_rest::{Bearer, Face, Peer, RefusedCaller};
use nearflash_shard::Claim;
use zeroize::Zeroizing;

use super::calls::scope_of;
use super::{Node, condition, now};
use nearflash_journal::peer_lines::Source;
use nearflash_journal::refusals::Refusal;

impl Face for Node {
    fn serve(
        &self,
        request: Request,
        expected: Option<u64>,
    ) -> Result<Zeroizing<String>, ApiError> {
        self.under_condition(expected, || request.document_by(self))
    }

    fn metrics(&self) -> String {
        Self::metrics(self)
    }

    fn generation(&self) -> u64 {
        self.served().recorded.generation
    }

    fn bearer(&self, secret: &str) -> Option<Bearer> {
        let served = self.served();
        let token = served.recorded.tokens.find(secret, now())?;
        Some(Bearer { name: token.name.to_string(), scope: scope_of(token) })
    }

    fn refused(&self, refused: &RefusedCaller<'_>) {
        let RefusedCaller { peer, who, what, reason, text } = *refused;
        let source = match peer {
            Peer::Local { uid } => uid.map_or(Source::Unknown, Source::User),
            Peer::Remote(address) => address.into(),
        };
        let given = |text: &str| (!text.is_empty()).then(|| text.into());
        let claim = &Claim { name: given(who), account: None, object: given(what) };
        Refusal { protocol: "http", peer: &peer, source, claim, reason, text: &text }.log();
    }

    fn on_change(&self, tell: Box<dyn Fn() + Send + Sync>) {
        self.bell.set(tell);
    }
}

impl Node {
    /// Executes a request of the control socket, and returns the line of its answer.
    pub(crate) fn serve_line(&self, asked: Conditional) -> Result<Zeroizing<String>, ApiError> {
        self.under_condition(asked.if_generation, || asked.request.serve_by(self))
    }

    fn under_condition<T>(
        &self,
        expected: Option<u64>,
        call: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        condition::under(expected, || {
            // Also for the few changes that take no lock; the others check it again under theirs.
            self.check_condition()?;
            call()
        })
    }
}
