//! What a typed value sees of lists, mappings and alternatives.

use serde::de::{
    self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::super::mistake::{Faults, Mistake};
use super::super::tree::{Entry, Position, Tree, Value};
use super::Reader;

pub(super) struct Items<'a> {
    pub items: std::slice::Iter<'a, Tree>,
    pub faults: &'a Faults,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let faults = self.faults;
        let Some(tree) = self.items.find(|tree| !faults.is_left_out(tree)) else { return Ok(None) };
        seed.deserialize(Reader::new(tree, faults)).map(Some).map_err(|e| faults.leave_out(tree, e, tree.at))
    }
}

pub(super) struct Entries<'a> {
    pub rest: std::slice::Iter<'a, Entry>,
    pub without: &'a str,
    pub value: Option<&'a Tree>,
    pub faults: &'a Faults,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let (faults, without) = (self.faults, self.without);
        let next = self.rest.find(|entry| entry.key != without && !faults.is_left_out(&entry.value));
        let Some(entry) = next else { return Ok(None) };
        self.value = Some(&entry.value);
        seed.deserialize(entry.key.as_str().into_deserializer())
            .map(Some)
            .map_err(|e: Mistake| faults.leave_out(&entry.value, e, entry.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some(tree) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(Reader::new(tree, self.faults)).map_err(|e| self.faults.leave_out(tree, e, tree.at))
    }
}

pub(super) struct Choice<'a> {
    pub key: &'a Tree,
    pub at: Position,
    pub value: Option<&'a Tree>,
    pub faults: &'a Faults,
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let variant = seed.deserialize(Reader::new(self.key, self.faults)).map_err(|e| e.at(self.at))?;
        Ok((variant, self))
    }
}

impl<'a> Choice<'a> {
    fn settings(&self) -> Result<Reader<'a>, Mistake> {
        self.value.map(|tree| Reader::new(tree, self.faults)).ok_or_else(|| {
            let word = self.key.text().unwrap_or_default();
            Mistake::new(format!("`{word}` needs settings")).help(format!("write {word}: {{…}}")).at(self.at)
        })
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        match self.value {
            None => Ok(()),
            Some(tree) if tree.value == Value::Null => Ok(()),
            Some(tree) => Err(Reader::new(tree, self.faults).mismatch("nothing")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        seed.deserialize(self.settings()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        de::Deserializer::deserialize_seq(self.settings()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.settings()?.visit_entries(visitor)
    }
}
