//! One watch: lists, then follows what changes, connects again from where it was.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_record::{Broken, Cause, Event, Watched};
use futures::{Stream, StreamExt as _};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::problem::Stop;
use super::seen::Seen;
use super::{Lists, Selection};
use crate::Health;

/// The first pause after an error; it doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(15);
/// How long a page of a list may take, and the beginning of a stream.
const PAGE_TIME_OUT: Duration = Duration::from_secs(30);
const OPEN_TIME_OUT: Duration = Duration::from_secs(10);
/// API servers send a bookmark each minute, so a connection that is silent for longer is most likely dead.
const SILENCE: Duration = Duration::from_secs(75);
/// After so many seconds the API server ends a stream.
const STREAM_SECONDS: u32 = 290;
/// Objects of one page of a list.
const PAGE: u32 = 500;
/// A bookmark with this annotation ends the list at the beginning of a stream.
const LIST_ENDS: &str = "k8s.io/initial-events-end";

/// Whom a watch tells.
pub(super) struct Sink<T: Watched, M> {
    /// Outlives the task: one that is started again must still find out what is gone.
    pub(super) seen: Arc<Mutex<Seen>>,
    pub(super) sender: mpsc::Sender<M>,
    pub(super) wrap: fn(Event<T, T::Key>) -> M,
}

impl<T: Watched, M> Sink<T, M> {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn say(&self, events: impl IntoIterator<Item = Event<T, T::Key>>) -> Result<(), Stop> {
        for event in events {
            self.sender.send((self.wrap)(event)).await.map_err(|_| Stop::Deserted)?;
        }
        Ok(())
    }
}

/// A watch under way.
pub(super) struct Follow<T: Watched, M> {
    api: Api<T::Object>,
    selection: Selection,
    sink: Sink<T, M>,
    health: Health,
    /// From where the next stream goes on; nothing before everything was listed.
    version: Option<String>,
    /// When the API server was last heard.
    heard: Instant,
    /// Since when it has been silent, if the last stream ended because of that.
    silent: Option<Instant>,
    pause: Duration,
    /// What the log says is wrong.
    said: Option<String>,
}

