//! The flags of the EVPN agent.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::bail;
use causeway_ovsdb_client::{Remote, TlsFiles};

/// Flags of the EVPN agent
#[derive(Clone, Debug, clap::Args)]
pub struct EvpnFlags {
    /// The node's Open vSwitch database
    #[arg(
        long,
        env = "CAUSEWAY_VSWITCH",
        value_name = "REMOTE",
        default_value = "unix:/var/run/openvswitch/db.sock"
    )]
    pub(super) vswitch: Remote,
    /// The southbound database; without it the one that ovn-controller uses (external_ids:ovn-remote)
    #[arg(long, env = "CAUSEWAY_SOUTHBOUND", value_name = "REMOTE", value_delimiter = ',')]
    pub(super) southbound: Vec<Remote>,
    /// Our private key, for databases at ssl: remotes
    #[arg(long, env = "CAUSEWAY_DB_PRIVATE_KEY", value_name = "FILE")]
    db_private_key: Option<PathBuf>,
    /// Our certificate, for databases at ssl: remotes
    #[arg(long, env = "CAUSEWAY_DB_CERTIFICATE", value_name = "FILE")]
    db_certificate: Option<PathBuf>,
    /// The CA that has signed the certificates of databases at ssl: remotes
    #[arg(long, env = "CAUSEWAY_DB_CA_CERT", value_name = "FILE")]
    db_ca_cert: Option<PathBuf>,
    /// Allow tcp: remotes beyond this machine, where everybody on the way can read and change what is said
    #[arg(long, env = "CAUSEWAY_ALLOW_INSECURE_TCP")]
    pub(super) allow_insecure_tcp: bool,
    /// This node's end of all tunnels; without it the address of --vtep-device
    #[arg(long, env = "CAUSEWAY_VTEP", value_name = "ADDRESS")]
    pub(super) vtep: Option<Ipv4Addr>,
    /// The device whose IPv4 address is this node's end of all tunnels; of lo the first that is a single address
    #[arg(long, env = "CAUSEWAY_VTEP_DEVICE", value_name = "DEVICE", default_value = "lo")]
    pub(super) vtep_device: String,
    /// The UDP port of the tunnels
    #[arg(long, env = "CAUSEWAY_VXLAN_PORT", value_name = "PORT", default_value_t = 4789)]
    pub(super) vxlan_port: u16,
    /// Expose the addresses of gateways too, and take what comes from them; only where routers do not translate addresses (SNAT)
    #[arg(long, env = "CAUSEWAY_EXPOSE_GATEWAYS")]
    pub(super) expose_gateways: bool,
    /// Where FRR's daemons have their sockets, if not in /run/frr; vtysh.conf is there, too
    #[arg(long, env = "CAUSEWAY_FRR_FOLDER", value_name = "FOLDER")]
    pub(super) frr_folder: Option<PathBuf>,
    /// Where metrics and health are served
    #[arg(long, env = "CAUSEWAY_METRICS_ADDRESS", value_name = "ADDRESS", default_value = "127.0.0.1:9412")]
    pub(super) metrics_address: SocketAddr,
}

impl EvpnFlags {
    /// The files for `ssl:` remotes, if there are any.
    ///
    /// # Errors
    /// If some of them are missing.
    pub(super) fn tls(&self) -> anyhow::Result<Option<TlsFiles>> {
        match (&self.db_private_key, &self.db_certificate, &self.db_ca_cert) {
            (Some(key), Some(certificate), Some(ca)) => {
                Ok(Some(TlsFiles { key: key.clone(), certificate: certificate.clone(), ca: ca.clone() }))
            }
            (None, None, None) => Ok(None),
            _ => bail!("--db-private-key, --db-certificate and --db-ca-cert belong together: give all three"),
        }
    }

    /// Whether remotes can be used like this. Whoever changes what the database says on its way exposes what he wants.
    ///
    /// # Errors
    /// If not, with what to do.
    pub(super) fn check(&self, remotes: &[Remote], tls: Option<&TlsFiles>) -> Result<(), String> {
        for remote in remotes {
            match remote {
                Remote::Ssl(..) if tls.is_none() => {
                    return Err(format!(
                        "{remote} needs --db-private-key, --db-certificate and --db-ca-cert"
                    ));
                }
                Remote::Tcp(host, _) if !self.allow_insecure_tcp && !is_loopback(host) => {
                    return Err(format!(
                        "{remote} is not on this machine, and tcp: is neither encrypted nor authenticated: use ssl:, or \
                         allow it with --allow-insecure-tcp"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The folder where the switch has the sockets of its bridges: that of its database.
    pub(super) fn sockets(&self) -> PathBuf {
        match &self.vswitch {
            Remote::Unix(path) => path.parent().map(PathBuf::from).unwrap_or_default(),
            Remote::Tcp(..) | Remote::Ssl(..) => PathBuf::from("/var/run/openvswitch"),
        }
    }

    /// The sockets of FRR's daemons.
    pub(super) fn frr(&self) -> PathBuf {
        self.frr_folder.clone().unwrap_or_else(|| "/run/frr".into())
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: EvpnFlags,
    }

    fn parse(words: &[&str]) -> EvpnFlags {
        Command::try_parse_from(["test"].iter().chain(words)).unwrap().flags
    }

    #[test]
    fn plain_text_stays_on_this_machine() {
        let check = |flags: &[&str], remote: &str| parse(flags).check(&[remote.parse().unwrap()], None);
        assert_eq!(check(&[], "unix:/run/sb.sock"), Ok(()));
        assert_eq!(check(&[], "tcp:127.0.0.1:6642"), Ok(()));
        assert!(check(&[], "tcp:192.0.2.9:6642").unwrap_err().contains("--allow-insecure-tcp"));
        assert_eq!(check(&["--allow-insecure-tcp"], "tcp:192.0.2.9:6642"), Ok(()));
        assert!(check(&[], "ssl:192.0.2.9:6642").unwrap_err().contains("--db-ca-cert"));
        assert!(parse(&["--db-ca-cert=a"]).tls().unwrap_err().to_string().contains("give all three"));
    }

    #[test]
    fn several_servers_of_one_database() {
        let flags = parse(&["--southbound=tcp:127.0.0.1:1,tcp:127.0.0.1:2"]);
        assert_eq!(flags.southbound.len(), 2);
        assert_eq!(flags.sockets(), PathBuf::from("/var/run/openvswitch"));
    }
}
