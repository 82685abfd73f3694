//! Checked names, ids, MACs, CIDR arithmetic and tunnel keys
