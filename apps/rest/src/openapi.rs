//! The OpenAPI document: the table of routes, and the types of `nearflash_api`.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use nearflash_api::{ApiError, SCHEMA, VERSION};
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{
    AllOfBuilder, ComponentsBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApiBuilder, PathsBuilder, Ref, RefOr, Required,
};

use crate::answers::{self, OF_ANY, content, with_refusals};
use crate::routes::{Field, Kind, ROUTES, Route, Verb};
use crate::schemas::described;

const ABOUT: &str = "\
The HTTP interface of a nearflash node. Every answer is a document with the number of its schema; within \
a schema, fields are only added. Errors are documents with a stable code. Answers to queries have an \
ETag, the generation of the recorded state: a change with If-Match takes effect only if the generation is \
still this one. A change that takes long is answered with 202, its job, and the job's Location.";

/// The document, as one text with a final newline.
///
/// # Panics
/// Never: the document is plain data.
pub fn document() -> String {
    let mut paths: BTreeMap<&str, Vec<(HttpMethod, Operation)>> = BTreeMap::new();
    for route in &ROUTES {
        paths.entry(route.path).or_default().push((method(route.method), operation(route)));
    }
    for (path, operation) in others() {
        paths.entry(path).or_default().push((HttpMethod::Get, operation));
    }
    let mut builder = PathsBuilder::new();
    for (path, operations) in paths {
        let mut item = PathItem::default();
        for (method, operation) in operations {
            item.merge_operations(PathItem::new(method, operation));
        }
        builder = builder.path(path, item);
    }
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let info = InfoBuilder::new()
        .title("nearflash")
        .version(VERSION)
        .description(Some(ABOUT))
        .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").build()));
    let components = schemas()
        .into_iter()
        .fold(ComponentsBuilder::new(), |builder, (name, schema)| builder.schema(name, schema))
        .responses_from_iter(answers::refusals())
        .security_scheme("token", token);
    let document = OpenApiBuilder::new()
        .info(info)
        .paths(builder)
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new("token", [] as [&str; 0])]))
        .build();
    document.to_pretty_json().expect("the document is plain data") + "\n"
}

fn method(verb: Verb) -> HttpMethod {
    match verb {
        Verb::Get => HttpMethod::Get,
        Verb::Post => HttpMethod::Post,
        Verb::Patch => HttpMethod::Patch,
        Verb::Delete => HttpMethod::Delete,
    }
}

/// The schemas of all types that occur.
fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    let of_route = |route: &Route| {
        let bodies = route.bodies.iter().map(|body| body());
        bodies.chain([(route.answer)()]).flat_map(|it| it.all).collect::<Vec<_>>()
    };
    let all = ROUTES.iter().flat_map(of_route).chain(described::<ApiError>().all);
    let mut all: BTreeMap<_, _> = all.collect();
    // The earlier name of a part of this type, for programs that were generated from the document.
    let create = Ref::from_schema_name("VolumeCreate");
    all.insert("ClusterVolumeCreate".to_owned(), create.into());
    all.insert("Document".to_owned(), head());
    all.insert("Error".to_owned(), error_document());
    all
}

/// The field that every document has.
fn head() -> RefOr<Schema> {
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some(format!("The schema of the document: {SCHEMA}.")));
    ObjectBuilder::new().property("schema", number).required("schema").into()
}

fn error_document() -> RefOr<Schema> {
    let error = Ref::from_schema_name("ApiError");
    let fields = ObjectBuilder::new().property("error", error).required("error");
    let all = AllOfBuilder::new().item(Ref::from_schema_name("Document")).item(fields);
    RefOr::T(Schema::AllOf(all.build()))
}

fn operation(route: &Route) -> Operation {
    let mut builder = OperationBuilder::new()
        .operation_id(Some(route.id))
        .summary(Some(route.about))
        .tag(route.path.split('/').nth(2).unwrap_or_default());
    if let Some(field) = &route.field {
        builder = builder.parameter(parameter(field, ParameterIn::Path));
    }
    for field in route.query {
        builder = builder.parameter(parameter(field, ParameterIn::Query));
    }
    if !route.is_query() {
        builder = builder.parameter(if_match());
    }
    if !route.bodies.is_empty() {
        builder = builder.request_body(Some(body(route)));
    }
    builder.responses(answers::of_route(route)).build()
}

