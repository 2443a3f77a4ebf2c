//! Macros that declare wire structures and the values of their fields without repetition.

/// Declares wire structures: any bytes of a structure's length are a valid value.
///
/// `pub struct Name: [u8; LEN] { … }` is a structure of `LEN` bytes, and `pub struct Name(pub u8);`
/// a field. Each field of a structure has a comment, or a description: `pub len: U32 = "in
/// bytes",`. The crate that uses it depends on zerocopy.
#[macro_export]
macro_rules! wire {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident : [u8; $len:expr] {
            $($(#[$about:meta])* $seen:vis $field:ident : $type:ty $(= $words:literal)?),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Eq, PartialEq,
            ::zerocopy::FromBytes, ::zerocopy::Immutable, ::zerocopy::IntoBytes,
            ::zerocopy::KnownLayout, ::zerocopy::Unaligned,
        )]
        #[repr(C)]
        $vis struct $name {
            $($(#[doc = concat!($words, ".")])? $(#[$about])* $seen $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $len);
        $crate::wire! { $($rest)* }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident($field:vis $raw:ty); $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, Eq, Hash, PartialEq,
            ::zerocopy::FromBytes, ::zerocopy::Immutable, ::zerocopy::IntoBytes,
            ::zerocopy::KnownLayout, ::zerocopy::Unaligned,
        )]
        #[repr(transparent)]
        $vis struct $name($field $raw);
        $crate::wire! { $($rest)* }
    };
}

/// Declares the known values of a field as constants of its type: `NAME = 1, "its description";`.
/// The field is open: any other value decodes, and is refused in one place. The description serves
/// as the comment of a constant without one.
#[macro_export]
macro_rules! codes {
    ($type:ident {
        $($(#[$meta:meta])* $name:ident = $value:expr $(, $words:literal)?;)*
    }) => {
        impl $type {
            $($(#[doc = concat!($words, ".")])? $(#[$meta])* pub const $name: Self = Self($value);)*

            const KNOWN: &[(Self, &'static str, &'static str)] =
                &[$((Self($value), stringify!($name), concat!($($words)?)),)*];

            /// Those that are known.
            pub fn all() -> impl Iterator<Item = Self> {
                Self::KNOWN.iter().map(|row| row.0)
            }

            /// Its name and its description, if it is known.
            pub fn known(self) -> Option<(&'static str, &'static str)> {
                let row = Self::KNOWN.iter().find(|row| row.0 == self);
                row.map(|(_, name, words)| (*name, *words))
            }
        }
    };
}

/// The offset of a field in a structure, in bytes, for answers that name the field at fault.
#[macro_export]
macro_rules! offset {
    ($type:ty, $field:ident) => {
        const { $crate::offset_of_wire(std::mem::offset_of!($type, $field)) }
    };
}

/// Of [`offset!`].
#[doc(hidden)]
#[allow(clippy::cast_possible_truncation, reason = "it is checked")]
pub const fn offset_of_wire(offset: usize) -> u32 {
    assert!(offset < 4096, "no structure of a wire is longer");
    offset as u32
}
