//! Moving connections to the topology that the cluster is to have: through both, and each step only when every zone that
//! is heard of has done the last.

use causeway_types::{ConnectName, ConnectTopology};

use super::Connects;
use crate::desk::Desk;
use crate::numbers::Numbers;
use crate::writes::Writes;

/// Events about connections that cannot move.
const TOPOLOGY_NOT_CHANGED: &str = "TopologyNotChanged";

impl Connects {
    /// All zones have rendered the connection as it is: it can take the next step.
    pub(super) fn move_topology(&mut self, name: &ConnectName, numbers: &mut Numbers, desk: &mut Desk) {
        let target = self.topology;
        let record = self.all.get(name).and_then(|state| state.record.clone());
        let Some(mut record) = record.filter(|record| record.topology != target) else { return };
        let next = if record.topology == ConnectTopology::Both { target } else { ConnectTopology::Both };
        let Some(model) = &self.model else { return };
        let in_the_way = model.misfits(name, next);
        if !in_the_way.is_empty() {
            return self.tell_stuck(name, &in_the_way, &mut desk.writes);
        }
        record.topology = next;
        if let Some(state) = self.all.get_mut(name) {
            state.record = Some(record.clone());
            state.stuck = None;
        }
        self.feed(name, record, numbers, &mut desk.dirty);
        desk.dirty.connects([name.clone()]);
    }

    /// A step that would disconnect something is not taken.
    fn tell_stuck(&mut self, name: &ConnectName, in_the_way: &[String], writes: &mut Writes) {
        let target = self.topology;
        let list = crate::trouble::listed(in_the_way, "; ");
        let message = format!("the connection does not move to the topology '{target}': {list}");
        let Some(state) = self.all.get_mut(name) else { return };
        if state.stuck.as_ref() != Some(&message) {
            state.stuck = Some(message.clone());
            let regarding = state.regarding(name);
            writes.warn(regarding, TOPOLOGY_NOT_CHANGED, message);
        }
    }
}