impl<T: Watched, M: Send + 'static> Follow<T, M>
where
    T::Object: Sync,
{
    pub(super) fn new(api: Api<T::Object>, selection: Selection, sink: Sink<T, M>, health: Health) -> Self {
        Self {
            api,
            selection,
            sink,
            health,
            version: None,
            heard: Instant::now(),
            silent: None,
            pause: FIRST_PAUSE,
            said: None,
        }
    }

    /// Watches until nobody listens any more.
    pub(super) async fn run(mut self) -> String {
        loop {
            let begun = Instant::now();
            let stop = self.turn().await.err();
            if self.heard > begun || begun.elapsed() > LAST_PAUSE {
                self.pause = FIRST_PAUSE;
            }
            if let Some(stop) = stop
                && self.stopped(stop).await.is_err()
            {
                return "nobody listens any more".into();
            }
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LAST_PAUSE);
        }
    }

    async fn stopped(&mut self, stop: Stop) -> Result<(), Stop> {
        match stop {
            Stop::TooOld => self.version = None,
            Stop::Misunderstood(_) if self.selection.lists == Lists::Streamed && self.version.is_none() => {
                self.selection.lists = Lists::Latest;
            }
            Stop::Misunderstood(broken) | Stop::Broken(broken) => {
                self.broken(&broken);
                return self.sink.say([Event::Unsynced(broken)]).await;
            }
            Stop::Deserted => return Err(Stop::Deserted),
        }
        Ok(())
    }

    fn broken(&mut self, broken: &Broken) {
        if self.said.as_ref() != Some(&broken.message) {
            tracing::warn!(reason = broken.message, "a watch is broken; what is known stays as it is");
            self.said = Some(broken.message.clone());
        }
        if self.selection.optional && broken.cause == Cause::NotInstalled {
            self.health.watch_follows(T::KIND);
        } else {
            let since = self.silent.unwrap_or_else(Instant::now);
            self.health.watch_broken(T::KIND, since, &broken.message);
        }
    }

    fn follows(&mut self) {
        self.silent = None;
        self.health.watch_follows(T::KIND);
        if self.said.take().is_some() {
            tracing::info!(kind = T::KIND, "the watch is back");
        }
    }

    /// The list, if there is none yet, and the stream until it ends.
    async fn turn(&mut self) -> Result<(), Stop> {
        if self.version.is_none() && self.selection.lists == Lists::Latest {
            self.list().await?;
        }
        let listing = self.version.is_none();
        if listing {
            self.sink.seen().begin();
        }
        let version = self.version.clone().unwrap_or_else(|| "0".to_owned());
        let params = self.params(listing);
        let opened = timeout(OPEN_TIME_OUT, self.api.watch(&params, &version)).await;
        let stream = opened.map_err(|_| Stop::silence(T::KIND, OPEN_TIME_OUT))?;
        let stream = stream.map_err(|error| Stop::from_error(&error, T::KIND))?;
        if !listing {
            self.follows();
        }
        self.stream(std::pin::pin!(stream), listing).await
    }

    async fn list(&mut self) -> Result<(), Stop> {
        self.sink.seen().begin();
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector.clone_from(&self.selection.fields);
        loop {
            let page = timeout(PAGE_TIME_OUT, self.api.list(&params)).await;
            let page = page.map_err(|_| Stop::silence(T::KIND, PAGE_TIME_OUT))?;
            let page = page.map_err(|error| Stop::from_error(&error, T::KIND))?;
            for object in page.items {
                self.applied(object).await?;
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return self.listed(page.metadata.resource_version.unwrap_or_default()).await;
            }
        }
    }

    fn params(&self, listing: bool) -> WatchParams {
        WatchParams {
            label_selector: None,
            field_selector: self.selection.fields.clone(),
            timeout: Some(STREAM_SECONDS),
            bookmarks: true,
            send_initial_events: listing,
        }
    }

    async fn stream(
        &mut self,
        mut stream: impl Stream<Item = kube::Result<WatchEvent<T::Object>>> + Unpin,
        listing: bool,
    ) -> Result<(), Stop> {
        loop {
            let event = match timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return Err(Stop::from_error(&error, T::KIND)),
                Ok(None) => return Ok(()),
                // A server that sends no bookmarks may have nothing to say; a list has.
                Err(_) if listing && self.version.is_none() => return Err(Stop::silence(T::KIND, SILENCE)),
                Err(_) => {
                    self.silent = Some(Instant::now() - SILENCE);
                    return Ok(());
                }
            };
            self.heard = Instant::now();
            self.health.watch_heard(T::KIND);
            self.take(event).await?;
        }
    }

    async fn take(&mut self, event: WatchEvent<T::Object>) -> Result<(), Stop> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.at(object.meta().resource_version.clone());
                self.applied(object).await
            }
            WatchEvent::Deleted(object) => {
                self.at(object.meta().resource_version.clone());
                let event = self.sink.seen().deleted::<T>(&object);
                self.sink.say(event).await
            }
            WatchEvent::Bookmark(mark) if mark.metadata.annotations.contains_key(LIST_ENDS) => {
                self.listed(mark.metadata.resource_version).await?;
                self.follows();
                Ok(())
            }
            WatchEvent::Bookmark(mark) => {
                self.at(Some(mark.metadata.resource_version));
                Ok(())
            }
            WatchEvent::Error(status) => Err(Stop::from_status(&status, T::KIND)),
        }
    }

    /// Goes on from here, once everything was listed.
    fn at(&mut self, version: Option<String>) {
        if self.version.is_some() && version.is_some() {
            self.version = version;
        }
    }

    async fn applied(&mut self, object: T::Object) -> Result<(), Stop> {
        let event = self.sink.seen().applied::<T>(object);
        self.sink.say(event).await
    }

    async fn listed(&mut self, version: String) -> Result<(), Stop> {
        if version.is_empty() {
            return Err(Stop::other(T::KIND, &"the API server gave a list without a version"));
        }
        self.version = Some(version);
        let events = self.sink.seen().complete::<T>();
        self.sink.say(events).await
    }
}
