//! Which connections this zone has rendered: what the report names, and the cluster manager waits for.
//!
//! A connection is rendered as it is wanted now when the northbound database is as planned, northd has carried out every
//! counted change and ovn-controller has installed it, the ports of its router have the keys that were asked for, and nothing
//! of it is in trouble. It stays so until something else is wanted of it.
//!
//! A process begins with what its predecessor has said: that stands until the databases say more, for a while, and for as
//! long as what is there stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::{ConnectReport, MAX_REPORTED_CONNECTS};
use causeway_ovn::Str;
use causeway_types::ConnectName;
use causeway_zone::{self as zone, Reason, Subject};

use super::trouble::{HELD, Trouble};
use crate::OwnPort;

/// The hash of what is rendered, for each connection.
#[derive(Debug, Default)]
pub struct Rendered {
    hashes: BTreeMap<ConnectName, String>,
    /// What the predecessor has said, of connections that were not judged since.
    inherited: BTreeMap<ConnectName, String>,
    /// Connections with a port whose key is not the one that was asked for.
    wrong: BTreeMap<ConnectName, String>,
    /// Connections that wait for others to carry them out as they are wanted now.
    pending: BTreeSet<ConnectName>,
    /// Whether something is neither rendered nor in trouble, as far as can be told, and nothing was said of it before.
    undecided: bool,
    /// Whether something is only said because the predecessor has said it.
    unproven: bool,
}

/// The own ports of each connection's router.
pub type Ports = BTreeMap<ConnectName, Vec<OwnPort>>;

/// Keys of ports as the southbound database has them.
pub type Keys = BTreeMap<Str, i64>;

/// How far the databases are.
pub struct RoadProgress<'a> {
    /// Of both databases.
    pub troubles: &'a [Trouble],
    /// Whether northd has carried out everything, and ovn-controller has installed it.
    pub carried_out: bool,
    /// Whether the predecessor is believed although the databases do not say the same yet.
    pub succeeds: bool,
    /// The ports that the plan asks for.
    pub ports: &'a Ports,
    /// What these ports have got.
    pub keys: &'a Keys,
}

impl Rendered {
    /// Takes over what the predecessor's report says.
    pub fn inherit(&mut self, connects: &[ConnectReport]) {
        let read = |report: &ConnectReport| Some((report.name.parse().ok()?, report.hash.clone()));
        self.inherited = connects.iter().filter_map(read).collect();
    }

    /// Compares what is wanted of each connection with how far the databases are.
    pub fn look(&mut self, wanted: &[zone::ConnectReport], progress: &RoadProgress<'_>) {
        let before = std::mem::take(&mut self.hashes);
        let inherited = std::mem::take(&mut self.inherited);
        *self = Self::default();
        let (failing, held) = blamed(progress.troubles);
        for connect in wanted.iter().filter(|connect| is_whole(connect, &failing)) {
            let name = &connect.name;
            let said = before.get(name);
            if held.contains(&Subject::Connect(name.clone())) {
                // What is there stays, and so does what was said of it.
                self.hashes.extend(said.map(|hash| (name.clone(), hash.clone())));
                self.inherited.extend(inherited.get(name).map(|hash| (name.clone(), hash.clone())));
                continue;
            }
            let ports = progress.ports.get(name).map(Vec::as_slice).unwrap_or_default();
            let wrong =
                ports.iter().filter(|_| progress.carried_out).find_map(|port| wrong(port, progress.keys));
            let done = progress.carried_out && ports.iter().all(|port| has_its_key(port, progress.keys));
            if let Some(text) = wrong {
                self.wrong.insert(name.clone(), text);
            } else if done {
                self.hashes.insert(name.clone(), connect.hash.clone());
            } else {
                self.wait_for(connect, said, inherited.get(name).filter(|_| progress.succeeds));
            }
        }
    }

    /// What is wanted is not carried out yet: what was said last still holds.
    fn wait_for(&mut self, connect: &zone::ConnectReport, said: Option<&String>, inherited: Option<&String>) {
        let name = || connect.name.clone();
        self.hashes.extend(said.map(|hash| (name(), hash.clone())));
        self.inherited.extend(inherited.filter(|_| said.is_none()).map(|hash| (name(), hash.clone())));
        let last = said.or(inherited);
        self.undecided |= last.is_none();
        self.unproven |= said.is_none() && inherited.is_some();
        if last != Some(&connect.hash) {
            self.pending.insert(name());
        }
    }

