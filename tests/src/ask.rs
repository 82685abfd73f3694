//! Questions that pods, nodes and hosts outside ask, many at once.
#![allow(clippy::unwrap_used)]

use causeway_sandbox::Result;
use causeway_sandbox::harness::Sandbox;
use std::collections::BTreeMap;

/// One question: a command, and how it is called.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is run.
    pub command: String,
    /// By what its answer is found.
    pub label: String,
}

/// Answers by label; what failed has none.
pub type Said = BTreeMap<String, String>;

impl Ask {
    /// A command.
    pub fn new(command: &str, label: &str) -> Ask {
        Ask { command: command.to_owned(), label: label.to_owned() }
    }

    /// What an HTTP server answers.
    pub fn http(url: &str, label: &str) -> Ask {
        Ask::new(&format!("curl -sf --max-time 4 '{url}'"), label)
    }

    /// What a UDP server answers.
    pub fn udp(address: &str, port: u16, word: &str, label: &str) -> Ask {
        // The machine under the sandbox need not have a program for it.
        let talk = format!(
            "exec 3<>/dev/udp/{address}/{port} && echo {word} >&3 && timeout 2 dd bs=2000 count=1 <&3 2>/dev/null | grep ."
        );
        Ask::new(&format!("bash -c '{talk}'"), label)
    }

    /// Whether somebody answers an echo.
    pub fn ping(address: &str, label: &str) -> Ask {
        Ask::new(&format!("ping -c 1 -W 2 {address} >/dev/null"), label)
    }
}

/// All at once; an answer is a line of its own.
fn script(all: &[Ask]) -> String {
    let one = |(n, ask): (usize, &Ask)| {
        format!("(said=$({} 2>/dev/null) && echo \"{n}=$(echo \"$said\" | tr -d '\\n ')\") &", ask.command)
    };
    all.iter().enumerate().map(one).chain(["wait".to_owned()]).collect::<Vec<_>>().join("\n")
}

fn read(all: &[Ask], text: &str) -> Said {
    let line = |line: &str| {
        let (number, said) = line.split_once('=')?;
        Some((all.get(number.parse::<usize>().ok()?)?.label.clone(), said.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Asks from pods.
///
/// # Panics
/// When a thread does.
///
/// # Errors
/// When a pod cannot run anything.
pub fn asked_from_pods<'a>(sandbox: &Sandbox, pods: &[&'a str], all: &[Ask]) -> Result<Vec<(&'a str, Said)>> {
    let script = script(all);
    std::thread::scope(|scope| {
        let asked: Vec<_> = pods
            .iter()
            .map(|pod| (*pod, scope.spawn(|| sandbox.pod(pod).exec(&["sh", "-c", &script]))))
            .collect();
        asked.into_iter().map(|(pod, text)| Ok((pod, read(all, &text.join().unwrap()?)))).collect()
    })
}

/// Asks from a node, or from a host outside.
///
/// # Panics
/// When nobody there can run anything.
pub fn asked_from(sandbox: &Sandbox, host: &str, all: &[Ask]) -> Said {
    read(all, &sandbox.exec(host, &["sh", "-c", &script(all)]).unwrap())
}

/// Asks from the host outside.
///
/// # Panics
/// When nobody there can run anything.
pub fn asked_from_outside(sandbox: &Sandbox, all: &[Ask]) -> Said {
    asked_from(sandbox, "outside", all)
}

/// An address, a port and a path as HTTP has them.
pub fn url(address: &str, port: u16, path: &str) -> String {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    format!("http://{host}:{port}{path}")
}

/// The address before the port.
pub fn source(text: &str) -> &str {
    text.rsplit_once(':').map_or(text, |(address, _)| address.trim_matches(['[', ']']))
}

/// The addresses of a node on the underlay, IPv4 first.
///
/// # Panics
/// When it has no number.
pub fn node_addresses(node: &str) -> [String; 2] {
    let host = node.trim_start_matches('n').parse::<u8>().unwrap() + 10;
    [format!("172.30.0.{host}"), format!("fd00:172:30::{host:x}")]
}
