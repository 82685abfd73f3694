//! Two clusters that have the same networks, each with a part of one range, and another site between them (story 5).
//!
//! ```text
//!   cluster north (n1) ── 10.20.0.0/17        underlay 192.0.2.0/24        10.20.128.0/17 ── cluster south (n2)
//!                        └──────────── n3: another site, tells each what the others say ────────────┘
//! ```
//! `blue` and `twin` have equal addresses, in both clusters.

use causeway_testing::Frr;

use super::asking::Asking;
use super::guest::{sh, wait, within};
use super::nodes::{customer, fabric, inside, node, who};
use super::site::{Island, Site, addresses, meet};

const NORTH: Island = Island {
    name: "blue",
    place: "blue-north",
    id: 1,
    vni: 1001,
    topology: "layer3",
    subnets: ["10.20.0.0/17/24", "fd20::/49/64"],
    gateways: ["10.20.0.1", "fd20::1"],
    pod: ["10.20.0.5/24", "fd20::5/64"],
};
const SOUTH: Island = Island {
    place: "blue-south",
    subnets: ["10.20.128.0/17/24", "fd20:0:0:8000::/49/64"],
    gateways: ["10.20.128.1", "fd20:0:0:8000::1"],
    pod: ["10.20.128.5/24", "fd20:0:0:8000::5/64"],
    ..NORTH
};
const NORTHERN: [Island; 2] =
    [NORTH, Island { name: "twin", place: "twin-north", id: 2, vni: 1002, ..NORTH }];
const SOUTHERN: [Island; 2] =
    [SOUTH, Island { name: "twin", place: "twin-south", id: 2, vni: 1002, ..SOUTH }];

pub(crate) fn run() {
    sh("ip link add underlay type bridge && ip link set underlay up");
    for (name, number) in [("n1", 1), ("n2", 2), ("n3", 3)] {
        node(name, number);
    }
    within("n3", "ip address add 192.0.2.3/24 dev eth0");
    let edge = inside("n3", || Frr::start_at(179));
    fabric(&edge, 3, &[1, 2], true);
    [1001, 1002].iter().for_each(|vni| customer(&edge, *vni));
    let mut north = Site::start("n1", 1, &NORTHERN, |frr| fabric(frr, 1, &[3], false));
    let mut south = Site::start("n2", 2, &SOUTHERN, |frr| fabric(frr, 2, &[3], false));
    for (site, what) in [(&mut north, "the north is as planned"), (&mut south, "the south is as planned")] {
        site.bring(what);
    }
    they_meet();
    let stays = Asking::begin("customer1002", addresses(&SOUTHERN[1])[0]);
    one_ends_in_the_south(&mut south);
    let loss = stays.end();
    println!("the network beside it: {loss}");
    assert!(loss.is_none());
}

/// Both ways, both families, whoever answers is the right one; the other site reaches both parts.
fn they_meet() {
    for (here, there) in NORTHERN.iter().zip(&SOUTHERN) {
        wait(&format!("{} meets {}", here.place, there.place), || {
            meet(here, there.place, addresses(there)) && meet(there, here.place, addresses(here))
        });
        let site = format!("customer{}", here.vni);
        wait(&format!("the other site reaches both parts of {}", here.name), || {
            [here, there].iter().all(|part| meet(part, &site, ["10.9.0.9", "fd09::9"]))
        });
    }
}

/// One cluster gives the network up; the other one keeps its part.
fn one_ends_in_the_south(south: &mut Site) {
    south.leave(&SOUTH);
    south.bring("the south has given it up");
    assert_eq!(south.left("blue", 1001), Vec::<String>::new());
    wait("the north has lost the south", || {
        !within("n1", "ip route show table 16777217").contains("10.20.128.0/24")
    });
    assert_eq!(who(NORTH.place, addresses(&SOUTH)[0], 9999), None);
    wait("the other site reaches the north", || meet(&NORTH, "customer1001", ["10.9.0.9", "fd09::9"]));
    let (here, there) = (&NORTHERN[1], &SOUTHERN[1]);
    assert!(meet(here, there.place, addresses(there)), "the network beside it is as it was");
}
