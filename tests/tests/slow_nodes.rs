//! Nodes that are cut off, switched off, added and removed. Slow, since Kubernetes takes 40 seconds to give a node up.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used)]

use causeway_tests::shared;

#[test]
fn a_node_can_be_cut_off_switched_off_added_and_removed() {
    let sandbox = shared();
    let state = |node: &str| {
        let object = sandbox.get(&["node", node])?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
        Ok(ready.and_then(|condition| condition["status"].as_str().map(str::to_owned)))
    };
    let wait = |node: &str, wanted: &str| {
        let what = format!("node {node} to have Ready={wanted}");
        sandbox.wait_for(&what, || Ok(state(node)?.filter(|status| status == wanted))).unwrap();
    };
    let node = sandbox.add_node().unwrap();
    assert_eq!(node, "n4");
    sandbox.partition(&node, true).unwrap();
    wait(&node, "Unknown");
    sandbox.partition(&node, false).unwrap();
    wait(&node, "True");
    sandbox.stop_node(&node).unwrap();
    wait(&node, "Unknown");
    sandbox.start_node(&node).unwrap();
    wait(&node, "True");
    sandbox.remove_node(&node).unwrap();
    assert!(sandbox.get(&["node", &node]).is_err());
}
