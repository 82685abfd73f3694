//! A recording of a real cluster manager on a real API server, played again.
//!
//! `recordings/cluster-manager.jsonl` was made with `--record`; `recordings/cluster-manager.expected.jsonl` is what
//! `causeway replay` prints for it. Whoever changes what the manager writes prints it anew and looks at the difference.

use std::path::Path;

use causeway_cluster::replay;
use causeway_record::recording::Header;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_recording_gives_the_same_answers() {
    let recording = read("cluster-manager.jsonl");
    let mut lines = recording.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    let answers = replay(&header, lines).unwrap();
    let answers: Vec<String> =
        answers.map(|answer| serde_json::to_string(&answer.unwrap()).unwrap()).collect();
    let expected = read("cluster-manager.expected.jsonl");
    assert_eq!(answers, expected.lines().collect::<Vec<_>>());
}
