//! Settings under /proc/sys/net, which are those of the namespace that the thread is in.

use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::path::PathBuf;

/// One setting: the path below `/proc/sys/net`, and its value.
pub(crate) struct Setting {
    path: PathBuf,
    value: &'static str,
}

/// A setting of one link. Families are `ipv4` and `ipv6`.
pub(crate) fn of_link(family: &str, link: &str, name: &str, value: &'static str) -> Setting {
    Setting { path: ["/proc/sys/net", family, "conf", link, name].iter().collect(), value }
}

impl Setting {
    /// Writes the value, unless it is there; says whether it wrote.
    pub(crate) fn ensure(&self) -> Result<bool> {
        let fail = |source| Error::Setting { path: self.path.clone(), value: self.value.to_owned(), source };
        let is = fs::read_to_string(&self.path).map_err(fail)?;
        if is.trim_end() == self.value {
            return Ok(false);
        }
        fs::write(&self.path, self.value).map_err(fail)?;
        Ok(true)
    }
}

/// The host's end of a cable carries frames and nothing else. Where the switch reads them beside the kernel instead of
/// in its place, the kernel must not answer a pod that knocks there. It has no address of its own either, also if somebody
/// switches IPv6 on for all links; and what the settings say does not count alone: the plan of the host drops what comes.
pub(crate) fn of_host_end(link: &str) -> Vec<Setting> {
    let ipv4 = [("rp_filter", "1"), ("arp_ignore", "8"), ("forwarding", "0")];
    let ipv6 = [("addr_gen_mode", "1"), ("forwarding", "0"), ("accept_ra", "0"), ("disable_ipv6", "1")];
    let ipv6 = ipv6.into_iter().filter(|_| ipv6_is_there());
    let ipv6 = ipv6.map(|(name, value)| of_link("ipv6", link, name, value));
    ipv4.into_iter().map(|(name, value)| of_link("ipv4", link, name, value)).chain(ipv6).collect()
}

/// The pod's end: addresses count at once, the link-local one follows from the MAC (the logical port allows no other),
/// and routes are those that the annotation says, not what somebody advertises.
pub(crate) fn of_pod_end(link: &str) -> Vec<Setting> {
    let settings = [
        ("disable_ipv6", "0"),
        ("accept_dad", "0"),
        ("dad_transmits", "0"),
        ("addr_gen_mode", "0"),
        ("accept_ra", "0"),
    ];
    settings.into_iter().map(|(name, value)| of_link("ipv6", link, name, value)).collect()
}

/// What a setting is, by its path below `/proc/sys/net`; `None` if there is no such setting.
pub(crate) fn read(path: &str) -> Result<Option<String>> {
    let file = PathBuf::from("/proc/sys/net").join(path);
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text.trim_end().replace('\t', " "))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Setting { path: file, value: String::new(), source }),
    }
}

/// Gives a setting a value.
pub(crate) fn write(path: &str, value: &str) -> Result<()> {
    let file = PathBuf::from("/proc/sys/net").join(path);
    fs::write(&file, value).map_err(|source| Error::Setting { path: file, value: value.to_owned(), source })
}

fn ipv6_is_there() -> bool {
    PathBuf::from("/proc/sys/net/ipv6").exists()
}
