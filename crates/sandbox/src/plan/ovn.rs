//! The OVN zone of a node: databases, northd, vswitchd, controller, and the bridges they work on.

use super::unit::{Body, Chassis, Command, Probe, Process, Task, Unit};
use super::{Places, Site};
use crate::wanted::{Datapath, Plugin};
use std::collections::BTreeMap;
use std::path::PathBuf;

const STEP: &str = "OVN";
/// Tunnels of pods with an MTU of 1400 fit.
const UNDERLAY_MTU: u16 = 1500;
/// How long `ovs-vsctl` waits for the switch, in seconds.
const PATIENCE: u8 = 30;

/// A database: unit, file name, schema. The names are those where OVN's tools look first.
const DATABASES: [(&str, &str, &str); 3] = [
    ("ovs-db", "db", "vswitch.ovsschema"),
    ("nb-db", "ovnnb_db", "ovn-nb.ovsschema"),
    ("sb-db", "ovnsb_db", "ovn-sb.ovsschema"),
];

fn folder(node: &str, places: &Places) -> PathBuf {
    places.folder.path("nodes").join(node).join("ovn")
}

/// A socket in the folder, as `unix:…`.
pub(super) fn remote(node: &str, name: &str, places: &Places) -> String {
    format!("unix:{}", folder(node, places).join(format!("{name}.sock")).display())
}

/// Where OVN's programs and tools find each other.
pub(super) fn environment(node: &str, places: &Places) -> BTreeMap<String, String> {
    let folder = folder(node, places).display().to_string();
    let variables = ["RUNDIR", "DBDIR", "LOGDIR", "SYSCONFDIR"];
    let both = variables.iter().flat_map(|name| [format!("OVS_{name}"), format!("OVN_{name}")]);
    both.map(|name| (name, folder.clone())).collect()
}

/// The units of a node's zone.
pub(super) fn units(site: &Site<'_>, all: &[Site<'_>], places: &Places) -> Vec<Unit> {
    let zone = Zone { site, places, environment: environment(site.name, places) };
    let mut units = vec![zone.databases()];
    units.extend(DATABASES.map(|(unit, file, _)| zone.database(unit, file)));
    units.extend([
        zone.task("ovs-settings", zone.switch_settings(), "ovs-db"),
        zone.task("zone", zone.zone_settings(), "nb-db").after([site.id("sb-db")]),
        zone.switch(),
        zone.task("bridges", zone.bridges(), "ovs-vswitchd"),
        zone.northd(),
        zone.controller(),
    ]);
    // Causeway's node role writes the chassis of the other zones itself.
    units.extend((site.plugin == Plugin::Bridge).then(|| zone.chassis(all)));
    units
}

struct Zone<'a> {
    site: &'a Site<'a>,
    places: &'a Places,
    environment: BTreeMap<String, String>,
}

