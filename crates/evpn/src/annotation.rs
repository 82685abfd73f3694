//! What an annotation of a port says: whether, and how, the port's network is exposed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use serde::Serialize;

const PREFIX: &str = "neutron_bgpvpn:";
/// More values nobody has; a longer list is refused before it is read.
const MOST_VALUES: usize = 64;
/// Tables of the kernel's own that a VRF must not have.
const KERNELS_TABLES: std::ops::RangeInclusive<u32> = 253..=255;

/// The number of a tenant's network on the fabric, and of its routing table on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Vni(u32);

impl Vni {
    const LAST: u32 = 0x00ff_ffff;

    /// A number that can be one.
    ///
    /// # Errors
    /// If it is none, or that of a table of the kernel's own.
    pub fn new(number: u32) -> Result<Self, String> {
        if KERNELS_TABLES.contains(&number) {
            return Err(format!("VNI {number} is the number of a routing table of the kernel's own"));
        }
        Self::apart_from_tables(number)
    }

    /// The number of a network whose routing table has another number.
    ///
    /// # Errors
    /// If it is none.
    pub fn apart_from_tables(number: u32) -> Result<Self, String> {
        if number == 0 || number > Self::LAST {
            return Err(format!("VNI {number} is not between 1 and {}", Self::LAST));
        }
        Ok(Self(number))
    }

