//! What happens: three tenants with equal addresses are exposed, two on a flat network of the provider's and one on a VLAN; things break and
//! heal, and one after the other goes.

use causeway_testing::Frr;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::asking::{Asking, Loss};
use super::central::{Central, MACHINE, MACHINE6, TENANTS, VLAN};
use super::gateway::Gateway;
use super::guest::{sh, soon, wait, within};
use super::nodes::{Chassis, answer, customer, fabric, gateway_fabric, inside, machine, node, who};

/// Everything that runs.
struct World {
    central: Central,
    gateway: Gateway,
    _compute: Chassis,
    edge: Frr,
}

pub(crate) fn run() {
    let mut world = World::build();
    world.gateway.start_agent();
    world.exposed();
    world.told();
    world.closed();
    world.restart_writes_nothing();
    world.one_machine_more();
    world.flaps();
    world.foreign_hands();
    world.faults();
    world.again_and_again();
    world.one_tenant_goes();
    // What takes long is for `make kernel`.
    if rounds() > 1 {
        world.another_number();
        world.goes_while_frr_is_away();
    }
    world.end();
}

impl World {
    fn build() -> World {
        sh("ip link add underlay type bridge && ip link set underlay up");
        let central = Central::start();
        central.draw(&TENANTS);
        TENANTS.iter().for_each(|tenant| central.prefer(tenant.vni, "n1", 10));
        for (name, number) in [("n1", 1), ("n2", 2), ("n3", 3)] {
            node(name, number);
        }
        within("n3", "ip address add 192.0.2.3/24 dev eth0");
        let gateway = Gateway::start("n1", 1, &central.southbound.remote(), gateway_fabric);
        let compute = Chassis::start("n2", 2, &central.southbound.remote());
        TENANTS.iter().for_each(|tenant| machine("n2", &compute, tenant.vni));
        within("n1", "ip link add br-docker0 type bridge");
        let edge = inside("n3", || Frr::start_at(179));
        fabric(&edge, 3, &[1], false);
        TENANTS.iter().for_each(|tenant| customer(&edge, tenant.vni));
        wait("OVN has bound gateways and machines", || central.all_bound(&TENANTS));
        World { central, gateway, _compute: compute, edge }
    }

    /// Both directions, both families: whoever answers is the right one, though the addresses are equal.
    fn reaches(&self, vni: u32) -> bool {
        reaches(vni)
    }

    fn all_reach(&self, when: &str) {
        for tenant in &TENANTS {
            wait(&format!("VNI {} reaches its own {when}", tenant.vni), || self.reaches(tenant.vni));
        }
    }

    /// Defect 8: somebody else has the table of a VNI; FRR would end if two VRFs shared it.
    fn exposed(&mut self) {
        within("n1", "ip link add theirs type vrf table 1003");
        wait("the agent is ready with nothing to do", || self.gateway.is_ready());
        assert_eq!(who("customer1001", MACHINE, 9999), None, "nobody is exposed yet");
        TENANTS.iter().for_each(|tenant| self.central.annotate(tenant.vni));
        for tenant in &TENANTS[..2] {
            wait(&format!("VNI {} reaches its own", tenant.vni), || self.reaches(tenant.vni));
        }
        wait("it is said who has the table", || self.gateway.page("/readyz").contains("theirs"));
        within("n1", "ip link delete theirs");
        self.all_reach("");
        wait("nothing is missing", || self.gateway.is_as_planned());
        let status = self.gateway.status();
        assert!(
            status.contains("\"state\": \"Up\"") && status.contains("\"rd\": \"10.255.0.1:1001\""),
            "{status}"
        );
    }

    /// Cases 28 and 39, as the other site hears it; and the VLAN on the provider's bridge.
    fn told(&self) {
        let heard = self.heard();
        for words in [
            "Route Distinguisher: 10.255.0.1:1001",
            "Route Distinguisher: 10.255.0.1:1003",
            "[5]:[0]:[32]:[20.0.0.241]",
            "[5]:[0]:[128]:[fd20::f1]",
            "RT:64999:1001",
        ] {
            assert!(heard.contains(words), "{words}: {heard}");
        }
        let shown = within("n1", "ip -6 route show table 1001");
        assert!(!shown.contains("fd20::f1"), "{shown}");
        let tag = self.gateway.chassis.switch.vsctl(&["get", "Port", "vlan-1003", "tag"]);
        assert_eq!(tag.trim(), VLAN.to_string());
        let flows = self.gateway.ofctl("dump-flows");
        let counted = |line: &str| line.contains("pop_vlan") && !line.contains("n_packets=0,");
        assert!(flows.lines().any(counted), "{flows}");
    }

