//! Hosts that are no part of the cluster: servers that say who asked them, and the DNS of their own domain.

use super::unit::{Body, Command, File, Probe, Process, Unit};
use super::{FAR, OUTSIDE, Places};
use crate::address::{self, Family, underlay};
use crate::wanted::Wanted;
use std::net::IpAddr;

const STEP: &str = "outside";
/// The domain of the hosts outside.
pub(super) const DOMAIN: &str = "outside.test";

pub(super) fn units(wanted: &Wanted, places: &Places) -> Vec<Unit> {
    vec![server(OUTSIDE, places), server(FAR, places), dns(wanted, places)]
}

/// HTTP on port 8080 and UDP on port 8081, as in the tool image: `/clientip` and `clientip` give the source of whoever
/// asks, with its port.
fn server(host: &str, places: &Places) -> Unit {
    let words = [&places.program("agnhost"), "netexec", "--http-port=8080", "--udp-port=8081"];
    process(&format!("{host}/server"), host, words.map(str::to_owned).to_vec(), Vec::new())
}

/// Where names outside of the cluster are answered: nodes and the cluster's DNS ask here.
pub(super) fn resolvers(wanted: &Wanted) -> impl Iterator<Item = IpAddr> {
    wanted.families.iter().map(|family| underlay(*family, address::OUTSIDE).addr())
}

fn dns(wanted: &Wanted, places: &Places) -> Unit {
    let file = File { path: places.folder.path("outside.corefile"), content: corefile(wanted) };
    let words = vec![places.program("coredns"), format!("-conf={}", file.path.display())];
    process("outside/dns", OUTSIDE, words, vec![file])
}

/// Of other domains nothing is known here, and that is said at once.
fn corefile(wanted: &Wanted) -> String {
    let named = |of: fn(Family) -> IpAddr, names: &str| -> String {
        wanted.families.iter().map(|family| format!("        {} {names}\n", of(*family))).collect()
    };
    let outside = named(|family| underlay(family, address::OUTSIDE).addr(), "outside.test www.outside.test");
    let far = named(|family| address::far(family, address::BEHIND).addr(), "far.outside.test");
    format!(
        "{DOMAIN} {{\n    errors\n    hosts {{\n{outside}{far}    }}\n}}\n\
         . {{\n    errors\n    template ANY ANY {{\n        rcode NXDOMAIN\n    }}\n}}\n"
    )
}

fn process(id: &str, host: &str, words: Vec<String>, files: Vec<File>) -> Unit {
    let command = Command::new(words).within(host);
    Unit::new(id, STEP, Body::Process(Process { command, files, probe: Probe::Runs })).after(["network"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_outside_has_its_hosts_and_nothing_else_is_known() {
        let wanted = Wanted::new("test", 1, vec![Family::Ipv4, Family::Ipv6], 1).unwrap();
        assert_eq!(
            corefile(&wanted),
            "outside.test {
    errors
    hosts {
        172.30.0.2 outside.test www.outside.test
        fd00:172:30::2 outside.test www.outside.test
        172.31.1.2 far.outside.test
        fd00:172:31:1::2 far.outside.test
    }
}
. {
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"
        );
    }
}