    /// From 1 to 16777215.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A route target or distinguisher, such as `64999:1001` or `10.255.0.1:7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RouteTarget(String);

impl RouteTarget {
    /// Of a number before and after the colon; eight bytes have room for so much.
    fn read(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no route target: give AS:NUMBER or ADDRESS:NUMBER");
        let (head, number) = text.split_once(':').ok_or_else(bad)?;
        let number: u32 = plain(number).ok_or_else(bad)?;
        let narrow = match (plain(head), head.parse::<Ipv4Addr>()) {
            (Some(asn), _) => asn > u32::from(u16::MAX),
            (None, Ok(_)) => true,
            (None, Err(_)) => return Err(bad()),
        };
        if narrow && number > u32::from(u16::MAX) {
            return Err(format!(
                "{text:?} is no route target: the number after the colon goes to 65535 here"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// What is taken and what own routes are marked with, of one written target; without one the usual. `*` stands for any AS number: as
    /// a mark it is the own one.
    ///
    /// # Errors
    /// If it is no target.
    pub fn both_ways(written: Option<&str>, asn: u32, vni: Vni) -> Result<(Self, Self), String> {
        let usual = Self::usual(asn, vni);
        let Some(text) = written else { return Ok((usual.clone(), usual)) };
        let Some(number) = text.strip_prefix("*:") else {
            let target = Self::read(text)?;
            return Ok((target.clone(), target));
        };
        let number: u32 = plain(number).ok_or_else(|| format!("{text:?} is no route target"))?;
        Ok((Self(text.to_owned()), Self::read(&format!("{}:{number}", asn & 0xffff))?))
    }

    /// The one that everybody takes who was told nothing: of a long AS number the lower half counts.
    pub(crate) fn usual(asn: u32, vni: Vni) -> Self {
        Self(format!("{}:{vni}", asn & 0xffff))
    }

    /// As FRR writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Digits alone: `+7` and `007` are something else.
fn plain(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A tenant's place on the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vpn {
    /// The number of the network.
    pub vni: Vni,
    /// The AS number of the tenant's BGP instance.
    pub asn: u32,
    /// Whose routes are taken; the usual ones if empty.
    pub import: BTreeSet<RouteTarget>,
    /// What routes are marked with; as usual if empty.
    pub export: BTreeSet<RouteTarget>,
    /// What tells routes of this node apart; derived if not said.
    pub rd: Option<RouteTarget>,
}

/// What is written on a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Annotation {
    /// Nothing about a VPN.
    #[default]
    None,
    /// Something that cannot be used, and why.
    Bad(String),
    /// A place on the fabric.
    Vpn(Vpn),
}

impl Annotation {
    /// Reads a port's `external_ids`.
    pub fn read(ids: &BTreeMap<String, String>) -> Self {
        let said = |key: &str| {
            ids.get(&format!("{PREFIX}{key}")).map(String::as_str).filter(|text| !text.is_empty())
        };
        if said("vni").is_none() && said("as").is_none() {
            return Self::None;
        }
        read(said).map_or_else(Self::Bad, Self::Vpn)
    }

    /// The place on the fabric, if there is a usable one.
    pub fn vpn(&self) -> Option<&Vpn> {
        match self {
            Self::Vpn(vpn) => Some(vpn),
            _ => None,
        }
    }
}

fn read<'a>(said: impl Fn(&str) -> Option<&'a str>) -> Result<Vpn, String> {
    let number = |key: &str| {
        let text = said(key).ok_or_else(|| format!("{PREFIX}{key} is missing"))?;
        text.trim().parse::<u32>().map_err(|_| format!("{PREFIX}{key} is {text:?}, not a number"))
    };
    let vni = Vni::new(number("vni")?)?;
    let asn = number("as")?;
    if asn == 0 {
        return Err(format!("{PREFIX}as is 0, which is no AS number"));
    }
    if let Some(kind) = said("type").filter(|kind| *kind != "l3") {
        return Err(format!("{PREFIX}type is {kind:?}: only l3 is exposed"));
    }
    let list = |key: &str| said(key).map_or(Ok(BTreeSet::new()), |text| targets(key, text));
    let (both, mut import, mut export) = (list("rt")?, list("it")?, list("et")?);
    import.extend(both.iter().cloned());
    export.extend(both);
    let rd = list("rd")?.into_iter().next();
    Ok(Vpn { vni, asn, import, export, rd })
}

/// A list, as JSON or with commas.
fn targets(key: &str, text: &str) -> Result<BTreeSet<RouteTarget>, String> {
    let words: Vec<String> = match serde_json::from_str(text) {
        Ok(words) => words,
        Err(_) => text.split(',').map(|word| word.trim().to_owned()).collect(),
    };
    if words.len() > MOST_VALUES {
        return Err(format!("{PREFIX}{key} has {} values; at most {MOST_VALUES} are taken", words.len()));
    }
    let words = words.iter().filter(|word| !word.is_empty());
    words.map(|word| RouteTarget::read(word).map_err(|why| format!("{PREFIX}{key}: {why}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Annotation {
        Annotation::read(
            &pairs.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())).collect(),
        )
    }

    fn said(annotation: &Annotation) -> String {
        match annotation {
            Annotation::None => "none".into(),
            Annotation::Bad(why) => why.clone(),
            Annotation::Vpn(vpn) => {
                let list = |set: &BTreeSet<RouteTarget>| {
                    set.iter().map(RouteTarget::as_str).collect::<Vec<_>>().join("+")
                };
                let rd = vpn.rd.as_ref().map_or("-", RouteTarget::as_str);
                format!("{} {} {}/{} {rd}", vpn.vni, vpn.asn, list(&vpn.import), list(&vpn.export))
            }
        }
    }

    /// Cases 4, 5 and 22 of the catalogue, and the newer keys.
    #[test]
    fn annotations_are_read_once_and_whole() {
        for (pairs, want) in [
            (&[][..], "none"),
            (&[("rt", "64999:1001")], "none"),
            (&[("vni", "1001"), ("as", "64999")], "1001 64999 / -"),
            (&[("vni", "1001")], "neutron_bgpvpn:as is missing"),
            (&[("as", "64999")], "neutron_bgpvpn:vni is missing"),
            (&[("vni", "abc"), ("as", "64999")], "neutron_bgpvpn:vni is \"abc\", not a number"),
            (&[("vni", "1001"), ("as", "-1")], "neutron_bgpvpn:as is \"-1\", not a number"),
            (&[("vni", "0"), ("as", "1")], "VNI 0 is not between 1 and 16777215"),
            (&[("vni", "16777216"), ("as", "1")], "VNI 16777216 is not between 1 and 16777215"),
            (&[("vni", "254"), ("as", "1")], "VNI 254 is the number of a routing table of the kernel's own"),
            (&[("vni", "16777215"), ("as", "4200000001")], "16777215 4200000001 / -"),
            (
                &[
                    ("vni", "1"),
                    ("as", "1"),
                    ("rt", "[\"1:2\", \"1.2.3.4:5\"]"),
                    ("it", "9:9"),
                    ("rd", "7:7"),
                ],
                "1 1 1.2.3.4:5+1:2+9:9/1.2.3.4:5+1:2 7:7",
            ),
            (&[("vni", "1"), ("as", "1"), ("et", "1:2, 3:4")], "1 1 /1:2+3:4 -"),
            (
                &[("vni", "1"), ("as", "1"), ("et", "1:2\nexit")],
                "neutron_bgpvpn:et: \"1:2\\nexit\" is no route target: give AS:NUMBER or ADDRESS:NUMBER",
            ),
            (
                &[("vni", "1"), ("as", "1"), ("rd", "70000:70000")],
                "neutron_bgpvpn:rd: \"70000:70000\" is no route target: the number after the colon goes to 65535 here",
            ),
            (
                &[("vni", "1"), ("as", "1"), ("type", "l2")],
                "neutron_bgpvpn:type is \"l2\": only l3 is exposed",
            ),
        ] {
            assert_eq!(said(&read(pairs)), want, "{pairs:?}");
        }
        let many = vec!["1:1"; MOST_VALUES + 1].join(",");
        assert!(said(&read(&[("vni", "1"), ("as", "1"), ("rt", &many)])).contains("at most 64"));
    }

    #[test]
    fn the_usual_target_is_that_of_everybody_else() {
        let vni = Vni::new(1001).unwrap();
        assert_eq!(RouteTarget::usual(64999, vni).as_str(), "64999:1001");
        assert_eq!(RouteTarget::usual(4_200_000_001, vni).as_str(), "59905:1001");
    }
}
