//! Finds the cgroups of the kubelet and of pods. Reads `/proc` and the mount of cgroups, and writes nothing.
//!
//! Any process can call itself kubelet, so its name is not enough: it must be the kubelet's user's, in the node's own network, and
//! outside of all pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use causeway_zone::{Cgroup, Kubelet, Processes};

/// Where `nft` looks for cgroups.
const MOUNT: &str = "/sys/fs/cgroup";
/// Pods are at most so far below the mount: the kubelet's own root, the root of pods, classes, the pod.
const DEEPEST: usize = 6;
/// Where nobody was ever found to be the kubelet, all processes are looked at in one look of so many.
const SELDOM: u8 = 10;
/// Part of the name of the root of all pods.
const PODS: &str = "kubepods";

/// What flags say of the kubelet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Told {
    /// Its cgroup, below the mount.
    pub(super) cgroup: Option<String>,
    pub(super) user: u32,
}

/// Looks, and remembers where things were.
pub(super) struct Finder {
    told: Told,
    proc: PathBuf,
    mount: PathBuf,
    /// The kubelet's process, with which a look begins.
    kubelet: Option<String>,
    /// Whether the kubelet has been known by its cgroup.
    had_cgroup: bool,
    /// How many looks ago all processes were looked at in vain.
    looks: u8,
    /// Where pods were.
    pods: BTreeMap<String, String>,
}

impl Finder {
    pub(super) fn new(told: Told) -> Self {
        Self::at(told, Path::new("/proc"), Path::new(MOUNT))
    }

    fn at(told: Told, proc: &Path, mount: &Path) -> Self {
        let (proc, mount) = (proc.to_owned(), mount.to_owned());
        Self { told, proc, mount, kubelet: None, had_cgroup: false, looks: 0, pods: BTreeMap::new() }
    }

    /// Whether there are cgroups of version 2 where `nft` looks for them.
    pub(super) fn has_cgroups(&self) -> bool {
        self.mount.join("cgroup.controllers").exists()
    }

    /// By what the kubelet and these pods are known.
    pub(super) fn look(&mut self, pods: &BTreeSet<String>) -> Processes {
        if !self.has_cgroups() {
            let pods = pods.iter().map(|uid| (uid.clone(), None)).collect();
            return Processes { kubelet: Kubelet::User(self.told.user), pods };
        }
        Processes { kubelet: self.kubelet(), pods: self.pods(pods) }
    }

    fn kubelet(&mut self) -> Kubelet {
        let path = match &self.told.cgroup {
            Some(path) => Some(path.clone()),
            None => self.kubelets_cgroup(),
        };
        match path.and_then(|path| self.cgroup(path)) {
            Some(cgroup) => {
                self.had_cgroup = true;
                Kubelet::Cgroup(cgroup)
            }
            // Who could be told from others is not taken for everybody of its user while it is away.
            None if self.had_cgroup || self.told.cgroup.is_some() => Kubelet::Away,
            None => Kubelet::User(self.told.user),
        }
    }

    fn cgroup(&self, path: String) -> Option<Cgroup> {
        let id = fs::metadata(self.mount.join(&path)).ok()?.ino();
        Some(Cgroup { path, id })
    }

    /// All processes are looked at when the one that was the kubelet is not any more.
    fn kubelets_cgroup(&mut self) -> Option<String> {
        if let Some(found) = self.kubelet.as_deref().and_then(|process| self.if_kubelet(process)) {
            return Some(found);
        }
        self.looks = (self.looks + 1) % SELDOM;
        if self.looks != 1 && !self.had_cgroup {
            return None;
        }
        let names = fs::read_dir(&self.proc).ok()?.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        let found = numbers.into_iter().find_map(|number| {
            let process = number.to_string();
            self.if_kubelet(&process).map(|path| (process, path))
        });
        let (process, path) = found.unzip();
        self.kubelet = process;
        path
    }

