//! `causeway crds`: prints what is installed into a cluster before Causeway runs. It talks to no cluster.

use std::io::Write as _;

use causeway_api::install::{Installation, policies, roles, settings};
use causeway_api::print;
use causeway_api::schema::{CrdSet, definitions};

/// Print the custom resource definitions, admission policies, roles and settings, for `kubectl apply --server-side -f -`
#[derive(clap::Args)]
pub(crate) struct Crds {
    /// What to print
    #[arg(long, value_enum, default_value = "causeway")]
    set: Set,
    /// How to print it
    #[arg(long, short, value_enum, default_value = "yaml")]
    output: Output,
    /// The namespace that Causeway runs in; policies and roles name it
    #[arg(long, default_value = "causeway")]
    namespace: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Set {
    /// Causeway's own custom resource definitions
    Causeway,
    /// Those that other network plugins use too: install them only where they are absent
    Shared,
    /// Those of Kubernetes' network policy API: install them only where they are absent
    Policy,
    /// All custom resource definitions
    All,
    /// The admission policies with their bindings
    Policies,
    /// The roles with their bindings and service accounts
    Roles,
    /// What both roles are started with, as a ConfigMap for their environment
    Settings,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// YAML documents
    Yaml,
    /// One JSON List
    Json,
}

impl Crds {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let text = self.text()?;
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(())
    }

    fn text(self) -> anyhow::Result<String> {
        let installation = Installation { namespace: self.namespace, ..Installation::default() };
        let objects = match self.set {
            Set::Causeway => definitions(CrdSet::Causeway)?,
            Set::Shared => definitions(CrdSet::Shared)?,
            Set::Policy => definitions(CrdSet::Policy)?,
            Set::All => definitions(CrdSet::All)?,
            Set::Policies => policies(&installation),
            Set::Roles => roles(&installation),
            Set::Settings => settings(&installation),
        };
        Ok(match self.output {
            Output::Yaml => print::yaml(&objects)?,
            Output::Json => print::json(&objects)? + "\n",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(set: Set, output: Output) -> String {
        Crds { set, output, namespace: "elsewhere".into() }.text().unwrap()
    }

    #[test]
    fn sets_are_printed_apart() {
        let own = printed(Set::Causeway, Output::Yaml);
        let shared = printed(Set::Shared, Output::Yaml);
        assert!(
            own.contains("name: userdefinednetworks.k8s.ovn.org") && !own.contains("group: k8s.cni.cncf.io")
        );
        assert!(shared.contains("name: network-attachment-definitions.k8s.cni.cncf.io"));
        let policy = printed(Set::Policy, Output::Yaml);
        assert!(policy.contains("name: clusternetworkpolicies.policy.networking.k8s.io"));
        assert_eq!(printed(Set::All, Output::Yaml), own + &shared + &policy);
    }

    #[test]
    fn policies_and_roles_name_the_namespace() {
        for set in [Set::Policies, Set::Roles, Set::Settings] {
            for output in [Output::Yaml, Output::Json] {
                let text = printed(set, output);
                assert!(text.contains("elsewhere"), "{text}");
                assert!(!text.contains("system:serviceaccount:causeway:"), "{text}");
            }
        }
    }
}
