//! Enumerations whose values have names in files and on the command line.

/// An enumeration with all of its values in the order written, `ALL`, and their names, `name()`. Files use the same
/// names if it derives serde's traits with `rename_all`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $type:ident: $($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// All, in the order in which they are listed.
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// Its name in files, in tables and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}
