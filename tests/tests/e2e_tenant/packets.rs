//! What he sends from inside his pods: other addresses, other MACs, other routes. Nothing forged arrives.

use super::{Mallory, POD_NETWORKS};
use causeway_sandbox::harness::Sandbox;
use serde_json::Value;

/// A pod's addresses and MAC on a network, as the cluster manager gave them.
pub(crate) struct Held {
    pub(crate) v4: String,
    pub(crate) v6: String,
    pub(crate) mac: String,
}

pub(crate) fn held(sandbox: &Sandbox, pod: &str, network: &str) -> Held {
    let object = sandbox.pod(pod).object().unwrap();
    let all: Value =
        serde_json::from_str(object["metadata"]["annotations"][POD_NETWORKS].as_str().unwrap()).unwrap();
    let entry = &all[network];
    let address = |place: usize| {
        let text = entry["ip_addresses"][place].as_str().unwrap();
        text.split('/').next().unwrap().to_owned()
    };
    Held { v4: address(0), v6: address(1), mac: entry["mac_address"].as_str().unwrap().to_owned() }
}

impl Mallory {
    fn shell(&self, pod: &str, script: &str) -> Result<String, String> {
        let (namespace, name) = pod.split_once('/').unwrap();
        self.tries(&["exec", "-n", namespace, name, "--", "sh", "-c", script], "")
    }

    /// Asks addresses at once, by echo and by connection, after a preparation that must succeed and is undone afterwards.
    fn reaches(&self, pod: &str, prepare: &str, undo: &str, source: &str, targets: &[&str]) -> Vec<String> {
        let seconds = if prepare.is_empty() { 3 } else { 1 };
        let asked: String = targets
            .iter()
            .map(|target| {
                format!(
                    "(ping -c2 -i0.3 -W{seconds} -I {source} {target} >/dev/null 2>&1 && echo {target} echo) </dev/null 2>/dev/null &\n\
                     (curl -sg -m{seconds} --interface {source} http://{}:8080/hostname >/dev/null && echo {target} connection) </dev/null 2>/dev/null &\n",
                    if target.contains(':') { format!("[{target}]") } else { (*target).to_owned() },
                )
            })
            .collect();
        let script = format!("set -e\n{prepare}\nset +e\n{asked}wait\n{undo}");
        let said = self.shell(pod, &script).unwrap_or_else(|error| panic!("{pod}: {script}: {error}"));
        println!(
            "{pod}: {prepare:?} from {source} to {targets:?}: {}",
            if said.is_empty() { "nobody answers" } else { &said }
        );
        said.lines().map(str::to_owned).collect()
    }

    fn reaches_nobody(&self, pod: &str, prepare: &str, undo: &str, source: &str, targets: &[&str]) {
        // Who has taken an address hears himself there.
        let others: Vec<&str> = targets.iter().copied().filter(|target| *target != source).collect();
        assert_eq!(self.reaches(pod, prepare, undo, source, &others), [""; 0], "{pod}: {prepare}");
    }
}

/// Neighbour discovery and multicast membership of IPv6. OVN lets them through all ACLs of a switch that tracks
/// connections, so they pass a locked interface; port security still holds them to the pod's own addresses.
const DISCOVERY: &str = "(icmp6 and icmp6[0] >= 133 and icmp6[0] <= 136) or (ip6 and ip6[6] == 0)";

/// A listener in a pod. That nobody answers a forged packet does not say that nobody got it.
struct Ear<'a> {
    sandbox: &'a Sandbox,
    pod: &'static str,
    file: String,
}

impl<'a> Ear<'a> {
    fn open(sandbox: &'a Sandbox, pod: &'static str, device: &str) -> Self {
        let file = format!("/tmp/{device}.pcap");
        let listen = format!("tcpdump --immediate-mode -p -U -Z root -i {device} -w {file}");
        // The file's header says that it listens.
        let script = format!(
            "rm -f {file}; {listen} >/dev/null 2>&1 </dev/null & echo $! >{file}.pid; i=0; \
             until [ -s {file} ]; do i=$((i+1)); [ $i -lt 100 ] || exit 1; sleep 0.1; done"
        );
        sandbox.pod(pod).exec(&["sh", "-c", &script]).unwrap();
        Self { sandbox, pod, file }
    }

    /// The packets that a filter of tcpdump matches.
    fn heard(&self, filter: &str) -> Vec<String> {
        let words = ["tcpdump", "-Z", "root", "-enn", "-r", &self.file, filter];
        self.sandbox.pod(self.pod).exec(&words).unwrap().lines().map(str::to_owned).collect()
    }

