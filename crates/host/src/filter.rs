//! The filter against router advertisements from anybody but the network's router.
//!
//! The pod's own kernel ignores them all; this is for guests behind the pod's interface. A goodbye (lifetime 0) passes,
//! so that a guest that came from elsewhere lets go of its old router.

use std::io::Write;
use std::net::Ipv6Addr;
use std::process::{Command, Stdio};
use tracing::{debug, warn};

/// Puts the filter before a link of the namespace that the thread is in, where `nft` is installed.
pub(crate) fn only_from(router: Ipv6Addr, link: &str) {
    match feed(&text(router, link)) {
        Ok(None) => {}
        Ok(Some(words)) => warn!(link, words, "nft refused the filter of router advertisements"),
        Err(error) => debug!(link, %error, "no filter of router advertisements: nft cannot be run"),
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

/// What `nft` says if it refuses.
fn feed(text: &str) -> std::io::Result<Option<String>> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = nft.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    let out = nft.wait_with_output()?;
    Ok((!out.status.success()).then(|| String::from_utf8_lossy(&out.stderr).into_owned()))
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
