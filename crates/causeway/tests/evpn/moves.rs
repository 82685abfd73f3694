//! Two chassis with gateways, each with an agent of its own, behind a reflector; another site hears of both by the reflector alone.
//!
//! ```text
//!   n1, n2 (gateways, agents) ── n4 (machines)          underlay 192.0.2.0/24
//!        └──────── n5 (reflector) ──────── n3 (the other site)
//! ```

use causeway_testing::Frr;
use std::time::Duration;

use super::asking::{Asking, Loss};
use super::central::{Central, MACHINE, MACHINE6, TENANTS, Tenant};
use super::gateway::Gateway;
use super::guest::{sh, soon, wait, within};
use super::nodes::{Chassis, customer, fabric, inside, machine, node, plug};
use super::scenario::{reaches, rounds, routes_at_edge};

const HERE: &[Tenant] = TENANTS.split_at(2).0;
/// Addresses beside the machine's own, which go with its gateway.
const MORE: u8 = 49;

struct World {
    central: Central,
    /// `n1` and `n2`.
    gateways: [Gateway; 2],
    compute: Chassis,
    _reflector: Frr,
    edge: Frr,
}

pub(crate) fn run() {
    let mut world = World::build();
    world.both_are_told_of();
    world.gateways_move();
    world.a_machine_moves();
    world.a_chassis_fails();
}

impl World {
    fn build() -> World {
        sh("ip link add underlay type bridge && ip link set underlay up");
        let central = Central::start();
        central.draw(HERE);
        for (vni, first, second) in [(1001, "n1", "n2"), (1002, "n2", "n1")] {
            central.prefer(vni, first, 20);
            central.prefer(vni, second, 10);
            more_addresses(&central, vni);
        }
        for (name, number) in [("n1", 1), ("n2", 2), ("n3", 3), ("n4", 4), ("n5", 5)] {
            node(name, number);
        }
        for number in [3, 5] {
            within(&format!("n{number}"), &format!("ip address add 192.0.2.{number}/24 dev eth0"));
        }
        let southbound = central.southbound.remote();
        let reflector = inside("n5", || Frr::start_at(179));
        fabric(&reflector, 5, &[1, 2, 3], true);
        let told: [fn(&Frr); 2] = [|frr| fabric(frr, 1, &[5], false), |frr| fabric(frr, 2, &[5], false)];
        let mut gateways =
            [Gateway::start("n1", 1, &southbound, told[0]), Gateway::start("n2", 2, &southbound, told[1])];
        let compute = Chassis::start("n4", 4, &southbound);
        HERE.iter().for_each(|tenant| machine("n4", &compute, tenant.vni));
        let edge = inside("n3", Frr::start);
        fabric(&edge, 3, &[5], false);
        HERE.iter().for_each(|tenant| customer(&edge, tenant.vni));
        wait("OVN has bound gateways and machines", || central.all_bound(HERE));
        HERE.iter().for_each(|tenant| central.annotate(tenant.vni));
        gateways.iter_mut().for_each(Gateway::start_agent);
        World { central, gateways, compute, _reflector: reflector, edge }
    }

    /// Cases 29 and 30, defect 6: equal addresses of two tenants, told of by two nodes and heard by one reflector.
    fn both_are_told_of(&self) {
        for tenant in HERE {
            wait(&format!("VNI {} reaches its own", tenant.vni), || reaches(tenant.vni));
        }
        self.are_at(1001, 1);
        self.are_at(1002, 2);
        let heard = self.edge.vtysh(&["-c", "show bgp l2vpn evpn route type prefix"]);
        for words in ["Route Distinguisher: 10.255.0.1:1001", "Route Distinguisher: 10.255.0.2:1002"] {
            assert!(heard.contains(words), "{words}: {heard}");
        }
        assert!(heard.matches("[5]:[0]:[32]:[20.0.0.241]").count() >= 2, "{heard}");
    }

    /// Whether the other site sends everything of a tenant to this node.
    fn are_at(&self, vni: u32, number: u8) {
        wait(&format!("all addresses of VNI {vni} are at n{number}"), || {
            let routes = routes_at_edge(vni);
            let there = |line: &&str| {
                line.starts_with("20.0.0.") && line.contains(&format!("via 10.255.0.{number} "))
            };
            let elsewhere = |line: &&str| line.starts_with("20.0.0.") && !there(line);
            routes.lines().filter(there).count() == usize::from(MORE) + 1
                && routes.lines().filter(elsewhere).count() == 0
        });
    }

