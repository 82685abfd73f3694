//! MAC addresses of one network. A MAC that follows from an address is unique like the address; one that a pod
//! asks for may be somebody else's, so all of them are registered.

use std::fmt;

use causeway_types::Mac;

use crate::{Claim, Error, Fit, NumberPool, Record, Refused, Result};

/// Who has which MAC on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macs<O> {
    pool: NumberPool<O>,
}

impl<O: Ord + Clone + fmt::Display> Macs<O> {
    /// Nobody has a MAC but the network itself, on its gateway and management ports.
    pub fn new(platform: impl IntoIterator<Item = Mac>) -> Self {
        let mut pool = NumberPool::new(0, (1 << 48) - 1, Fit::Lowest);
        for mac in platform {
            pool.exclude(number(mac), number(mac));
        }
        Self { pool }
    }

    /// Registers what annotations hold, by seniority; the MACs that somebody else has are named.
    pub fn restore(&mut self, claims: Vec<Claim<O, Mac>>) -> Vec<(O, Mac)> {
        let plain = |claim: Claim<O, Mac>| Claim {
            seniority: claim.seniority,
            owner: claim.owner,
            number: number(claim.number),
        };
        let lost = self.pool.restore(claims.into_iter().map(plain).collect(), &Record::default());
        lost.into_iter().map(|lost| (lost.owner, mac(lost.number))).collect()
    }

    /// Reserves the MAC for the owner, to wait for `commit` or `abort`.
    pub fn request(&mut self, owner: &O, mac: Mac) -> Result<()> {
        if !mac.is_unicast() {
            return Err(Error::MacGroup(mac));
        }
        self.pool.request(owner, number(mac)).map_err(|reason| match reason {
            Refused::TakenBy(holder) => Error::MacTaken { mac, holder: holder.to_string() },
            Refused::Holds(held) => Error::MacHeld { owner: owner.to_string(), mac: self::mac(held) },
            _ => Error::MacTaken { mac, holder: "the network itself".to_owned() },
        })
    }

    /// The annotation is written: the reservation stands.
    pub fn commit(&mut self, owner: &O) {
        self.pool.commit(owner);
    }

    /// The annotation could not be written: the reservation is undone.
    pub fn abort(&mut self, owner: &O) {
        self.pool.abort(owner);
    }

    /// The owner is gone.
    pub fn release(&mut self, owner: &O) {
        self.pool.release(owner);
    }

    /// How many have one.
    pub fn held(&self) -> usize {
        self.pool.held()
    }

    /// Who has a MAC.
    pub fn holder(&self, mac: Mac) -> Option<&O> {
        self.pool.holder(number(mac))
    }
}

fn number(mac: Mac) -> u128 {
    mac.bytes().iter().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

fn mac(number: u128) -> Mac {
    let bytes = number.to_be_bytes();
    Mac::new([bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seniority;

    fn parse(text: &str) -> Mac {
        text.parse().unwrap()
    }

    fn macs() -> Macs<String> {
        Macs::new([parse("0a:58:0a:00:00:01"), parse("0a:58:0a:00:00:02")])
    }

    /// udn-cases H019, H020.
    #[test]
    fn h019_h020_a_mac_that_somebody_has() {
        let mut macs = macs();
        let (a, b) = ("pod ns/a".to_owned(), "pod ns/b".to_owned());
        assert_eq!(
            macs.request(&a, parse("0a:58:0a:00:00:01")).unwrap_err().to_string(),
            "MAC address already in use: 0a:58:0a:00:00:01 belongs to the network itself"
        );
        assert_eq!(macs.request(&a, parse("02:00:00:00:00:07")), Ok(()));
        assert_eq!(
            macs.request(&b, parse("02:00:00:00:00:07")).unwrap_err().to_string(),
            "MAC address already in use: 02:00:00:00:00:07 belongs to pod ns/a"
        );
        assert_eq!(macs.request(&a, parse("02:00:00:00:00:07")), Ok(()), "asking again changes nothing");
        assert!(macs.request(&a, parse("02:00:00:00:00:08")).is_err());
        macs.abort(&a);
        assert_eq!(macs.request(&b, parse("02:00:00:00:00:07")), Ok(()));
        macs.commit(&b);
        macs.release(&b);
        assert_eq!(macs.holder(parse("02:00:00:00:00:07")), None);
        assert!(macs.request(&a, parse("01:00:5e:00:00:01")).is_err());
    }

    #[test]
    fn the_older_keeps_a_mac_that_two_hold() {
        let mut macs = macs();
        let claim = |created, owner: &str| Claim {
            seniority: Seniority { finished: false, created },
            owner: owner.to_owned(),
            number: parse("02:00:00:00:00:07"),
        };
        let lost = macs.restore(vec![claim(5, "young"), claim(1, "old")]);
        assert_eq!(lost, vec![("young".to_owned(), parse("02:00:00:00:00:07"))]);
        assert_eq!(macs.holder(parse("02:00:00:00:00:07")), Some(&"old".to_owned()));
    }
}
