//! Any manifest is read or refused, and what is read means something or says why not.
#![no_main]

use causeway_api::intent::{ClusterConfig, Connect, Manifest, Network};
use causeway_types::{ConnectName, NamespaceName, NodeId, ObjectName};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let cluster = ClusterConfig::new(Vec::new(), Vec::new(), NodeId::FIRST);
    let (Ok(namespace), Ok(name), Ok(connect)) =
        (NamespaceName::new("ns"), ObjectName::new("net"), ConnectName::new("cnc"))
    else {
        return;
    };
    let network = match Manifest::read_bytes(bytes) {
        Ok(Manifest::UserDefinedNetwork(udn)) => Network::of_udn(&namespace, &name, &udn.spec),
        Ok(Manifest::ClusterUserDefinedNetwork(cudn)) => Network::of_cluster_udn(&name, &cudn.spec),
        Ok(Manifest::ClusterNetworkConnect(cnc)) => {
            let _ = Connect::of(&connect, &cnc.spec);
            return;
        }
        _ => return,
    };
    match network {
        Ok(network) => drop(network.problems(&cluster)),
        Err(problems) => assert!(!problems.is_empty(), "refused without a reason"),
    }
});