    fn heard_nothing(&self, filter: &str) {
        assert_eq!(self.heard(filter), [""; 0], "{} hears {filter}", self.pod);
    }

    fn close(self) {
        self.sandbox.pod(self.pod).exec(&["sh", "-c", &format!("kill $(cat {}.pid)", self.file)]).unwrap();
    }
}

/// On his own network he has what he was given: not his neighbour's address or MAC, not the gateway's.
pub(crate) fn his_own_interface_is_his_alone(mallory: &Mallory) {
    let [m1, m2, m3] =
        ["m1", "m2", "m3"].map(|name| held(mallory.0, &format!("mallory/{name}"), "mallory/own"));
    let v1 = held(mallory.0, "victim/v1", "victim/victim");
    let everybody = mallory.reaches("mallory/m1", "", "", "ovn-udn1", &[&m2.v4, &m2.v6, &m3.v4, &m3.v6]);
    assert_eq!(everybody.len(), 8, "he reaches his own: {everybody:?}");
    mallory.reaches_nobody("mallory/m1", "", "", "ovn-udn1", &[&v1.v4, &v1.v6]);
    let ears = ["mallory/m3", "mallory/m2", "mallory/m1"].map(|pod| Ear::open(mallory.0, pod, "ovn-udn1"));

    let others = [m3.v4.as_str(), &m3.v6, &v1.v4, &v1.v6];
    for source in [m2.v4.as_str(), "10.72.0.1", "10.72.0.2", &v1.v4, "10.72.200.9", "10.244.0.2"] {
        let (add, remove) = address_commands(source, "32", "ovn-udn1");
        mallory.reaches_nobody("mallory/m1", &add, &remove, source, &[others[0], others[2]]);
    }
    for source in [m2.v6.as_str(), "fd72::1", &v1.v6, "fd72::dead"] {
        let (add, remove) = address_commands(source, "128", "ovn-udn1");
        mallory.reaches_nobody("mallory/m1", &add, &remove, source, &[others[1], others[3]]);
    }
    // A veth takes another MAC while it is up, so its routes stay.
    for mac in [m2.mac.as_str(), "0a:58:0a:48:00:01", "02:11:22:33:44:55"] {
        let set = |mac: &str| format!("ip link set ovn-udn1 address {mac}");
        mallory.reaches_nobody("mallory/m1", &set(mac), &set(&m1.mac), "ovn-udn1", &others);
    }
    // What is his: his MAC with his addresses. The link-local one follows from the MAC.
    let own = format!("(src host {} or src host {} or src net fe80::/64 or src host ::)", m1.v4, m1.v6);
    let forged = format!(
        "(ether src {0} and not {own}) or (not ether src {0} and (src host {1} or src host {2}))",
        m1.mac, m1.v4, m1.v6
    );
    let [near, far, himself] = &ears;
    println!("mallory/m1 sent {} forged packets", himself.heard(&forged).len());
    assert!(himself.heard(&forged).len() > 20, "{:#?}", himself.heard(&forged));
    near.heard_nothing(&forged);
    far.heard_nothing(&forged);
    let back = mallory.reaches("mallory/m1", "", "", "ovn-udn1", &[&m2.v4, &m2.v6, &m3.v4, &m3.v6]);
    assert!(!near.heard(&format!("ether src {} and {own}", m1.mac)).is_empty(), "the listener is deaf");
    ears.into_iter().for_each(Ear::close);
    assert_eq!(back.len(), 8, "he reaches his own again: {back:?}");
    let learned =
        mallory.shell("mallory/m3", "ping -c1 -W2 10.72.0.1 >/dev/null; ip neigh show 10.72.0.1").unwrap();
    println!("mallory/m3 knows {learned}");
    assert!(learned.contains("lladdr 0a:58:0a:48:00:01"), "{learned}");
}

fn address_commands(address: &str, length: &str, device: &str) -> (String, String) {
    let nodad = if address.contains(':') { " nodad" } else { "" };
    let add = format!("ip addr add {address}/{length} dev {device}{nodad}");
    (add, format!("ip addr del {address}/{length} dev {device}"))
}

/// A node's addresses: of the machine, and of its management port.
fn node_addresses(sandbox: &Sandbox, node: &str) -> (Vec<String>, [String; 2], String) {
    let object = sandbox.get(&["node", node]).unwrap();
    let addresses = object["status"]["addresses"].as_array().unwrap().iter();
    let own =
        addresses.filter(|a| a["type"] == "InternalIP").map(|a| a["address"].as_str().unwrap().to_owned());
    let links = sandbox.exec(node, &["ip", "-json", "addr", "show", "ovn-k8s-mp0"]).unwrap();
    let link: Value = serde_json::from_str(&links).unwrap();
    let of = |family: &str| {
        let all = link[0]["addr_info"].as_array().unwrap().iter();
        let mut all = all.filter(|a| a["family"] == family && a["scope"] == "global");
        all.next().unwrap()["local"].as_str().unwrap().to_owned()
    };
    (own.collect(), [of("inet"), of("inet6")], link[0]["address"].as_str().unwrap().to_owned())
}

