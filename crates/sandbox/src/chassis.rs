//! The chassis of other zones in a zone's southbound database, as in interconnect mode.
//!
//! In a cluster the node role writes them; the sandbox does it with the same rows and the same engine as long as no
//! node role runs.

use crate::error::{Error, Result};
use crate::plan::unit::Chassis;
use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::SOUTHBOUND;
use causeway_ovn::generated::sb;
use causeway_ovn::{Plan, Planned, Planner, Str, path, reference};
use causeway_ovsdb_client::Remote;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the database know exactly these chassis beside its own.
pub(crate) fn ensure(socket: &Path, others: &[Chassis]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::file("the runtime of a task"))?;
    runtime.block_on(settle(socket, others))
}

async fn settle(socket: &Path, others: &[Chassis]) -> Result<()> {
    let mut applier = Applier::new(ApplierConfig {
        declarations: &SOUTHBOUND,
        remotes: vec![Remote::Unix(socket.to_owned())],
        tls: None,
        options: Options::default(),
    });
    applier.dirty("");
    let zones = Zones(others);
    if tokio::time::timeout(PATIENCE, applier.settle(&zones)).await.is_err() {
        return Err(Error::Timeout {
            what: "telling a zone of the others".into(),
            seconds: PATIENCE.as_secs(),
            state: format!("the database behind {} did not take the rows", socket.display()),
        });
    }
    Ok(())
}

struct Zones<'a>(&'a [Chassis]);

fn chassis_path(name: &str) -> Str {
    path::join(["chassis", name])
}

fn encap_path(address: &str) -> Str {
    path::join(["Encap", "geneve", address])
}

impl Zones<'_> {
    fn rows(&self, slice: &str) -> Vec<Planned> {
        let in_slice = |row: &Planned| slice.is_empty() || row.path.starts_with(slice) || row.path == slice;
        self.0.iter().flat_map(rows).filter(in_slice).collect()
    }
}

/// A chassis and its encapsulation share a transaction, since one cannot be without the other.
fn rows(other: &Chassis) -> [Planned; 2] {
    let encap = sb::Encap {
        r#type: "geneve".into(),
        ip: other.address.as_str().into(),
        chassis_name: other.name.as_str().into(),
        options: [("csum".into(), "true".into())].into(),
    };
    let chassis = sb::Chassis {
        name: other.name.as_str().into(),
        hostname: other.name.as_str().into(),
        other_config: [("is-remote".into(), "true".into())].into(),
        encaps: [reference::<sb::Encap>(&encap_path(&other.address))].into(),
        ..Default::default()
    };
    [
        Planned::new(encap_path(&other.address), encap).bound_to(other.name.as_str()),
        Planned::new(chassis_path(&other.name), chassis).bound_to(other.name.as_str()),
    ]
}

impl Planner for Zones<'_> {
    fn roots(&self) -> &[&str] {
        &["chassis", "Encap"]
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        vec![prefix.into()]
    }

    fn slice_len(&self, _path: &str) -> usize {
        0
    }

    fn plan(&self, slice: &str) -> Plan {
        Plan::Rows(self.rows(slice))
    }
}
