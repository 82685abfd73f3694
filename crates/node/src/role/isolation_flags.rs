//! Flags about who of the node reaches which pods and services.

use std::collections::BTreeSet;

use causeway_types::NamespaceName;

use super::cgroups::Told;

/// Flags of the node's own isolation
#[derive(Clone, Debug, clap::Args)]
pub(super) struct IsolationFlags {
    /// The kubelet's cgroup of version 2, such as system.slice/kubelet.service; without it that of the process called kubelet
    #[arg(long, env = "CAUSEWAY_KUBELET_CGROUP", value_name = "PATH", value_parser = read_path)]
    kubelet_cgroup: Option<String>,
    /// The kubelet's user. Where there is no cgroup of version 2, all its processes reach what is for the kubelet alone
    #[arg(long, env = "CAUSEWAY_KUBELET_UID", value_name = "USER", default_value_t = 0)]
    kubelet_uid: u32,
    /// Namespaces whose host-network pods reach services of every network, for administrators: an ingress controller's
    #[arg(long, env = "CAUSEWAY_ALL_SERVICES_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    all_services_namespaces: Vec<NamespaceName>,
    /// Let authors of NetworkPolicies have connections untracked (annotation k8s.ovn.org/acl-stateless)
    #[arg(long, env = "CAUSEWAY_ENABLE_STATELESS_NETPOL")]
    pub(super) enable_stateless_netpol: bool,
    /// Let ICMP through to and from pods that NetworkPolicies isolate
    #[arg(long, env = "CAUSEWAY_ALLOW_ICMP_NETWORK_POLICY")]
    pub(super) allow_icmp_network_policy: bool,
    /// Lines a second that each rule with a log may write
    #[arg(long, env = "CAUSEWAY_ACL_LOGGING_RATE_LIMIT", value_name = "LINES", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) acl_logging_rate_limit: u32,
}

fn read_path(text: &str) -> Result<String, String> {
    let path = text.trim_matches('/');
    let is_part =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(|c: char| c == '"' || c.is_control());
    let plain = path.split('/').all(is_part);
    plain.then(|| path.to_owned()).ok_or_else(|| "it is a path below the mount of cgroups".into())
}

impl IsolationFlags {
    /// What they tell of the kubelet.
    pub(super) fn told(&self) -> Told {
        Told { cgroup: self.kubelet_cgroup.clone(), user: self.kubelet_uid }
    }

    /// Whom administrators trust with all services.
    pub(super) fn all_services(&self) -> BTreeSet<NamespaceName> {
        self.all_services_namespaces.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: IsolationFlags,
    }

    fn parse(words: &[&str]) -> Result<IsolationFlags, clap::Error> {
        Command::try_parse_from(["test"].iter().chain(words)).map(|command| command.flags)
    }

    #[test]
    fn what_is_told_of_the_kubelet() {
        assert_eq!(parse(&[]).unwrap().told(), Told { cgroup: None, user: 0 });
        let flags = parse(&["--kubelet-cgroup=/system.slice/kubelet.service/", "--kubelet-uid=7"]).unwrap();
        assert_eq!(flags.told(), Told { cgroup: Some("system.slice/kubelet.service".into()), user: 7 });
        for wrong in ["", "/", "a//b", "../a", "a\"b"] {
            assert!(parse(&[&format!("--kubelet-cgroup={wrong}")]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespaces_that_reach_all_services() {
        let flags = parse(&["--all-services-namespaces=ingress,edge"]).unwrap();
        assert_eq!(flags.all_services(), ["edge", "ingress"].map(|name| name.parse().unwrap()).into());
        assert!(parse(&["--all-services-namespaces=No_Name"]).is_err());
    }
}
