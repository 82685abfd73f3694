//! A database as a map: what the engine would make of dirty prefixes, without a server.

use std::collections::{BTreeMap, BTreeSet};

use causeway_ovn::{Plan, Planned, Planner, Str};

type Rows = BTreeMap<(&'static str, Str), Planned>;

/// Rows by table and path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub rows: Rows,
    pub held: BTreeSet<Str>,
}

fn covers(slice: &str, path: &str) -> bool {
    if slice.is_empty() || slice.ends_with(':') { path.starts_with(slice) } else { path == slice }
}

impl Ledger {
    /// Looks at everything under a prefix: at what is planned and at what is there.
    pub fn look(&mut self, planner: &dyn Planner, prefix: &str) {
        let mut slices: BTreeSet<Str> = planner.slices(prefix).into_iter().collect();
        for (_, path) in self.rows.keys().filter(|(_, path)| path.starts_with(prefix)) {
            slices.insert(path[..planner.slice_len(path).max(prefix.len())].into());
        }
        self.held.retain(|slice| !covers(prefix, slice));
        for slice in slices {
            let planned = match planner.plan(&slice) {
                Plan::Rows(rows) => rows,
                Plan::Absent => Vec::new(),
                Plan::Hold(_) => {
                    self.held.insert(slice);
                    continue;
                }
            };
            self.rows.retain(|(_, path), _| !covers(&slice, path));
            for row in planned {
                assert!(covers(&slice, &row.path), "{} is outside {slice}", row.path);
                let twice = self.rows.insert((row.meta.name, row.path.clone()), row);
                assert!(twice.is_none(), "planned twice: {twice:?}");
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
        let certain = |path: &str| !held.iter().any(|slice| covers(slice, path));
        self.rows.iter().filter(|((_, path), _)| certain(path)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}
