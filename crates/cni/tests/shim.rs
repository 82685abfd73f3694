//! The program itself, as a container runtime runs it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use causeway_cni::{Request, read_message, response};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

const ADD: [(&str, &str); 5] = [
    ("CNI_COMMAND", "ADD"),
    ("CNI_CONTAINERID", "abcdef0123456789"),
    ("CNI_NETNS", "/run/netns/x"),
    ("CNI_IFNAME", "eth0"),
    ("CNI_ARGS", "K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=web"),
];

/// What it prints, and whether it ended well.
fn shim(program: &Path, env: &[(&str, &str)], input: &str) -> (String, bool) {
    let mut child = Command::new(program)
        .env_clear()
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    (String::from_utf8(out.stdout).unwrap(), out.status.success())
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_causeway-cni"))
}

/// A server that answers once; what it was asked.
fn server(socket: &Path, answer: String) -> thread::JoinHandle<Request> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (_, body) = read_message(&mut stream).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        Request::parse(&body).unwrap()
    })
}

#[test]
fn carries_the_call_and_nothing_of_the_rest_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sock");
    let asked = server(&socket, response(200, "{\"cniVersion\":\"1.1.0\"}"));
    // Installed under the name that existing configurations have.
    let installed = folder.path().join("ovn-k8s-cni-overlay");
    std::fs::copy(program(), &installed).unwrap();
    let env: Vec<(&str, &str)> =
        ADD.into_iter().chain([("SECRET", "x"), ("CAUSEWAY_CNI_SOCKET", socket.to_str().unwrap())]).collect();
    let config =
        json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "socket": "/nowhere"}).to_string();
    assert_eq!(shim(&installed, &env, &config), ("{\"cniVersion\":\"1.1.0\"}".to_owned(), true));
    let request = asked.join().unwrap();
    assert_eq!(request.env, ADD.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(request.config.get(), config);
}

#[test]
fn an_error_of_the_server_is_printed_and_ends_badly() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sock");
    let error = json!({"cniVersion": "1.0.0", "code": 100, "msg": "no", "details": "do"});
    let _asked = server(&socket, response(400, &error.to_string()));
    let config = json!({"cniVersion": "1.0.0", "socket": socket}).to_string();
    let (text, well) = shim(program(), &ADD, &config);
    assert_eq!((serde_json::from_str::<Value>(&text).unwrap(), well), (error, false));
}

#[test]
fn without_a_server_the_runtime_is_told_to_try_again() {
    for (command, code) in [("ADD", 11), ("DEL", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50)] {
        let env: Vec<(&str, &str)> = ADD.into_iter().skip(1).chain([("CNI_COMMAND", command)]).collect();
        let (text, well) = shim(program(), &env, r#"{"cniVersion":"0.4.0","socket":"/no/such/socket"}"#);
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (error["code"].as_u64(), error["cniVersion"].as_str(), well),
            (Some(code), Some("0.4.0"), false)
        );
        assert!(error["msg"].as_str().unwrap().contains("/no/such/socket"), "{text}");
        assert!(error["details"].as_str().unwrap().contains("causeway-node pod"), "{text}");
    }
}

#[test]
fn versions_need_no_server() {
    let (text, well) = shim(program(), &[("CNI_COMMAND", "VERSION")], r#"{"cniVersion":"1.0.0"}"#);
    let want =
        json!({"cniVersion": "1.0.0", "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]});
    assert_eq!((serde_json::from_str::<Value>(&text).unwrap(), well), (want, true));
}

#[test]
fn what_it_cannot_read_it_says_by_code() {
    let (text, well) = shim(program(), &ADD, "nonsense");
    assert_eq!((serde_json::from_str::<Value>(&text).unwrap()["code"].as_u64(), well), (Some(6), false));
    let (text, _) = shim(program(), &ADD[..3], r#"{"cniVersion":"1.0.0"}"#);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["code"].as_u64(), Some(4));
}