fn parameter(&(name, kind, about): &Field, place: ParameterIn) -> ParameterBuilder {
    let schema = match kind {
        Kind::Text => ObjectBuilder::new().schema_type(Type::String),
        Kind::Number { min, max } => {
            let integer = ObjectBuilder::new().schema_type(Type::Integer);
            integer.minimum(Some(min)).maximum(Some(max))
        }
        Kind::Flag => ObjectBuilder::new().schema_type(Type::Boolean),
    };
    let required =
        if matches!(place, ParameterIn::Path) { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(about))
        .schema(Some(schema))
}

/// The condition of a change. `*` is any generation; a generation of 20 digits is out of reach.
fn if_match() -> ParameterBuilder {
    let tag = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(r#"^(\*|"[0-9]{1,19}")$"#))
        .examples(["\"7\"", "*"]);
    ParameterBuilder::new()
        .name("If-Match")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "The ETag of an answer: make the change only if nothing has changed since.",
        ))
        .schema(Some(tag))
}

/// The body: a call without the field of the path.
fn body(route: &Route) -> RequestBody {
    let schema = match (route.bodies, route.field) {
        ([one], Some((field, ..))) => without(one().own().clone(), field),
        ([one], None) => Ref::from_schema_name(one().name).into(),
        (several, _) => {
            let one_of = several.iter().fold(OneOfBuilder::new(), |builder, body| {
                builder.item(Ref::from_schema_name(body().name))
            });
            RefOr::T(Schema::OneOf(one_of.build()))
        }
    };
    let content = ContentBuilder::new().schema(Some(schema)).build();
    RequestBodyBuilder::new()
        .content("application/json", content)
        .required(Some(Required::True))
        .build()
}

fn without(schema: RefOr<Schema>, field: &str) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else { return schema };
    object.properties.remove(field);
    object.required.retain(|name| name != field);
    RefOr::T(Schema::Object(object))
}

/// The operations of the resources that are not calls, by their paths.
fn others() -> [(&'static str, Operation); 4] {
    let busy = [OF_ANY, &[StatusCode::SERVICE_UNAVAILABLE]].concat();
    let failing = [&*busy, &[StatusCode::INTERNAL_SERVER_ERROR]].concat();
    let text = || RefOr::<Schema>::from(ObjectBuilder::new().schema_type(Type::String));
    let healthy = content("The node answers", "text/plain", text());
    let health = other("health", "Whether the node answers; needs no token")
        .security(SecurityRequirement::default())
        .responses(with_refusals(healthy.build(), &[]));
    let about = "Server-sent events: 'state' after a change, and 'job' while jobs run";
    let streamed =
        content("Events until the client closes the connection", "text/event-stream", event());
    let events = other("events", about).responses(with_refusals(streamed.build(), &busy));
    let measured = content("OpenMetrics 1.0", "application/openmetrics-text", text());
    let metrics = other("metrics", "The metrics, for Prometheus")
        .responses(with_refusals(measured.build(), &failing));
    let object = RefOr::<Schema>::from(ObjectBuilder::new().schema_type(Type::Object));
    let document = content("OpenAPI 3.1", "application/json", object);
    let openapi =
        other("openapi", "This document").responses(with_refusals(document.build(), OF_ANY));
    [
        ("/healthz", health.build()),
        ("/metrics", metrics.build()),
        ("/openapi.json", openapi.build()),
        ("/v1/events", events.build()),
    ]
}

fn other(id: &str, about: &str) -> OperationBuilder {
    OperationBuilder::new().operation_id(Some(id)).summary(Some(about)).tag(id)
}

/// An event of a stream: its name, and a document with the generation or the job.
fn event() -> RefOr<Schema> {
    let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["state", "job"]));
    let data =
        ObjectBuilder::new().schema_type(Type::String).content_media_type("application/json");
    let fields = ObjectBuilder::new().property("event", name).property("data", data);
    fields.required("event").required("data").into()
}