/// `eth0` of a pod with a primary network: nothing leaves it, whatever address, MAC or route he sets.
pub(crate) fn the_locked_interface(mallory: &Mallory) {
    let sandbox = mallory.0;
    let (mut nodes, management, management_mac) = node_addresses(sandbox, "n1");
    nodes.extend(node_addresses(sandbox, "n2").0);
    let (m1, m3) = (held(sandbox, "mallory/m1", "default"), held(sandbox, "mallory/m3", "default"));
    let (p1, p2) =
        (held(sandbox, "mallory-plain/p1", "default"), held(sandbox, "mallory-plain/p2", "default"));
    let v1 = held(sandbox, "victim/v1", "default");
    let mut targets =
        vec![&management[0], &management[1], &v1.v4, &v1.v6, &m3.v4, &m3.v6, &p1.v4, &p1.v6, &p2.v4, &p2.v6];
    targets.extend(&nodes);
    let targets: Vec<&str> = targets.into_iter().map(String::as_str).collect();
    let ears = ["mallory-plain/p1", "mallory-plain/p2", "victim/v1", "mallory/m1"]
        .map(|pod| Ear::open(sandbox, pod, "eth0"));
    mallory.reaches_nobody("mallory/m1", "", "", "eth0", &targets);
    // Nodes are reached by the way out, as anything outside is.
    let inside: Vec<&str> =
        targets.iter().copied().filter(|target| !nodes.iter().any(|node| node == target)).collect();
    mallory.reaches_nobody("mallory/m1", "", "", "ovn-udn1", &inside);

    let (v4, v6): (Vec<&str>, Vec<&str>) = targets.iter().partition(|target| !target.contains(':'));
    for (source, length, targets) in [
        (&management[0], "32", &v4),
        (&p1.v4, "32", &v4),
        (&v1.v4, "32", &v4),
        (&management[1], "128", &v6),
        (&p1.v6, "128", &v6),
    ] {
        let (add, remove) = address_commands(source, length, "eth0");
        mallory.reaches_nobody("mallory/m1", &add, &remove, source, targets);
    }
    // The node's own addresses and everything else, through the management port.
    let route = |verb: &str| {
        let routes =
            v4.iter().filter(|target| **target != management[0]).map(|target| (target, &management[0]));
        let routes = routes.chain(
            v6.iter().filter(|target| **target != management[1]).map(|target| (target, &management[1])),
        );
        routes
            .map(|(target, via)| format!("ip route {verb} {target} via {via} dev eth0 onlink\n"))
            .collect::<String>()
    };
    mallory.reaches_nobody("mallory/m1", &route("replace"), &route("del"), "eth0", &targets);
    let set = |mac: &str| format!("ip link set eth0 address {mac}");
    mallory.reaches_nobody("mallory/m1", &set(&management_mac), &set(&m1.mac), "eth0", &targets);
    let [near, far, victim, himself] = &ears;
    let his = format!("ether src {} or src host {} or src host {}", m1.mac, m1.v4, m1.v6);
    println!("mallory/m1 sent {} packets by eth0", himself.heard(&his).len());
    assert!(himself.heard(&his).len() > 20);
    let passed = format!("({his}) and not ({DISCOVERY})");
    [near, far, victim].into_iter().for_each(|ear| ear.heard_nothing(&passed));
    let forged = format!("({his}) and not src net fe80::/64 and not src host {} and not src host ::", m1.v6);
    [near, far, victim].into_iter().for_each(|ear| ear.heard_nothing(&forged));
    ears.into_iter().for_each(Ear::close);
}

/// Masquerade addresses of the first networks' routers.
const ROUTERS: [&str; 8] = [
    "169.254.0.9",
    "169.254.0.11",
    "169.254.0.13",
    "169.254.0.15",
    "fd69::9",
    "fd69::b",
    "fd69::d",
    "fd69::f",
];

