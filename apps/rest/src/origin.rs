//! Requests that a browser makes on behalf of another site.
//!
//! On the Unix socket, no token shows who asks. A browser reaches the socket when its port is forwarded,
//! as `ssh -L` does for the page, and then any site that the operator visits could send requests to
//! that port. So a request there is refused if its `Host` is a name that others can choose (any name but
//! `localhost` can be made to lead to this machine, also one without a dot, by the search list or by a neighbour
//! of the local network), or if the browser says that another site asks: `Origin`, RFC
//! 6454, 7; `Sec-Fetch-Site`, Fetch Metadata Request Headers.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN, USER_AGENT};
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
    let is_of_browser = [ORIGIN, SEC_FETCH_SITE].iter().any(|name| headers.contains_key(name))
        || text(USER_AGENT).is_some_and(|agent| agent.starts_with("Mozilla/"));
    let is_own_name = host.is_none_or(|host| is_own(host, is_of_browser));
    let is_own_origin = text(ORIGIN).is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == host
    });
    let is_own_site =
        text(SEC_FETCH_SITE).is_none_or(|site| ["same-origin", "none"].contains(&site));
    if is_own_name && is_own_origin && is_own_site {
        return Ok(());
    }
    let message = "the request is for another site: open the page at http://localhost, and use this \
                   name or a loopback address on the Unix socket";
    Err(Refusal::of_http(StatusCode::FORBIDDEN, message))
}

/// Whether an authority is this machine for certain: a loopback address, or `localhost`, which a browser looks up
/// nowhere. Programs look no name up for a Unix socket, and may write `node`.
fn is_own(authority: &str, is_of_browser: bool) -> bool {
    let bare = authority.trim_start_matches('[').trim_end_matches(']');
    let address =
        authority.parse::<SocketAddr>().map(|it| it.ip()).or_else(|_| bare.parse::<IpAddr>());
    if let Ok(address) = address {
        return address.is_loopback();
    }
    let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || name == "node" && !is_of_browser
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
        for host in [
            "node",
            "localhost",
            "LocalHost:8080",
            "localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
        ] {
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
            "printer",
            "nodes",
            "localhost.",
            "",
            "a b",
            "127.0.0.1.evil.example",
        ] {
            assert!(is_refused(&[("host", host)]), "{host}");
        }
        let browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        for header in [
            ("origin", "http://node"),
            ("sec-fetch-site", "none"),
            ("sec-fetch-site", "same-origin"),
            ("user-agent", browser),
        ] {
            assert!(is_refused(&[("host", "node"), header]), "{header:?}");
        }
        assert!(!is_refused(&[("host", "node"), ("user-agent", "curl/8.14.1")]));
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
