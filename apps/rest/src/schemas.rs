//! The schemas of the OpenAPI document, from the types of `nearflash_api`.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// The schema of a type, and those of all types that it has.
#[derive(Clone)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) all: Vec<(String, RefOr<Schema>)>,
}

/// Describes a type.
pub(crate) fn described<T: PartialSchema + ToSchema>() -> Described {
    let name = T::name().into_owned();
    let mut all = vec![(name.clone(), T::schema())];
    T::schemas(&mut all);
    Described { name, all }
}

impl Described {
    /// The schema of the type itself.
    pub(crate) fn own(&self) -> &RefOr<Schema> {
        &self.all[0].1
    }
}