    /// Whether the next looks will say more, although nothing changes: so it is after a start.
    pub fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// Whether something is only said because the predecessor has said it, and time alone may end that.
    pub fn is_unproven(&self) -> bool {
        self.unproven
    }

    /// Connections that wait for others to carry them out.
    pub fn pending(&self) -> &BTreeSet<ConnectName> {
        &self.pending
    }

    /// Connections whose ports have wrong keys, with what is wrong.
    pub fn wrong(&self) -> &BTreeMap<ConnectName, String> {
        &self.wrong
    }

    /// What the report says, sorted by name.
    pub fn reports(&self) -> Vec<ConnectReport> {
        let said: BTreeMap<&ConnectName, &String> = self.inherited.iter().chain(&self.hashes).collect();
        let report = |(name, hash): (&ConnectName, &String)| ConnectReport {
            name: name.to_string(),
            hash: hash.clone(),
        };
        said.into_iter().take(MAX_REPORTED_CONNECTS).map(report).collect()
    }
}

fn has_its_key(port: &OwnPort, keys: &Keys) -> bool {
    let found = keys.get(port.name.as_str());
    found.is_some_and(|found| port.key.is_none_or(|asked| i64::from(u32::from(asked)) == *found))
}

/// northd gives a port another key when somebody has the one that was asked for; other zones would not know it by that.
fn wrong(port: &OwnPort, keys: &Keys) -> Option<String> {
    let (found, asked) = (keys.get(port.name.as_str())?, port.key?);
    let text = || {
        format!(
            "port {} has tunnel key {found}, not {}: look in northd's log who else has that",
            port.name,
            u32::from(asked)
        )
    };
    (!has_its_key(port, keys)).then(text)
}

/// Who is blamed for something that fails, and who for something that only stays as it is.
fn blamed(troubles: &[Trouble]) -> (BTreeSet<&Subject>, BTreeSet<&Subject>) {
    let of = |held: bool| {
        let some = troubles.iter().filter(move |trouble| (trouble.reason == HELD) == held);
        some.flat_map(|trouble| &trouble.blame).collect()
    };
    (of(false), of(true))
}

/// Whether nothing is missing that does not come by itself.
fn is_whole(connect: &zone::ConnectReport, failing: &BTreeSet<&Subject>) -> bool {
    missing(connect).next().is_none() && !failing.contains(&Subject::Connect(connect.name.clone()))
}

