//! The OpenAPI document: the table of routes, and the types of `nearflash_api`.

use std::collections::BTreeMap;

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
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApiBuilder, PathsBuilder, Ref, RefOr,
    Required, Response, ResponseBuilder,
};

use crate::routes::{Field, Kind, ROUTES, Route, Success, Verb};
use crate::schemas::{Described, described};

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
    paths.entry("/v1/events").or_default().push((HttpMethod::Get, events()));
    paths.entry("/healthz").or_default().push((HttpMethod::Get, health()));
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
    let name = format!("{}-{}", route.call, route.path.trim_start_matches("/v1/"));
    let is_first = ROUTES.iter().find(|it| it.call == route.call).map(|it| it.path);
    let id = if is_first == Some(route.path) { route.call.to_owned() } else { name };
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let mut builder = OperationBuilder::new()
        .operation_id(Some(id))
        .summary(Some(route.about))
        .tag(route.path.split('/').nth(2).unwrap_or_default());
    if let Some(field) = &route.field {
        builder = builder.parameter(parameter(field, ParameterIn::Path));
    }
    for field in route.query {
        builder = builder.parameter(parameter(field, ParameterIn::Query));
    }
    if !route.is_query() {
        let about = "The ETag of an answer: make the change only if nothing has changed since.";
        let field = ("If-Match", Kind::Text, about);
        builder = builder.parameter(parameter(&field, ParameterIn::Header));
    }
    if !route.bodies.is_empty() {
        builder = builder.request_body(Some(body(route)));
    }
    let answer = answer((route.answer)());
    let builder = match route.success {
        Success::Ok => builder.response("200", answer),
        Success::Created | Success::CreatedGrant => builder.response("201", answer),
    };
    builder.response("default", failure()).build()
}

fn parameter(&(name, kind, about): &Field, place: ParameterIn) -> ParameterBuilder {
    let of_type = match kind {
        Kind::Text => Type::String,
        Kind::Number => Type::Integer,
        Kind::Flag => Type::Boolean,
    };
    let required =
        if matches!(place, ParameterIn::Path) { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(about))
        .schema(Some(ObjectBuilder::new().schema_type(of_type)))
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

fn answer(of: Described) -> Response {
    let all = AllOfBuilder::new()
        .item(Ref::from_schema_name("Document"))
        .item(Ref::from_schema_name(of.name));
    json("The answer", RefOr::T(Schema::AllOf(all.build())))
}

fn failure() -> Response {
    json("The request is refused, or failed", Ref::from_schema_name("Error").into())
}

fn json(about: &str, schema: RefOr<Schema>) -> Response {
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(about).content("application/json", content).build()
}

fn text(about: &str, kind: &str) -> Response {
    let content = ContentBuilder::new()
        .schema(Some(RefOr::<Schema>::from(ObjectBuilder::new().schema_type(Type::String))))
        .build();
    ResponseBuilder::new().description(about).content(kind, content).build()
}

fn events() -> Operation {
    OperationBuilder::new()
        .operation_id(Some("events"))
        .summary(Some("Server-sent events: 'state' after a change, and 'job' while jobs run"))
        .tag("events")
        .response("200", text("Events until the client closes the connection", "text/event-stream"))
        .response("default", failure())
        .build()
}

fn health() -> Operation {
    OperationBuilder::new()
        .operation_id(Some("health"))
        .summary(Some("Whether the node answers; needs no token"))
        .tag("health")
        .security(SecurityRequirement::default())
        .response("200", text("The node answers", "text/plain"))
        .build()
}
