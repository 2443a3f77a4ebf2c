//! Options as their user writes them: every field has a method that sets it, so that later versions
//! can add fields.

/// Defines a method for each field, which sets it and returns the options.
macro_rules! builders {
    ($options:ident { $($field:ident: $type:ty),* $(,)? }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

pub(crate) use builders;