/// Addresses of a service of all pods of a namespace.
fn services_of(sandbox: &Sandbox, namespace: &str) -> Vec<String> {
    let service = format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: all, namespace: {namespace}}}, spec: {{ipFamilyPolicy: RequireDualStack, \
         selector: {{app: tools}}, ports: [{{port: 8080}}]}}}}"
    );
    sandbox.apply(&service).unwrap();
    let object = sandbox.get(&["service", "-n", namespace, "all"]).unwrap();
    let addresses = object["spec"]["clusterIPs"].as_array().unwrap().iter();
    let addresses: Vec<String> = addresses.map(|address| address.as_str().unwrap().to_owned()).collect();
    // The node itself gets there: the ways are laid.
    for address in &addresses {
        let answered = || {
            let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
            sandbox
                .exec("n1", &["curl", "-sfg", "-m", "3", &format!("http://{host}:8080/hostname")])
                .map(Some)
        };
        sandbox.wait_for("the node to reach a service", answered).unwrap();
    }
    addresses
}

/// A pod of the default network tries to pass for the node, whom the victim's locked interface listens to.
pub(crate) fn from_the_default_network(mallory: &Mallory) {
    let sandbox = mallory.0;
    let (_, management, management_mac) = node_addresses(sandbox, "n1");
    let p1 = held(sandbox, "mallory-plain/p1", "default");
    let p2 = held(sandbox, "mallory-plain/p2", "default");
    let everybody = mallory.reaches("mallory-plain/p1", "", "", "eth0", &[&p2.v4, &p2.v6]);
    assert_eq!(everybody.len(), 4, "he reaches his own: {everybody:?}");
    let locked = ["victim/v1", "victim/v2", "victim2/w1"].map(|pod| held(sandbox, pod, "default"));
    let inner = [held(sandbox, "victim/v1", "victim/victim"), held(sandbox, "victim2/w1", "victim2/lan")];
    let all = || locked.iter().chain(&inner);
    let (v4, v6): (Vec<&str>, Vec<&str>) = all().map(|held| (held.v4.as_str(), held.v6.as_str())).unzip();
    let targets = [v4.as_slice(), &v6].concat();
    let victims = ["victim/v1", "victim2/w1", "victim/v2"].map(|pod| Ear::open(sandbox, pod, "eth0"));
    let himself = Ear::open(sandbox, "mallory-plain/p1", "eth0");
    mallory.reaches_nobody("mallory-plain/p1", "", "", "eth0", &targets);
    for (source, length, targets) in [(&management[0], "32", &v4), (&management[1], "128", &v6)] {
        let (add, remove) = address_commands(source, length, "eth0");
        mallory.reaches_nobody("mallory-plain/p1", &add, &remove, source, targets);
        let mac = |mac: &str| format!("ip link set eth0 address {mac}");
        let (add, remove) =
            (format!("{add}\n{}", mac(&management_mac)), format!("{}\n{remove}", mac(&p1.mac)));
        mallory.reaches_nobody("mallory-plain/p1", &add, &remove, source, targets);
    }
    // Routers of networks, and services of the victims: the node knows the ways there.
    let services = ["victim", "victim2"].into_iter().flat_map(|namespace| services_of(sandbox, namespace));
    let beyond: Vec<String> = ROUTERS.map(str::to_owned).into_iter().chain(services).collect();
    let beyond = beyond.iter().map(String::as_str);
    let targets: Vec<&str> = targets.into_iter().chain(beyond).collect();
    let route = |verb: &str| {
        let by = |target: &&str| &management[usize::from(target.contains(':'))];
        let route = |target: &&str| format!("ip route {verb} {target} via {} dev eth0 onlink\n", by(target));
        targets.iter().map(route).collect::<String>()
    };
    mallory.reaches_nobody("mallory-plain/p1", &route("replace"), &route("del"), "eth0", &targets);
    let his = format!("ether src {} or src host {} or src host {}", p1.mac, p1.v4, p1.v6);
    for ear in victims {
        // The kubelet's probes come from the management port; it never sends echoes.
        assert!(!ear.heard("tcp port 8080").is_empty(), "the listener is deaf");
        ear.heard_nothing(&format!("(({his}) and not ({DISCOVERY})) or icmp[0] == 8 or icmp6[0] == 128"));
        ear.close();
    }
    let [first, second, third] = &locked.each_ref().map(|held| &held.mac);
    let theirs = format!("ether src {first} or ether src {second} or ether src {third}");
    // OVN answers for everybody when somebody asks who has an address.
    himself.heard_nothing(&format!("({theirs}) and not arp and not ({DISCOVERY})"));
    himself.close();
    let back = mallory.reaches("mallory-plain/p1", "", "", "eth0", &[&p2.v4, &p2.v6]);
    assert_eq!(back.len(), 4, "he reaches his own again: {back:?}");
}
