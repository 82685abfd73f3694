//! The filter against router advertisements from anybody but the network's router.
//!
//! The pod's own kernel ignores them all; this is for guests behind the pod's interface. A goodbye (lifetime 0) passes,
//! so that a guest that came from elsewhere lets go of its old router.

use crate::error::{Error, Result};
use crate::program::run;
use std::net::Ipv6Addr;
use std::path::Path;

/// Puts the filter before a link of the namespace that the thread is in. A pod that should have it and cannot is not
/// connected: its neighbours could lead its traffic astray.
pub(crate) fn only_from(router: Ipv6Addr, link: &str) -> Result<()> {
    put(Path::new("nft"), router, link)
}

fn put(nft: &Path, router: Ipv6Addr, link: &str) -> Result<()> {
    let no_filter = |error: Error| Error::NoFilter { link: link.to_owned(), error: Box::new(error) };
    run(nft, &["-f", "-"], &text(router, link)).map(drop).map_err(no_filter)
}

fn text(router: Ipv6Addr, link: &str) -> String {
    format!(
        "add table netdev ingress_filter\n\
         delete table netdev ingress_filter\n\
         table netdev ingress_filter {{\n\
         \tchain ingress {{\n\
         \t\ttype filter hook ingress device \"{link}\" priority 0; policy accept;\n\
         \t\ticmpv6 type nd-router-advert ip6 saddr != {router} @th,48,16 != 0 drop\n\
         \t}}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_names_the_router_and_the_link() {
        let got = text("fe80::858:cbff:fecb:1".parse().unwrap(), "ovn-udn1");
        let want = "add table netdev ingress_filter\ndelete table netdev ingress_filter\n\
            table netdev ingress_filter {\n\tchain ingress {\n\
            \t\ttype filter hook ingress device \"ovn-udn1\" priority 0; policy accept;\n\
            \t\ticmpv6 type nd-router-advert ip6 saddr != fe80::858:cbff:fecb:1 @th,48,16 != 0 drop\n\t}\n}\n";
        assert_eq!(got, want);
    }

    #[test]
    fn a_node_without_nft_hears_what_to_do() {
        let error = put(Path::new("/no/such/nft"), "fe80::1".parse().unwrap(), "ovn-udn1").unwrap_err();
        let words = error.to_string();
        assert!(words.contains("ovn-udn1") && words.contains("/no/such/nft cannot be run"), "{words}");
        assert!(words.contains("install nftables"), "{words}");
    }
}
