//! What all objects have: names, ages, labels. And namespaces, of which nothing else is kept.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use causeway_api::annotations::keys;
use causeway_types::NamespaceName;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{ApiResource, Object};
use serde::{Deserialize, Serialize};

use crate::Watched;

/// Texts by key: labels or annotations.
pub type Texts = BTreeMap<String, String>;

/// Nothing is read of this part of the object.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Unread {}

/// `namespace/name` of an object in a namespace.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ObjectKey {
    /// `metadata.namespace` of the object.
    pub namespace: NamespaceName,
    /// `metadata.name` of the object.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) =
            text.split_once('/').ok_or_else(|| format!("{text:?} is not namespace/name"))?;
        let namespace = NamespaceName::new(namespace).map_err(|error| error.to_string())?;
        Ok(Self { namespace, name: name.to_owned() })
    }
}

/// What roles look at of a Kubernetes Namespace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Namespace {
    /// What it is called.
    pub name: NamespaceName,
    /// All its labels: selectors look at any of them.
    pub labels: Texts,
    /// Whether it is going.
    pub deleting: bool,
    /// What of its policies is logged.
    #[serde(default, skip_serializing_if = "Logging::is_off")]
    pub logging: Logging,
}

/// Which decisions of policies are logged, and how loud.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Logging {
    /// What is let through.
    #[serde(default)]
    pub allow: Option<Severity>,
    /// What is dropped.
    #[serde(default)]
    pub deny: Option<Severity>,
    /// What is passed on to later policies; cluster-scoped policies alone do that.
    #[serde(default)]
    pub pass: Option<Severity>,
}

/// How loud a log line is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    #[allow(missing_docs, reason = "the words of OVN and of syslog")]
    Alert,
    #[allow(missing_docs, reason = "the words of OVN and of syslog")]
    Warning,
    #[allow(missing_docs, reason = "the words of OVN and of syslog")]
    Notice,
    #[allow(missing_docs, reason = "the words of OVN and of syslog")]
    Info,
    #[allow(missing_docs, reason = "the words of OVN and of syslog")]
    Debug,
}

impl Severity {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "alert" => Self::Alert,
            "warning" => Self::Warning,
            "notice" => Self::Notice,
            "info" => Self::Info,
            "debug" => Self::Debug,
            _ => return None,
        })
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl Logging {
    /// Whether nothing is logged.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the annotation. A text that cannot be read logs nothing, and neither does a word that is no severity.
    pub(crate) fn read(annotations: Option<&Texts>) -> Self {
        let text = annotations.and_then(|all| all.get(keys::ACL_LOGGING));
        let words: Option<Texts> = text.and_then(|text| serde_json::from_str(text).ok());
        let severity = |word: &str| words.as_ref()?.get(word).and_then(|text| Severity::read(text));
        Self { allow: severity("allow"), deny: severity("deny"), pass: severity("pass") }
    }
}

/// When the object was created, in seconds since 1970.
pub(crate) fn created(meta: &ObjectMeta) -> i64 {
    meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

pub(crate) fn uid(meta: &ObjectMeta) -> String {
    meta.uid.clone().unwrap_or_default()
}

pub(crate) fn object_key(meta: &ObjectMeta) -> Option<ObjectKey> {
    let namespace = NamespaceName::new(meta.namespace.clone()?).ok()?;
    Some(ObjectKey { namespace, name: meta.name.clone()? })
}

/// The texts with these keys.
pub(crate) fn only(texts: Option<Texts>, keys: &[&str]) -> Texts {
    texts.unwrap_or_default().into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect()
}

impl Watched for Namespace {
    type Object = Object<Option<Unread>, Unread>;
    type Key = NamespaceName;
    const KIND: &'static str = "namespaces";

    fn kind() -> ApiResource {
        ApiResource::erase::<core::Namespace>(&())
    }

    fn key(object: &Self::Object) -> Option<NamespaceName> {
        NamespaceName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: NamespaceName) -> Self {
        let deleting = object.metadata.deletion_timestamp.is_some();
        let logging = Logging::read(object.metadata.annotations.as_ref());
        Self { name, labels: object.metadata.labels.unwrap_or_default(), deleting, logging }
    }
}

/// An object as the API server has it, trimmed as a watch does.
#[cfg(test)]
pub(crate) fn trimmed<T: Watched>(value: serde_json::Value) -> T {
    let object: T::Object = serde_json::from_value(value).unwrap();
    let key = T::key(&object).unwrap();
    T::trim(object, key)
}

/// The record, written down and read again.
#[cfg(test)]
pub(crate) fn replayed<T: Serialize + serde::de::DeserializeOwned>(record: &T) -> T {
    serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap()
}
