//! A NAD that is a network of ours can be written for the network plugin and read again.
#![no_main]

use causeway_api::intent::{ClusterConfig, Network};
use causeway_api::nad::{Attachment, CniConfig, read};
use causeway_types::NodeId;
use libfuzzer_sys::fuzz_target;

const NAD: &str = "ns/net";

fuzz_target!(|text: &str| {
    let Attachment::Ours(network) = read(NAD, Some(text)) else { return };
    let cluster = ClusterConfig::new(Vec::new(), Vec::new(), NodeId::FIRST);
    network.problems(&cluster);
    let written = CniConfig::of(&network, NAD, &cluster).text();
    let filled = Network {
        join_subnets: network.effective_join_subnets(&cluster),
        transit_subnets: network.effective_transit_subnets(&cluster),
        mtu: CniConfig::of(&network, NAD, &cluster).mtu,
        ..*network
    };
    assert_eq!(read(NAD, Some(&written)), Attachment::Ours(Box::new(filled)), "{written}");
});
