//! An annotation that can be read is written so that it reads the same.
#![no_main]

use causeway_api::annotations::{
    Annotation, ConnectBlocks, ConnectLayout, ConnectRouterKey, ConnectSlots, GatewayConfig, HostCidrs,
    Layer2TopologyVersion, ManagementMacs, NodeSubnets, OpenPorts, PodNetworks, RequestedNetworks,
    RequestedPrimary, TransitPeerPorts, TransitSwitchPort, TunnelKeys,
};
use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;

fn same<A: Annotation + Debug + PartialEq>(text: &str) {
    if let Ok(value) = A::parse(text) {
        assert_eq!(A::parse(&value.text()).as_ref(), Ok(&value), "{}", A::KEY);
    }
}

fuzz_target!(|text: &str| {
    same::<PodNetworks>(text);
    same::<NodeSubnets>(text);
    same::<TunnelKeys>(text);
    same::<TransitSwitchPort>(text);
    same::<TransitPeerPorts>(text);
    same::<ManagementMacs>(text);
    same::<HostCidrs>(text);
    same::<GatewayConfig>(text);
    same::<Layer2TopologyVersion>(text);
    same::<ConnectBlocks>(text);
    same::<ConnectRouterKey>(text);
    same::<ConnectSlots>(text);
    same::<ConnectLayout>(text);
    same::<RequestedNetworks>(text);
    same::<RequestedPrimary>(text);
    same::<OpenPorts>(text);
});
