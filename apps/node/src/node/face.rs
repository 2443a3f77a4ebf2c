//! The node as the HTTP interface uses it.

use nearflash_api::{ApiError, Request};
use nearflash_rest::{Bearer, Face};
use zeroize::Zeroizing;

use super::{Node, condition, now};

impl Face for Node {
    fn serve(
        &self,
        request: Request,
        expected: Option<u64>,
    ) -> Result<Zeroizing<String>, ApiError> {
        condition::under(expected, || {
            // Also for the few changes that take no lock; the others check it again under theirs.
            self.check_condition()?;
            request.document_by(self)
        })
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
        Some(Bearer { name: token.name.to_string(), scope: token.scope })
    }

    fn on_change(&self, tell: Box<dyn Fn() + Send + Sync>) {
        self.bell.set(tell);
    }
}
