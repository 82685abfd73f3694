//! Pools of ids and keys with their types: network ids, node ids, tunnel keys of routers, tunnel ids
//! of pods.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use causeway_types::{ConnectName, DatapathKey, NetworkId, NetworkName, NodeId, NodeName, PortKey};
use serde::{Deserialize, Serialize};

use crate::{Claim, Cleared, Epoch, Error, Fit, Lost, NumberPool, Record, Refused, Result};

/// Ids of type `N`, one for each owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids<O, N> {
    what: &'static str,
    pool: NumberPool<O>,
    number: PhantomData<N>,
}

/// What the internal object keeps of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdRecord {
    /// Where next-fit goes on.
    pub cursor: u32,
    /// Freed numbers and the epoch that lists them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quarantined: BTreeMap<u32, Epoch>,
}

/// A claim that could not be kept: the object needs another id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostId<O, N> {
    /// Whose it was.
    pub owner: O,
    /// The one that was claimed; another owner may have it.
    pub id: N,
    /// Why.
    pub error: Error,
}

/// Ids of networks, next-fit.
pub type NetworkIds = Ids<NetworkName, NetworkId>;
/// Ids of nodes, the lowest free one: a pool of links must not age with node churn.
pub type NodeIds = Ids<NodeName, NodeId>;
/// Tunnel keys of routers, next-fit.
pub type TunnelKeys = Ids<KeyOwner, DatapathKey>;
/// Tunnel ids of the pods of one layer2 network, next-fit; owners are pod attachments.
pub type PodTunnelIds<O> = Ids<O, PortKey>;

/// Who has a dynamic tunnel key. The kinds keep a network and a connection of the same name apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyOwner {
    /// The transit router of a layer2 network.
    TransitRouter(NetworkName),
    /// The connect router of a `ClusterNetworkConnect`.
    ConnectRouter(ConnectName),
}

impl fmt::Display for KeyOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TransitRouter(network) => write!(f, "network/{network}"),
            Self::ConnectRouter(connect) => write!(f, "connect/{connect}"),
        }
    }
}

impl NetworkIds {
    /// All ids of user-defined networks are free.
    pub fn new() -> Self {
        Self::of("network ids", NetworkId::FIRST.get(), NetworkId::LAST.get(), Fit::Next)
    }
}

impl Default for NetworkIds {
    fn default() -> Self {
        Self::new()
    }
}

impl NodeIds {
    /// Ids for at most this many nodes are free. A node with a higher one, from when more were allowed, keeps it.
    pub fn new(max_nodes: u32) -> Self {
        let (first, last) = (NodeId::FIRST.get(), NodeId::LAST.get());
        let mut ids = Self::of("node ids", first, last, Fit::Lowest);
        ids.pool.set_aside(first.saturating_add(max_nodes).into(), last.into());
        ids
    }
}

impl TunnelKeys {
    /// The whole dynamic range is free.
    pub fn new() -> Self {
        Self::of("tunnel keys", *DatapathKey::DYNAMIC.start(), *DatapathKey::DYNAMIC.end(), Fit::Next)
    }
}

impl Default for TunnelKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Ord + Clone + fmt::Display> PodTunnelIds<O> {
    /// All tunnel ids are free. 1 to 9 belong to the platform's own ports: no pod gets one, but a pod
    /// that has one from earlier times keeps it.
    pub fn new() -> Self {
        let mut ids = Self::of("pod tunnel ids", 1, PortKey::LAST, Fit::Next);
        ids.pool.set_aside(1, 9);
        ids
    }
}

