//! What the user has written, in any form, laid out the same way but not yet checked.

use crate::crd::{
    self, ClusterNetwork, FlatNetwork, Ipam, IpamMode, Layer2, Layer3, Localnet, Role, Topology,
    UserDefinedNetworkSpec,
};

/// Which rules apply where the forms differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    Blocks,
    Flat,
}

/// A network as written. Lists keep apart "not written" and "written empty".
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) form: Form,
    pub(super) topology: Topology,
    pub(super) role: Option<Role>,
    pub(super) mtu: Option<u32>,
    pub(super) subnets: Option<Vec<DraftSubnet>>,
    pub(super) exclude: Option<Vec<String>>,
    pub(super) reserved: Option<Vec<String>>,
    pub(super) infrastructure: Option<Vec<String>>,
    pub(super) gateways: Option<Vec<String>>,
    pub(super) join: Option<Vec<String>>,
    pub(super) ipam: Ipam,
    pub(super) ipam_lifecycle: bool,
    pub(super) physical_network: Option<String>,
    pub(super) vlan: Option<crd::Vlan>,
}

/// A subnet as written.
#[derive(Clone, Debug)]
pub(super) struct DraftSubnet {
    pub(super) text: String,
    pub(super) host: Host,
}

/// The host length as written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Host {
    None,
    Length(u8),
    /// The flat form has something after the second slash that is no length.
    Malformed,
}

impl DraftSubnet {
    fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), host: Host::None }
    }

    /// `10.128.0.0/16/24`: what follows the second slash is the host length.
    fn with_host(text: &str) -> Self {
        let mut parts = text.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(address), Some(length), Some(host)) => Self {
                text: format!("{address}/{length}"),
                host: host.parse().map_or(Host::Malformed, Host::Length),
            },
            _ => Self::plain(text),
        }
    }
}

fn plain(list: Option<&Vec<String>>) -> Option<Vec<DraftSubnet>> {
    list.map(|list| list.iter().map(|text| DraftSubnet::plain(text)).collect())
}

impl Draft {
    fn new(form: Form, topology: Topology) -> Self {
        Self {
            form,
            topology,
            role: None,
            mtu: None,
            subnets: None,
            exclude: None,
            reserved: None,
            infrastructure: None,
            gateways: None,
            join: None,
            ipam: Ipam::default(),
            ipam_lifecycle: false,
            physical_network: None,
            vlan: None,
        }
    }

    pub(super) fn flat(topology: Topology, flat: &FlatNetwork) -> Self {
        let split = |text: &String| match topology {
            Topology::Layer3 => DraftSubnet::with_host(text),
            Topology::Layer2 | Topology::Localnet => DraftSubnet::plain(text),
        };
        Self {
            role: flat.role,
            mtu: flat.mtu,
            subnets: flat.subnets.as_ref().map(|list| list.iter().map(split).collect()),
            exclude: flat.exclude_subnets.clone(),
            join: flat.join_subnets.clone(),
            ipam: flat.ipam.clone().unwrap_or_default(),
            ipam_lifecycle: flat.ipam_lifecycle.is_some(),
            ..Self::new(Form::Flat, topology)
        }
    }

    pub(super) fn layer3(block: &Layer3) -> Self {
        let subnet = |subnet: &crd::Layer3Subnet| DraftSubnet {
            text: subnet.cidr.clone(),
            host: subnet.host_subnet.map_or(Host::None, Host::Length),
        };
        Self {
            role: Some(block.role),
            mtu: block.mtu,
            subnets: Some(block.subnets.iter().map(subnet).collect()),
            join: block.join_subnets.clone(),
            ..Self::new(Form::Blocks, Topology::Layer3)
        }
    }

    pub(super) fn layer2(block: &Layer2) -> Self {
        Self {
            role: Some(block.role),
            mtu: block.mtu,
            subnets: plain(block.subnets.as_ref()),
            exclude: block.exclude_subnets.clone(),
            reserved: block.reserved_subnets.clone(),
            infrastructure: block.infrastructure_subnets.clone(),
            gateways: block.default_gateway_ips.clone(),
            join: block.join_subnets.clone(),
            ipam: block.ipam.clone().unwrap_or_default(),
            ..Self::new(Form::Blocks, Topology::Layer2)
        }
    }

    pub(super) fn localnet(block: &Localnet) -> Self {
        Self {
            role: Some(Role::Secondary),
            mtu: block.mtu,
            subnets: plain(block.subnets.as_ref()),
            exclude: block.exclude_subnets.clone(),
            ipam: block.ipam.clone().unwrap_or_default(),
            physical_network: Some(block.physical_network_name.clone()),
            vlan: block.vlan.clone(),
            ..Self::new(Form::Blocks, Topology::Localnet)
        }
    }

    /// The block of a ClusterUserDefinedNetwork that belongs to its topology.
    pub(super) fn blocks(network: &ClusterNetwork) -> Option<Self> {
        match network.topology {
            Topology::Layer3 => network.layer3.as_ref().map(Self::layer3),
            Topology::Layer2 => network.layer2.as_ref().map(Self::layer2),
            Topology::Localnet => network.localnet.as_ref().map(Self::localnet),
        }
    }

    /// The same of a UserDefinedNetwork, in whichever form.
    pub(super) fn user_defined(spec: &UserDefinedNetworkSpec) -> Option<Self> {
        if is_written(&spec.flat) {
            return Some(Self::flat(spec.topology, &spec.flat));
        }
        match spec.topology {
            Topology::Layer3 => spec.layer3.as_ref().map(Self::layer3),
            Topology::Layer2 => spec.layer2.as_ref().map(Self::layer2),
            Topology::Localnet => None,
        }
    }

    pub(super) fn ipam_disabled(&self) -> bool {
        self.ipam.mode == Some(IpamMode::Disabled)
    }
}

/// Whether any setting of the flat form is written.
pub(super) fn is_written(flat: &FlatNetwork) -> bool {
    *flat != FlatNetwork::default()
}
