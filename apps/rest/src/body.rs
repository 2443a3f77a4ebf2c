//! Requests: the fields of the path, the query and the body become the fields of a call.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use nearflash_api::{Request, SCHEMA};
use nearflash_units::OneLine;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::refusal::Refusal;
use crate::routes::{Field, Kind, Route, WAIT};

/// The maximum length of a body; as long as a request of the control socket.
pub(crate) const BODY_LEN_MAX: usize = 64 << 10;

/// The time that a peer has to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time in seconds for which a request waits for a job.
const WAIT_SECONDS_MAX: u64 = 60;

/// Reads a body.
///
/// # Errors
/// When it is too long, or does not arrive in time.
pub(crate) async fn read(body: Body) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let whole = Limited::new(body, BODY_LEN_MAX).collect();
    let late = |_| {
        let message = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        Refusal::of_http(StatusCode::REQUEST_TIMEOUT, message)
    };
    let whole = tokio::time::timeout(BODY_TIMEOUT, whole).await.map_err(late)?;
    let whole = whole.map_err(|error| match error.is::<LengthLimitError>() {
        true => {
            let message = format!("a body has at most {BODY_LEN_MAX} bytes");
            Refusal::of_http(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        false => Refusal::invalid(format!("the body is incomplete: {}", OneLine(error))),
    })?;
    Ok(Zeroizing::new(whole.to_bytes().to_vec()))
}

/// The call of a request, and the time for which it waits for a job.
///
/// # Errors
/// When a field is missing, unknown, or not of its type.
pub(crate) fn request(
    route: &Route,
    in_path: Option<&str>,
    query: &str,
    body: &[u8],
) -> Result<(Request, Option<Duration>), Refusal> {
    let mut fields = if route.bodies.is_empty() { no_body(body)? } else { object(body)? };
    if let (Some((name, kind, _)), Some(text)) = (route.field, in_path) {
        let value = typed(name, kind, text)?;
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(Refusal::invalid(format!("'{name}' is in the path, not in the body")));
        }
    }
    read_query(route, query, &mut fields)?;
    let wait = fields.remove(WAIT).and_then(|seconds| seconds.as_u64());
    let wait = wait.map(|seconds| Duration::from_secs(seconds.min(WAIT_SECONDS_MAX)));
    if fields.insert("command".to_owned(), route.call.into()).is_some() {
        return Err(Refusal::invalid("unknown field `command`"));
    }
    let request = serde_json::from_value(Value::Object(fields));
    let refused = |error| Refusal::invalid(format!("invalid request: {}", OneLine(error)));
    Ok((request.map_err(refused)?, wait))
}

/// The fields of a body, which may name the schema.
fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let refused = |error| Refusal::invalid(format!("the body is invalid: {}", OneLine(error)));
    let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(refused)?;
    fields.values_mut().for_each(make_whole);
    match fields.remove("schema") {
        None => Ok(fields),
        Some(schema) if schema == SCHEMA => Ok(fields),
        Some(_) => Err(Refusal::invalid(format!("the body needs schema {SCHEMA}"))),
    }
}

/// The integers that every JSON implementation keeps exactly are less than this. RFC 8259, 6.
const EXACT_END: f64 = 9_007_199_254_740_992.0;

/// Makes an integer of `4096.0`: JSON has one type of numbers, and some clients write integers so. No
/// field of a call is a fraction.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0);
            let exact = whole.filter(|it| (0.0..EXACT_END).contains(it));
            // The text of a whole number has no point.
            if let Some(Ok(integer)) = exact.map(|it| format!("{it:.0}").parse::<u64>()) {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        _ => {}
    }
}

fn no_body(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match body.is_empty() {
        true => Ok(Map::new()),
        false => Err(Refusal::invalid("this request has no body")),
    }
}

fn read_query(route: &Route, query: &str, fields: &mut Map<String, Value>) -> Result<(), Refusal> {
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, text) = part.split_once('=').unwrap_or((part, ""));
        let known: Option<&Field> = route.query.iter().find(|(known, ..)| *known == name);
        let Some((name, kind, _)) = known else {
            return Err(Refusal::invalid(format!("unknown parameter '{}'", OneLine(name))));
        };
        let text = percent_decode_str(text).decode_utf8();
        let text =
            text.map_err(|_| Refusal::invalid(format!("parameter '{name}' is not UTF-8")))?;
        if fields.insert((*name).to_owned(), typed(name, *kind, &text)?).is_some() {
            return Err(Refusal::invalid(format!("parameter '{name}' is given twice")));
        }
    }
    Ok(())
}

fn typed(name: &str, kind: Kind, text: &str) -> Result<Value, Refusal> {
    let refused = |what| Refusal::invalid(format!("'{name}' is {what}"));
    match (kind, text) {
        (Kind::Text, text) => Ok(text.into()),
        // `parse` would also take a sign.
        (Kind::Number { .. }, text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse::<u64>().map(Value::from).map_err(|_| refused("a number"))
        }
        (Kind::Number { .. }, _) => Err(refused("a number")),
        (Kind::Flag, "" | "true") => Ok(true.into()),
        (Kind::Flag, "false") => Ok(false.into()),
        (Kind::Flag, _) => Err(refused("true or false")),
    }
}

/// The generation of `If-Match`, for changes. RFC 9110, 13.1.1: `*` is any existing resource, which the
/// call checks.
///
/// # Errors
/// When it is not an entity tag of this interface.
pub(crate) fn expected(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let mut values = headers.get_all(IF_MATCH).iter();
    let (value, None) = (values.next(), values.next()) else {
        return Err(Refusal::invalid("If-Match has one entity tag"));
    };
    let Some(value) = value else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let number = number.and_then(|number| number.parse().ok());
    let refused = || Refusal::invalid("If-Match is not an ETag of this node: send one as received");
    number.map(Some).ok_or_else(refused)
}

/// The entity tag of a generation.
pub(crate) fn etag(generation: u64) -> String {
    format!("\"{generation}\"")
}
