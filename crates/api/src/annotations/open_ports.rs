//! Ports of a pod that stay reachable from the default network, as users write them by hand: a YAML list of maps with
//! `protocol` and `port`, in block or flow style, JSON included. A small reader does: anchors, tags, several documents and the
//! like are refused, so no text costs more than its length.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::{Annotation, keys, malformed, to_json};
use crate::Error;

/// The most entries that are read; repetitions count, for reading them is work too.
pub const MOST_OPEN_PORTS: usize = 64;

/// Ports that stay reachable from the default network, each once, in a fixed order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OpenPorts(pub Vec<OpenPort>);

/// Transport protocols.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP, which has no ports.
    Icmp,
    /// ICMPv6, which has no ports.
    Icmpv6,
}

/// An entry of the annotation `k8s.ovn.org/open-default-ports`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct OpenPort {
    /// Read in any case, such as `TCP`; written in small letters.
    pub protocol: Protocol,
    /// The port, for protocols that have ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl Annotation for OpenPorts {
    const KEY: &'static str = keys::OPEN_DEFAULT_PORTS;

    fn parse(text: &str) -> Result<Self, Error> {
        let ports = if text.trim_start().starts_with('[') { flow_list(text) } else { block_list(text) };
        ports.map(|ports| Self(ports.into_iter().collect())).map_err(malformed::<Self>)
    }

    fn text(&self) -> String {
        to_json(&self.0)
    }
}

type Result<T, E = String> = std::result::Result<T, E>;

/// An entry while it is read: `protocol` and `port`, as they are written.
#[derive(Debug, Default)]
struct Entry {
    protocol: Option<String>,
    port: Option<String>,
}

impl Entry {
    fn set(&mut self, field: &str, value: &str) -> Result<()> {
        let place = match field {
            "protocol" => &mut self.protocol,
            "port" => &mut self.port,
            other => return Err(format!("{} is neither protocol nor port", shown(other))),
        };
        match place.replace(value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(format!("{field} is written twice in one entry")),
        }
    }

    fn read(self) -> Result<OpenPort> {
        let protocol = self.protocol.ok_or("protocol is missing")?;
        let (protocol, has_ports) = match protocol.to_ascii_lowercase().as_str() {
            "tcp" => (Protocol::Tcp, true),
            "udp" => (Protocol::Udp, true),
            "sctp" => (Protocol::Sctp, true),
            "icmp" => (Protocol::Icmp, false),
            "icmpv6" => (Protocol::Icmpv6, false),
            _ => {
                return Err(format!("protocol {} is none of tcp, udp, sctp, icmp, icmpv6", shown(&protocol)));
            }
        };
        let number =
            |text: &str| text.parse::<u16>().map_err(|_| format!("port {} is no port number", shown(text)));
        match self.port.as_deref().map(number).transpose()? {
            Some(0) => Err("port 0 does not exist".into()),
            Some(port) if !has_ports => Err(format!("port {port} makes no sense for ICMP")),
            None if has_ports => Err("port is missing".into()),
            port => Ok(OpenPort { protocol, port }),
        }
    }
}

/// A word of the text, for a message: a long one is cut.
fn shown(word: &str) -> impl fmt::Display {
    let short: String = word.chars().take(40).collect();
    format!("{short:?}")
}

/// The entries that have been read: each port once.
#[derive(Default)]
struct Entries {
    ports: BTreeSet<OpenPort>,
    read: usize,
}

impl Entries {
    fn add(&mut self, entry: Entry) -> Result<()> {
        self.read += 1;
        if self.read > MOST_OPEN_PORTS {
            return Err(super::bounded::too_many("ports", MOST_OPEN_PORTS));
        }
        self.ports.insert(entry.read()?);
        Ok(())
    }
}

/// `- ` begins an entry; lines that are indented further go on with it.
fn block_list(text: &str) -> Result<BTreeSet<OpenPort>> {
    let mut entries = Entries::default();
    let mut open: Option<(usize, Entry)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = without_comment(line).trim_end();
        if line.trim().is_empty() || (line == "---" && number == 0) {
            continue;
        }
        let at = |problem: String| format!("line {}: {problem}", number + 1);
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let field = match content.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            Some(rest) => {
                if let Some((_, entry)) = open.replace((indent, Entry::default())) {
                    entries.add(entry).map_err(at)?;
                }
                rest.trim()
            }
            None => content,
        };
        let (_, entry) = open
            .as_mut()
            .filter(|(start, _)| indent >= *start)
            .ok_or_else(|| at("this is no list of ports such as \"- {protocol: tcp, port: 80}\"".into()))?;
        fields(entry, field).map_err(at)?;
    }
    if let Some((_, entry)) = open {
        entries.add(entry)?;
    }
    Ok(entries.ports)
}

/// The fields of a line: `{protocol: tcp, port: 80}`, `protocol: tcp`, or nothing yet.
fn fields(entry: &mut Entry, text: &str) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    if text.starts_with('{') {
        let mut flow = Flow { rest: text };
        flow.map(entry)?;
        return flow.end();
    }
    let (field, value) = text.split_once(':').ok_or_else(|| format!("{} is no field", shown(text)))?;
    entry.set(plain(field)?, plain(value)?)
}

/// A word, with quotation marks or without.
fn plain(text: &str) -> Result<&str> {
    let text = text.trim();
    let quoted = |mark: char| text.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    let word = quoted('"').or_else(|| quoted('\'')).unwrap_or(text);
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then_some(word).ok_or_else(|| format!("{} is no word", shown(text)))
}

fn without_comment(line: &str) -> &str {
    let begins = |at: &usize| *at == 0 || line[..*at].ends_with([' ', '\t']);
    let comment = line.match_indices('#').map(|(at, _)| at).find(begins);
    comment.map_or(line, |at| &line[..at])
}

/// `[{protocol: tcp, port: 80}, …]`, which JSON is, too.
fn flow_list(text: &str) -> Result<BTreeSet<OpenPort>> {
    let (mut entries, mut flow) = (Entries::default(), Flow { rest: text });
    flow.expect('[')?;
    while !flow.takes(']') {
        let mut entry = Entry::default();
        flow.map(&mut entry)?;
        entries.add(entry)?;
        if !flow.takes(',') {
            flow.expect(']')?;
            break;
        }
    }
    flow.end().map(|()| entries.ports)
}

/// What is left of a text in flow style.
struct Flow<'a> {
    rest: &'a str,
}

impl<'a> Flow<'a> {
    fn takes(&mut self, mark: char) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, mark: char) -> Result<()> {
        if self.takes(mark) {
            Ok(())
        } else {
            Err(format!("{mark:?} is missing before {}", shown(self.rest)))
        }
    }

    fn end(&mut self) -> Result<()> {
        let rest = self.rest.trim();
        if rest.is_empty() { Ok(()) } else { Err(format!("{} is too much", shown(rest))) }
    }

    fn map(&mut self, entry: &mut Entry) -> Result<()> {
        self.expect('{')?;
        while !self.takes('}') {
            let field = self.word([':'])?;
            self.expect(':')?;
            let value = self.word([',', '}'])?;
            entry.set(field, value)?;
            if !self.takes(',') {
                return self.expect('}');
            }
        }
        Ok(())
    }

    /// A word, up to one of these marks.
    fn word<const N: usize>(&mut self, ends: [char; N]) -> Result<&'a str> {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        plain(word)
    }
}
