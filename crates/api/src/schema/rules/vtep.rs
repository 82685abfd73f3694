//! Rules of VTEP.

use super::{Rule, Rules};
use crate::schema::messages as say;

pub(super) fn rules() -> Vec<Rule> {
    Rules::at("spec.cidrs")
        .below("[]", "masked", "isCIDR(self) && cidr(self) == cidr(self).masked()", say::CONNECT_CIDR)
        .own("distinct", "self.all(x, self.exists_one(y, x == y))", say::VTEP_DISTINCT)
        .done()
}