    fn heard(&self) -> String {
        self.edge.vtysh(&["-c", "show bgp l2vpn evpn route detail"])
            + &self.edge.vtysh(&["-c", "show bgp l2vpn evpn route type prefix"])
    }

    /// Cases 40 and 43: rules of OVN hold on the way, and what nobody has does not fall through to the node's own table.
    fn closed(&self) {
        answer("vm1001", 9997);
        assert_eq!(who("customer1001", MACHINE, 9997).as_deref(), Some("vm1001"));
        let rule = |verdict: &str, port: u16, priority: u16| {
            let matches = format!("outport==\"vm1001\"&&tcp.dst=={port}");
            self.central.nb(&format!("--wait=hv acl-add t1001 to-lport {priority} {matches} {verdict}"));
        };
        rule("drop", 9997, 1001);
        rule("allow-related", 9999, 1000);
        assert_eq!(who("customer1001", MACHINE, 9997), None, "a rule forbids it");
        assert!(self.reaches(1001));
        self.central.nb("acl-del t1001");

        sh("ip netns add outside");
        within("n1", "ip link add elsewhere type veth peer name eth0 netns outside");
        within("n1", "ip address add 20.0.9.1/24 dev elsewhere");
        within("n1", "ip link set elsewhere up");
        within("outside", "ip address add 20.0.9.9/24 dev eth0");
        within("outside", "ip link set eth0 up");
        within("outside", "ip route add default via 20.0.9.1");
        answer("outside", 9996);
        answer("n1", 9996);
        wait("the node has a way", || who("n1", "20.0.9.9", 9996).as_deref() == Some("outside"));
        within("n3", "ip route add 20.0.9.0/24 vrf vrf-1001 via 10.255.0.1 dev br-1001 onlink");
        let said = inside("customer1001", || {
            let to: SocketAddr = "20.0.9.9:9996".parse().unwrap();
            TcpStream::connect_timeout(&to, Duration::from_secs(20)).map_err(|error| error.kind())
        });
        let refused = [Err(ErrorKind::HostUnreachable), Err(ErrorKind::NetworkUnreachable)];
        assert!(refused.contains(&said.as_ref().map(drop).map_err(|kind| *kind)), "{said:?}");
        assert_eq!(
            who("customer1001", "20.0.9.1", 9996),
            None,
            "nobody on the node itself listens to tenants"
        );
        within("n1", "ip link delete elsewhere");
        within("n3", "ip route delete 20.0.9.0/24 vrf vrf-1001");
    }

    /// Killed without a goodbye, and started again.
    fn restart_writes_nothing(&mut self) {
        self.gateway.stop_agent();
        assert!(self.reaches(1001), "without the agent traffic goes on");
        self.gateway.start_agent();
        wait("the agent is ready again", || self.gateway.is_ready());
        let metrics = self.gateway.page("/metrics");
        assert!(metrics.contains("causeway_evpn_host_writes_total 0\n"), "{metrics}");
        assert!(
            metrics.contains("causeway_evpn_vnis 3\n") && metrics.contains("causeway_evpn_machines 6\n"),
            "{metrics}"
        );
    }

    /// Case 34: a machine comes; while the agent is away it goes, another one comes, and somebody writes what looks like the agent's.
    fn one_machine_more(&mut self) {
        let shown = |address: &str| within("n1", "ip -o address show dev lo-1001").contains(address);
        self.central.machine(1001, "more", "20.0.0.77", "fd20::77");
        self.plug("more");
        wait("one machine more is one address", || shown("20.0.0.77/32"));
        self.gateway.stop_agent();
        self.central.nb("lsp-del more1001");
        self.central.machine(1001, "late", "20.0.0.79", "fd20::79");
        self.plug("late");
        within("n1", "ip address add 20.0.0.78/32 dev lo-1001");
        within("n1", "ip route add 20.0.9.0/24 dev vv-1001 table 1001 proto 84");
        within("n1", "ip link add br-abc type bridge");
        let flow = "cookie=0xca5e3a7100000007,priority=1000,ip,nw_src=20.0.9.0/24,actions=drop";
        self.gateway.ofctl(&format!("add-flow {flow}"));
        self.gateway.start_agent();
        wait("it is as if the agent had seen it all", || {
            let routes = within("n1", "ip route show table 1001");
            let flows = self.gateway.ofctl("dump-flows");
            shown("20.0.0.79/32")
                && !shown("20.0.0.77/32")
                && !shown("20.0.0.78/32")
                && !routes.contains("20.0.9.0")
                && !flows.contains("20.0.9.0")
        });
        let links = within("n1", "ip -o link");
        assert!(links.contains("br-docker0") && links.contains("br-abc"), "others' things stay: {links}");
        self.central.nb("lsp-del late1001");
    }

