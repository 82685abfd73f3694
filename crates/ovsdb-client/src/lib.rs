//! Sockets, TLS, reconnect and monitors around causeway-ovsdb
