//! Watches: one stream for each kind, of records that are trimmed as they are decoded.
//!
//! Owns which objects were seen, as keys, to find out after a relist which of them are gone. Keeps no object. An
//! error, a refusal or a kind that is not installed is never an empty list: it is [`Event::Unsynced`], and the watch
//! tries again.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_record::{Event, NOT_INSTALLED, Watched};
use futures::StreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;

/// How a watch begins, and begins again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lists {
    /// With pages of the most recent state: for whoever writes what nobody else may write.
    #[default]
    Latest,
    /// With a stream from the API server's memory, where it has that: cheaper, perhaps a moment old.
    Streamed,
}

/// Which objects are watched, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// How the watch begins.
    pub lists: Lists,
    /// Only objects with these fields, as `kubectl --field-selector` has it.
    pub fields: Option<String>,
}

impl Selection {
    fn config(&self, lists: Lists) -> watcher::Config {
        let config = match lists {
            Lists::Latest => watcher::Config::default(),
            Lists::Streamed => watcher::Config::default().streaming_lists(),
        };
        self.fields.iter().fold(config, |config, fields| config.fields(fields))
    }
}

/// The first pause after an error; it doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(15);

/// All objects of a kind, in all namespaces.
pub fn everywhere<T: Watched>(client: &Client) -> Api<T::Object> {
    Api::all_with(client.clone(), &T::kind())
}

/// Watches objects of a kind until nobody listens any more.
pub async fn watch<T: Watched, M: Send + 'static>(
    api: Api<T::Object>,
    selection: Selection,
    sender: mpsc::Sender<M>,
    wrap: impl Fn(Event<T, T::Key>) -> M + Send + 'static,
) {
    let mut lists = selection.lists;
    let mut seen = Seen::new();
    let mut pause = FIRST_PAUSE;
    loop {
        let mut stream = std::pin::pin!(watcher(api.clone(), selection.config(lists)));
        while let Some(next) = stream.next().await {
            let (events, again) = match next {
                Ok(event) => {
                    pause = FIRST_PAUSE;
                    (seen.take::<T>(event), false)
                }
                Err(error) => {
                    let again = lists == Lists::Streamed && lacks_streams(&error);
                    (vec![Event::Unsynced(problem::<T>(&error))], again)
                }
            };
            let failed = matches!(events[..], [Event::Unsynced(_)]);
            for event in events {
                if sender.send(wrap(event)).await.is_err() {
                    return;
                }
            }
            if again {
                lists = Lists::Latest;
                break;
            }
            if failed {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
}

/// Which objects have been said to exist.
struct Seen<K> {
    known: BTreeSet<K>,
    /// What a list that is under way has named.
    listed: Option<BTreeSet<K>>,
}

impl<K: Clone + Ord> Seen<K> {
    fn new() -> Self {
        Self { known: BTreeSet::new(), listed: None }
    }

    /// Only a list that is complete tells what is gone.
    fn take<T: Watched<Key = K>>(&mut self, event: watcher::Event<T::Object>) -> Vec<Event<T, K>> {
        match event {
            watcher::Event::Init => {
                self.listed = Some(BTreeSet::new());
                Vec::new()
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => self.applied(object),
            watcher::Event::Delete(object) => {
                let known = T::key(&object).filter(|key| self.known.remove(key));
                known.map(Event::Deleted).into_iter().collect()
            }
            watcher::Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: Vec<K> = self.known.difference(&listed).cloned().collect();
                self.known = listed;
                gone.into_iter().map(Event::Deleted).chain([Event::Synced]).collect()
            }
        }
    }

    fn applied<T: Watched<Key = K>>(&mut self, object: T::Object) -> Vec<Event<T, K>> {
        let Some(key) = T::key(&object) else {
            tracing::warn!(kind = T::KIND, name = ?object.meta().name, "an object has a name that cannot be");
            return Vec::new();
        };
        self.known.insert(key.clone());
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        vec![Event::Applied(T::trim(object, key))]
    }
}

/// Older servers refuse a watch that asks for the initial state.
fn lacks_streams(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 400 | 422),
        watcher::Error::WatchError(status) => matches!(status.code, 400 | 422),
        _ => false,
    }
}

/// What is wrong, for people: a kind that is not installed and a right that is missing are named as such.
fn problem<T: Watched>(error: &watcher::Error) -> String {
    use watcher::Error as Watch;
    let status = match error {
        Watch::InitialListFailed(kube::Error::Api(status))
        | Watch::WatchStartFailed(kube::Error::Api(status))
        | Watch::WatchFailed(kube::Error::Api(status))
        | Watch::WatchError(status) => Some(status),
        _ => None,
    };
    match status.map(|status| status.code) {
        Some(404) => {
            format!("{} {NOT_INSTALLED}: apply the custom resource definitions (causeway crds)", T::KIND)
        }
        Some(403) => {
            format!("{} may not be listed: apply the roles (causeway crds --set roles): {error}", T::KIND)
        }
        _ => format!("{}: {error}", T::KIND),
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

    fn texts(events: Vec<Event<Namespace, <Namespace as Watched>::Key>>) -> Vec<String> {
        let text = |event: &Event<Namespace, _>| match event {
            Event::Applied(namespace) => format!("+{}", namespace.name),
            Event::Deleted(name) => format!("-{name}"),
            Event::Synced => "synced".to_owned(),
            Event::Unsynced(problem) => problem.clone(),
        };
        events.iter().map(text).collect()
    }

    #[test]
    fn only_a_complete_list_tells_what_is_gone() {
        use watcher::Event as Raw;
        let mut seen = Seen::new();
        let mut said = Vec::new();
        let first = [Raw::Init, Raw::InitApply(object("a")), Raw::InitApply(object("b")), Raw::InitDone];
        let broken = [Raw::Init, Raw::InitApply(object("a"))];
        let whole = [Raw::Init, Raw::InitApply(object("b")), Raw::InitApply(object("c")), Raw::InitDone];
        let later = [Raw::Delete(object("c")), Raw::Delete(object("never-seen"))];
        for event in first.into_iter().chain(broken).chain(whole).chain(later) {
            said.extend(texts(seen.take::<Namespace>(event)));
        }
        assert_eq!(said, ["+a", "+b", "synced", "+a", "+b", "+c", "-a", "synced", "-c"]);
    }
}
