//! Values that are written in files and schemas as text.

/// Serialises a type with [`Display`](std::fmt::Display) and [`FromStr`](std::str::FromStr) as text, and gives it a
/// name, a description and further keywords in schemas.
#[macro_export]
macro_rules! as_text {
    ($type:ty, $name:literal, $description:literal $(, $key:literal: $value:expr)?) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text: String = ::serde::Deserialize::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({ "type": "string", "description": $description $(, $key: $value)? })
            }
        }
    };
}
