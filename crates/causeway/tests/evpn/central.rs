//! OVN's databases and northd, with the rows that Neutron would write.

use causeway_testing::{OvsdbServer, program, schema_file};
use std::process::{Child, Command, Stdio};

/// Both databases and northd.
pub(crate) struct Central {
    northbound: OvsdbServer,
    pub(crate) southbound: OvsdbServer,
    northd: Child,
}

/// A tenant: its number on the fabric, and the addresses of its gateway.
pub(crate) struct Tenant {
    pub(crate) vni: u32,
    pub(crate) mac: &'static str,
    pub(crate) gateway: &'static str,
    pub(crate) gateway6: &'static str,
}

pub(crate) const TENANTS: [Tenant; 2] = [
    Tenant { vni: 1001, mac: "fa:16:3e:b7:cc:47", gateway: "172.24.4.146", gateway6: "fd04::146" },
    Tenant { vni: 1002, mac: "fa:16:3e:b7:cc:48", gateway: "172.24.4.147", gateway6: "fd04::147" },
];
/// Equal in both tenants.
pub(crate) const MACHINE: &str = "20.0.0.241";
pub(crate) const MACHINE6: &str = "fd20::f1";

impl Central {
    pub(crate) fn start() -> Central {
        let northbound = OvsdbServer::start(&schema_file("ovn-nb"));
        let southbound = OvsdbServer::start(&schema_file("ovn-sb"));
        let northd = Command::new(program("ovn-northd"))
            .args([
                format!("--ovnnb-db={}", northbound.remote()),
                format!("--ovnsb-db={}", southbound.remote()),
            ])
            .arg(format!("--unixctl={}", southbound.folder().join("northd.ctl").display()))
            .args(["-vconsole:off"])
            .stdin(Stdio::null())
            .spawn()
            .expect("ovn-northd starts");
        let central = Central { northbound, southbound, northd };
        central.nb("init");
        central
    }

    /// Where the northbound database is.
    pub(crate) fn north(&self) -> String {
        self.northbound.remote()
    }

    /// `ovn-nbctl` with these words.
    pub(crate) fn nb(&self, words: &str) -> String {
        let words = words.split_whitespace();
        run("ovn-nbctl", &self.northbound, words.map(|word| word.replace('_', " ").replace('~', "_")))
    }

    /// `ovn-sbctl` with these words.
    pub(crate) fn sb(&self, words: &str) -> String {
        run("ovn-sbctl", &self.southbound, words.split_whitespace().map(str::to_owned))
    }

    /// The provider's network, and for each tenant a router with a gateway, a subnet and a machine.
    pub(crate) fn draw(&self) {
        self.nb("ls-add public -- lsp-add public provnet -- lsp-set-type provnet localnet -- lsp-set-addresses provnet unknown \
                 -- lsp-set-options provnet network~name=public");
        for Tenant { vni, mac, gateway, gateway6 } in TENANTS {
            self.nb(&format!(
                "lr-add r{vni} -- lrp-add r{vni} lrp-ext{vni} {mac} {gateway}/24 {gateway6}/64"
            ));
            self.nb(&format!("lrp-set-gateway-chassis lrp-ext{vni} n1 10"));
            self.nb(&format!("lr-route-add r{vni} 0.0.0.0/0 172.24.4.1 -- lr-route-add r{vni} ::/0 fd04::1"));
            self.nb(&format!(
                "lsp-add public ext{vni} -- lsp-set-type ext{vni} router -- lsp-set-addresses ext{vni} router \
                 -- lsp-set-options ext{vni} router-port=lrp-ext{vni}"
            ));
            self.nb(&format!(
                "ls-add t{vni} -- lrp-add r{vni} lrp-int{vni} fa:16:3e:00:00:11 20.0.0.1/24 fd20::1/64"
            ));
            self.nb(&format!(
                "lsp-add t{vni} int{vni} -- lsp-set-type int{vni} router -- lsp-set-addresses int{vni} router \
                 -- lsp-set-options int{vni} router-port=lrp-int{vni}"
            ));
            self.machine(vni, "vm", MACHINE, MACHINE6);
        }
    }

    /// One more machine of a tenant.
    pub(crate) fn machine(&self, vni: u32, name: &str, v4: &str, v6: &str) {
        self.nb(&format!(
            "lsp-add t{vni} {name}{vni} -- lsp-set-addresses {name}{vni} fa:16:3e:00:00:f1_{v4}_{v6}"
        ));
    }

    /// What networking-bgpvpn writes.
    pub(crate) fn annotate(&self, vni: u32) {
        for port in ["ext", "int"] {
            let key = |key: &str| format!("external~ids:neutron~bgpvpn\\:{key}");
            self.nb(&format!("set logical~switch~port {port}{vni} {}={vni} {}=64999", key("vni"), key("as")));
        }
    }

    pub(crate) fn unannotate(&self, vni: u32) {
        for port in ["ext", "int"] {
            self.nb(&format!("clear logical~switch~port {port}{vni} external~ids"));
        }
    }
}

fn run(name: &str, server: &OvsdbServer, words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    let mut command = Command::new(program(name));
    let out =
        command.arg(format!("--db={}", server.remote())).arg("--timeout=60").args(&words).output().unwrap();
    assert!(out.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

impl Drop for Central {
    fn drop(&mut self) {
        let _gone = self.northd.kill();
        let _ended = self.northd.wait();
    }
}
