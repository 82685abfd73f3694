//! ADD: waits for the pod's addresses, lays its cables, makes its ports, and waits until packets can flow.

use super::attachment::{Wanted, result};
use super::server::Desk;
use super::wanted::{Missing, Subject, Verdict, decide};
use causeway_cni::{AddResult, ErrorCode, ErrorObject, Invocation};
use causeway_host::PodInterface;
use std::path::PathBuf;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

/// What ends an ADD before its time.
struct Watch<'a> {
    subject: &'a Subject,
    /// Wakes when something about the pod changed.
    changed: watch::Receiver<()>,
    /// Wakes when a DEL for the same sandbox has come.
    unwanted: watch::Receiver<u32>,
    deadline: Instant,
    /// When a user shall hear what is missing.
    hint: Instant,
}

impl Desk {
    pub(super) async fn add(&self, call: &Invocation) -> Result<AddResult, ErrorObject> {
        self.status().map_err(|error| ErrorObject { code: ErrorCode::TryAgainLater, ..error })?;
        let subject = Subject::new(call)?;
        let turn = self.calls.of(&subject.sandbox);
        let unwanted = turn.unwanted.subscribe();
        let _lock = turn.lock.lock().await;
        let now = Instant::now();
        let mut watch = Watch {
            subject: &subject,
            changed: self.pods.follow(&subject.key),
            unwanted,
            deadline: now + self.config.limit,
            hint: now + self.config.hint_after,
        };
        let interfaces = self.interfaces(&mut watch).await?;
        match self.connect(&mut watch, &interfaces, call.netns.clone().into()).await {
            Ok(()) => {
                self.pods.set_connected([subject.key.clone()]);
                Ok(result(&interfaces, &call.netns))
            }
            Err(error) => {
                // The runtime sends a DEL too, but nobody should meet a half-made pod until then.
                if let Err(error) = self.remove(&subject.sandbox).await {
                    warn!(sandbox = subject.sandbox, %error, "what a failed ADD left could not be removed");
                }
                Err(error)
            }
        }
    }

    /// Waits until it is known what interfaces the pod shall have.
    async fn interfaces(&self, watch: &mut Watch<'_>) -> Result<Vec<Wanted>, ErrorObject> {
        let mut was_there = false;
        loop {
            let missing = match decide(watch.subject, self.pods.get(&watch.subject.key).as_deref()) {
                Verdict::Connect(interfaces) => return Ok(interfaces),
                Verdict::Refuse(error) => return Err(error),
                Verdict::Wait(missing) => missing,
            };
            match &missing {
                Missing::Pod | Missing::OtherPod(_) if was_there => return Err(gone(watch.subject)),
                Missing::Pod | Missing::OtherPod(_) => {}
                _ => was_there = true,
            }
            match watch.next(watch.hint).await {
                Woken::Changed => {}
                Woken::Unwanted => return Err(unwanted(watch.subject)),
                Woken::Late => return Err(missing.error(watch.subject)),
            }
        }
    }

    async fn connect(
        &self,
        watch: &mut Watch<'_>,
        interfaces: &[Wanted],
        netns: PathBuf,
    ) -> Result<(), ErrorObject> {
        let cut = self.ovs.facts().borrow().userspace;
        let links: Vec<_> =
            interfaces.iter().map(|wanted| PodInterface { cut, ..wanted.link.clone() }).collect();
        let fresh = self.kernel(move |host| host.attach(&netns, &links)).await?;
        if !fresh.is_empty() {
            // A port whose cable is another now would count as ready by what was true of the old one.
            self.switch(self.ovs.remove_ports(&watch.subject.sandbox)).await?;
        }
        let ports = interfaces.iter().map(|wanted| wanted.port.clone()).collect();
        self.switch(self.ovs.ensure_ports(ports)).await?;
        self.installed(watch, interfaces).await
    }

    /// Waits until packets can flow, for as long as the pod is the one for which the ports were made.
    async fn installed(&self, watch: &mut Watch<'_>, interfaces: &[Wanted]) -> Result<(), ErrorObject> {
        for wanted in interfaces {
            let port = &wanted.port;
            let flows = self.ovs.wait_installed(&port.name, &port.iface_id);
            tokio::pin!(flows);
            loop {
                let until = watch.deadline;
                tokio::select! {
                    outcome = &mut flows => match outcome {
                        Ok(()) => break,
                        Err(error) => return Err(ErrorObject::new(ErrorCode::NotConnected, error.to_string())),
                    },
                    woken = watch.next(until) => match woken {
                        Woken::Changed => self.still_wanted(watch.subject, interfaces)?,
                        Woken::Unwanted => return Err(unwanted(watch.subject)),
                        Woken::Late => return Err(not_installed(watch.subject, wanted)),
                    },
                }
            }
        }
        Ok(())
    }

    fn still_wanted(&self, subject: &Subject, interfaces: &[Wanted]) -> Result<(), ErrorObject> {
        match decide(subject, self.pods.get(&subject.key).as_deref()) {
            Verdict::Connect(now) if now == interfaces => Ok(()),
            Verdict::Connect(_) => {
                let msg = format!("the addresses of pod {} changed while it was connected", subject.key);
                Err(ErrorObject::new(ErrorCode::TryAgainLater, msg))
            }
            Verdict::Refuse(error) => Err(error),
            Verdict::Wait(Missing::Pod | Missing::OtherPod(_)) => Err(gone(subject)),
            Verdict::Wait(missing) => Err(missing.error(subject)),
        }
    }
}

/// Why a wait ended.
enum Woken {
    Changed,
    Unwanted,
    Late,
}

impl Watch<'_> {
    async fn next(&mut self, until: Instant) -> Woken {
        // A sender that is gone says nothing any more, so only the other two end the wait.
        tokio::select! {
            Ok(()) = self.changed.changed() => Woken::Changed,
            Ok(()) = self.unwanted.changed() => Woken::Unwanted,
            () = tokio::time::sleep_until(until) => Woken::Late,
        }
    }
}

fn gone(subject: &Subject) -> ErrorObject {
    let msg = format!("pod {} was deleted while it was connected", subject.key);
    ErrorObject::new(ErrorCode::NotConnected, msg)
}

fn unwanted(subject: &Subject) -> ErrorObject {
    let msg = format!("pod {} was disconnected while it was connected", subject.key);
    ErrorObject::new(ErrorCode::NotConnected, msg)
}

fn not_installed(subject: &Subject, wanted: &Wanted) -> ErrorObject {
    let (port, link) = (&wanted.port.iface_id, &wanted.link.name);
    let msg = format!("{link} of pod {}: ovn-controller has not connected logical port {port}", subject.key);
    ErrorObject::new(ErrorCode::NotConnected, msg).advise(
        "look whether ovn-controller and ovn-northd run on this node, and whether causeway node reports the network as \
         failed (kubectl get zonereport)",
    )
}
