//! Which objects of a kind have been said to exist.

use std::collections::BTreeSet;

use causeway_record::{Event, Watched};
use kube::Resource;

/// Which objects have been said to exist.
pub(super) struct Seen<K> {
    known: BTreeSet<K>,
    /// What a list that is under way has named.
    listed: Option<BTreeSet<K>>,
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), listed: None }
    }
}

impl<K: Clone + Ord> Seen<K> {
    /// A list begins. What an earlier one named that never came to its end counts no more.
    pub(super) fn begin(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    pub(super) fn applied<T: Watched<Key = K>>(&mut self, object: T::Object) -> Option<Event<T, K>> {
        let Some(key) = T::key(&object) else {
            tracing::warn!(kind = T::KIND, name = ?object.meta().name, "an object has a name that cannot be");
            return None;
        };
        self.known.insert(key.clone());
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        Some(Event::Applied(T::trim(object, key)))
    }

    pub(super) fn deleted<T: Watched<Key = K>>(&mut self, object: &T::Object) -> Option<Event<T, K>> {
        let key = T::key(object).filter(|key| self.known.remove(key));
        if let (Some(key), Some(listed)) = (&key, &mut self.listed) {
            listed.remove(key);
        }
        key.map(Event::Deleted)
    }

    /// A list is complete. Only that tells what is gone.
    pub(super) fn complete<T: Watched<Key = K>>(&mut self) -> Vec<Event<T, K>> {
        let listed = self.listed.take().unwrap_or_default();
        let gone: Vec<K> = self.known.difference(&listed).cloned().collect();
        self.known = listed;
        gone.into_iter().map(Event::Deleted).chain([Event::Synced]).collect()
    }
}

#[cfg(test)]
mod tests {
    use causeway_record::Namespace;
    use serde_json::json;

    use super::*;

    type Object = <Namespace as Watched>::Object;

    fn object(name: &str) -> Object {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    }

    fn text(event: &Event<Namespace, <Namespace as Watched>::Key>) -> String {
        match event {
            Event::Applied(namespace) => format!("+{}", namespace.name),
            Event::Deleted(name) => format!("-{name}"),
            Event::Synced => "synced".to_owned(),
            Event::Unsynced(broken) => broken.message.clone(),
        }
    }

    fn list(seen: &mut Seen<<Namespace as Watched>::Key>, names: &[&str]) -> Vec<String> {
        seen.begin();
        let said = names.iter().filter_map(|name| seen.applied::<Namespace>(object(name)));
        said.map(|event| text(&event)).collect()
    }

    fn complete(seen: &mut Seen<<Namespace as Watched>::Key>) -> Vec<String> {
        seen.complete::<Namespace>().iter().map(text).collect()
    }

    #[test]
    fn only_a_complete_list_tells_what_is_gone() {
        let mut seen = Seen::default();
        let mut said = list(&mut seen, &["a", "b"]);
        said.extend(complete(&mut seen));
        said.extend(list(&mut seen, &["a"]));
        said.extend(list(&mut seen, &["b", "c"]));
        said.extend(complete(&mut seen));
        let gone = ["c", "never-seen"].map(|name| seen.deleted::<Namespace>(&object(name)));
        said.extend(gone.iter().flatten().map(text));
        assert_eq!(said, ["+a", "+b", "synced", "+a", "+b", "+c", "-a", "synced", "-c"]);
    }
}
