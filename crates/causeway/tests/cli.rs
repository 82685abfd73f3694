//! The program as people call it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn causeway(words: &[&str]) -> Output {
    // Whoever debugs has this set, and still wants sentences.
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(words).env_clear().env("RUST_BACKTRACE", "1").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_explains_itself() {
    let help = causeway(&["--help"]);
    assert!(help.status.success());
    for command in ["cluster-manager", "completion", "crds", "evpn-agent", "node", "replay", "sandbox"] {
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
        (&["node", "--node-name=n1", "--northbound=tcp:192.0.2.1:6641"], "--allow-insecure-tcp"),
        (&["node", "--node-name=n1", "--southbound=ssl:192.0.2.1:6642"], "--db-ca-cert"),
        (&["node", "--node-name=n1", "--log-level=loud=much"], "give error, warn"),
        (&["cluster-manager", "--udn-deletion-grace-period=soon"], "write 120s"),
        (&["sandbox", "status", "--name=nobody-has-this"], "nobody-has-this"),
    ] {
        let output = causeway(words);
        assert!(!output.status.success(), "{words:?}");
        assert!(text(&output.stderr).contains(wanted), "{words:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("backtrace"), "{words:?}: {}", text(&output.stderr));
    }
}

/// Every setting of the charts is one that both roles know, and what a role is started with takes effect: roads cannot be on without
/// networks.
#[test]
fn roles_know_the_settings_of_the_charts() {
    let printed = causeway(&["crds", "--set=settings", "--output=json"]);
    let list: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let settings = list["items"][0]["data"].as_object().unwrap().clone();
    assert_eq!(settings["CAUSEWAY_ENABLE_NETWORK_CONNECT"], "true");
    for role in ["cluster-manager", "node"] {
        let help = text(&causeway(&[role, "--help"]).stdout);
        for key in settings.keys() {
            assert!(help.contains(&format!("[env: {key}=")), "{role} does not know {key}");
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(["cluster-manager", "--enable-multi-network=false"]).env_clear();
    command.envs(settings.iter().map(|(key, value)| (key, value.as_str().unwrap())));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--enable-network-connect"), "{}", text(&output.stderr));
}

#[test]
fn help_keeps_to_the_width_of_the_terminal() {
    for words in
        [&["--help"][..], &["node", "--help"], &["cluster-manager", "--help"], &["sandbox", "up", "--help"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(words)
            .env_clear()
            .env("COLUMNS", "72")
            .output()
            .unwrap();
        // A word that is longer than the line has its own line: a path, or a flag with its variable.
        let long = |line: &&str| line.chars().count() > 72 && line.trim().split(' ').count() > 1;
        let help = text(&output.stdout);
        assert_eq!(help.lines().filter(long).collect::<Vec<_>>(), Vec::<&str>::new(), "{words:?}");
    }
}

#[test]
fn the_version_and_completions_are_printed() {
    let version = text(&causeway(&["--version"]).stdout);
    assert_eq!(version.trim(), concat!("causeway ", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let output = causeway(&["completion", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("cluster-manager"), "{shell}");
    }
}

/// Without any sandbox there is still something to say.
#[test]
fn sandboxes_are_listed_where_there_are_none() {
    let folder = std::env::temp_dir().join(format!("causeway-cli-{}", std::process::id()));
    for words in [&["sandbox", "list"][..], &["sandbox", "status", "--all"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
            .args(words)
            .env_clear()
            .env("XDG_RUNTIME_DIR", &folder)
            .env("XDG_STATE_HOME", &folder)
            .env("HOME", &folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("There is no sandbox"), "{words:?}: {}", text(&output.stdout));
    }
}

/// With `--log-format json` each line of the log is an object, for programs; without it none is. The error at the end is for people.
#[test]
fn the_log_is_text_or_json() {
    let log = |words: &[&str]| {
        let role =
            ["cluster-manager", "--kubeconfig=/does/not/exist", "--enable-dynamic-udn-allocation=true"];
        let said = text(&causeway(&[&role[..], words].concat()).stderr);
        let lines = said.lines().filter(|line| !line.starts_with("causeway: error: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let parsed = |lines: &[String]| -> Result<Vec<serde_json::Value>, _> {
        lines.iter().map(|line| serde_json::from_str(line)).collect()
    };
    for words in [&["--log-format", "json"][..], &["--log-format=json", "--log-level=debug"]] {
        let lines = log(words);
        let objects = parsed(&lines).unwrap_or_else(|error| panic!("{words:?}: {error}: {lines:?}"));
        let warning = objects.iter().find(|object| object["level"] == "WARN").unwrap();
        let said = warning["message"].as_str().unwrap();
        assert!(said.contains("--enable-dynamic-udn-allocation"), "{warning}");
        assert!(warning["timestamp"].is_string() && warning["target"].is_string(), "{warning}");
    }
    let plain = log(&[]);
    assert!(plain.iter().any(|line| line.contains("--enable-dynamic-udn-allocation")), "{plain:?}");
    parsed(&plain).unwrap_err();
}
