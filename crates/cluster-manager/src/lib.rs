//! The cluster manager: allocation, NADs and status.
