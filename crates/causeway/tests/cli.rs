//! The program as people call it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn causeway(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_causeway")).args(words).env_clear().output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_explains_itself() {
    let help = causeway(&["--help"]);
    assert!(help.status.success());
    for command in ["cluster-manager", "crds", "node", "sandbox"] {
        assert!(text(&help.stdout).contains(&format!("  {command} ")), "{}", text(&help.stdout));
        let help = causeway(&[command, "--help"]);
        assert!(help.status.success() && text(&help.stdout).contains("Usage: causeway"), "{command}");
    }
}

#[test]
fn bad_input_is_named() {
    for (words, wanted) in [
        (&["node"][..], "--node-name <NAME>"),
        (&["node", "--node-name=n1", "--northbound=nowhere"], "nowhere"),
        (&["node", "--node-name=n1", "--kubeconfig=/does/not/exist"], "/does/not/exist"),
        (&["cluster-manager", "--cluster-subnets=10.0.0.0/16/8"], "cannot be /8"),
        (&["cluster-manager", "--kubeconfig=/does/not/exist"], "/does/not/exist"),
        (&["crds", "--set=everything"], "everything"),
    ] {
        let output = causeway(words);
        assert!(!output.status.success(), "{words:?}");
        assert!(text(&output.stderr).contains(wanted), "{words:?}: {}", text(&output.stderr));
    }
}
