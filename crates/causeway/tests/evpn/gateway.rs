//! A node with gateways: a chassis, FRR, and the agent.

use causeway_testing::Frr;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::guest::{sh, within};
use super::nodes::{Chassis, inside, provider};

pub(crate) struct Gateway {
    pub(crate) name: &'static str,
    pub(crate) chassis: Chassis,
    pub(crate) frr: Frr,
    /// What the operator says to FRR.
    told: fn(&Frr),
    agent: Option<Child>,
}

impl Gateway {
    /// A chassis with a provider's networks and FRR; without the agent yet.
    pub(crate) fn start(name: &'static str, number: u8, southbound: &str, told: fn(&Frr)) -> Gateway {
        let chassis = Chassis::start(name, number, southbound);
        provider(name, &chassis);
        let frr = inside(name, Frr::start);
        told(&frr);
        Gateway { name, chassis, frr, told, agent: None }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.arg("evpn-agent").args(words).stdin(Stdio::null());
        command.arg(format!("--vswitch={}", self.chassis.switch.database.remote()));
        command.arg(format!("--frr-folder={}", self.frr.folder().display()));
        command
    }

    /// What a command of the agent's says, with what it complains of.
    pub(crate) fn ask(&self, words: &[&str]) -> (bool, String) {
        let mut command = self.command(words);
        command.arg("--log-level=warn");
        let out = inside(self.name, || command.output().unwrap());
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.success(), said)
    }

    pub(crate) fn start_agent(&mut self) {
        let mut command = self.command(&["--log-level=info,causeway_host=debug"]);
        self.agent = Some(inside(self.name, || command.spawn().expect("the agent starts")));
    }

    /// Without a goodbye.
    pub(crate) fn stop_agent(&mut self) {
        let mut agent = self.agent.take().expect("the agent runs");
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    pub(crate) fn status(&self) -> String {
        self.ask(&["status", "--output=json"]).1
    }

    pub(crate) fn is_as_planned(&self) -> bool {
        self.status().contains("\"missing\": []")
    }

    pub(crate) fn page(&self, path: &str) -> String {
        inside(self.name, || {
            let Ok(mut stream) = TcpStream::connect("127.0.0.1:9412") else { return String::new() };
            let mut text = String::new();
            let asked = stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
            let _closed = asked.and_then(|()| stream.read_to_string(&mut text));
            text
        })
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.page("/readyz").contains("200 OK")
    }

    pub(crate) fn ofctl(&self, words: &str) -> String {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let bridge = self.chassis.switch.database.folder().join("br-ex.mgmt");
        sh(&format!("ovs-ofctl -O OpenFlow15 {verb} unix:{} {rest}", bridge.display()))
    }

    /// Ends something without a goodbye, and starts it again where it was.
    pub(crate) fn kill(&mut self, victim: &'static str) {
        match victim {
            "agent" => {
                self.stop_agent();
                self.start_agent();
            }
            "database" => {
                self.chassis.switch.database.kill();
                self.chassis.switch.database.serve();
            }
            // Its devices outlive it. Elsewhere than in the node's namespace it would have no way to any tunnel.
            "switch" => {
                let switch = &mut self.chassis.switch;
                inside(self.name, || switch.restart());
            }
            daemon => {
                self.frr.kill_daemon(daemon);
                self.start_daemon(daemon);
            }
        }
    }

    /// One of FRR's, with what the operator tells bgpd.
    pub(crate) fn start_daemon(&mut self, daemon: &'static str) {
        let frr = &mut self.frr;
        inside(self.name, || frr.start_daemon(daemon));
        if daemon == "bgpd" {
            (self.told)(&self.frr);
        }
    }

    /// What FRR's own watchfrr does on a node: a daemon that has ended by itself is started again. zebra of FRR 10.3 sometimes ends when
    /// devices of a VRF go. Whether there was one.
    pub(crate) fn watch_frr(&mut self) -> bool {
        let ended = self.frr.ended();
        for daemon in &ended {
            println!("{daemon} has ended by itself, and is started again");
            self.start_daemon(daemon);
        }
        !ended.is_empty()
    }

    /// What the node still has of a VNI, or of somebody's gateway.
    pub(crate) fn left(&self, vni: u32, mac: &str) -> Vec<String> {
        let all = [
            within(self.name, "ip -o link"),
            within(self.name, "ip -4 route show table all"),
            within(self.name, "ip -6 route show table all"),
            within(self.name, "ip rule"),
            self.chassis.switch.vsctl(&["list-ports", "br-ex"]),
            self.ofctl("dump-flows cookie=0xca5e3a7100000000/0xffffffff00000000"),
            self.frr.running(),
        ];
        let of_it = |line: &&str| line.contains(&format!("-{vni}")) || line.contains(mac);
        all.iter().flat_map(|text| text.lines()).filter(of_it).map(str::to_owned).collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("== {}\n{}\n{}", self.name, self.frr.running(), self.status());
            for command in
                ["ip route", "ip neighbour", "ip -s link show type vxlan", "ip route show table 1001"]
            {
                println!("-- {command}\n{}", within(self.name, command));
            }
            println!("{}", self.frr.vtysh(&["-c", "show daemons", "-c", "show bgp summary"]));
            for daemon in ["mgmtd", "zebra", "bgpd"] {
                let log = self.frr.folder().join(format!("{daemon}.log"));
                println!("-- {daemon}\n{}", std::fs::read_to_string(log).unwrap_or_default());
            }
        }
        if let Some(mut agent) = self.agent.take() {
            let _gone = agent.kill();
            let _ended = agent.wait();
        }
    }
}
