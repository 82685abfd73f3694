//! OVN's databases and northd, with the rows that Neutron would write.

use causeway_testing::{OvsdbServer, program, schema_file};
use std::process::{Child, Command, Stdio};

/// Both databases and northd.
pub(crate) struct Central {
    northbound: OvsdbServer,
    pub(crate) southbound: OvsdbServer,
    northd: Child,
}

/// A tenant: its number on the fabric, the provider's network of its gateway, and the gateway's addresses.
pub(crate) struct Tenant {
    pub(crate) vni: u32,
    pub(crate) provider: &'static str,
    pub(crate) mac: &'static str,
    pub(crate) gateway: &'static str,
    pub(crate) gateway6: &'static str,
    /// The provider's own router.
    via: [&'static str; 2],
}

/// The provider's network with a VLAN has its own router.
pub(crate) const VLAN: u16 = 100;
pub(crate) const PUBLIC: [&str; 2] = ["172.24.4.1", "fd04::1"];
pub(crate) const TAGGED: [&str; 2] = ["172.24.5.1", "fd05::1"];

pub(crate) const TENANTS: [Tenant; 3] = [
    Tenant {
        vni: 1001,
        provider: "public",
        mac: "fa:16:3e:b7:cc:47",
        gateway: "172.24.4.146",
        gateway6: "fd04::146",
        via: PUBLIC,
    },
    Tenant {
        vni: 1002,
        provider: "public",
        mac: "fa:16:3e:b7:cc:48",
        gateway: "172.24.4.147",
        gateway6: "fd04::147",
        via: PUBLIC,
    },
    Tenant {
        vni: 1003,
        provider: "tagged",
        mac: "fa:16:3e:b7:cc:49",
        gateway: "172.24.5.148",
        gateway6: "fd05::148",
        via: TAGGED,
    },
];
/// Equal in all tenants.
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

    /// The provider's networks, and for each tenant a router with a gateway, a subnet and a machine.
    pub(crate) fn draw(&self, tenants: &[Tenant]) {
        for (network, tag) in [("public", "[]".to_owned()), ("tagged", VLAN.to_string())] {
            self.nb(&format!(
                "ls-add {network} -- lsp-add {network} way-{network} -- lsp-set-type way-{network} localnet \
                 -- lsp-set-addresses way-{network} unknown -- lsp-set-options way-{network} network~name=public \
                 -- set logical~switch~port way-{network} tag={tag}"
            ));
        }
        for Tenant { vni, provider, mac, gateway, gateway6, via: [via, via6] } in tenants {
            self.nb(&format!(
                "lr-add r{vni} -- lrp-add r{vni} lrp-ext{vni} {mac} {gateway}/24 {gateway6}/64"
            ));
            self.nb(&format!("lr-route-add r{vni} 0.0.0.0/0 {via} -- lr-route-add r{vni} ::/0 {via6}"));
            self.nb(&format!(
                "lsp-add {provider} ext{vni} -- lsp-set-type ext{vni} router -- lsp-set-addresses ext{vni} router \
                 -- lsp-set-options ext{vni} router-port=lrp-ext{vni}"
            ));
            self.nb(&format!(
                "ls-add t{vni} -- lrp-add r{vni} lrp-int{vni} fa:16:3e:00:00:11 20.0.0.1/24 fd20::1/64"
            ));
            self.nb(&format!(
                "lsp-add t{vni} int{vni} -- lsp-set-type int{vni} router -- lsp-set-addresses int{vni} router \
                 -- lsp-set-options int{vni} router-port=lrp-int{vni}"
            ));
            self.machine(*vni, "vm", MACHINE, MACHINE6);
        }
    }

    /// Where a tenant's gateway lives, if it can: who has the higher number.
    pub(crate) fn prefer(&self, vni: u32, chassis: &str, priority: u32) {
        self.nb(&format!("lrp-set-gateway-chassis lrp-ext{vni} {chassis} {priority}"));
    }

    /// Whether OVN has bound a port to a chassis.
    pub(crate) fn is_bound(&self, port: &str) -> bool {
        let all = self.sb(&format!("--bare --columns=chassis find port_binding logical_port={port}"));
        !all.trim().is_empty()
    }

    /// Whether it has bound the tenants' gateways and machines.
    pub(crate) fn all_bound(&self, tenants: &[Tenant]) -> bool {
        let vnis = || tenants.iter().map(|tenant| tenant.vni);
        vnis().all(|vni| self.is_bound(&format!("cr-lrp-ext{vni}")) && self.is_bound(&format!("vm{vni}")))
    }

    /// One more machine of a tenant.
    pub(crate) fn machine(&self, vni: u32, name: &str, v4: &str, v6: &str) {
        self.nb(&format!(
            "lsp-add t{vni} {name}{vni} -- lsp-set-addresses {name}{vni} fa:16:3e:00:00:f1_{v4}_{v6}"
        ));
    }

    /// What networking-bgpvpn writes.
    pub(crate) fn annotate(&self, vni: u32) {
        self.annotate_with(vni, &[("vni", &vni.to_string()), ("as", "64999")]);
    }

    /// The same in other words.
    pub(crate) fn annotate_with(&self, vni: u32, pairs: &[(&str, &str)]) {
        let key = |(key, value): &(&str, &str)| format!("external~ids:neutron~bgpvpn\\:{key}={value}");
        let words = pairs.iter().map(key).collect::<Vec<_>>().join(" ");
        for port in ["ext", "int"] {
            self.nb(&format!("set logical~switch~port {port}{vni} {words}"));
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