impl Zone<'_> {
    fn file(&self, name: &str) -> PathBuf {
        folder(self.site.name, self.places).join(name)
    }

    fn remote(&self, name: &str) -> String {
        remote(self.site.name, name, self.places)
    }

    fn command<S: AsRef<str>>(&self, program: &str, words: impl IntoIterator<Item = S>) -> Command {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        Command::new(std::iter::once(self.places.program(program)).chain(words))
            .within(self.site.name)
            .environment(&self.environment)
    }

    fn task(&self, part: &str, commands: Vec<Command>, after: &str) -> Unit {
        self.site.unit(part, STEP, Body::Task(Task::Run(commands))).after([self.site.id(after)])
    }

    fn daemon<S: AsRef<str>>(&self, part: &str, words: impl IntoIterator<Item = S>, probe: Probe) -> Unit {
        let program = if part.ends_with("-db") { "ovsdb-server" } else { part };
        let mut command = self.command(program, words);
        command.words.extend(["-vconsole:info".into(), "-vsyslog:off".into()]);
        self.site.unit(part, STEP, Body::Process(Process { command, files: Vec::new(), probe }))
    }

    fn databases(&self) -> Unit {
        let file = |(_, name, schema): (&str, &str, &str)| {
            (self.file(&format!("{name}.db")), self.places.programs.share(schema))
        };
        let files = DATABASES.map(file).to_vec();
        let tool = self.places.programs.program("ovsdb-tool");
        let task = Task::Databases { files, tool };
        self.site.unit("databases", STEP, Body::Task(task)).after(["network"])
    }

    fn database(&self, unit: &str, name: &str) -> Unit {
        let at = |suffix: &str| self.file(&format!("{name}.{suffix}"));
        let words = [
            at("db").display().to_string(),
            format!("--remote=punix:{}", at("sock").display()),
            format!("--unixctl={}", at("ctl").display()),
            format!("--pidfile={}", at("pid").display()),
        ];
        self.daemon(unit, words, Probe::Socket(at("sock"))).after([self.site.id("databases")])
    }

    /// As bridges name it.
    fn datapath_type(&self) -> &'static str {
        match self.site.datapath {
            Datapath::Userspace => "netdev",
            Datapath::Kernel => "system",
        }
    }

    /// What the switch and the controller must know before they start.
    fn switch_settings(&self) -> Vec<Command> {
        let name = self.site.name;
        let mut settings = vec![
            format!("external_ids:system-id={name}"),
            format!("external_ids:hostname={name}"),
            format!("external_ids:ovn-remote={}", self.remote("ovnsb_db")),
            "external_ids:ovn-encap-type=geneve".into(),
            format!("external_ids:ovn-encap-ip={}", self.site.tunnel()),
            format!("external_ids:ovn-bridge-datapath-type={}", self.datapath_type()),
            "external_ids:ovn-monitor-all=true".into(),
            "external_ids:ovn-is-interconn=true".into(),
        ];
        if self.site.datapath == Datapath::Userspace {
            // Without it checksums of TCP over cables are wrong, and only ping works.
            settings.push("other_config:userspace-tso-enable=true".into());
        }
        let start = ["--no-wait", "init", "--", "set", "Open_vSwitch", "."].map(str::to_owned);
        vec![self.command("ovs-vsctl", start.into_iter().chain(settings))]
    }

    fn zone_settings(&self) -> Vec<Command> {
        let name = format!("name={}", self.site.name);
        vec![
            self.command("ovn-nbctl", ["init", "--", "set", "NB_Global", ".", name.as_str()]),
            self.command("ovn-sbctl", ["init"]),
        ]
    }

    fn switch(&self) -> Unit {
        let socket = self.remote("db");
        let userspace = (self.site.datapath == Datapath::Userspace).then_some("--disable-system");
        let words = [socket.as_str(), "--pidfile"].into_iter().chain(userspace);
        self.daemon("ovs-vswitchd", words, Probe::Runs).after([self.site.id("ovs-settings")])
    }

    /// With the userspace datapath tunnels must end on a bridge of the switch, so the underlay's address sits on
    /// `br-ex`, which has the cable as a port.
    fn bridges(&self) -> Vec<Command> {
        let (mtu, kind) = (format!("mtu_request={UNDERLAY_MTU}"), self.datapath_type());
        let patience = format!("--timeout={PATIENCE}");
        let line = format!(
            "{patience} -- --may-exist add-br br-ex -- set bridge br-ex datapath_type={kind} fail_mode=standalone \
             -- set interface br-ex {mtu} -- --may-exist add-port br-ex eth0 \
             -- --may-exist add-br br-int -- set bridge br-int datapath_type={kind} fail_mode=secure \
             other_config:disable-in-band=true"
        );
        vec![self.command("ovs-vsctl", line.split_whitespace())]
    }

    fn northd(&self) -> Unit {
        let databases = [
            format!("--ovnnb-db={}", self.remote("ovnnb_db")),
            format!("--ovnsb-db={}", self.remote("ovnsb_db")),
        ];
        let words = databases.into_iter().chain(["--pidfile".to_owned()]);
        self.daemon("ovn-northd", words, Probe::Runs).after([self.site.id("zone")])
    }

    fn controller(&self) -> Unit {
        let socket = self.remote("db");
        self.daemon("ovn-controller", [socket.as_str(), "--pidfile"], Probe::Runs)
            .after([self.site.id("zone"), self.site.id("bridges")])
    }

    fn chassis(&self, all: &[Site<'_>]) -> Unit {
        let others = all.iter().filter(|other| other.name != self.site.name);
        let others =
            others.map(|other| Chassis { name: other.name.to_owned(), address: other.tunnel() }).collect();
        let task = Task::Chassis { socket: self.file("ovnsb_db.sock"), others };
        self.site.unit("chassis", STEP, Body::Task(task)).after([self.site.id("zone")])
    }
}
