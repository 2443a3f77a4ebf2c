//! The responses of the OpenAPI document: one for each status that an operation can answer with.

use axum::http::StatusCode;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{
    ContentBuilder, Ref, RefOr, Response, ResponseBuilder, Responses, ResponsesBuilder,
};

use crate::routes::{Kind, Route, Success};

/// The refusals: the status, the name of the response, and its meaning.
const REFUSALS: [(StatusCode, &str, &str); 11] = [
    (StatusCode::BAD_REQUEST, "BadRequest", "The request, or a value in it, is invalid"),
    (StatusCode::UNAUTHORIZED, "Unauthorized", "The request has no valid token"),
    (
        StatusCode::FORBIDDEN,
        "Forbidden",
        "The scope of the token does not permit the request; on the Unix socket, another site asks",
    ),
    (StatusCode::NOT_FOUND, "NotFound", "A resource that the request names does not exist"),
    (StatusCode::REQUEST_TIMEOUT, "RequestTimeout", "The body did not arrive in time"),
    (StatusCode::CONFLICT, "Conflict", "The state of the node does not permit the change"),
    (
        StatusCode::PRECONDITION_FAILED,
        "PreconditionFailed",
        "The recorded state has another generation than If-Match says",
    ),
    (StatusCode::PAYLOAD_TOO_LARGE, "ContentTooLarge", "The body is too long"),
    (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "The node or a device has failed"),
    (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "The node is busy: try again"),
    (StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage", "The volume does not fit"),
];

/// The refusals of resources that are not calls.
pub(crate) const OF_ANY: &[StatusCode] = &[StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];

/// The refusals, by the names under which operations refer to them.
pub(crate) fn refusals() -> impl Iterator<Item = (&'static str, Response)> {
    REFUSALS.into_iter().map(|(status, name, about)| {
        let of_error = json(about, Ref::from_schema_name("Error").into());
        let response = match status {
            StatusCode::UNAUTHORIZED => {
                of_error.header("WWW-Authenticate", header("^Bearer$", "The scheme of tokens."))
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                of_error.header("Retry-After", header("^[0-9]+$", "The seconds to wait."))
            }
            _ => of_error,
        };
        (name, response.build())
    })
}

/// The responses of a resource that is not a call.
pub(crate) fn with_refusals(success: Response, statuses: &[StatusCode]) -> Responses {
    let ok = ResponsesBuilder::new().response("200", success);
    refused(ok, |status| statuses.contains(&status)).build()
}

pub(crate) fn of_route(route: &Route) -> Responses {
    let success = successes(route).into_iter().fold(
        ResponsesBuilder::new(),
        |builder, (status, about, header)| {
            let mut response = answer(about, (route.answer)().name);
            if let Some((name, header)) = header {
                response = response.header(name, header);
            }
            builder.response(status.as_str(), response.build())
        },
    );
    refused(success, |status| can_refuse(route, status)).build()
}

fn refused(
    builder: ResponsesBuilder,
    is_possible: impl Fn(StatusCode) -> bool,
) -> ResponsesBuilder {
    let possible = REFUSALS.iter().filter(|(status, ..)| is_possible(*status));
    possible.fold(builder, |builder, (status, name, _)| {
        builder.response(status.as_str(), Ref::from_response_name(*name))
    })
}

type Successful = (StatusCode, &'static str, Option<(&'static str, Header)>);

fn successes(route: &Route) -> Vec<Successful> {
    let etag = || Some(("ETag", header("^\"[0-9]+\"$", "The generation of the recorded state.")));
    let location = |about| Some(("Location", header("^/v1/", about)));
    if route.is_query() {
        return vec![(StatusCode::OK, "The answer", etag())];
    }
    let of_new = || location("The new resource.");
    let mut all = match route.success {
        Success::Ok => vec![(StatusCode::OK, "The answer", None)],
        Success::Created | Success::CreatedGrant => {
            vec![(StatusCode::CREATED, "The new resource", of_new())]
        }
    };
    if matches!(route.call, "volume-create" | "grant-add") {
        all.push((StatusCode::OK, "The resource exists already, as asked", of_new()));
    }
    if matches!(route.call, "volume-create" | "volume-resize") {
        let about = "A job completes the change";
        all.push((StatusCode::ACCEPTED, about, location("The job.")));
    }
    all
}

fn can_refuse(route: &Route, status: StatusCode) -> bool {
    let is_change = !route.is_query();
    let names_another = route.query.iter().any(|(_, kind, _)| *kind == Kind::Text);
    match status {
        StatusCode::NOT_FOUND => route.field.is_some() || names_another || !route.bodies.is_empty(),
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => is_change,
        StatusCode::INSUFFICIENT_STORAGE => {
            matches!(route.call, "volume-create" | "volume-resize")
        }
        _ => true,
    }
}

fn header(pattern: &str, about: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    HeaderBuilder::new().schema(text).description(Some(about)).build()
}

fn answer(about: &str, of: String) -> ResponseBuilder {
    let all =
        AllOfBuilder::new().item(Ref::from_schema_name("Document")).item(Ref::from_schema_name(of));
    json(about, RefOr::T(Schema::AllOf(all.build())))
}

fn json(about: &str, schema: RefOr<Schema>) -> ResponseBuilder {
    content(about, "application/json", schema)
}

/// A response of another media type.
pub(crate) fn content(about: &str, kind: &str, schema: RefOr<Schema>) -> ResponseBuilder {
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(about).content(kind, content)
}

#[cfg(test)]
mod tests {
    use nearflash_api::ErrorCode;

    use super::*;
    use crate::refusal::status_of;

    #[test]
    fn every_status_of_an_error_is_described() {
        for (code, ..) in ErrorCode::TABLE {
            let status = status_of(code);
            assert!(
                REFUSALS.iter().any(|(described, ..)| *described == status),
                "{code}: {status}"
            );
        }
    }
}
