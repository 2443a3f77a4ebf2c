//! The page of a node: three files, which use the resources as any client does. They hold no data, so
//! they need no token; the page asks for one.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// The files: path, media type, content.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

/// The permissions of the page: it reads from this node alone, and has no style or script but its files. No
/// other page may show it in a frame, where its buttons could be clicked unseen.
const POLICY: &str = "default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Adds the files to a router.
pub(crate) fn route<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    FILES.into_iter().fold(router, |router, (path, media_type, content)| {
        router.route(path, get(move || async move { answer(media_type, content) }))
    })
}

fn answer(media_type: &'static str, content: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the node has another page.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}
