//! The host: links, addresses, routes, namespaces, settings of the kernel.