/// What keeps a connection from being rendered. Nodes that are only joining do not.
pub(super) fn missing(connect: &zone::ConnectReport) -> impl Iterator<Item = &zone::Problem> {
    connect.problems.iter().filter(|problem| problem.reason != Reason::NodeNotReady)
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_types::PortKey;
    use causeway_zone::Problem;

    fn wanted(hash: &str, problem: Option<Reason>) -> [zone::ConnectReport; 1] {
        let problems = problem.map(|reason| Problem::new(reason, "so it is")).into_iter().collect();
        [zone::ConnectReport { name: "main".parse().unwrap(), hash: hash.into(), problems }]
    }

    fn hashes(rendered: &Rendered) -> Vec<String> {
        rendered.reports().into_iter().map(|report| report.hash).collect()
    }

    fn look(rendered: &mut Rendered, wanted: &[zone::ConnectReport], carried_out: bool, key: Option<i64>) {
        let port = OwnPort { name: "main-to-blue-n1".into(), key: PortKey::new(3).ok() };
        let ports = [("main".parse().unwrap(), vec![port])].into();
        let keys = key.map(|key| (Str::from("main-to-blue-n1"), key)).into_iter().collect();
        let progress =
            RoadProgress { troubles: &[], carried_out, succeeds: true, ports: &ports, keys: &keys };
        rendered.look(wanted, &progress);
    }

    fn inherited(hash: &str) -> Rendered {
        let mut rendered = Rendered::default();
        rendered.inherit(&[ConnectReport { name: "main".into(), hash: hash.into() }]);
        rendered
    }

    /// A process that begins says what its predecessor has said until it knows more, and does not believe it for ever.
    #[test]
    fn what_the_predecessor_has_said_stands_for_a_while() {
        let mut rendered = inherited("one");
        assert_eq!(hashes(&rendered), ["one"], "before connections are known");
        look(&mut rendered, &wanted("one", None), false, Some(3));
        assert_eq!((hashes(&rendered), rendered.is_undecided()), (vec!["one".to_owned()], false));
        assert!(rendered.is_unproven());
        look(&mut rendered, &wanted("one", None), true, Some(3));
        assert_eq!((hashes(&rendered), rendered.is_unproven()), (vec!["one".to_owned()], false));

        let mut rendered = inherited("one");
        look(&mut rendered, &wanted("two", None), false, Some(3));
        assert_eq!((hashes(&rendered), rendered.pending().len()), (vec!["one".to_owned()], 1));
        let (ports, keys) = (Ports::new(), Keys::new());
        let late =
            RoadProgress { troubles: &[], carried_out: false, succeeds: false, ports: &ports, keys: &keys };
        rendered.look(&wanted("one", None), &late);
        assert_eq!((hashes(&rendered), rendered.pending().len()), (vec![], 1), "nobody has proven it");

        let mut rendered = inherited("one");
        look(&mut rendered, &[], true, Some(3));
        assert_eq!(hashes(&rendered), [""; 0], "the connection is gone");
    }

    /// What stays as it is stays said: only what fails is not rendered any more.
    #[test]
    fn what_is_held_stays_said() {
        let trouble = |reason| Trouble {
            slice: "cnc:main:network:blue:".into(),
            blame: vec![Subject::Connect("main".parse().unwrap())],
            reason,
            message: "so it is".into(),
        };
        let (ports, keys) = (Ports::new(), Keys::new());
        let look = |rendered: &mut Rendered, reason| {
            let troubles = [trouble(reason)];
            let progress = RoadProgress {
                troubles: &troubles,
                carried_out: true,
                succeeds: false,
                ports: &ports,
                keys: &keys,
            };
            rendered.look(&wanted("one", None), &progress);
            hashes(rendered)
        };
        let mut rendered = inherited("one");
        assert_eq!(look(&mut rendered, HELD), ["one"]);
        assert_eq!(look(&mut rendered, "DatabaseRefused"), [""; 0]);
        assert_eq!(look(&mut Rendered::default(), HELD), [""; 0], "nothing was there");
    }

    #[test]
    fn a_connection_is_rendered_once_northd_has_carried_it_out() {
        let mut rendered = Rendered::default();
        look(&mut rendered, &wanted("one", None), false, Some(3));
        assert_eq!(hashes(&rendered), [""; 0]);
        look(&mut rendered, &wanted("one", None), true, Some(3));
        assert_eq!(hashes(&rendered), ["one"]);
        // Something else is wanted: what is there is still the former.
        look(&mut rendered, &wanted("two", None), false, Some(3));
        assert_eq!((hashes(&rendered), rendered.pending().len()), (vec!["one".to_owned()], 1));
        look(&mut rendered, &wanted("two", None), true, Some(3));
        assert_eq!(hashes(&rendered), ["two"]);
        look(&mut rendered, &[], true, Some(3));
        assert_eq!(hashes(&rendered), [""; 0]);
    }

    #[test]
    fn a_port_must_have_the_key_that_was_asked_for() {
        let mut rendered = Rendered::default();
        look(&mut rendered, &wanted("one", None), true, None);
        assert_eq!((hashes(&rendered), rendered.wrong().len()), (vec![], 0), "it is not there yet");
        assert!(rendered.is_undecided());
        look(&mut rendered, &wanted("one", None), true, Some(3));
        assert_eq!(hashes(&rendered), ["one"]);
        assert!(!rendered.is_undecided());
        look(&mut rendered, &wanted("one", None), true, Some(4));
        assert_eq!(hashes(&rendered), [""; 0]);
        assert!(rendered.wrong().values().any(|text| text.contains("has tunnel key 4, not 3")));
    }

    #[test]
    fn what_is_missing_counts_unless_it_is_another_node() {
        let mut rendered = Rendered::default();
        look(&mut rendered, &wanted("one", Some(Reason::NodeNotReady)), true, Some(3));
        assert_eq!(hashes(&rendered), ["one"]);
        look(&mut rendered, &wanted("one", Some(Reason::NoLink)), true, Some(3));
        assert_eq!(hashes(&rendered), [""; 0]);
    }
}