    fn plug(&self, name: &str) {
        let id = format!("external_ids:iface-id={name}1001");
        let words = ["add-port", "br-int", name, "--", "set", "Interface", name, "type=internal", &id];
        self.gateway.chassis.switch.vsctl(&words);
    }

    /// Cases 31 and 32, each within its bound.
    fn flaps(&self) {
        for device in ["lo-1001", "vrf-1001", "vxlan-1001", "vv-1001"] {
            within("n1", &format!("ip link set {device} down"));
            within("n1", &format!("ip link set {device} up"));
            soon(HEALED, &format!("the node is as planned after {device} was off"), || {
                let routes = within("n1", "ip route show table 1001");
                routes.contains("20.0.0.0/24 via") && !routes.contains("local 20.0.0.241")
            });
            soon(REACHED, "and VNI 1001 reaches its own", || self.reaches(1001));
        }
    }

    /// Ports, flows and devices that somebody takes away.
    fn foreign_hands(&mut self) {
        self.gateway.chassis.switch.vsctl(&["del-port", "vo-1001"]);
        self.gateway.chassis.switch.vsctl(&["del-port", "vlan-1003"]);
        within("n1", "ip link delete br-1002");
        self.all_reach("with what was taken away");
        self.gateway.ofctl("del-flows ip");
        self.all_reach("with its flows");
    }

    /// Case 44: a tenant of another AS, told by route targets whose routes it takes.
    fn another_number(&self) {
        let target = [("vni", "1002"), ("as", "65010"), ("rt", "64999:1002")];
        self.central.annotate_with(1002, &target);
        wait("FRR has the tenant's AS", || {
            self.gateway.frr.running().contains("router bgp 65010 vrf vrf-1002")
        });
        wait("VNI 1002 reaches its own from another AS", || self.reaches(1002));
        self.central.unannotate(1002);
        self.central.annotate(1002);
        wait("VNI 1002 reaches its own again", || self.reaches(1002));
        wait("nothing is missing", || self.gateway.is_as_planned());
    }

    /// Case 35 and its like: killed under questions that are numbered, it heals, and what is lost is counted and has an end. `make kernel` does
    /// it twenty times each, and ends zebra as well: FRR 10.3's sometimes ends by itself when devices of a VRF go, the sooner when it was started again. FRR comes last: once zebra was started again, alone, it does not bring back the route to the other end of the
    /// tunnels after the device of the underlay was off for a moment, as it is when the switch ends; that route is the operator's, and no
    /// section of ours.
    fn faults(&mut self) {
        let victims = FAULTS.iter().filter(|(victim, _)| *victim != "zebra" || rounds() > 1);
        for &(victim, bound) in victims {
            let mut worst = Loss::default();
            for _ in 0..rounds() {
                let asking =
                    [("customer1001", MACHINE), ("customer1002", MACHINE6), ("customer1003", MACHINE)]
                        .map(|(from, to)| Asking::begin(from, to));
                std::thread::sleep(Duration::from_millis(500));
                self.gateway.kill(victim);
                self.all_reach(&format!("after the end of the {victim}"));
                // All are as planned again before the next one goes.
                wait("nothing is missing", || self.gateway.is_as_planned());
                for asking in asking {
                    let loss = asking.end();
                    println!("{victim}: {loss}");
                    worst = worst.worst(loss);
                }
            }
            println!("{victim}, {} times: at most {worst}", rounds());
            assert!(worst.lost <= bound, "{victim}: {worst}, and no more than {bound} may be");
        }
    }

    /// Case 38 and defect 17: gone and there again, and nothing of the one is in the way of the other.
    fn again_and_again(&mut self) {
        for _ in 0..rounds() {
            self.central.unannotate(1001);
            self.wait_gone(1001);
            self.central.annotate(1001);
            wait("VNI 1001 is there again", || self.reaches(1001));
        }
    }

