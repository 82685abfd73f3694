//! Flags that tell the way out of the node. What they do not tell is found.

use std::net::IpAddr;

use causeway_plan::node::gateway::Told;

/// Flags of the node's gateway
#[derive(Clone, Debug, clap::Args)]
pub(super) struct GatewayFlags {
    /// How traffic leaves the node: shared, through a bridge of Open vSwitch that also has the node's own address; or
    /// disabled, not at all
    #[arg(long, env = "CAUSEWAY_GATEWAY_MODE", value_name = "MODE", default_value = "shared", value_parser = read_mode)]
    gateway_mode: Mode,
    /// The bridge that leads outside, or the card below it; without it that of the default route
    #[arg(long, env = "CAUSEWAY_GATEWAY_INTERFACE", value_name = "NAME")]
    gateway_interface: Option<String>,
    /// The bridge's port of the card; without it external_ids:bridge-uplink of the bridge, or its only card
    #[arg(long, env = "CAUSEWAY_GATEWAY_UPLINK", value_name = "PORT")]
    gateway_uplink: Option<String>,
    /// Next hops on the way out; of families without one, that of the default route
    #[arg(long, env = "CAUSEWAY_GATEWAY_NEXTHOP", value_name = "ADDRESS", value_delimiter = ',')]
    gateway_nexthop: Vec<IpAddr>,
    /// The VLAN in which the node's traffic leaves; 0 is none
    #[arg(
        long,
        env = "CAUSEWAY_GATEWAY_VLANID",
        value_name = "VLAN",
        default_value_t = 0,
        value_parser = clap::value_parser!(u16).range(0..=4094)
    )]
    gateway_vlanid: u16,
}

/// How traffic leaves the node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Shared,
    Disabled,
}

fn read_mode(word: &str) -> Result<Mode, String> {
    match word {
        "shared" => Ok(Mode::Shared),
        "disabled" => Ok(Mode::Disabled),
        "local" => {
            Err("traffic through the node's own routing tables comes with a later version: use shared or disabled".into())
        }
        _ => Err("it is shared or disabled".into()),
    }
}

impl GatewayFlags {
    /// What they tell; none if there shall be no way out.
    pub(super) fn told(&self) -> Option<Told> {
        let filled = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        (self.gateway_mode == Mode::Shared).then(|| Told {
            interface: filled(&self.gateway_interface),
            uplink: filled(&self.gateway_uplink),
            next_hops: self.gateway_nexthop.clone(),
            vlan: self.gateway_vlanid,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: GatewayFlags,
    }

    fn told(words: &[&str]) -> Result<Option<Told>, String> {
        let parsed = Command::try_parse_from(["test"].iter().chain(words));
        parsed.map(|command| command.flags.told()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_told_is_found() {
        assert_eq!(told(&[]), Ok(Some(Told::default())));
        assert_eq!(told(&["--gateway-mode=disabled", "--gateway-interface=br-ex"]), Ok(None));
        let words = [
            "--gateway-interface=br-ex",
            "--gateway-uplink=eth0",
            "--gateway-nexthop=192.0.2.1,2001:db8::1",
            "--gateway-nexthop=192.0.2.2",
            "--gateway-vlanid=7",
        ];
        let all = Told {
            interface: Some("br-ex".into()),
            uplink: Some("eth0".into()),
            next_hops: ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|hop| hop.parse().unwrap()).to_vec(),
            vlan: 7,
        };
        assert_eq!(told(&words), Ok(Some(all)));
    }

    #[test]
    fn what_is_not_there_yet_is_refused_with_words() {
        let refused = told(&["--gateway-mode=local"]).unwrap_err();
        assert!(refused.contains("later version"), "{refused}");
        for wrong in ["--gateway-mode=", "--gateway-vlanid=4095", "--gateway-nexthop=router"] {
            assert!(told(&[wrong]).is_err(), "{wrong}");
        }
    }
}
