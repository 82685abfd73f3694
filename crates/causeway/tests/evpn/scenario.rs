//! What happens: two tenants are exposed, things break and heal, and one after the other goes.

use causeway_testing::Frr;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::central::{Central, MACHINE, MACHINE6, TENANTS};
use super::guest::{sh, wait, within};
use super::nodes::{Chassis, customer, fabric, gateway_fabric, inside, machine, node, provider, who};

/// Everything that runs.
struct World {
    central: Central,
    gateway: Chassis,
    _compute: Chassis,
    frr: Frr,
    _edge: Frr,
    agent: Option<Child>,
}

pub(crate) fn run() {
    let mut world = World::build();
    world.start_agent();
    world.exposed();
    world.restart_writes_nothing();
    world.one_machine_more();
    world.flaps();
    world.foreign_hands();
    world.faults();
    world.again_and_again();
    world.one_tenant_goes();
    world.end();
}

impl World {
    fn build() -> World {
        sh("ip link add underlay type bridge && ip link set underlay up");
        let central = Central::start();
        central.draw();
        for (name, number) in [("n1", 1), ("n2", 2), ("n3", 3)] {
            node(name, number);
        }
        within("n3", "ip address add 192.0.2.3/24 dev eth0");
        let gateway = Chassis::start("n1", 1, &central.southbound.remote());
        let compute = Chassis::start("n2", 2, &central.southbound.remote());
        TENANTS.iter().for_each(|tenant| machine(&compute, tenant.vni));
        provider("n1");
        within("n1", "ip link add br-docker0 type bridge");
        let frr = inside("n1", Frr::start);
        let edge = inside("n3", || Frr::start_at(179));
        gateway_fabric(&frr);
        fabric(&edge, 3, 1);
        TENANTS.iter().for_each(|tenant| customer(&edge, tenant.vni));
        let up = |name: &str| {
            let all = central.sb(&format!("--bare --columns=chassis find port_binding logical_port={name}"));
            !all.trim().is_empty()
        };
        wait("OVN has bound gateways and machines", || {
            TENANTS
                .iter()
                .all(|tenant| up(&format!("cr-lrp-ext{}", tenant.vni)) && up(&format!("vm{}", tenant.vni)))
        });
        World { central, gateway, _compute: compute, frr, _edge: edge, agent: None }
    }

    fn flags(&self) -> Vec<String> {
        let folder = self.frr.folder().display();
        vec![format!("--vswitch={}", self.gateway.switch.database.remote()), format!("--frr-folder={folder}")]
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.arg("evpn-agent").args(words).args(self.flags()).stdin(Stdio::null());
        command
    }

    fn start_agent(&mut self) {
        let mut command = self.command(&["--log-level=info,causeway_host=debug"]);
        self.agent = Some(inside("n1", || command.spawn().expect("the agent starts")));
    }

