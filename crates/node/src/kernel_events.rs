//! What the kernel tells of changes, as a child that is owned: if it cannot listen any more it is started again, and the log, a metric
//! and `/readyz` say why.

use std::sync::Arc;

use causeway_host::{Error, Mark, follow_addresses, follow_kernel};
use causeway_runtime::Tasks;
use tokio::sync::{oneshot, watch};

/// Says whether to go on.
type Tell = Box<dyn FnMut() -> bool + Send>;
/// Takes the reason why nobody listens any more.
type Ended = Box<dyn FnOnce(Error) + Send>;

/// Changes with every event of the kernel that may concern a plan.
pub(crate) fn kernel_events(tasks: &mut Tasks, mark: Mark) -> watch::Receiver<u64> {
    events(tasks, "events of the kernel", move |tell, ended| follow_kernel(mark, tell, ended))
}

/// Changes when somebody may have given a device an IPv4 address, or taken one away.
pub(crate) fn address_events(tasks: &mut Tasks, device: &str, mark: Mark) -> watch::Receiver<u64> {
    let device = device.to_owned();
    events(tasks, "events of addresses", move |tell, ended| follow_addresses(&device, mark, tell, ended))
}

fn events(
    tasks: &mut Tasks,
    name: &str,
    follow: impl Fn(Tell, Ended) -> Result<(), Error> + Clone + Send + 'static,
) -> watch::Receiver<u64> {
    let (told, receiver) = watch::channel(0);
    tasks.keep(name, move || listen(told.clone(), follow.clone()));
    receiver
}

/// Listens until that ends, and says why.
async fn listen(told: watch::Sender<u64>, follow: impl Fn(Tell, Ended) -> Result<(), Error>) -> String {
    let (ended, end) = oneshot::channel();
    let here = Arc::new(());
    let (count, listener) = (told.clone(), Arc::downgrade(&here));
    let tell = move || {
        count.send_modify(|count| *count += 1);
        listener.strong_count() > 0
    };
    let say = |error: Error| drop(ended.send(error.to_string()));
    if let Err(error) = follow(Box::new(tell), Box::new(say)) {
        return error.to_string();
    }
    // Nobody has told of what happened before.
    told.send_modify(|count| *count += 1);
    let reason = end.await.unwrap_or_else(|_| "it panicked".to_owned());
    drop(here);
    reason
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_runtime::Health;
    use prometheus_client::registry::Registry;
    use std::io;
    use std::sync::Mutex;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_ends_is_started_again_and_says_why() {
        let health = Health::waiting("starting");
        health.set(Ok(()));
        let mut registry = Registry::default();
        let mut tasks = Tasks::new(&health, &mut registry);
        let listeners: Arc<Mutex<Vec<(Tell, Ended)>>> = Arc::default();
        let all = Arc::clone(&listeners);
        let mut events = events(&mut tasks, "events of the kernel", move |tell, ended| {
            all.lock().unwrap().push((tell, ended));
            Ok(())
        });
        events.changed().await.unwrap();
        assert_eq!(health.get(), Ok(()));
        let (mut tell, ended) = listeners.lock().unwrap().pop().unwrap();
        assert!(tell());
        events.changed().await.unwrap();
        let source = io::Error::other("the socket is gone");
        ended(Error::Refused { doing: "listening to the kernel".into(), source });
        // The next one listens, and what happened in between is looked for.
        events.changed().await.unwrap();
        let why = "events of the kernel was started again: listening to the kernel: the socket is gone";
        assert_eq!(health.get(), Err(why.into()));
        assert!(!tell(), "the old one is not asked any more");
        events.borrow_and_update();

        // One that panics drops what it has without a word.
        listeners.lock().unwrap().clear();
        events.changed().await.unwrap();
        assert_eq!(health.get(), Err("events of the kernel was started again: it panicked".into()));
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(health.get(), Ok(()));
    }
}
