//! The `Host` of a request: exactly one that is valid. RFC 9112, 3.2.

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};

use crate::refusal::Refusal;

/// Checks the `Host` of a request.
///
/// # Errors
/// With 400, if there is none in HTTP/1.1, more than one, or one that is not valid.
pub(crate) fn check(version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let is_valid = match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => is_host(host),
        (Some(_), Some(_)) => false,
    };
    if is_valid {
        return Ok(());
    }
    Err(Refusal::of_http(StatusCode::BAD_REQUEST, "the request needs exactly one valid Host"))
}

/// Whether it is a host with an optional port, or empty.
fn is_host(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let Ok(authority) = text.parse::<Authority>() else { return text.is_empty() };
    // What is not the host must be a port, and no user.
    let port =
        text.strip_prefix(authority.host()).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(version: Version, hosts: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_static(host));
        }
        check(version, &headers).is_err()
    }

    #[test]
    fn one_valid_host_is_required_since_http_1_1() {
        for host in ["node", "node:80", "127.0.0.1:8080", "[::1]:8080", "nodes.example", ""] {
            assert!(!is_refused(Version::HTTP_11, &[host]), "{host}");
        }
        for host in ["a b", "user@node", "node/path", "node:port", "[::1"] {
            assert!(is_refused(Version::HTTP_11, &[host]), "{host}");
        }
        assert!(is_refused(Version::HTTP_11, &[]) && !is_refused(Version::HTTP_10, &[]));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(is_refused(version, &["node", "node"]));
        }
    }
}