    fn stop_agent(&mut self) {
        let mut agent = self.agent.take().expect("the agent runs");
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    fn status(&self) -> String {
        let mut command = self.command(&["status", "--output=json", "--log-level=warn"]);
        let out = inside("n1", || command.output().unwrap());
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    }

    fn page(&self, path: &str) -> String {
        inside("n1", || {
            let Ok(mut stream) = TcpStream::connect("127.0.0.1:9412") else { return String::new() };
            let mut text = String::new();
            let asked = stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
            let _closed = asked.and_then(|()| stream.read_to_string(&mut text));
            text
        })
    }

    fn is_ready(&self) -> bool {
        self.page("/readyz").contains("200 OK")
    }

    /// Both directions, both families: whoever answers is the right one, though the addresses are equal.
    fn reaches(&self, vni: u32) -> bool {
        let (machine, customer) = (format!("vm{vni}"), format!("customer{vni}"));
        [MACHINE, MACHINE6].iter().all(|address| asked(&customer, address, &machine))
            && ["10.9.0.9", "fd09::9"].iter().all(|address| asked(&machine, address, &customer))
    }

    fn exposed(&mut self) {
        wait("the agent is ready with nothing to do", || self.is_ready());
        assert_eq!(who("customer1001", MACHINE, 9999), None, "nobody is exposed yet");
        TENANTS.iter().for_each(|tenant| self.central.annotate(tenant.vni));
        TENANTS.iter().for_each(|tenant| {
            wait(&format!("VNI {} reaches its own", tenant.vni), || self.reaches(tenant.vni))
        });
        wait("nothing is missing", || self.status().contains("\"missing\": []"));
        let status = self.status();
        assert!(
            status.contains("\"state\": \"Up\"") && status.contains("\"rd\": \"10.255.0.1:1001\""),
            "{status}"
        );
    }

    /// Killed without a goodbye, and started again.
    fn restart_writes_nothing(&mut self) {
        self.stop_agent();
        assert!(self.reaches(1001), "without the agent traffic goes on");
        self.start_agent();
        wait("the agent is ready again", || self.is_ready());
        let metrics = self.page("/metrics");
        assert!(metrics.contains("causeway_evpn_host_writes_total 0\n"), "{metrics}");
        assert!(
            metrics.contains("causeway_evpn_vnis 2\n") && metrics.contains("causeway_evpn_machines 4\n"),
            "{metrics}"
        );
    }

    /// A machine comes, and goes while the agent is away.
    fn one_machine_more(&mut self) {
        let shown = || within("n1", "ip -o address show dev lo-1001").contains("20.0.0.77/32");
        self.central.machine(1001, "more", "20.0.0.77", "fd20::77");
        self.gateway.switch.vsctl(&[
            "add-port",
            "br-int",
            "more",
            "--",
            "set",
            "Interface",
            "more",
            "type=internal",
            "external_ids:iface-id=more1001",
        ]);
        wait("one machine more is one address", shown);
        self.stop_agent();
        self.central.nb("lsp-del more1001");
        within("n1", "ip address add 20.0.0.78/32 dev lo-1001");
        within("n1", "ip route add 20.0.9.0/24 dev vv-1001 table 1001 proto 84");
        self.start_agent();
        wait("what nobody wants any more has gone", || {
            let routes = within("n1", "ip route show table 1001");
            !shown()
                && !within("n1", "ip -o address show dev lo-1001").contains("20.0.0.78")
                && !routes.contains("20.0.9.0")
        });
    }

    /// Cases 31 and 32.
    fn flaps(&self) {
        for device in ["lo-1001", "vrf-1001", "vxlan-1001", "vv-1001"] {
            within("n1", &format!("ip link set {device} down"));
            within("n1", &format!("ip link set {device} up"));
            wait(&format!("healed after {device} was off"), || {
                let routes = within("n1", "ip route show table 1001");
                routes.contains("20.0.0.0/24 via")
                    && !routes.contains("local 20.0.0.241")
                    && self.reaches(1001)
            });
        }
    }

    /// Ports, flows and devices that somebody takes away.
    fn foreign_hands(&mut self) {
        self.gateway.switch.vsctl(&["del-port", "vo-1001"]);
        within("n1", "ip link delete br-1002");
        TENANTS
            .iter()
            .for_each(|tenant| wait(&format!("VNI {} is back", tenant.vni), || self.reaches(tenant.vni)));
        let bridge = self.gateway.switch.database.folder().join("br-ex.mgmt");
        sh(&format!("ovs-ofctl -O OpenFlow15 del-flows unix:{} ip", bridge.display()));
        TENANTS.iter().for_each(|tenant| {
            wait(&format!("VNI {} is back with its flows", tenant.vni), || self.reaches(tenant.vni));
        });
    }

    /// Case 35 and its like: killed while somebody asks all the time, it heals, and what is lost has an end. `make kernel` does it twenty times each. FRR comes last:
    /// once zebra was started again, alone, it does not bring back the route to the other end of the tunnels after the device of the
    /// underlay was off for a moment, as it is when the switch ends; that route is the operator's, and no section of ours.
    fn faults(&mut self) {
        for victim in ["agent", "database", "switch", "bgpd", "zebra"] {
            let mut longest = Duration::ZERO;
            for _ in 0..rounds() {
                let asking = Asking::begin("customer1001", MACHINE);
                std::thread::sleep(Duration::from_millis(500));
                self.kill(victim);
                TENANTS.iter().for_each(|tenant| {
                    let what = format!("VNI {} is back after the end of the {victim}", tenant.vni);
                    wait(&what, || self.reaches(tenant.vni));
                });
                // Both are as planned again before the next one goes.
                wait("nothing is missing", || self.status().contains("\"missing\": []"));
                let lost = asking.end();
                longest = longest.max(lost);
                println!("{victim}: nobody answered for {:.1} s", lost.as_secs_f32());
            }
            println!(
                "{victim}, {} times: nobody answered for {:.1} s at most",
                rounds(),
                longest.as_secs_f32()
            );
            let bound = if victim == "agent" { NO_LOSS } else { MOST_LOSS };
            assert!(longest <= bound, "{victim}: {longest:?}");
        }
    }

    fn kill(&mut self, victim: &'static str) {
        match victim {
            "agent" => {
                self.stop_agent();
                self.start_agent();
            }
            "database" => {
                self.gateway.switch.database.kill();
                self.gateway.switch.database.serve();
            }
            "switch" => self.restart_switch(),
            daemon => {
                self.frr.kill_daemon(daemon);
                let frr = &mut self.frr;
                inside("n1", || frr.start_daemon(daemon));
                if daemon == "bgpd" {
                    gateway_fabric(&self.frr);
                }
            }
        }
    }

    /// Its devices outlive it. It is started again where it was, in the node's namespace: elsewhere it would have no way to any tunnel.
    fn restart_switch(&mut self) {
        let switch = &mut self.gateway.switch;
        inside("n1", || switch.restart());
    }

    /// Case 38 and defect 17: gone and there again, and nothing of the one is in the way of the other.
    fn again_and_again(&self) {
        for _ in 0..rounds() {
            self.central.unannotate(1001);
            wait("nothing is left of VNI 1001", || self.left("1001").is_empty());
            self.central.annotate(1001);
            wait("VNI 1001 is there again", || self.reaches(1001));
        }
    }

    /// Case 37: nothing is left of it, and the other one does not notice.
    fn one_tenant_goes(&self) {
        self.central.unannotate(1001);
        let left = || self.left("1001");
        wait("nothing is left of VNI 1001", || left().is_empty());
        assert!(self.reaches(1002) && who("customer1001", MACHINE, 9999).is_none());
        self.central.annotate(1001);
        wait("VNI 1001 is there again", || self.reaches(1001));
    }

    /// What the node still has of a VNI.
    fn left(&self, vni: &str) -> Vec<String> {
        let folder = self.gateway.switch.database.folder().join("br-ex.mgmt");
        let all = [
            within("n1", "ip -o link"),
            within("n1", "ip -4 route show table all"),
            within("n1", "ip -6 route show table all"),
            self.gateway.switch.vsctl(&["list-ports", "br-ex"]),
            sh(&format!(
                "ovs-ofctl -O OpenFlow15 dump-flows unix:{} | grep 0xca5e3a71 || true",
                folder.display()
            )),
            self.frr.running(),
        ];
        let gateway = if vni == "1001" { TENANTS[0].mac } else { TENANTS[1].mac };
        let of_it = |line: &&str| line.contains(&format!("-{vni}")) || line.contains(gateway);
        all.iter().flat_map(|text| text.lines()).filter(of_it).map(str::to_owned).collect()
    }

    /// The agent's own end leaves everything; whoever wants it away says so.
    fn end(&mut self) {
        self.stop_agent();
        assert!(self.reaches(1001) && self.reaches(1002));
        let mut command = self.command(&["withdraw", "--log-level=warn"]);
        let out = inside("n1", || command.output().unwrap());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!((self.left("1001"), self.left("1002")), (Vec::new(), Vec::new()));
        assert!(
            PathBuf::from("/sys").exists() && within("n1", "ip -o link").contains("br-docker0"),
            "others' things stay"
        );
    }
}

/// How often each fault happens.
fn rounds() -> u32 {
    std::env::var("CAUSEWAY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Nobody may notice; an answer in the test kernel may be late.
const NO_LOSS: Duration = Duration::from_secs(4);
/// However busy the machine is, it ends.
const MOST_LOSS: Duration = Duration::from_secs(90);

/// Somebody who asks all the time.
struct Asking {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Asking {
    fn begin(from: &'static str, address: &'static str) -> Asking {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
            while !told.load(Ordering::Relaxed) {
                if who(from, address, 9999).is_some() {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            longest.max(last.elapsed())
        });
        Asking { stop, thread }
    }

    /// The longest time without an answer.
    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn asked(from: &str, address: &str, name: &str) -> bool {
    let answer = who(from, address, 9999);
    assert!(
        answer.as_deref().is_none_or(|answer| answer == name),
        "{address} asked by {from}: {answer:?} answers"
    );
    answer.is_some()
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}\n{}", self.frr.running(), self.status());
            for (node, command) in [
                ("n1", "ip route show table 1001"),
                ("n1", "ip route"),
                ("n1", "ip -s link show vxlan-1001"),
                ("n1", "ip neighbour"),
                ("n3", "ip route show table 1001"),
                ("vm1001", "cat /proc/net/snmp"),
            ] {
                println!("-- {node}: {command}\n{}", within(node, command));
            }
            println!("{}", self.frr.vtysh(&["-c", "show bgp summary"]));
        }
        if let Some(mut agent) = self.agent.take() {
            let _gone = agent.kill();
            let _ended = agent.wait();
        }
    }
}
