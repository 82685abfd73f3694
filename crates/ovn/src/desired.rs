//! A planned row, or a planned member of a row's set or map: what shall be, where it belongs, and what must be there
//! before it.

use crate::declare::Phase;
use crate::member::{self, member_path};
use crate::path::{ID_KEY, row_uuid};
use crate::typed::{Columns, TableMeta, TypedRow};
use causeway_ovsdb::{Datum, Str, Uuid};

/// A row of some table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// The table.
    pub meta: &'static TableMeta,
    /// The row.
    pub uuid: Uuid,
}

impl RowKey {
    /// The row of type `R` with this path.
    pub fn of<R: TypedRow>(path: &str) -> RowKey {
        RowKey { meta: R::meta(), uuid: row_uuid(R::meta(), path) }
    }
}

/// The UUID of the row of type `R` with this path: a reference is a pure value.
pub fn reference<R: TypedRow>(path: &str) -> Uuid {
    row_uuid(R::meta(), path)
}

/// Membership in a set of references of another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who holds the set.
    pub parent: RowKey,
    /// The set.
    pub column: &'static str,
}

/// One row of a plan, or one member of a set or map of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The table; of a member the one of the row that holds it.
    pub meta: &'static TableMeta,
    /// The row's path; of an adopted row only a name for reports. A member has a path below that of its row:
    /// `<row>:<column>:<member>`.
    pub path: Str,
    /// The UUID that follows from the path.
    pub uuid: Uuid,
    /// What differs from the defaults. A member has its own column alone, with nothing but itself in it.
    pub columns: Columns,
    /// The set or map that this is a member of; `None` for a row of its own.
    pub member_of: Option<Edge>,
    /// The sets that this row is a member of.
    pub edges: Vec<Edge>,
    /// Rows without which this one must not exist.
    pub guards: Vec<RowKey>,
    /// Rows of a slice with the same atom share one transaction. An atom that is a prefix of paths takes rows of the slice
    /// with it that lie below it and go.
    pub atom: Option<Str>,
    /// Sets whose members are closed to something, whether it is one of them or not: a row that is there already joins them
    /// after everything else, and leaves them before.
    pub closes: Vec<Edge>,
    /// When it comes into being, if not with its table.
    pub phase: Option<Phase>,
}

impl Planned {
    /// A row with its columns. Where the table has `external_ids`, the path is written there.
    pub fn new<R: TypedRow>(path: impl Into<Str>, row: R) -> Planned {
        let (meta, path) = (R::meta(), path.into());
        let mut columns = row.into_columns();
        if let Some(at) = meta.position("external_ids") {
            write_id(&mut columns, at as u8, &path);
        }
        Planned::at(meta, path, columns)
    }

    fn at(meta: &'static TableMeta, path: Str, columns: Columns) -> Planned {
        let uuid = row_uuid(meta, &path);
        Planned {
            meta,
            path,
            uuid,
            columns,
            member_of: None,
            edges: Vec::new(),
            guards: Vec::new(),
            atom: None,
            closes: Vec::new(),
            phase: None,
        }
    }

    /// Our part of a row that is there already.
    pub fn adopt<R: TypedRow>(path: impl Into<Str>, row: R) -> Planned {
        Planned::at(R::meta(), path.into(), row.into_columns())
    }

    /// A member of a set of texts of the row of type `P` with this path. The row itself need not be planned with it,
    /// but must be there first.
    pub fn member<P: TypedRow>(parent: &str, column: &'static str, member: impl Into<Str>) -> Planned {
        Planned::below(RowKey::of::<P>(parent), parent, column, Datum::One(member.into().into()))
    }

    /// The same for a key of a map from texts to texts, with its value.
    pub fn pair<P: TypedRow>(
        parent: &str,
        column: &'static str,
        key: impl Into<Str>,
        value: impl Into<Str>,
    ) -> Planned {
        Planned::below(RowKey::of::<P>(parent), parent, column, Datum::str_map([(key, value)]))
    }

    /// `one` has exactly one member or pair.
    fn below(parent: RowKey, path: &str, column: &'static str, one: Datum) -> Planned {
        let key = member::keys(&one).next().cloned().unwrap_or_default();
        let columns = parent.meta.position(column).map(|at| (at as u8, one)).into_iter().collect();
        let planned = Planned::at(parent.meta, member_path(path, column, &key), columns);
        Planned { member_of: Some(Edge { parent, column }), ..planned }
    }

    /// The row without the value of this column, and the members of that value as planned each on its own. They have the
    /// row's phase, guards and atom.
    pub fn members_apart(mut self, column: &'static str) -> Vec<Planned> {
        let at = self.columns.iter().position(|(c, _)| self.meta.columns[usize::from(*c)] == column);
        let Some((_, value)) = at.map(|at| self.columns.remove(at)) else { return vec![self] };
        let key = RowKey { meta: self.meta, uuid: self.uuid };
        let apart = |one| Planned {
            guards: self.guards.clone(),
            atom: self.atom.clone(),
            phase: self.phase,
            ..Planned::below(key, &self.path, column, one)
        };
        let members: Vec<Planned> = member::singles(&value).map(apart).collect();
        std::iter::once(self).chain(members).collect()
    }

