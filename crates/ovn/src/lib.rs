//! Typed OVN rows, desired sets and the differ
