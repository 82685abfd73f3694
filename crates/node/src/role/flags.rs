//! The flags of the node role.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use causeway_ovsdb_client::{Remote, TlsFiles};
use causeway_record::ObjectKey;
use causeway_runtime::{ClusterFlags, read_time};
use causeway_types::NodeName;
use causeway_zone::Render;

use super::gateway_flags::GatewayFlags;
use super::isolation_flags::IsolationFlags;

/// Flags of the node role
#[derive(Clone, Debug, clap::Args)]
pub struct NodeFlags {
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    /// Services of the default network that pods of every network reach
    #[arg(
        long,
        env = "CAUSEWAY_UDN_ALLOWED_DEFAULT_SERVICES",
        value_name = "NAMESPACE/NAME",
        value_delimiter = ',',
        default_value = "default/kubernetes,kube-system/kube-dns"
    )]
    pub(super) udn_allowed_default_services: Vec<ObjectKey>,
    #[command(flatten)]
    pub(super) gateway: GatewayFlags,
    #[command(flatten)]
    pub(super) isolation: IsolationFlags,
    /// Its name in Kubernetes
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub(super) node_name: NodeName,
    /// The zone's northbound database
    #[arg(
        long,
        env = "CAUSEWAY_NORTHBOUND",
        value_name = "REMOTE",
        default_value = "unix:/var/run/ovn/ovnnb_db.sock"
    )]
    pub(super) northbound: Remote,
    /// The zone's southbound database
    #[arg(
        long,
        env = "CAUSEWAY_SOUTHBOUND",
        value_name = "REMOTE",
        default_value = "unix:/var/run/ovn/ovnsb_db.sock"
    )]
    pub(super) southbound: Remote,
    /// The node's Open vSwitch database
    #[arg(
        long,
        env = "CAUSEWAY_VSWITCH",
        value_name = "REMOTE",
        default_value = "unix:/var/run/openvswitch/db.sock"
    )]
    pub(super) vswitch: Remote,
    /// Our private key, for databases at ssl: remotes
    #[arg(long, env = "CAUSEWAY_DB_PRIVATE_KEY", value_name = "FILE")]
    db_private_key: Option<PathBuf>,
    /// Our certificate, for databases at ssl: remotes
    #[arg(long, env = "CAUSEWAY_DB_CERTIFICATE", value_name = "FILE")]
    db_certificate: Option<PathBuf>,
    /// The CA that has signed the certificates of databases at ssl: remotes
    #[arg(long, env = "CAUSEWAY_DB_CA_CERT", value_name = "FILE")]
    db_ca_cert: Option<PathBuf>,
    /// Allow tcp: remotes beyond this machine, where everybody on the way can read and write the databases
    #[arg(long, env = "CAUSEWAY_ALLOW_INSECURE_TCP")]
    allow_insecure_tcp: bool,
    /// Where the CNI plugin finds this role
    #[arg(
        long,
        env = "CAUSEWAY_CNI_SOCKET",
        value_name = "FILE",
        default_value = "/var/run/ovn-kubernetes/cni/ovn-cni-server.sock"
    )]
    pub(super) cni_socket: PathBuf,
    /// Where the container runtime looks for CNI configurations; ours appears there when the node is ready
    #[arg(long, env = "CAUSEWAY_CNI_CONF_DIR", value_name = "FOLDER", default_value = "/etc/cni/net.d")]
    pub(super) cni_conf_dir: PathBuf,
    /// Where metrics and health are served
    #[arg(long, env = "CAUSEWAY_METRICS_ADDRESS", value_name = "ADDRESS", default_value = "127.0.0.1:9410")]
    pub(super) metrics_address: SocketAddr,
    /// Record everything that comes in, for causeway replay, in this file; its first lines are the whole cluster as it is
    #[arg(long, env = "CAUSEWAY_RECORD", value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Which networks are rendered on this node: all, or those that a pod here uses
    #[arg(long, env = "CAUSEWAY_RENDER", value_enum, default_value = "all")]
    pub(super) render: RenderFlag,
    /// Render networks only where they are used: the same as --render=used
    #[arg(
        long,
        env = "CAUSEWAY_ENABLE_DYNAMIC_UDN_ALLOCATION",
        value_name = "BOOL",
        default_value_t = false,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(super) enable_dynamic_udn_allocation: bool,
    /// Connect networks by ClusterNetworkConnects; without it this node has nothing of them
    #[arg(
        long,
        env = "CAUSEWAY_ENABLE_NETWORK_CONNECT",
        value_name = "BOOL",
        default_value_t = false,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(super) enable_network_connect: bool,
    /// The AS number of networks with transport EVPN
    #[arg(long, env = "CAUSEWAY_EVPN_AS", value_name = "NUMBER", default_value_t = 64_999, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) evpn_as: u32,
    /// Where FRR's daemons have their sockets, if not in /run/frr; vtysh.conf is there, too. Networks with transport EVPN need it
    #[arg(long, env = "CAUSEWAY_FRR_FOLDER", value_name = "FOLDER")]
    pub(super) frr_folder: Option<PathBuf>,
    /// Encrypt tunnels between nodes with IPsec; docs/security.md says what it needs on each node
    #[arg(long, env = "CAUSEWAY_ENABLE_IPSEC")]
    pub(super) enable_ipsec: bool,
    /// How long a network stays rendered after its last pod went, with --render=used: 120s, 2m, or a number of seconds
    #[arg(long, env = "CAUSEWAY_UDN_DELETION_GRACE_PERIOD", value_name = "TIME", default_value = "120s", value_parser = read_time)]
    pub(super) udn_deletion_grace_period: Duration,
}

