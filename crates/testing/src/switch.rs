//! A real Open vSwitch.

use crate::ovsdb_server::OvsdbServer;
use crate::programs::{program, schema_file};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// ovsdb-server and ovs-vswitchd, with `br-int`. Its sockets are in the database's folder.
pub struct Switch {
    daemon: Child,
    datapath: Datapath,
    /// The switch's database.
    pub database: OvsdbServer,
}

/// Who carries the packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Datapath {
    /// The switch itself, on any kernel.
    Userspace,
    /// The kernel, which needs a module for it with zones of connection tracking.
    Kernel,
}

impl Datapath {
    /// As Open vSwitch calls it.
    pub fn name(self) -> &'static str {
        match self {
            Datapath::Userspace => "netdev",
            Datapath::Kernel => "system",
        }
    }
}

fn vsctl(database: &OvsdbServer, words: &[&str]) -> String {
    let server = format!("--db={}", database.remote());
    let all = [server.as_str(), "--timeout=30"].into_iter().chain(words.iter().copied());
    let out = Command::new(program("ovs-vsctl")).args(all).output().expect("ovs-vsctl runs");
    assert!(out.status.success(), "ovs-vsctl {words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn daemon(database: &OvsdbServer, datapath: Datapath) -> Child {
    let folder = database.folder();
    Command::new(program("ovs-vswitchd"))
        .args([&database.remote(), "-vconsole:off", "--pidfile"])
        .args((datapath == Datapath::Userspace).then_some("--disable-system"))
        .arg(format!("--log-file={}", folder.join("vswitchd.log").display()))
        .envs(["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"].map(|name| (name, folder)))
        .stdin(Stdio::null())
        .spawn()
        .expect("ovs-vswitchd starts")
}

impl Switch {
    /// Starts ovsdb-server and ovs-vswitchd on the userspace datapath, with an empty `br-int`.
    pub fn start() -> Switch {
        Self::start_with(&[])
    }

    /// The same with settings of `Open_vSwitch`, such as `external_ids:system-id=n1`.
    pub fn start_with(settings: &[&str]) -> Switch {
        Self::start_on(Datapath::Userspace, settings)
    }

    /// The same where somebody else may carry the packets.
    pub fn start_on(datapath: Datapath, settings: &[&str]) -> Switch {
        let database = OvsdbServer::start(&schema_file("vswitch"));
        vsctl(&database, &["--no-wait", "init"]);
        let tso = "other_config:userspace-tso-enable=true";
        let all: Vec<&str> =
            ["--no-wait", "set", "Open_vSwitch", ".", tso].iter().chain(settings).copied().collect();
        vsctl(&database, &all);
        let switch = Switch { daemon: daemon(&database, datapath), datapath, database };
        switch.add_bridge("br-int");
        switch
    }

    /// Ends the switch without a goodbye; its database goes on.
    pub fn end(&mut self) {
        let _gone = self.daemon.kill();
        let _ended = self.daemon.wait();
    }

    /// Ends the switch, if it runs, and starts it again. Its flows are gone.
    pub fn restart(&mut self) {
        self.end();
        self.daemon = daemon(&self.database, self.datapath);
        // Waits until the switch has done what the database says.
        self.vsctl(&["set", "Open_vSwitch", ".", "external_ids:started=again"]);
    }

    /// Adds a bridge without any flows.
    pub fn add_bridge(&self, name: &str) {
        let datapath = format!("datapath_type={}", self.datapath.name());
        let settings = [datapath.as_str(), "fail_mode=secure"];
        let words = ["add-br", name, "--", "set", "bridge", name].into_iter().chain(settings);
        self.vsctl(&words.collect::<Vec<_>>());
    }

    /// What `ovs-vsctl` prints.
    pub fn vsctl(&self, words: &[&str]) -> String {
        vsctl(&self.database, words)
    }

    /// Ports of `br-int`, sorted.
    pub fn ports(&self) -> Vec<String> {
        self.vsctl(&["list-ports", "br-int"]).lines().map(str::to_owned).collect()
    }

    /// `external_ids` of an interface, but for what a controller writes.
    pub fn ids(&self, interface: &str) -> BTreeMap<String, String> {
        let json = self.vsctl(&["--format=json", "--columns=external_ids", "list", "Interface", interface]);
        let table: Value = serde_json::from_str(&json).expect("ovs-vsctl prints JSON");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pairs = table["data"][0][0][1].as_array().cloned().unwrap_or_default();
        let pairs = pairs.iter().map(|pair| (text(&pair[0]), text(&pair[1])));
        pairs.filter(|(key, _)| !key.starts_with("ovn-")).collect()
    }

    /// How often something was committed that tells of ports: what the switch writes of itself does not count.
    pub fn writes(&self) -> usize {
        let ours = |transaction: &&Value| {
            let interfaces = transaction["Interface"].as_object().into_iter().flat_map(|rows| rows.values());
            let ids = interfaces.filter(|row| row.get("external_ids").is_some() || row.is_null()).count();
            ids > 0 || transaction.get("Bridge").is_some_and(|rows| rows.to_string().contains("\"ports\""))
        };
        self.database.transactions().transactions.iter().filter(ours).count()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.end();
    }
}
