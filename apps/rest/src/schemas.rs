//! The schemas of the OpenAPI document, from the types of `nearflash_api`.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayItems, KnownFormat, Object, Schema, SchemaFormat};
use utoipa::{Number, PartialSchema, ToSchema};

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
    all.iter_mut().for_each(|(_, schema)| bound(schema));
    Described { name, all }
}

impl Described {
    /// The schema of the type itself.
    pub(crate) fn own(&self) -> &RefOr<Schema> {
        &self.all[0].1
    }
}

/// States the ranges of unsigned integers. utoipa describes them as signed ones from 0.
fn bound(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            bound_integer(object);
            object.properties.values_mut().for_each(bound);
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                bound(items);
            }
        }
        Schema::OneOf(of) => of.items.iter_mut().for_each(bound),
        Schema::AllOf(of) => of.items.iter_mut().for_each(bound),
        Schema::AnyOf(of) => of.items.iter_mut().for_each(bound),
        _ => {}
    }
}

fn bound_integer(object: &mut Object) {
    let (name, maximum) = match (&object.minimum, &object.format) {
        (Some(_), Some(SchemaFormat::KnownFormat(KnownFormat::Int64))) => ("uint64", usize::MAX),
        (Some(_), Some(SchemaFormat::KnownFormat(KnownFormat::Int32))) => {
            ("uint32", u32::MAX as usize)
        }
        _ => return,
    };
    object.format = Some(SchemaFormat::Custom(name.to_owned()));
    object.maximum.get_or_insert(Number::UInt(maximum));
}
