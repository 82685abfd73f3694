//! Where a database server listens, in the notation of ovsdb(7).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `tcp:HOST:PORT`
    Tcp(String, u16),
    /// `ssl:HOST:PORT`
    Ssl(String, u16),
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no database address: {why}; want unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")]
pub struct BadRemote {
    text: String,
    why: &'static str,
}

impl Remote {
    /// Reads a list separated by commas, as `OVN_NB_DB` has it.
    pub fn list(text: &str) -> Result<Vec<Remote>, BadRemote> {
        text.split(',').map(str::parse).collect()
    }
}

impl FromStr for Remote {
    type Err = BadRemote;

    fn from_str(text: &str) -> Result<Remote, BadRemote> {
        let bad = |why| BadRemote { text: text.to_owned(), why };
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad("it has no colon"))?;
        if kind == "unix" {
            return if rest.is_empty() {
                Err(bad("the path is empty"))
            } else {
                Ok(Remote::Unix(rest.into()))
            };
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(bad("the host is empty"));
        }
        let port = port.parse().map_err(|_| bad("the port is not a number below 65536"))?;
        match kind {
            "tcp" => Ok(Remote::Tcp(host.to_owned(), port)),
            "ssl" => Ok(Remote::Ssl(host.to_owned(), port)),
            _ => Err(bad("its kind is unknown")),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, host, port) = match self {
            Remote::Unix(path) => return write!(f, "unix:{}", path.display()),
            Remote::Tcp(host, port) => ("tcp", host, port),
            Remote::Ssl(host, port) => ("ssl", host, port),
        };
        if host.contains(':') {
            write!(f, "{kind}:[{host}]:{port}")
        } else {
            write!(f, "{kind}:{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_a_round_trip() {
        for text in ["unix:/run/ovn/nb.sock", "tcp:127.0.0.1:6641", "ssl:[fd00::1]:6642", "tcp:db.example:1"]
        {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), text);
        }
        assert_eq!(Remote::list("unix:/a,tcp:b:1").unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for text in ["", "unix:", "tcp:host", "tcp::1", "tcp:host:70000", "http:host:1", "/run/nb.sock"] {
            assert!(text.parse::<Remote>().unwrap_err().to_string().contains("want unix:PATH"), "{text}");
        }
    }
}