impl<O: Ord + Clone + fmt::Display> Default for PodTunnelIds<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O, N> Ids<O, N>
where
    O: Ord + Clone + fmt::Display,
    N: Copy + Into<u32> + TryFrom<u32, Error = causeway_types::Error>,
{
    fn of(what: &'static str, first: u32, last: u32, fit: Fit) -> Self {
        Self { what, pool: NumberPool::new(first.into(), last.into(), fit), number: PhantomData }
    }

    /// Gives an empty pool the state that annotations and the record describe.
    pub fn restore(&mut self, claims: Vec<Claim<O, N>>, record: &IdRecord) -> Vec<LostId<O, N>> {
        let plain = |claim: Claim<O, N>| Claim {
            seniority: claim.seniority,
            owner: claim.owner,
            number: u128::from(claim.number.into()),
        };
        let record = Record {
            cursor: record.cursor.into(),
            quarantined: record
                .quarantined
                .iter()
                .map(|(number, epoch)| ((*number).into(), *epoch))
                .collect(),
        };
        let lost = self.pool.restore(claims.into_iter().map(plain).collect(), &record);
        lost.into_iter().filter_map(|lost| self.lost(lost)).collect()
    }

    /// The owner's id, or a new one that waits for `commit` or `abort`.
    pub fn reserve(&mut self, owner: &O) -> Result<N> {
        match self.pool.reserve(owner) {
            Ok(number) => self.typed(number),
            Err(reason) => Err(self.error(owner, 0, reason)),
        }
    }

    /// Reserves exactly this id, as an annotation written by somebody else asks for.
    pub fn request(&mut self, owner: &O, id: N) -> Result<()> {
        let number = id.into().into();
        self.pool.request(owner, number).map_err(|reason| self.error(owner, number, reason))
    }

    /// The annotation is written: the reservation stands.
    pub fn commit(&mut self, owner: &O) {
        self.pool.commit(owner);
    }

    /// The annotation could not be written: the reservation is undone.
    pub fn abort(&mut self, owner: &O) {
        self.pool.abort(owner);
    }

    /// Lists the owner's id as freed in this epoch; to be recorded before the owner may go.
    pub fn quarantine(&mut self, owner: &O, epoch: Epoch) -> Option<N> {
        self.pool.quarantine(owner, epoch).and_then(|number| self.typed(number).ok())
    }

    /// The owner is gone.
    pub fn release(&mut self, owner: &O) -> Option<N> {
        self.pool.release(owner).and_then(|number| self.typed(number).ok())
    }

    /// All zones have cleared what these epochs list.
    pub fn expire(&mut self, cleared: &Cleared) {
        self.pool.expire(cleared);
    }

    /// The owner's id.
    pub fn id_of(&self, owner: &O) -> Option<N> {
        self.pool.number_of(owner).and_then(|number| self.typed(number).ok())
    }

    /// Who has an id.
    pub fn holder(&self, id: N) -> Option<&O> {
        self.pool.holder(id.into().into())
    }

    /// How many ids are held.
    pub fn held(&self) -> usize {
        self.pool.held()
    }

    /// How many more ids can be handed out now.
    pub fn free(&self) -> u32 {
        u32::try_from(self.pool.free()).unwrap_or(u32::MAX)
    }

    /// Whether any number is in quarantine.
    pub fn any_rests(&self) -> bool {
        self.pool.any_rests()
    }

    /// What to remember beyond the annotations.
    pub fn record(&self) -> IdRecord {
        let record = self.pool.record();
        let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
        IdRecord {
            cursor: small(record.cursor),
            quarantined: record
                .quarantined
                .into_iter()
                .map(|(number, epoch)| (small(number), epoch))
                .collect(),
        }
    }

    fn typed(&self, number: u128) -> Result<N> {
        let error = Error::OutOfRange { what: self.what, number };
        u32::try_from(number).ok().and_then(|number| N::try_from(number).ok()).ok_or(error)
    }

    fn lost(&self, lost: Lost<O>) -> Option<LostId<O, N>> {
        let id = self.typed(lost.number).ok()?;
        let error = self.error(&lost.owner, lost.number, lost.reason);
        Some(LostId { owner: lost.owner, id, error })
    }

    fn error(&self, owner: &O, number: u128, reason: Refused<O>) -> Error {
        let what = self.what;
        match reason {
            Refused::Full => Error::Exhausted { what, held: self.pool.held(), waiting: self.pool.waiting() },
            Refused::OutOfRange => Error::OutOfRange { what, number },
            Refused::Excluded => Error::Excluded { what, number },
            Refused::TakenBy(holder) => Error::Taken { what, number, holder: holder.to_string() },
            Refused::Quarantined => Error::Waiting { what, number },
            Refused::Holds(number) => Error::Holds { what, owner: owner.to_string(), number },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seniority;

    fn network(name: &str) -> NetworkName {
        NetworkName::new(name).unwrap()
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn id(number: u32) -> NetworkId {
        NetworkId::new(number).unwrap()
    }

    fn claim<O, N>(created: i64, owner: O, number: N) -> Claim<O, N> {
        Claim { seniority: Seniority { finished: false, created }, owner, number }
    }

    fn connect(name: &str) -> KeyOwner {
        KeyOwner::ConnectRouter(ConnectName::new(name).unwrap())
    }

    fn transit(name: &str) -> KeyOwner {
        KeyOwner::TransitRouter(network(name))
    }

    /// udn-cases F001, F002.
    #[test]
    fn f001_f002_network_ids_go_round() {
        let mut ids = NetworkIds::new();
        let got = ["a", "b", "c"].map(|name| ids.reserve(&network(name)).unwrap().get());
        assert_eq!(got, [1, 2, 3]);
        ids.release(&network("b"));
        assert_eq!(ids.reserve(&network("d")), Ok(id(4)));
    }

    /// udn-cases F004.
    #[test]
    fn f004_a_restart_keeps_ids() {
        let mut ids = NetworkIds::new();
        let claims = vec![claim(1, network("a"), id(5)), claim(2, network("b"), id(9))];
        assert_eq!(ids.restore(claims, &IdRecord::default()), vec![]);
        assert_eq!([ids.reserve(&network("a")), ids.reserve(&network("b"))], [Ok(id(5)), Ok(id(9))]);
        assert_eq!(ids.reserve(&network("c")), Ok(id(1)));
    }

    /// udn-cases F005, K010.
    #[test]
    fn f005_k010_of_two_networks_with_one_id_the_older_keeps_it() {
        let mut ids = NetworkIds::new();
        let claims = vec![claim(9, network("young"), id(5)), claim(3, network("old"), id(5))];
        let lost = ids.restore(claims, &IdRecord::default());
        let error = Error::Taken { what: "network ids", number: 5, holder: "old".to_owned() };
        assert_eq!(lost, vec![LostId { owner: network("young"), id: id(5), error }]);
        assert_eq!(ids.reserve(&network("young")), Ok(id(1)));
        let mut tied = NetworkIds::new();
        tied.restore(
            vec![claim(3, network("b"), id(5)), claim(3, network("a"), id(5))],
            &IdRecord::default(),
        );
        assert_eq!(tied.holder(id(5)), Some(&network("a")));
    }

    /// udn-cases F008.
    #[test]
    fn f008_all_network_ids_in_use() {
        let mut ids = NetworkIds::new();
        for n in 0..4095 {
            ids.reserve(&network(&format!("n{n}"))).unwrap();
        }
        assert_eq!(
            ids.reserve(&network("more")).unwrap_err().to_string(),
            "network ids exhausted: 4095 in use and 0 waiting for nodes to confirm that they are gone; delete what \
             is not needed"
        );
        ids.quarantine(&network("n7"), Epoch(1));
        ids.release(&network("n7"));
        assert!(ids.reserve(&network("more")).is_err(), "a node may still have network 8");
        ids.expire(&Cleared::new(Epoch(1), []));
        assert_eq!(ids.reserve(&network("more")), Ok(id(8)));
    }

    /// udn-cases F010, F013; cnc-cases J01, J02, J04, J05, J07. One owner has one key, so nobody asks for several.
    #[test]
    fn f010_f013_j01_to_j07_dynamic_keys() {
        let mut keys = TunnelKeys::new();
        assert_eq!(keys.free(), 61_437);
        assert_eq!(keys.reserve(&transit("a")).unwrap().get(), 16_715_779);
        let claims = vec![claim(1, connect("c"), DatapathKey::new(16_715_782).unwrap())];
        let mut restored = TunnelKeys::new();
        assert_eq!(restored.restore(claims, &keys.record()), vec![]);
        let got = ["a", "b", "c", "d"].map(|name| restored.reserve(&transit(name)).unwrap().get());
        assert_eq!(got, [16_715_779, 16_715_780, 16_715_781, 16_715_783]);
        assert_eq!(restored.reserve(&connect("c")).unwrap().get(), 16_715_782);
        let foreign = vec![claim(1, transit("x"), DatapathKey::of_network(id(3)))];
        assert_eq!(TunnelKeys::new().restore(foreign, &IdRecord::default()).len(), 1);
    }

    /// cnc-cases J08.
    #[test]
    fn j08_a_network_and_a_connection_of_one_name_have_their_own_keys() {
        let mut keys = TunnelKeys::new();
        let (one, two) = (keys.reserve(&transit("x")).unwrap(), keys.reserve(&connect("x")).unwrap());
        assert_ne!(one, two);
        assert_eq!(
            (transit("x").to_string(), connect("x").to_string()),
            ("network/x".into(), "connect/x".into())
        );
    }

    /// udn-cases F014, F016: the lowest free id, so a node that comes back may have its old one.
    #[test]
    fn f014_f016_node_ids_are_the_lowest_free() {
        let mut ids = NodeIds::new(1000);
        let got = ["a", "b", "c"].map(|name| ids.reserve(&node(name)).unwrap().get());
        assert_eq!(got, [2, 3, 4]);
        ids.release(&node("b"));
        assert_eq!(ids.reserve(&node("d")).unwrap().get(), 3);
    }

    #[test]
    fn there_are_as_many_node_ids_as_nodes_are_allowed() {
        let mut ids = NodeIds::new(2);
        assert_eq!(ids.free(), 2);
        let got = ["a", "b"].map(|name| ids.reserve(&node(name)).unwrap().get());
        assert_eq!(got, [2, 3]);
        assert!(ids.reserve(&node("c")).is_err());
        assert_eq!(NodeIds::new(u32::MAX).free(), NodeId::LAST.get() - 1);
        let mut fewer = NodeIds::new(2);
        let claims = vec![claim(1, node("old"), NodeId::new(900).unwrap())];
        assert_eq!(fewer.restore(claims, &IdRecord::default()), vec![]);
        assert_eq!(fewer.free(), 2);
    }

    /// udn-cases H001 (tunnel id), H037.
    #[test]
    fn h001_h037_pod_tunnel_ids() {
        let key = |number| PortKey::new(number).unwrap();
        let mut ids = PodTunnelIds::new();
        assert_eq!(ids.restore(vec![claim(1, "old".to_owned(), key(5))], &IdRecord::default()), vec![]);
        assert_eq!(ids.reserve(&"new".to_owned()), Ok(key(10)));
        assert_eq!(ids.reserve(&"old".to_owned()), Ok(key(5)));
        ids.release(&"old".to_owned());
        assert_eq!(ids.reserve(&"newer".to_owned()), Ok(key(11)));
        assert_eq!(ids.holder(key(5)), None);
    }

    /// udn-cases K005: writes that fail leave as many ids in use as annotations say.
    #[test]
    fn k005_failed_writes_leak_nothing() {
        let mut ids = NetworkIds::new();
        for n in 0..100 {
            let name = network(&format!("n{n}"));
            ids.reserve(&name).unwrap();
            if n % 3 == 0 { ids.abort(&name) } else { ids.commit(&name) }
        }
        assert_eq!((ids.held(), ids.free()), (66, 4095 - 66));
    }

    #[test]
    fn the_record_is_small_text() {
        let mut ids = NetworkIds::new();
        ids.reserve(&network("a")).unwrap();
        ids.quarantine(&network("a"), Epoch(3));
        let text = serde_json::to_string(&ids.record()).unwrap();
        assert_eq!(text, r#"{"cursor":2,"quarantined":{"1":3}}"#);
        assert_eq!(serde_json::from_str::<IdRecord>(&text).unwrap(), ids.record());
    }
}
