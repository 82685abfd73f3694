//! RFC 7047 without I/O: frames, datums, replica, transactions
