//! Places of nodes: another address, another name, and a node that was away.

use std::collections::BTreeSet;

use causeway_sandbox::harness::Sandbox;
use causeway_tests::{lost_during, wait_reach};
use serde_json::{Value, json};

use super::wait_said;

/// What is settled of a node's claim.
fn record(sandbox: &Sandbox, node: &str) -> causeway_sandbox::Result<Value> {
    let object = sandbox.get(&["node", node])?;
    let text = object["metadata"]["annotations"]["k8s.ovn.org/node-chassis-record"].as_str();
    Ok(text.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default())
}

/// The tunnel addresses that a node's zone knows, its own included.
fn tunnels(sandbox: &Sandbox, node: &str) -> causeway_sandbox::Result<BTreeSet<String>> {
    let words = ["ovn-sbctl", "--no-leader-only", "--bare", "--columns=ip", "list", "encap"];
    Ok(sandbox.exec(node, &words)?.split_whitespace().map(str::to_owned).collect())
}

fn wait_tunnels(sandbox: &Sandbox, node: &str, wanted: &[&str]) {
    let all: BTreeSet<String> = wanted.iter().map(|address| (*address).to_owned()).collect();
    let known = || Ok((tunnels(sandbox, node)? == all).then_some(()));
    sandbox.wait_for(&format!("{node} to know the tunnels {wanted:?}"), known).unwrap();
}

/// The node's administrator moves its tunnels: the record, the other zones, their shields and the packets follow by themselves, and
/// those of others never stop. And back.
pub(crate) fn a_node_gets_another_address(sandbox: &Sandbox) {
    let (old, new) = ("172.30.0.13", "172.30.0.113");
    let lost = lost_during(sandbox, "lan/a", "lan/b", || {
        for (address, other) in [(new, old), (old, new)] {
            sandbox
                .exec("n3", &["ip", "address", "replace", &format!("{address}/24"), "dev", "br-ex"])
                .unwrap();
            let setting = format!("external_ids:ovn-encap-ip={address}");
            sandbox.exec("n3", &["ovs-vsctl", "set", "Open_vSwitch", ".", &setting]).unwrap();
            let settled = || Ok((record(sandbox, "n3")?["encap-ips"] == json!([address])).then_some(()));
            sandbox.wait_for(&format!("n3 to be at {address}"), settled).unwrap();
            for node in ["n1", "n2"] {
                wait_tunnels(sandbox, node, &["172.30.0.11", "172.30.0.12", address]);
                let shield = || {
                    let text = sandbox.exec(node, &["nft", "list", "table", "inet", "causeway-tunnels"])?;
                    let words: Vec<&str> = text.split([' ', ',', '\n']).collect();
                    Ok((words.contains(&address) && !words.contains(&other)).then_some(()))
                };
                sandbox.wait_for(&format!("the shield of {node} to hear {address}"), shield).unwrap();
            }
            wait_reach(sandbox, "lan/a", "lan/c");
            wait_reach(sandbox, "lan/b", "lan/c");
        }
    });
    sandbox.exec("n3", &["ip", "address", "del", &format!("{new}/24"), "dev", "br-ex"]).unwrap();
    assert_eq!(lost, 0, "packets of others lost");
}

/// A machine was installed again as n4, and the Node of its former name is still there: its address stays with that one until
/// somebody deletes it, which the new one is told.
pub(crate) fn a_machine_gets_another_name(sandbox: &'static Sandbox) {
    let address = "172.30.0.14";
    sandbox.apply(r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "former"}, "spec": {"unschedulable": true}}"#).unwrap();
    let claim = json!({"metadata": {"annotations": {
        "k8s.ovn.org/node-chassis-id": "former",
        "k8s.ovn.org/node-encap-ips": json!([address]).to_string(),
    }}});
    let who = ["--as=causeway-node:former", "--as-group=causeway:nodes", "--as-group=system:authenticated"];
    let patch = format!("--patch={claim}");
    sandbox
        .kubectl(&[&who[..], &["patch", "node", "former", "--subresource=status", &patch]].concat())
        .unwrap();
    let settled = || Ok((record(sandbox, "former")?["encap-ips"] == json!([address])).then_some(()));
    sandbox.wait_for("the former Node to have its place", settled).unwrap();

    let adding = std::thread::spawn(move || sandbox.add_node().unwrap());
    let refused = || {
        let refused = record(sandbox, "n4")?["refused"].to_string();
        Ok(refused.contains("if former was installed again as n4, delete the Node former").then_some(refused))
    };
    println!("{}", sandbox.wait_for("n4 to be refused the address", refused).unwrap());
    wait_said(sandbox, "default", "n4", "delete the Node former");
    assert_eq!(record(sandbox, "n4").unwrap()["encap-ips"], Value::Null);

    sandbox.kubectl(&["delete", "node", "former"]).unwrap();
    let settled = || Ok((record(sandbox, "n4")?["encap-ips"] == json!([address])).then_some(()));
    sandbox.wait_for("n4 to have its place", settled).unwrap();
    assert_eq!(adding.join().unwrap(), "n4");
    sandbox.start_pods(&[("lan/d", "n4")]).unwrap();
    wait_reach(sandbox, "lan/a", "lan/d");
    sandbox.kubectl(&["delete", "pod", "-n", "lan", "d", "--force"]).unwrap();
    sandbox.remove_node("n4").unwrap();
    wait_tunnels(sandbox, "n1", &["172.30.0.11", "172.30.0.12", "172.30.0.13"]);
}

