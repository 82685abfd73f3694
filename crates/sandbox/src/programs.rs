//! Finds the programs by the rule that `scripts/setup` documents, and says what is missing.

use crate::error::{Error, Result};
use std::env;
use std::path::{Path, PathBuf};

/// What `scripts/setup kube` brings.
const KUBERNETES: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "agnhost",
    "coredns",
    "cni-bridge",
    "cni-host-local",
    "cni-loopback",
];
/// What `scripts/setup ovn` brings.
const OVN: &[&str] = &[
    "ovsdb-server",
    "ovsdb-tool",
    "ovs-ofctl",
    "ovs-vsctl",
    "ovs-vswitchd",
    "ovn-nbctl",
    "ovn-sbctl",
    "ovn-northd",
    "ovn-controller",
];
const SCHEMAS: &[&str] = &["ovn-nb.ovsschema", "ovn-sb.ovsschema", "vswitch.ovsschema"];
/// Of the machine itself, with the Debian package that has it.
const MACHINE: &[(&str, &str)] = &[("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")];

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// `CAUSEWAY_PROGRAMS`, else the folder in the user's cache.
    pub fn find() -> Programs {
        let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
        let cache = || env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("causeway/bin");
        Programs::at(env::var_os("CAUSEWAY_PROGRAMS").map_or_else(cache, PathBuf::from))
    }

    /// Programs in a given folder.
    pub fn at(folder: impl Into<PathBuf>) -> Programs {
        Programs { folder: folder.into() }
    }

    /// The folder of the programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of one of them, such as `kubelet`; it need not be there.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A schema, or the tool image.
    pub fn share(&self, name: &str) -> PathBuf {
        self.folder.parent().unwrap_or(Path::new("/")).join("share").join(name)
    }

    /// The archive of the tool image.
    pub fn image(&self) -> PathBuf {
        self.share("causeway-tools.tar")
    }

    /// The PATH of everything in a sandbox: our programs, then the machine's.
    pub fn search_path(&self) -> String {
        format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.display())
    }

    /// Says everything that is missing, and how to get it.
    pub fn check(&self) -> Result<()> {
        let mut missing = Vec::new();
        let absent = |paths: Vec<PathBuf>| {
            let names = paths.into_iter().filter(|path| !path.exists());
            names
                .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                .collect::<Vec<_>>()
        };
        let mut kubernetes: Vec<PathBuf> = KUBERNETES.iter().map(|name| self.program(name)).collect();
        kubernetes.push(self.image());
        let mut ovn: Vec<PathBuf> = OVN.iter().map(|name| self.program(name)).collect();
        ovn.extend(SCHEMAS.iter().map(|name| self.share(name)));
        for (part, paths) in [("kube", kubernetes), ("ovn", ovn)] {
            let absent = absent(paths);
            if !absent.is_empty() {
                missing.push(format!("{}: run `scripts/setup {part}`", absent.join(", ")));
            }
        }
        missing.extend(machine());
        if missing.is_empty() { Ok(()) } else { Err(Error::Missing(missing)) }
    }
}

fn machine() -> Vec<String> {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let has = |name: &str| folders.iter().any(|folder| Path::new(folder).join(name).exists());
    let mut missing: Vec<String> = MACHINE
        .iter()
        .filter(|(name, _)| !has(name))
        .map(|(name, package)| format!("{name}: install the package {package}"))
        .collect();
    if !nix::unistd::geteuid().is_root() {
        missing.push("root: run this as root, for example with `sudo -E`".into());
    }
    let overlay = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !overlay.contains("\toverlay\n") {
        missing.push("overlayfs: run `modprobe overlay`, or use a kernel that has it".into());
    }
    for (path, why) in
        [("/dev/net/tun", "a tap device for each bridge"), ("/proc/self/ns/pid", "PID namespaces")]
    {
        if !Path::new(path).exists() {
            missing.push(format!("{path}: the kernel must offer {why}"));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_missing_is_named_with_the_way_to_get_it() {
        let message = Programs::at("/nonexistent/bin").check().unwrap_err().to_string();
        assert!(message.contains("kubelet") && message.contains("run `scripts/setup kube`"), "{message}");
        assert!(message.contains("vswitch.ovsschema: run `scripts/setup ovn`"), "{message}");
    }

    #[test]
    fn the_shared_files_stand_beside_the_programs() {
        assert_eq!(Programs::at("/x/bin").image(), Path::new("/x/share/causeway-tools.tar"));
    }
}