    /// Makes the row a member of a set of the row of type `P` with this path.
    pub fn within<P: TypedRow>(mut self, parent: &str, column: &'static str) -> Planned {
        self.edges.push(Edge { parent: RowKey::of::<P>(parent), column });
        self
    }

    /// The same for a parent that was looked up once for many rows.
    pub fn inside(mut self, parent: RowKey, column: &'static str) -> Planned {
        self.edges.push(Edge { parent, column });
        self
    }

    /// Names a set whose members are closed to something, and whether the row is one of them.
    pub fn closed_by<P: TypedRow>(mut self, parent: &str, column: &'static str, closed: bool) -> Planned {
        self.closes.push(Edge { parent: RowKey::of::<P>(parent), column });
        if closed { self.within::<P>(parent, column) } else { self }
    }

    /// Names a row without which this one must not exist.
    pub fn guarded_by<G: TypedRow>(mut self, guard: &str) -> Planned {
        self.guards.push(RowKey::of::<G>(guard));
        self
    }

    /// Binds the row to others of its slice: they share one transaction, and with a prefix of paths so do those below it
    /// that go.
    pub fn bound_to(mut self, atom: impl Into<Str>) -> Planned {
        self.atom = Some(atom.into());
        self
    }

    /// Gives the row another phase than its table's.
    pub fn in_phase(mut self, phase: Phase) -> Planned {
        self.phase = Some(phase);
        self
    }

    /// The planned value of a column, if it is not the default.
    pub fn column(&self, name: &str) -> Option<&Datum> {
        let at = self.meta.position(name)? as u8;
        self.columns.iter().find(|(c, _)| *c == at).map(|(_, d)| d)
    }
}

fn write_id(columns: &mut Columns, at: u8, path: &Str) {
    let id = (Str::from(ID_KEY), path.clone());
    match columns.binary_search_by_key(&at, |(c, _)| *c) {
        Ok(found) => {
            let Datum::StrMap(pairs) = &mut columns[found].1 else { return };
            let mut list = std::mem::take(pairs).into_vec();
            list.reserve_exact(1);
            match list.binary_search_by(|(key, _)| key.as_str().cmp(ID_KEY)) {
                Ok(at) => list[at] = id,
                Err(at) => list.insert(at, id),
            }
            *pairs = list.into_boxed_slice();
        }
        Err(place) => columns.insert(place, (at, Datum::str_map([id]))),
    }
}

/// What a plan says of one slice.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Exactly these rows and members.
    Rows(Vec<Planned>),
    /// Nothing: what is there goes.
    Absent,
    /// The input is incomplete or malformed: what is there stays, and the reason is reported.
    Hold(String),
    /// Whatever is there, all of it or nothing, is right for now and stays.
    Keep,
}

/// The pure function from a model to desired rows, slice by slice. A slice is a path prefix that ends in `:`, or one
/// whole path; a plan can be asked for a whole subtree or for a single row of it.
///
/// Members of sets and maps have paths below that of their row, so a slice may be a row with its members
/// (`net:blue:`), a row alone (`net:blue:set`), all members of one column (`net:blue:set:addresses:`) or a single member.
pub trait Planner {
    /// First components of the paths that are ours. A row with another path is somebody else's.
    fn roots(&self) -> &[&str];

    /// Splits a dirty prefix into slices of moderate size that have something to say; they don't overlap. A prefix
    /// that is small enough is its own slice.
    fn slices(&self, prefix: &str) -> Vec<Str>;

    /// The same part by part, from 0 until there is none: whoever asks for many slices does something else in between.
    fn slices_in_part(&self, prefix: &str, part: usize) -> Option<Vec<Str>> {
        (part == 0).then(|| self.slices(prefix))
    }

    /// The slice to which a path belongs, as the length of its prefix; also of a path that is not planned any more.
    fn slice_len(&self, path: &str) -> usize;

    /// The slice that plans a row which cannot be without another one, where its path does not say so: the database knows
    /// it by its own key, and a row of that slice holds it.
    fn holder(&self, _path: &str) -> Option<Str> {
        None
    }

    /// The plan of one slice.
    fn plan(&self, slice: &str) -> Plan;

    /// Smaller is more urgent. Slices on which others hang should come before these: what is looked at too early waits
    /// and is looked at again.
    fn priority(&self, _slice: &str) -> u8 {
        100
    }
}

/// Whether a slice covers a path.
pub(crate) fn covers(slice: &str, path: &str) -> bool {
    if slice.is_empty() || slice.ends_with(':') { path.starts_with(slice) } else { path == slice }
}
