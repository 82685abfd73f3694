//! The filter against router advertisements from anybody but the network's router.
//!
//! The pod's own kernel ignores them all; this is for guests behind the pod's interface. A goodbye (lifetime 0) passes,
//! so that a guest that came from elsewhere lets go of its old router.

use crate::error::Error;
use crate::program::run;
use std::net::Ipv6Addr;
use std::path::Path;
use tracing::{debug, warn};

/// Puts the filter before a link of the namespace that the thread is in, where `nft` is installed.
pub(crate) fn only_from(router: Ipv6Addr, link: &str) {
    match run(Path::new("nft"), &["-f", "-"], &text(router, link)) {
        Ok(_) => {}
        Err(error @ Error::NoProgram { .. }) => debug!(link, %error, "no filter of router advertisements"),
        Err(error) => warn!(link, %error, "the filter of router advertisements was refused"),
    }
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
}
