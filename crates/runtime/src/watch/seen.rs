//! Which objects of a kind have been said to exist.
//!
//! Owns one text for each object of the kind, and nothing more: on a node that is all pods of the cluster.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use causeway_record::{Event, Watched};
use kube::Resource;

/// Which objects have been said to exist, each with the number of the list that named it last.
#[derive(Default)]
pub(super) struct Seen {
    known: BTreeMap<Box<str>, u32>,
    list: u32,
    /// The key that is looked at, as text. Its space is used again, so that what is kept has no more than it needs.
    text: String,
}

impl Seen {
    /// A list begins. What an earlier one named that never came to its end counts no more.
    pub(super) fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    pub(super) fn applied<T: Watched>(&mut self, object: T::Object) -> Option<Event<T, T::Key>> {
        let Some(key) = T::key(&object) else {
            tracing::warn!(kind = T::KIND, name = ?object.meta().name, "an object has a name that cannot be");
            return None;
        };
        self.print(&key);
        match self.known.get_mut(self.text.as_str()) {
            Some(list) => *list = self.list,
            None => drop(self.known.insert(self.text.as_str().into(), self.list)),
        }
        Some(Event::Applied(T::trim(object, key)))
    }

    pub(super) fn deleted<T: Watched>(&mut self, object: &T::Object) -> Option<Event<T, T::Key>> {
        let key = T::key(object)?;
        self.print(&key);
        self.known.remove(self.text.as_str()).map(|_| Event::Deleted(key))
    }

    fn print(&mut self, key: &impl Display) {
        self.text.clear();
        // Writing to a text cannot fail.
        let _written = write!(self.text, "{key}");
    }

    /// A list is complete. Only that tells what is gone.
    pub(super) fn complete<T: Watched>(&mut self) -> Vec<Event<T, T::Key>> {
        let gone = self.known.extract_if(.., |_, list| *list != self.list);
        // Every text was printed from a key, so it reads back.
        let keys = gone.filter_map(|(text, _)| text.parse().ok());
        keys.map(Event::Deleted).chain([Event::Synced]).collect()
    }
}

#[cfg(test)]
mod tests {
    use causeway_record::{Namespace, Pod};
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

    fn list(seen: &mut Seen, names: &[&str]) -> Vec<String> {
        seen.begin();
        let said = names.iter().filter_map(|name| seen.applied::<Namespace>(object(name)));
        said.map(|event| text(&event)).collect()
    }

    fn complete(seen: &mut Seen) -> Vec<String> {
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

    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// Through two lists, so that what a relist needs counts too.
    #[test]
    fn a_pod_costs_less_than_150_bytes() {
        let pods = 200_000;
        let pod = |number: usize| -> <Pod as Watched>::Object {
            let name = format!("web-7d4b9c6f5-{number:06}");
            let meta = json!({"namespace": "tenant-number-7", "name": name});
            serde_json::from_value(json!({"metadata": meta, "spec": {}})).unwrap()
        };
        let before = resident();
        let mut seen = Seen::default();
        for _ in 0..2 {
            seen.begin();
            (0..pods).for_each(|number| drop(seen.applied::<Pod>(pod(number))));
            assert_eq!(seen.complete::<Pod>().len(), 1);
        }
        let each = resident().saturating_sub(before) / pods;
        println!("{each} bytes for each pod");
        // It takes about 100; other tests of this process take some meanwhile.
        assert!(each < 150, "{each} bytes for each pod");
    }
}
