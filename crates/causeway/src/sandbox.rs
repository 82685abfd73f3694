//! `causeway sandbox`: a real cluster on this machine. The commands are those of the crate `causeway-sandbox`.

pub(crate) use causeway_sandbox::cli::Sandbox;