    /// Case 37: nothing is left of it, here and elsewhere, and the others do not lose anything.
    fn one_tenant_goes(&mut self) {
        let asking =
            [("customer1002", MACHINE), ("customer1003", MACHINE6)].map(|(from, to)| Asking::begin(from, to));
        self.central.unannotate(1001);
        soon(HEALED, "the other site has lost VNI 1001", || !routes_at_edge(1001).contains(MACHINE));
        let stayed = self.wait_gone(1001);
        assert!(who("customer1001", MACHINE, 9999).is_none());
        for loss in asking.map(Asking::end) {
            println!("a neighbour of who goes: {loss}");
            assert!(loss.is_none() || !stayed);
        }
        self.central.annotate(1001);
        wait("VNI 1001 is there again", || self.reaches(1001));
    }

    /// Case 36: nobody can tell FRR that a tenant has gone.
    fn goes_while_frr_is_away(&mut self) {
        const AWAY: [&str; 2] = ["bgpd", "zebra"];
        AWAY.iter().for_each(|daemon| self.gateway.frr.kill_daemon(daemon));
        self.central.unannotate(1002);
        wait("the devices of VNI 1002 are gone", || !within("n1", "ip -o link").contains("-1002"));
        AWAY.iter().rev().for_each(|daemon| self.gateway.start_daemon(daemon));
        self.wait_gone(1002);
        self.central.annotate(1002);
        self.all_reach("with the FRR that was away");
    }

    /// Waits until nothing is left of a VNI; says whether FRR stayed.
    fn wait_gone(&mut self, vni: u32) -> bool {
        let mut stayed = true;
        wait(&format!("nothing is left of VNI {vni}"), || {
            stayed &= !self.gateway.watch_frr();
            self.left(vni).is_empty()
        });
        stayed
    }

    fn left(&self, vni: u32) -> Vec<String> {
        let tenant = TENANTS.iter().find(|tenant| tenant.vni == vni).unwrap();
        self.gateway.left(vni, tenant.mac)
    }

    /// The agent's own end leaves everything; whoever wants it away says so.
    fn end(&mut self) {
        self.gateway.stop_agent();
        assert!(TENANTS.iter().all(|tenant| self.reaches(tenant.vni)));
        let (mut ended_well, mut said) = self.gateway.ask(&["withdraw"]);
        // Whose FRR went with the devices is told so, and asks again.
        if self.gateway.watch_frr() {
            assert!(!ended_well, "{said}");
            (ended_well, said) = self.gateway.ask(&["withdraw"]);
        }
        assert!(ended_well, "{said}");
        for tenant in &TENANTS {
            assert_eq!(self.left(tenant.vni), Vec::<String>::new());
        }
        let links = within("n1", "ip -o link");
        assert!(links.contains("br-docker0") && links.contains("br-abc"), "others' things stay: {links}");
    }
}

/// How often each fault happens.
pub(crate) fn rounds() -> u32 {
    std::env::var("CAUSEWAY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Who ends, and how many of the questions in a row (forty a second) may remain without an answer; however busy the machine is. Without the
/// agent or the switch's database packets go on as they did.
const FAULTS: [(&str, u32); 5] =
    [("agent", 0), ("database", 0), ("switch", 2400), ("bgpd", 2400), ("zebra", 2400)];
/// What the agent alone puts right; it takes less than a second on a machine that has nothing else to do.
const HEALED: Duration = Duration::from_secs(10);
/// What FRR and the other site have a part in.
const REACHED: Duration = Duration::from_secs(30);

pub(crate) fn reaches(vni: u32) -> bool {
    let (machine, customer) = (format!("vm{vni}"), format!("customer{vni}"));
    [MACHINE, MACHINE6].iter().all(|address| asked(&customer, address, &machine))
        && ["10.9.0.9", "fd09::9"].iter().all(|address| asked(&machine, address, &customer))
}

pub(crate) fn asked(from: &str, address: &str, name: &str) -> bool {
    let answer = who(from, address, 9999);
    assert!(
        answer.as_deref().is_none_or(|answer| answer == name),
        "{address} asked by {from}: {answer:?} answers"
    );
    answer.is_some()
}

/// The other site's ways of a tenant.
pub(crate) fn routes_at_edge(vni: u32) -> String {
    within("n3", &format!("ip route show table {vni}"))
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (node, command) in [("n3", "ip route show table 1001"), ("vm1001", "cat /proc/net/snmp")] {
                println!("-- {node}: {command}\n{}", within(node, command));
            }
        }
    }
}
