//! How much of a Service counts: lists that the API server has no bound for.

/// The most source ranges of a service (`spec.loadBalancerSourceRanges`) that count, when those are merged that lie side by side: every
/// node has each of them for each address and port. Of a longer list nothing counts.
pub const MOST_SOURCE_RANGES: usize = 256;

/// The most addresses outside of the cluster (`spec.externalIPs`) that count; the first ones.
pub const MOST_EXTERNAL_IPS: usize = 64;
