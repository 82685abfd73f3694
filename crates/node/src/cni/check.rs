//! CHECK: whether a pod is connected as ADD left it.

use super::attachment::Wanted;
use super::server::Desk;
use super::wanted::{Subject, Verdict, decide};
use causeway_cni::{ErrorCode, ErrorObject, Invocation};
use std::path::PathBuf;

impl Desk {
    pub(super) async fn check(&self, call: &Invocation) -> Result<(), ErrorObject> {
        self.status().map_err(|error| ErrorObject { code: ErrorCode::TryAgainLater, ..error })?;
        let subject = Subject::new(call)?;
        let interfaces = match decide(&subject, self.pods.get(&subject.key).as_deref()) {
            Verdict::Connect(interfaces) => interfaces,
            Verdict::Wait(missing) => return Err(missing.error(&subject)),
            Verdict::Refuse(error) => return Err(error),
        };
        let mut problems = self.check_links(&interfaces, call.netns.clone().into()).await?;
        problems.extend(self.check_ports(&interfaces).await?);
        if problems.is_empty() {
            return Ok(());
        }
        let msg = format!("pod {} is not connected as it was: {}", subject.key, problems.join("; "));
        Err(ErrorObject::new(ErrorCode::NotAsAdded, msg).advise("delete the pod: it is connected anew"))
    }

    async fn check_links(&self, interfaces: &[Wanted], netns: PathBuf) -> Result<Vec<String>, ErrorObject> {
        let links: Vec<_> = interfaces.iter().map(|wanted| wanted.link.clone()).collect();
        self.kernel(move |host| {
            let mut problems = Vec::new();
            let ends: Vec<String> = links.iter().map(|link| link.host_name.clone()).collect();
            let present = host.present(&ends)?;
            problems.extend(
                ends.iter().filter(|end| !present.contains(*end)).map(|end| format!("{end} is gone")),
            );
            for link in &links {
                let name = &link.name;
                match host.inspect(&netns, name)? {
                    None => problems.push(format!("{name} is gone")),
                    Some(state) => {
                        problems.extend(
                            state.differences(link).iter().map(|problem| format!("{name}: {problem}")),
                        );
                    }
                }
            }
            Ok(problems)
        })
        .await
    }

    async fn check_ports(&self, interfaces: &[Wanted]) -> Result<Vec<String>, ErrorObject> {
        let ports = self.switch(self.ovs.pod_ports()).await?;
        let problem = |wanted: &Wanted| {
            let want = &wanted.port;
            let Some(port) = ports.iter().find(|port| port.name == want.name) else {
                return Some(format!("Open vSwitch has no port {}", want.name));
            };
            if (&port.iface_id, &port.sandbox, &port.uid) != (&want.iface_id, &want.sandbox, &want.uid) {
                return Some(format!("the Open vSwitch port {} is that of {}", port.name, port.iface_id));
            }
            (!port.installed)
                .then(|| format!("ovn-controller has not connected logical port {}", port.iface_id))
        };
        Ok(interfaces.iter().filter_map(problem).collect())
    }
}
