//! A database as a map: what the engine would make of dirty prefixes, without a server.

use std::collections::{BTreeMap, BTreeSet};

use causeway_ovn::{Plan, Planned, Planner, Str};

type Rows = BTreeMap<(&'static str, Str), Planned>;

/// Rows by table and path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub rows: Rows,
    pub held: BTreeSet<Str>,
    /// Rows outside of the slice that plans them: a row of that slice holds them, and they go with it.
    held_by: BTreeMap<(&'static str, Str), Str>,
}

fn covers(slice: &str, path: &str) -> bool {
    if slice.is_empty() || slice.ends_with(':') { path.starts_with(slice) } else { path == slice }
}

impl Ledger {
    /// Looks at everything under a prefix: at what is planned and at what is there.
    pub fn look(&mut self, planner: &dyn Planner, prefix: &str) {
        let mut slices: BTreeSet<Str> = planner.slices(prefix).into_iter().collect();
        for (_, path) in self.rows.keys().filter(|(_, path)| path.starts_with(prefix)) {
            let own = || path[..planner.slice_len(path).max(prefix.len())].into();
            slices.insert(planner.holder(path).unwrap_or_else(own));
        }
        self.held.retain(|slice| !covers(prefix, slice));
        for slice in slices {
            let planned = match planner.plan(&slice) {
                Plan::Rows(rows) => rows,
                Plan::Absent => Vec::new(),
                Plan::Hold(_) | Plan::Keep => {
                    self.held.insert(slice);
                    continue;
                }
            };
            self.replace(planner, &slice, planned);
        }
    }

    fn replace(&mut self, planner: &dyn Planner, slice: &Str, planned: Vec<Planned>) {
        let held_by = &self.held_by;
        self.rows.retain(|key, _| !covers(slice, &key.1) && held_by.get(key) != Some(slice));
        self.held_by.retain(|_, holder| holder != slice);
        for row in planned {
            let key = (row.meta.name, row.path.clone());
            if covers(slice, &row.path) {
                let twice = self.rows.insert(key, row);
                assert!(twice.is_none(), "planned twice: {twice:?}");
            } else {
                assert_eq!(planner.holder(&row.path).as_ref(), Some(slice), "{} is outside", row.path);
                self.held_by.insert(key.clone(), slice.clone());
                self.rows.insert(key, row);
            }
        }
    }

    /// The rows in which two differ, as lines to read.
    pub fn difference(these: &Rows, those: &Rows) -> Vec<String> {
        let keys: BTreeSet<_> = these.keys().chain(those.keys()).collect();
        let differing = keys.into_iter().filter(|key| these.get(*key) != those.get(*key));
        differing.map(|key| format!("{key:?}: {:?} / {:?}", these.get(key), those.get(key))).collect()
    }

    /// Rows outside of slices that are held.
    pub fn certain(&self, held: &BTreeSet<Str>) -> Rows {
        let certain = |key: &(&'static str, Str)| {
            let holder = self.held_by.get(key);
            !held.iter().any(|slice| covers(slice, &key.1) || holder == Some(slice))
        };
        self.rows.iter().filter(|(key, _)| certain(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}
