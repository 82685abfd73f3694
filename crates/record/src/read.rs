//! Annotations as values: nothing, what they say, or what is wrong with their text.

use causeway_api::annotations::Annotation;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an annotation says: nothing if it is not there, a value, or a sentence about a text that cannot be read.
pub type Read<T> = Result<Option<T>, String>;

/// Reads the text of an annotation, if there is one.
pub(crate) fn read<A: Annotation>(text: Option<&str>) -> Read<A> {
    text.map(A::parse).transpose().map_err(|error| error.to_string())
}

/// How a [`Read`] is written down: a value as the text of its annotation.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Unreadable { unreadable: String },
}

pub(crate) fn serialize<A: Annotation, S: Serializer>(read: &Read<A>, to: S) -> Result<S::Ok, S::Error> {
    let written = match read {
        Ok(None) => None,
        Ok(Some(value)) => Some(Written::Text(value.text())),
        Err(problem) => Some(Written::Unreadable { unreadable: problem.clone() }),
    };
    written.serialize(to)
}

pub(crate) fn deserialize<'de, A: Annotation, D: Deserializer<'de>>(from: D) -> Result<Read<A>, D::Error> {
    Ok(match Option::<Written>::deserialize(from)? {
        None => Ok(None),
        Some(Written::Text(text)) => read(Some(&text)),
        Some(Written::Unreadable { unreadable }) => Err(unreadable),
    })
}
