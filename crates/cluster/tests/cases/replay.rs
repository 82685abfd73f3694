//! A recording of a real cluster manager on a real API server, played again.
//!
//! `recordings/cluster-manager.jsonl` was made with `--record`; `recordings/cluster-manager.expected.jsonl` is what
//! `causeway replay` prints for it. Whoever changes what the manager writes runs this with `CAUSEWAY_RECORD=1` and looks at the
//! difference.

use std::path::{Path, PathBuf};

use causeway_cluster::replay;
use causeway_record::recording::Header;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

#[test]
fn a_recording_gives_the_same_answers() {
    let recording = read("cluster-manager.jsonl");
    let mut lines = recording.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    let answers = replay(&header, lines).unwrap();
    let answers: Vec<String> =
        answers.map(|answer| serde_json::to_string(&answer.unwrap()).unwrap()).collect();
    if std::env::var_os("CAUSEWAY_RECORD").is_some() {
        std::fs::write(path("cluster-manager.expected.jsonl"), answers.join("\n") + "\n").unwrap();
    }
    let expected = read("cluster-manager.expected.jsonl");
    assert_eq!(answers, expected.lines().collect::<Vec<_>>());
}