    /// The cgroup of a process, if it is the kubelet and has one of its own.
    fn if_kubelet(&self, process: &str) -> Option<String> {
        let folder = self.proc.join(process);
        let is_called =
            fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim_end() == "kubelet");
        if !is_called || fs::metadata(&folder).ok()?.uid() != self.told.user {
            return None;
        }
        let network = |process: &str| fs::read_link(self.proc.join(process).join("ns/net")).ok();
        if network(process)? != network("self")? {
            return None;
        }
        let cgroups = fs::read_to_string(folder.join("cgroup")).ok()?;
        let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let is_plain = !path.is_empty() && !path.split('/').any(|part| part == "..") && !path.contains('"');
        (is_plain && !path.contains(PODS)).then(|| path.to_owned())
    }

    fn pods(&mut self, wanted: &BTreeSet<String>) -> BTreeMap<String, Option<Cgroup>> {
        self.pods.retain(|uid, path| wanted.contains(uid) && self.mount.join(path).is_dir());
        if wanted.iter().any(|uid| !self.pods.contains_key(uid)) {
            self.search("", 0, wanted);
        }
        let found = |uid: &String| self.pods.get(uid).and_then(|path| self.cgroup(path.clone()));
        wanted.iter().map(|uid| (uid.clone(), found(uid))).collect()
    }

    /// Looks for pods below a cgroup. What services and pods have below them is theirs, and may be called anything.
    fn search(&mut self, below: &str, depth: usize, wanted: &BTreeSet<String>) {
        let Ok(entries) = fs::read_dir(self.mount.join(below)) else { return };
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for name in folders.filter_map(|entry| entry.file_name().into_string().ok()) {
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let is_end = name.ends_with(".service") || name.ends_with(".scope");
            match pod(&name).filter(|_| path.contains(PODS)) {
                Some(uid) if wanted.contains(&uid) => drop(self.pods.insert(uid, path)),
                Some(_) => {}
                None if depth < DEEPEST && !is_end => self.search(&path, depth + 1, wanted),
                None => {}
            }
        }
    }
}