/// Which networks are rendered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum RenderFlag {
    /// All of them
    All,
    /// Those that a pod of this node uses
    Used,
}

impl NodeFlags {
    /// How databases are talked to: the files for `ssl:`, if there are any. A tunnel key that somebody else writes is another
    /// tenant's network, so plain text stays on this machine.
    ///
    /// # Errors
    /// Remotes that cannot be used like this.
    pub(super) fn tls(&self) -> anyhow::Result<Option<TlsFiles>> {
        let tls = match (&self.db_private_key, &self.db_certificate, &self.db_ca_cert) {
            (Some(key), Some(certificate), Some(ca)) => {
                Some(TlsFiles { key: key.clone(), certificate: certificate.clone(), ca: ca.clone() })
            }
            (None, None, None) => None,
            _ => bail!("--db-private-key, --db-certificate and --db-ca-cert belong together: give all three"),
        };
        for remote in [&self.northbound, &self.southbound, &self.vswitch] {
            match remote {
                Remote::Ssl(..) if tls.is_none() => {
                    bail!("{remote} needs --db-private-key, --db-certificate and --db-ca-cert")
                }
                Remote::Tcp(host, _) if !self.allow_insecure_tcp && !is_loopback(host) => bail!(
                    "{remote} is not on this machine, and tcp: is neither encrypted nor authenticated: use ssl:, or allow it \
                     with --allow-insecure-tcp"
                ),
                _ => {}
            }
        }
        Ok(tls)
    }

    pub(super) fn rendering(&self) -> Render {
        let grace = self.udn_deletion_grace_period;
        if self.enable_dynamic_udn_allocation || self.render == RenderFlag::Used {
            Render::Used { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) }
        } else {
            Render::All
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: NodeFlags,
    }

    fn parse(words: &[&str]) -> NodeFlags {
        Command::try_parse_from(["test", "--node-name=n1"].iter().chain(words)).unwrap().flags
    }

    #[tokio::test]
    async fn subnets_without_room_are_refused_before_anything_is_asked() {
        let flags = parse(&["--join-subnets=100.70.0.0/24"]);
        let error = crate::role::run(flags).await.unwrap_err().to_string();
        assert!(error.starts_with("--join-subnets 100.70.0.0/24 has room for 253 nodes"), "{error}");
    }

    #[test]
    fn plain_text_stays_on_this_machine() {
        for here in ["unix:/run/nb.sock", "tcp:127.0.0.1:6641", "tcp:[::1]:6641", "tcp:localhost:6641"] {
            assert!(parse(&[&format!("--northbound={here}")]).tls().is_ok(), "{here}");
        }
        for away in ["tcp:192.0.2.1:6641", "tcp:[2001:db8::1]:6641", "tcp:db.example:6641"] {
            for which in ["northbound", "southbound", "vswitch"] {
                let flag = format!("--{which}={away}");
                let refused = parse(&[&flag]).tls().unwrap_err().to_string();
                assert!(refused.starts_with(away) && refused.contains("--allow-insecure-tcp"), "{refused}");
                assert!(parse(&[&flag, "--allow-insecure-tcp"]).tls().is_ok());
            }
        }
    }

    #[test]
    fn ssl_needs_its_three_files() {
        let files = ["--db-private-key=k", "--db-certificate=c", "--db-ca-cert=a"];
        let remote = "--southbound=ssl:192.0.2.1:6642";
        assert!(parse(&[remote]).tls().unwrap_err().to_string().contains("needs --db-private-key"));
        let two = parse(&[remote, files[0], files[1]]).tls().unwrap_err();
        assert!(two.to_string().contains("give all three"), "{two}");
        let expected = TlsFiles { key: "k".into(), certificate: "c".into(), ca: "a".into() };
        assert_eq!(parse(&[remote, files[0], files[1], files[2]]).tls().unwrap(), Some(expected));
    }

    #[test]
    fn connections_are_off_unless_asked_for() {
        assert!(!parse(&[]).enable_network_connect);
        assert!(parse(&["--enable-network-connect"]).enable_network_connect);
    }

    #[test]
    fn both_roles_spell_flags_alike() {
        let used = |words: &[&str]| parse(words).rendering();
        assert_eq!(used(&["--enable-dynamic-udn-allocation"]), Render::Used { grace_ms: 120_000 });
        assert_eq!(used(&["--enable-dynamic-udn-allocation=false"]), Render::All);
        for (time, grace_ms) in [("90", 90_000), ("2m", 120_000), ("1m30s", 90_000), ("500ms", 500)] {
            let grace = format!("--udn-deletion-grace-period={time}");
            assert_eq!(used(&["--render=used", &grace]), Render::Used { grace_ms });
        }
    }
}
