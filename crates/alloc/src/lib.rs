//! Deterministic, restorable allocators for indexes, addresses and ids