/// The UID of the pod that a cgroup is called after: `pod<uid>`, or as systemd writes it `...-pod<uid>.slice` with `_`.
fn pod(name: &str) -> Option<String> {
    match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod").map(|(_, uid)| uid.replace('_', "-")),
        None => name.strip_prefix("pod").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const UID: &str = "992d3b9e-3f85-42e2-9558-9d4273d4236f";
    const OTHER: &str = "11111111-3f85-42e2-9558-9d4273d4236f";

    struct Node(TempDir);

    impl Node {
        /// A node with a mount of cgroups and the looker's own process.
        fn new() -> Self {
            let node = Self(TempDir::new().unwrap());
            node.process("self", "causeway", "4026531840", "system.slice/causeway.service");
            node.cgroup("system.slice/kubelet.service");
            fs::write(node.mount().join("cgroup.controllers"), "cpu\n").unwrap();
            node
        }

        fn proc(&self) -> PathBuf {
            self.0.path().join("proc")
        }

        fn mount(&self) -> PathBuf {
            self.0.path().join("cgroup")
        }

        fn process(&self, number: &str, name: &str, network: &str, cgroup: &str) {
            let folder = self.proc().join(number);
            fs::create_dir_all(folder.join("ns")).unwrap();
            fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            fs::write(folder.join("cgroup"), format!("1:name=systemd:/x\n0::/{cgroup}\n")).unwrap();
            symlink(format!("net:[{network}]"), folder.join("ns/net")).unwrap();
        }

        fn end(&self, number: &str) {
            fs::remove_dir_all(self.proc().join(number)).unwrap();
        }

        fn cgroup(&self, path: &str) -> u64 {
            fs::create_dir_all(self.mount().join(path)).unwrap();
            fs::metadata(self.mount().join(path)).unwrap().ino()
        }

        fn finder(&self, cgroup: Option<&str>) -> Finder {
            let user = fs::metadata(self.proc()).unwrap().uid();
            let told = Told { cgroup: cgroup.map(str::to_owned), user };
            Finder::at(told, &self.proc(), &self.mount())
        }
    }

    fn kubelet(finder: &mut Finder) -> Kubelet {
        finder.looks = 0;
        finder.look(&BTreeSet::new()).kubelet
    }

    /// udn-ovn-cases E08.

    #[test]
    fn the_kubelet_is_followed_when_it_starts_anew() {
        let node = Node::new();
        let mut finder = node.finder(None);
        let user = Kubelet::User(finder.told.user);
        assert_eq!(kubelet(&mut finder), user, "nobody is called so yet");
        let path = "system.slice/kubelet.service";
        node.process("70", "kubelet", "4026531840", path);
        let known = |id| Kubelet::Cgroup(Cgroup { path: path.into(), id });
        assert_eq!(kubelet(&mut finder), known(node.cgroup(path)));
        node.end("70");
        assert_eq!(kubelet(&mut finder), Kubelet::Away);
        // An inode that is still in use is not given out again.
        fs::rename(node.mount().join(path), node.mount().join("old")).unwrap();
        let anew = node.cgroup(path);
        node.process("71", "kubelet", "4026531840", path);
        assert_eq!(kubelet(&mut finder), known(anew));
    }

    #[test]
    fn who_only_calls_himself_kubelet_is_not() {
        let node = Node::new();
        node.cgroup(&format!("kubepods/burstable/pod{UID}/c1"));
        node.process("8", "kubelet", "4026531840", &format!("kubepods/burstable/pod{UID}/c1"));
        node.process("9", "kubelet", "1", "system.slice/kubelet.service");
        node.process("10", "kubelet", "4026531840", "");
        node.process("11", "kubelet", "4026531840", "../outside");
        let mut finder = node.finder(None);
        assert_eq!(kubelet(&mut finder), Kubelet::User(finder.told.user));
        node.process("12", "kubelet", "4026531840", "system.slice/kubelet.service");
        finder.told.user += 1;
        assert_eq!(kubelet(&mut finder), Kubelet::User(finder.told.user), "another user's");
        finder.told.user -= 1;
        assert!(matches!(kubelet(&mut finder), Kubelet::Cgroup(_)));
    }

    #[test]
    fn a_kubelet_that_comes_late_is_found() {
        let node = Node::new();
        let mut finder = node.finder(None);
        let look = |finder: &mut Finder| finder.look(&BTreeSet::new()).kubelet;
        assert!(matches!(look(&mut finder), Kubelet::User(_)));
        node.process("70", "kubelet", "4026531840", "system.slice/kubelet.service");
        let looks = (1..30).find(|_| matches!(look(&mut finder), Kubelet::Cgroup(_)));
        assert_eq!(looks, Some(usize::from(SELDOM)));
    }

    #[test]
    fn a_cgroup_that_is_told_need_not_be_there() {
        let node = Node::new();
        let mut finder = node.finder(Some("k3s.service"));
        assert_eq!(kubelet(&mut finder), Kubelet::Away);
        let id = node.cgroup("k3s.service");
        assert_eq!(kubelet(&mut finder), Kubelet::Cgroup(Cgroup { path: "k3s.service".into(), id }));
    }

    #[test]
    fn pods_are_found_by_their_uids() {
        let (node, uids) = (Node::new(), BTreeSet::from([UID.to_owned()]));
        let mut finder = node.finder(None);
        let mut found = || finder.look(&uids).pods;
        assert_eq!(found(), [(UID.to_owned(), None)].into());
        // Nobody is found by what he calls his own cgroups.
        node.cgroup(&format!("kubepods/pod{OTHER}/kubepods/pod{UID}"));
        node.cgroup(&format!("system.slice/x.service/kubepods/pod{UID}"));
        node.cgroup(&format!("user/pod{UID}"));
        assert_eq!(found(), [(UID.to_owned(), None)].into());
        let systemd = format!(
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{}.slice",
            UID.replace('-', "_")
        );
        for path in [format!("kubepods/burstable/pod{UID}"), systemd] {
            let id = node.cgroup(&path);
            let cgroup = Cgroup { path: path.clone(), id };
            assert_eq!(found(), [(UID.to_owned(), Some(cgroup))].into());
            fs::remove_dir(node.mount().join(&path)).unwrap();
        }
        assert_eq!(found(), [(UID.to_owned(), None)].into());
    }

    /// udn-ovn-cases E07.

    #[test]
    fn without_cgroups_of_version_2_users_are_all_there_is() {
        let node = Node::new();
        node.process("70", "kubelet", "4026531840", "system.slice/kubelet.service");
        node.cgroup(&format!("kubepods/pod{UID}"));
        fs::remove_file(node.mount().join("cgroup.controllers")).unwrap();
        let mut finder = node.finder(None);
        let known = finder.look(&BTreeSet::from([UID.to_owned()]));
        let user = Kubelet::User(finder.told.user);
        assert_eq!(known, Processes { kubelet: user, pods: [(UID.to_owned(), None)].into() });
    }
}