/// A node that neither hears of the API server nor is heard of, while its tunnels go on: the worst there is.
pub(crate) struct Away {
    sandbox: &'static Sandbox,
    node: &'static str,
    address: String,
}

/// What is recorded of freed numbers.
fn freed(sandbox: &Sandbox) -> causeway_sandbox::Result<Value> {
    let map = sandbox.get(&["configmap", "-n", "causeway", "causeway-freed-numbers"])?;
    let text = map["data"]["reuse"].as_str().unwrap_or("{}");
    Ok(serde_json::from_str(text).unwrap())
}

/// Freed network ids that rest.
fn resting(freed: &Value) -> usize {
    freed["networkIds"]["quarantined"].as_object().map_or(0, serde_json::Map::len)
}

impl Away {
    pub(crate) fn begin(sandbox: &'static Sandbox, node: &'static str) -> Away {
        // It holds something for good, and whichever node came last does, too: that keeps no number from being free again.
        let holds = || {
            let failures = |node: &str| -> causeway_sandbox::Result<String> {
                Ok(sandbox.get(&["zonereport", node])?["spec"]["failures"].to_string())
            };
            let all: Vec<String> = ["n1", "n2", "n3"].map(failures).into_iter().collect::<Result<_, _>>()?;
            // No zone reports this one: the cluster manager says it, once.
            let (_, wire) = causeway_tests::condition(sandbox, &["cudn", "wire"], "NetworkReady");
            let own = wire.contains("not rendered by this version");
            let cramped = all.iter().any(|text| text.contains("cluster_udn_cramped"));
            Ok((own && cramped).then_some(all))
        };
        println!("{:?}", sandbox.wait_for("networks that nodes cannot have", holds).unwrap());
        let address = sandbox.pod("lan/c").addresses().unwrap().remove(0);
        for unit in ["kubelet", "causeway"] {
            sandbox.signal(&format!("{node}/{unit}"), "STOP").unwrap();
        }
        super::delete(sandbox, &["namespace", "brief"]);
        let rests = || Ok((resting(&freed(sandbox)?) > 0).then_some(()));
        sandbox.wait_for("the numbers of a deleted network to rest", rests).unwrap();
        let away = Away { sandbox, node, address };
        assert!(away.answers(), "tunnels go on without the role");
        away
    }

    /// Whether its pod answers another node's.
    fn answers(&self) -> bool {
        self.sandbox.pod("lan/a").exec(&["ping", "-c3", "-i0.2", "-W1", &self.address]).is_ok()
    }

    fn is_fenced(&self, freed: &Value) -> bool {
        freed["away"][self.node].is_u64()
    }

    /// It is given up, and fenced: others take its chassis out, and then numbers wait for it no longer. When it is back and has
    /// cleared them, it is heard again.
    pub(crate) fn end(self) {
        let sandbox = self.sandbox;
        let fenced = || Ok(self.is_fenced(&freed(sandbox)?).then_some(()));
        sandbox.wait_for("the node to be fenced", fenced).unwrap();
        for node in ["n1", "n2"] {
            wait_tunnels(sandbox, node, &["172.30.0.11", "172.30.0.12"]);
        }
        let free = || {
            let freed = freed(sandbox)?;
            Ok((resting(&freed) == 0).then_some(freed))
        };
        let free = sandbox.wait_for("freed numbers to be free", free).unwrap();
        assert!(self.is_fenced(&free), "{free}");
        assert!(!self.answers(), "its packets are heard");
        wait_reach(sandbox, "lan/a", "lan/b");

        for unit in ["causeway", "kubelet"] {
            sandbox.signal(&format!("{}/{unit}", self.node), "CONT").unwrap();
        }
        let lifted = || Ok((!self.is_fenced(&freed(sandbox)?)).then_some(()));
        sandbox.wait_for("the node to be listened to again", lifted).unwrap();
        wait_tunnels(sandbox, "n1", &["172.30.0.11", "172.30.0.12", "172.30.0.13"]);
        wait_reach(sandbox, "lan/a", "lan/c");
        let rows = sandbox.exec(self.node, &["ovn-nbctl", "--no-leader-only", "ls-list"]).unwrap();
        assert!(!rows.contains("brief"), "the network is gone there, too: {rows}");
    }
}