    /// Defect 1 and story 5: from one chassis to the other in one update, there and back.
    fn gateways_move(&self) {
        let mut worst = Loss::default();
        for round in 0..rounds() * 2 {
            let (to, from) = if round % 2 == 0 { (2, 1) } else { (1, 2) };
            let asking = self.ask_both();
            self.central.prefer(1001, &format!("n{to}"), 30);
            self.central.prefer(1001, &format!("n{from}"), 5);
            self.are_at(1001, to);
            wait("VNI 1001 reaches its own by the other one", || reaches(1001));
            wait("nothing is left where it was", || self.left(from).is_empty());
            worst = worst.worst(Self::end(asking));
        }
        println!("a gateway that moves, {} times: at most {worst}", rounds() * 2);
        assert!(worst.longest() <= MOVED, "{worst}");
    }

    fn left(&self, number: u8) -> Vec<String> {
        self.gateways[usize::from(number) - 1].left(1001, HERE[0].mac)
    }

    /// Who stays must not notice anything; the loss of who moves.
    fn end(asking: [Asking; 2]) -> Loss {
        let [moves, stays] = asking.map(Asking::end);
        println!("who moves: {moves}; who stays: {stays}");
        assert!(stays.is_none());
        moves
    }

    fn ask_both(&self) -> [Asking; 2] {
        [Asking::begin("customer1001", MACHINE), Asking::begin("customer1002", MACHINE6)]
    }

    /// Case 12 on packets: a machine moves to the chassis with the other tenant's gateway, and its routes stay.
    fn a_machine_moves(&self) {
        let before = routes_at_edge(1001);
        let asking = self.ask_both();
        self.compute.switch.vsctl(&["del-port", "tap1001"]);
        sh("ip -n n4 link set tap1001 netns n2");
        plug("n2", &self.gateways[1].chassis, 1001);
        wait("the machine is reached where it is now", || reaches(1001));
        let loss = Self::end(asking);
        println!("a machine that moves: {loss}");
        assert!(loss.longest() <= MOVED, "{loss}");
        assert_eq!(routes_at_edge(1001), before, "nobody needs to hear of it");
    }

    /// Case 41: the chassis with a gateway is dead to the others; what it had is at the other one, and comes back with it.
    fn a_chassis_fails(&mut self) {
        self.are_at(1001, 1);
        // The machine lives on n2, and must not go with n1.
        let asking = self.ask_both();
        self.gateways[0].chassis.switch.end();
        self.are_at(1001, 2);
        soon(FAILED, "and VNI 1001 reaches its own there", || reaches(1001));
        let loss = Self::end(asking);
        println!("a chassis that fails: {loss}");
        assert!(loss.longest() <= FAILED, "{loss}");
        self.gateways[0].kill("switch");
        self.are_at(1001, 1);
        wait("VNI 1001 reaches its own by the one that came back", || reaches(1001));
    }
}

/// Addresses that a tenant's machine may take, all of them exposed with it.
fn more_addresses(central: &Central, vni: u32) {
    let one = |number: u8| {
        format!(
            "lsp-add t{vni} v{vni}-{number} -- lsp-set-type v{vni}-{number} virtual \
             -- lsp-set-addresses v{vni}-{number} fa:16:3e:00:01:{number:02x}_20.0.0.{number} \
             -- lsp-set-options v{vni}-{number} virtual-ip=20.0.0.{number} virtual-parents=vm{vni}"
        )
    };
    central.nb(&(1..=MORE).map(|number| one(number + 100)).collect::<Vec<_>>().join(" -- "));
}

/// However busy the machine is.
const MOVED: Duration = Duration::from_secs(30);
/// The chassis have to find out first, which takes them some seconds.
const FAILED: Duration = Duration::from_secs(60);

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for vni in [1001, 1002] {
                println!("-- n3, table {vni}\n{}", routes_at_edge(vni));
            }
            println!("{}", self.central.sb("list port_binding cr-lrp-ext1001"));
            println!("{}", self.edge.vtysh(&["-c", "show bgp summary"]));
        }
    }
}
