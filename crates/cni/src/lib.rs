//! The CNI shim, and the wire types that it shares with the server.
