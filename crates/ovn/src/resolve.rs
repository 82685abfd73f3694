//! Declarations met with a server's schema: which planned column stands where in a replica's rows, and what is ours
//! of it.

use crate::declare::{Decl, Declarations, Identity, Keys, Phase, natural_path};
use crate::desired::{Edge, Planned, RowKey};
use crate::path::row_uuid;
use crate::typed::TableMeta;
use causeway_ovsdb::{Atom, ColumnType, Datum, RefType, Replica, RowRef, Str, TableId, Uuid};

/// What of a column is ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    Whole,
    Keys(Keys),
    /// Members come and go at different times.
    Grows,
    /// Members are planned one by one, unless the row states them whole.
    Members {
        grows: bool,
    },
    /// References that belong to the rows referred to.
    Edge,
    /// Read, never planned.
    Watched,
}

/// One monitored column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its position in [`TableMeta::columns`].
    pub(crate) meta: u8,
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    pub(crate) ty: ColumnType,
    pub(crate) default: Datum,
}

impl Column {
    /// Whether its members are looked at one by one.
    pub(crate) fn has_members(&self) -> bool {
        matches!(self.rule, Rule::Members { .. })
    }

    /// Whether its references keep the rows they refer to.
    fn is_strong(&self) -> bool {
        self.ty.key.refers_to.as_ref().is_some_and(|(_, how)| *how == RefType::Strong)
    }
}

/// One declared table that the server has.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) decl: &'static Decl,
    pub(crate) meta: &'static TableMeta,
    /// In the order of the replica's rows, which is that of the meta columns.
    pub(crate) columns: Vec<Column>,
    pub(crate) is_root: bool,
    /// Positions of columns that refer to rows, edges aside, and the tables they refer to.
    refers: Vec<(usize, Str)>,
    /// Positions of columns whose values are unique together.
    pub(crate) unique: Vec<Vec<usize>>,
}

/// All declared tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolved {
    tables: Vec<Table>,
    /// By table id of the replica.
    by_id: Vec<Option<usize>>,
}

impl Resolved {
    pub(crate) fn new(declarations: &'static Declarations, replica: &Replica) -> Resolved {
        let mut resolved = Resolved::default();
        let Some(schema) = replica.schema() else { return resolved };
        for decl in declarations.tables {
            let meta = (decl.meta)();
            let (Some(id), Some(table)) = (replica.table(meta.name), schema.tables.get(meta.name)) else {
                continue;
            };
            let columns: Vec<Column> = replica
                .layout(id)
                .columns()
                .iter()
                .filter_map(|c| column(decl, meta, &c.name, &c.ty))
                .collect();
            let position = |name: &Str| columns.iter().position(|c| c.name == name.as_str());
            let unique =
                table.indexes.iter().filter_map(|index| index.iter().map(position).collect()).collect();
            let referring = columns.iter().enumerate().filter(|(_, c)| c.rule != Rule::Edge);
            let refers =
                referring.filter_map(|(at, c)| Some((at, c.ty.key.refers_to.as_ref()?.0.clone()))).collect();
            resolved.tables.push(Table { id, decl, meta, columns, is_root: table.is_root, refers, unique });
        }
        resolved.by_id = replica.tables().map(|id| resolved.tables.iter().position(|t| t.id == id)).collect();
        resolved
    }

    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    pub(crate) fn by_id(&self, id: TableId) -> Option<&Table> {
        self.by_id.get(id.index()).copied().flatten().map(|at| &self.tables[at])
    }

    /// The rows that a planned row refers to. They must be there first: a weak reference to a later row is dropped
    /// without a word.
    pub(crate) fn references(&self, planned: &Planned) -> Vec<RowKey> {
        let Some(table) = self.by_meta(planned.meta).filter(|t| !t.refers.is_empty()) else {
            return Vec::new();
        };
        let mut keys = Vec::new();
        for (at, to) in &table.refers {
            let Some(target) = self.tables.iter().find(|t| t.meta.name == to.as_str()) else { continue };
            let uuids = table.planned(planned, *at).atoms().iter().filter_map(Atom::as_uuid);
            keys.extend(uuids.map(|uuid| RowKey { meta: target.meta, uuid }));
        }
        keys
    }

