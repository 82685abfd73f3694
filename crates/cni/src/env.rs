//! What the runtime asks for: the environment variables of CNI, checked.

use crate::error::{ErrorCode, ErrorObject};
use std::collections::BTreeMap;

/// The longest name of a link in Linux.
const LONGEST_LINK: usize = 15;

/// What is to be done.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Command {
    /// Connect a pod.
    Add,
    /// Disconnect a pod.
    Del,
    /// Look whether a pod is connected as it was.
    Check,
    /// Remove what no pod has any more.
    Gc,
    /// Say whether pods can be connected.
    Status,
    /// Say which versions are spoken.
    Version,
}

impl Command {
    const ALL: [(Command, &'static str); 6] = [
        (Command::Add, "ADD"),
        (Command::Del, "DEL"),
        (Command::Check, "CHECK"),
        (Command::Gc, "GC"),
        (Command::Status, "STATUS"),
        (Command::Version, "VERSION"),
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        Command::ALL.iter().find(|(command, _)| *command == self).map_or("", |(_, word)| word)
    }

    /// The command of this word.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(word: &str) -> Result<Command, ErrorObject> {
        let known = Command::ALL.into_iter().find(|(_, known)| *known == word);
        known.map(|(command, _)| command).ok_or_else(|| {
            invalid(format!("CNI_COMMAND is {word:?}, not one of ADD, DEL, CHECK, GC, STATUS, VERSION"))
        })
    }

    /// Whether the command is about one container.
    pub fn has_container(self) -> bool {
        matches!(self, Command::Add | Command::Del | Command::Check)
    }
}

/// A checked call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// The container, which is the pod's sandbox; empty for commands that have none.
    pub container_id: String,
    /// The path of the pod's network namespace; DEL may have none.
    pub netns: String,
    /// The name that the pod's interface shall have; empty for commands that have none.
    pub ifname: String,
    /// The pod, if the runtime is a Kubernetes one.
    pub pod: PodIdentity,
}

/// The pod, as the kubelet names it in `CNI_ARGS`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PodIdentity {
    /// `K8S_POD_NAMESPACE`; empty if the runtime does not tell.
    pub namespace: String,
    /// `K8S_POD_NAME`; empty if the runtime does not tell.
    pub name: String,
    /// Its UID; of a static pod the hash of its file. Empty if the runtime does not tell.
    pub uid: String,
}

impl Invocation {
    /// Checks the variables of a call.
    ///
    /// # Errors
    /// Which variable is missing or malformed.
    pub fn parse(env: &BTreeMap<String, String>) -> Result<Invocation, ErrorObject> {
        let get = |name: &str| env.get(name).cloned().unwrap_or_default();
        let command = Command::parse(&get("CNI_COMMAND"))?;
        let mut invocation = Invocation {
            command,
            container_id: String::new(),
            netns: get("CNI_NETNS"),
            ifname: String::new(),
            pod: PodIdentity::parse(&get("CNI_ARGS")),
        };
        if command.has_container() {
            invocation.container_id = checked("CNI_CONTAINERID", get("CNI_CONTAINERID"), is_container)?;
            invocation.ifname = checked("CNI_IFNAME", get("CNI_IFNAME"), is_link)?;
        }
        if invocation.netns.is_empty() && matches!(command, Command::Add | Command::Check) {
            return Err(invalid("CNI_NETNS is missing: the path of the pod's network namespace"));
        }
        Ok(invocation)
    }
}

impl PodIdentity {
    /// Reads `KEY=value;KEY=value`; what is not about the pod is for others.
    fn parse(args: &str) -> PodIdentity {
        let mut pod = PodIdentity::default();
        for (key, value) in args.split(';').filter_map(|pair| pair.split_once('=')) {
            match key {
                "K8S_POD_NAMESPACE" => pod.namespace = value.to_owned(),
                "K8S_POD_NAME" => pod.name = value.to_owned(),
                "K8S_POD_UID" => pod.uid = value.to_owned(),
                _ => {}
            }
        }
        pod
    }
}

fn invalid(msg: impl Into<String>) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidEnvironment, msg)
}

fn checked(name: &str, value: String, rule: fn(&str) -> bool) -> Result<String, ErrorObject> {
    if value.is_empty() {
        return Err(invalid(format!("{name} is missing")));
    }
    if rule(&value) {
        Ok(value)
    } else {
        Err(invalid(format!("{name} is {value:?}, which CNI does not allow")))
    }
}

/// The rule of CNI; it keeps slashes out of names and paths.
fn is_container(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) && text.bytes().all(word)
}

/// Narrower than Linux' own rule: the name becomes part of a path under /proc/sys and of a rule of nft.
fn is_link(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.len() <= LONGEST_LINK && !matches!(text, "." | ".." | "all" | "default") && text.bytes().all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn reads_a_call_of_a_kubelet() {
        let got = Invocation::parse(&env(&[
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "abcdef0123456789"),
            ("CNI_NETNS", "/run/netns/cni-1"),
            ("CNI_IFNAME", "eth0"),
            (
                "CNI_ARGS",
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID=u-1",
            ),
        ]));
        let want = Invocation {
            command: Command::Add,
            container_id: "abcdef0123456789".into(),
            netns: "/run/netns/cni-1".into(),
            ifname: "eth0".into(),
            pod: PodIdentity { namespace: "ns1".into(), name: "web-0".into(), uid: "u-1".into() },
        };
        assert_eq!(got, Ok(want));
    }

    #[test]
    fn refuses_what_is_missing_or_could_be_a_path() {
        let good =
            [("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "a"), ("CNI_NETNS", "/x"), ("CNI_IFNAME", "eth0")];
        assert!(Invocation::parse(&env(&good)).is_ok());
        let spoilt = [
            ("CNI_COMMAND", "JUMP"),
            ("CNI_CONTAINERID", ""),
            ("CNI_CONTAINERID", "../a"),
            ("CNI_NETNS", ""),
            ("CNI_IFNAME", ""),
            ("CNI_IFNAME", "a/b"),
            ("CNI_IFNAME", ".."),
            ("CNI_IFNAME", "sixteen-letters-"),
            ("CNI_IFNAME", "a\"b"),
        ];
        for (name, value) in spoilt {
            let mut variables = env(&good);
            variables.insert(name.into(), value.into());
            let error = Invocation::parse(&variables).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidEnvironment, "{name}={value}");
            assert!(error.msg.contains(name), "{error}");
        }
    }

    #[test]
    fn del_needs_no_namespace_and_gc_no_container() {
        let del = [("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "a"), ("CNI_IFNAME", "eth0")];
        assert!(Invocation::parse(&env(&del)).is_ok());
        assert!(Invocation::parse(&env(&[("CNI_COMMAND", "GC")])).is_ok());
    }
}
