//! Requests that a browser makes on behalf of another site.
//!
//! On the Unix socket, no token shows who asks. A browser reaches the socket when its port is forwarded,
//! as `ssh -L` does for the page, and then any site that the operator visits could send requests to
//! that port. So a request there is refused if its `Host` is a name that others can choose (a DNS name
//! can be made to lead to this machine), or if the browser says that another site asks: `Origin`, RFC
//! 6454, 7; `Sec-Fetch-Site`, Fetch Metadata Request Headers.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};

use crate::refusal::Refusal;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks that no other site asks.
///
/// # Errors
/// When one does, or could.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    let is_own_name = host.is_none_or(is_own);
    let is_own_origin = text(ORIGIN).is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == host
    });
    let is_own_site =
        text(SEC_FETCH_SITE).is_none_or(|site| ["same-origin", "none"].contains(&site));
    if is_own_name && is_own_origin && is_own_site {
        return Ok(());
    }
    let message = "the request is for another site: open the page at http://localhost, and use a \
                   name without a dot, or a loopback address, on the Unix socket";
    Err(Refusal::of_http(StatusCode::FORBIDDEN, message))
}

/// Whether an authority is this machine for certain: a loopback address, or a name without a dot, which
/// is no name of the DNS at large.
fn is_own(authority: &str) -> bool {
    let bare = authority.trim_start_matches('[').trim_end_matches(']');
    let address =
        authority.parse::<SocketAddr>().map(|it| it.ip()).or_else(|_| bare.parse::<IpAddr>());
    if let Ok(address) = address {
        return address.is_loopback();
    }
    let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(headers: &[(&'static str, &'static str)]) -> bool {
        let pairs = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), value.parse().expect("a valid value"))
        });
        check(&pairs.collect()).is_err()
    }

    #[test]
    fn programs_and_the_page_itself_are_answered() {
        for host in ["node", "localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]"]
        {
            assert!(!is_refused(&[("host", host)]), "{host}");
        }
        assert!(!is_refused(&[]));
        let page = [("host", "localhost:8080"), ("origin", "http://localhost:8080")];
        assert!(!is_refused(&page));
        assert!(!is_refused(&[page[0], page[1], ("sec-fetch-site", "same-origin")]));
        assert!(!is_refused(&[page[0], ("sec-fetch-site", "none")]));
    }

    #[test]
    fn other_sites_and_names_that_they_choose_are_refused() {
        for host in [
            "evil.example",
            "evil.example:8080",
            "192.0.2.1",
            "node.",
            "",
            "a b",
            "127.0.0.1.evil.example",
        ] {
            assert!(is_refused(&[("host", host)]), "{host}");
        }
        for origin in [
            "http://evil.example",
            "http://localhost:9090",
            "http://localhost",
            "null",
            "localhost:8080",
        ] {
            assert!(is_refused(&[("host", "localhost:8080"), ("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(is_refused(&[("host", "localhost:8080"), ("sec-fetch-site", site)]), "{site}");
        }
    }
}