    /// Whether a membership keeps its member alive.
    pub(crate) fn is_strong(&self, edge: &Edge) -> bool {
        let table = self.by_meta(edge.parent.meta);
        table.and_then(|t| t.columns.iter().find(|c| c.name == edge.column)).is_some_and(Column::is_strong)
    }

    pub(crate) fn by_meta(&self, meta: &TableMeta) -> Option<&Table> {
        self.tables.iter().find(|t| t.meta == meta)
    }
}

fn column(decl: &'static Decl, meta: &'static TableMeta, name: &str, ty: &ColumnType) -> Option<Column> {
    let at = meta.position(name)?;
    let rule = match () {
        () if decl.edges.contains(&name) => Rule::Edge,
        () if decl.watched.contains(&name) => Rule::Watched,
        () if decl.members.contains(&name) => Rule::Members { grows: decl.grows.contains(&name) },
        () if decl.grows.contains(&name) => Rule::Grows,
        () => decl.keys(name).map_or(Rule::Whole, Rule::Keys),
    };
    let default = ty.default_datum();
    Some(Column { meta: at as u8, name: meta.columns[at], rule, ty: ty.clone(), default })
}

impl Table {
    pub(crate) fn phase(&self, planned: Option<&Planned>) -> Phase {
        planned.and_then(|p| p.phase).unwrap_or(self.decl.phase)
    }

    /// The path of a row of this table, if it has one that could be ours.
    pub(crate) fn path_of(&self, row: RowRef<'_>) -> Option<Str> {
        match self.decl.identity {
            Identity::Id => row.get("external_ids")?.get(crate::path::ID_KEY).cloned(),
            Identity::Key(key) => natural_path(self.meta.name, key, |column| row.get(column)),
            Identity::Adopted => None,
        }
    }

    /// Whether a row with this path and UUID is ours beyond doubt.
    pub(crate) fn is_ours(&self, path: &str, uuid: Uuid) -> bool {
        row_uuid(self.meta, path) == uuid
    }

    /// The columns whose members are planned one by one, with their positions.
    pub(crate) fn member_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, c)| c.has_members())
    }

    /// The planned value of the column at `at`, or its default.
    pub(crate) fn planned<'a>(&'a self, planned: &'a Planned, at: usize) -> &'a Datum {
        let column = &self.columns[at];
        match planned.columns.binary_search_by_key(&column.meta, |(c, _)| *c) {
            Ok(found) => &planned.columns[found].1,
            Err(_) => &column.default,
        }
    }

    /// Values that no second row may have, as one text for each unique index.
    pub(crate) fn unique_values<'a>(&'a self, value: impl Fn(usize) -> &'a Datum) -> Vec<String> {
        self.unique
            .iter()
            .map(|index| format!("{index:?}{:?}", index.iter().map(|at| value(*at)).collect::<Vec<_>>()))
            .collect()
    }

    /// Whether a row of the replica has what is planned, in everything that is ours.
    pub(crate) fn matches(&self, planned: &Planned, row: &[Datum]) -> bool {
        self.columns.iter().enumerate().all(|(at, column)| match column.rule {
            Rule::Edge | Rule::Watched => true,
            Rule::Members { .. } if !planned.states(column.meta) => true,
            Rule::Whole | Rule::Grows | Rule::Members { .. } => self.planned(planned, at) == &row[at],
            Rule::Keys(keys) => {
                let ours =
                    |d: &Datum| d.pairs().iter().filter(|(k, _)| keys.owns(k)).cloned().collect::<Vec<_>>();
                let want = self.planned(planned, at);
                // Equal maps are the rule; only a difference needs a closer look.
                want == &row[at] || ours(want) == ours(&row[at])
            }
        })
    }
}
