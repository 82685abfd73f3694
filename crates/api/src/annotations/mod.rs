//! Annotations: their keys, and codecs from and to text.

pub mod keys;
