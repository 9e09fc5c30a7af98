//! Reads a struct only from a table. Code derived by serde also accepts a list of a struct's values, in the order of
//! its fields: `server = ["command", …]` would set `server.command` without naming it. Everything that strangers may
//! have written is read through here: specifications, workloads, messages of agents, records.
//!
//! It wraps a format's own reader, so that places and messages of errors are those of the format.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// Reads JSON, up to the end.
///
/// # Errors
/// If it is not JSON, or does not match `T`.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let read = T::deserialize(Strict(&mut from))?;
    from.end()?;
    Ok(read)
}

/// Reads a tree of JSON values.
///
/// # Errors
/// If the value does not match `T`.
pub fn tree<T: DeserializeOwned>(value: &serde_json::Value) -> serde_json::Result<T> {
    T::deserialize(Strict(value))
}

/// Checks that no table of a JSON text has two entries of one name: readers differ in which of them they take.
///
/// # Errors
/// If one has, or the text is not JSON.
pub fn unique(bytes: &[u8]) -> serde_json::Result<()> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    Unique::deserialize(&mut from)?;
    from.end()
}

/// Any value without two entries of one name.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unique, D::Error> {
        from.deserialize_any(Unique)
    }
}

macro_rules! pass {
    ($($method:ident($($kind:ty)?))*) => {
        $(fn $method<E: Error>(self $(, _: $kind)?) -> Result<Unique, E> {
            Ok(Unique)
        })*
    };
}

impl<'de> Visitor<'de> for Unique {
    type Value = Unique;

    pass! { visit_unit() visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unique, A::Error> {
        while list.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Unique, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = table.next_key::<String>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("two entries are named {name:?}")));
            }
            names.insert(name);
            table.next_value::<Unique>()?;
        }
        Ok(Unique)
    }
}

/// A reader that accepts only tables as structs.
#[derive(Debug)]
pub struct Strict<D>(pub D);

macro_rules! forward {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        })*
    };
}

macro_rules! guard {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Guarded::<V, false>(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    guard! { deserialize_any deserialize_option deserialize_seq deserialize_map }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Guarded::<V, false>(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, Guarded::<V, false>(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, length, Guarded::<V, false>(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Guarded::<V, true>(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Guarded::<V, false>(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// A visitor that rejects lists for a struct (`STRUCT`).
struct Guarded<V, const STRUCT: bool>(V);

macro_rules! visit {
    ($($method:ident($kind:ty))*) => {
        $(fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>, const STRUCT: bool> Visitor<'de> for Guarded<V, STRUCT> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64) visit_char(char)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8])
        visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(from))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(from))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        match STRUCT {
            true => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
            false => self.0.visit_seq(Strict(list)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(table))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, choice: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Strict(choice))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(from))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(seed).map(|(value, variant)| (value, Strict(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Guarded::<V, false>(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Guarded::<V, true>(visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Part {
        first: String,
        second: Option<Box<Part>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Choice {
        Unit,
        One(Part),
        Two(u8, Part),
        Named { first: String, part: Part },
    }

    #[test]
    fn a_struct_is_a_table_everywhere() {
        for (table, list) in [
            (r#"{"first":"a"}"#, r#"["a"]"#),
            (r#"{"second":{"first":"a"}}"#, r#"{"second":["a"]}"#),
            (r#"{"second":{"second":{}}}"#, r#"{"second":{"second":[]}}"#),
        ] {
            assert!(json::<Part>(table.as_bytes()).is_ok(), "{table}");
            assert!(serde_json::from_str::<Part>(list).is_ok(), "serde alone takes it: {list}");
            let error = json::<Part>(list.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("invalid type: sequence, expected struct Part at line 1"), "{error}");
        }
        for list in [r#"[{}, ["a"]]"#, r#"[["a"]]"#] {
            assert!(json::<Vec<Part>>(list.as_bytes()).is_err(), "{list}");
        }
        assert!(json::<BTreeMap<String, Part>>(br#"{"a":{},"b":[]}"#).is_err());
        assert!(json::<(u8, Part)>(br#"[1,{}]"#).is_ok() && json::<(u8, Part)>(br#"[1,[]]"#).is_err());
        for (right, wrong) in [
            (r#"{"One":{"first":"a"}}"#, r#"{"One":["a"]}"#),
            (r#"{"Two":[1,{}]}"#, r#"{"Two":[1,[]]}"#),
            (r#"{"Named":{"first":"a","part":{}}}"#, r#"{"Named":["a",{}]}"#),
            (r#"{"Named":{"first":"a","part":{}}}"#, r#"{"Named":{"first":"a","part":[]}}"#),
        ] {
            assert!(json::<Choice>(right.as_bytes()).is_ok(), "{right}");
            assert!(serde_json::from_str::<Choice>(wrong).is_ok(), "serde alone takes it: {wrong}");
            assert!(json::<Choice>(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(json::<Choice>(br#""Unit""#).unwrap(), Choice::Unit);
    }

    #[test]
    fn trailing_content_is_refused() {
        assert!(json::<Part>(b"{} ").is_ok());
        assert!(json::<Part>(b"{} {}").is_err());
        assert!(json::<Part>(b"").is_err());
    }

    #[test]
    fn a_name_is_taken_once_in_a_table() {
        for right in [r#"{"a":1,"b":{"a":[{"a":null},{"a":-1.5}]}}"#, "[]", "true", r#""a""#] {
            assert!(unique(right.as_bytes()).is_ok(), "{right}");
        }
        for wrong in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"b":2,"a":{}}}]"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(json::<serde_json::Value>(wrong.as_bytes()).is_ok(), "serde alone takes it: {wrong}");
            let error = unique(wrong.as_bytes()).unwrap_err();
            assert!(
                error.is_data() && error.to_string().starts_with("two entries are named \"a\""),
                "{error}"
            );
        }
        for wrong in ["", "{} {}", "{"] {
            assert!(!unique(wrong.as_bytes()).unwrap_err().is_data(), "{wrong}");
        }
    }

    #[test]
    fn toml_is_read_the_same_way() {
        let read = |text: &str| Part::deserialize(Strict(toml::Deserializer::parse(text).unwrap()));
        assert!(read("second = { first = 'a' }").is_ok());
        let error = read("first = 'b'\nsecond = ['a']").unwrap_err();
        assert_eq!(error.span(), Some(21..26), "{error}");
    }
}
