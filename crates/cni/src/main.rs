//! `causeway-cni`, called by the container runtime for every pod, also under the name `ovn-k8s-cni-overlay`.

use causeway_cni::{ErrorCode, ErrorObject, SUPPORTED_VERSIONS, Shim};
use std::env;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

/// A configuration is a few hundred bytes; GC lists every pod of a node.
const LONGEST_INPUT: u64 = 4 << 20;

fn main() -> ExitCode {
    let variables = env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let shim = Shim { env: variables.collect(), input: Vec::new() };
    if !shim.env.contains_key("CNI_COMMAND") {
        return usage();
    }
    let outcome = input().and_then(|input| Shim { input, ..shim }.run());
    let (text, code) = match outcome {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (error.text(), ExitCode::FAILURE),
    };
    // Nobody is left to be told if this fails.
    let _ = io::stdout().write_all(text.as_bytes());
    code
}

fn input() -> Result<Vec<u8>, ErrorObject> {
    let mut input = Vec::new();
    if !io::stdin().is_terminal() {
        let read = io::stdin().take(LONGEST_INPUT).read_to_end(&mut input);
        read.map_err(|e| ErrorObject::new(ErrorCode::Io, format!("reading the network configuration: {e}")))?;
    }
    Ok(input)
}

fn usage() -> ExitCode {
    let text = format!(
        "causeway-cni {}: the CNI plugin of Causeway, called by a container runtime (CNI {}).\n\
         It hands every call to `causeway node` on the same machine.\n",
        env!("CARGO_PKG_VERSION"),
        SUPPORTED_VERSIONS.join(", ")
    );
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
