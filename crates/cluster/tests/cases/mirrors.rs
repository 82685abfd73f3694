//! I: mirrors of EndpointSlices.

use causeway_record::Event;
use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, dual, ipv4};

pub(crate) const SLICE: Kind = Kind::EndpointSlice;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";

/// A slice as the controller of Kubernetes writes it: of a service, with an owner and a port.
pub(crate) fn slice(path: &str, family: &str, endpoints: Value) -> Value {
    let (namespace, name) = path.split_once('/').unwrap();
    json!({
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": name,
            "labels": {"kubernetes.io/service-name": "web", MANAGED_BY: "endpointslice-controller.k8s.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "uid-of-web",
                                 "controller": true, "blockOwnerDeletion": true}],
        },
        "addressType": family,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    })
}

/// An endpoint of a pod: its address on the default network, and what else the controller writes.
pub(crate) fn endpoint(world: &World, pod: &str) -> Value {
    let (namespace, name) = pod.split_once('/').unwrap();
    let object = world.object(Kind::Pod, pod);
    json!({
        "addresses": ["10.244.9.9"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": object["spec"]["nodeName"],
        "zone": "a",
        "hints": {"forZones": [{"name": "a"}]},
        "targetRef": {"kind": "Pod", "namespace": namespace, "name": name, "uid": object["metadata"]["uid"]},
    })
}

/// Where the mirror of a slice is.
pub(crate) fn mirror_of(world: &World, path: &str) -> Option<String> {
    let (namespace, name) = path.split_once('/').unwrap();
    let mut found = world.objects.iter().filter(|(target, object)| {
        let meta = &object["metadata"];
        target.kind == SLICE
            && meta["labels"][MANAGED_BY] == MIRRORS
            && meta["namespace"] == namespace
            && meta["annotations"]["k8s.ovn.org/source-endpointslice"] == name
    });
    let first = found.next().map(|(target, _)| format!("{namespace}/{}", target.name));
    assert_eq!(found.next(), None, "one mirror for a slice");
    first
}

/// The addresses in the mirror of a slice; nothing if there is none.
fn addresses(world: &World, path: &str) -> Option<Vec<String>> {
    let mirror = world.object(SLICE, &mirror_of(world, path)?);
    let endpoints = mirror["endpoints"].as_array().unwrap().iter();
    Some(endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect())
}

fn texts(addresses: &[&str]) -> Option<Vec<String>> {
    Some(addresses.iter().map(|&address| address.to_owned()).collect())
}

/// Namespace `demo` with a layer2 network and pods `a`, `b` and `c`: 10.0.0.3 to 10.0.0.5.
fn tenant() -> World {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    for (pod, node) in [("demo/a", "n1"), ("demo/b", "n2"), ("demo/c", "n1")] {
        world.pod(pod, node);
    }
    world
}

fn serve(world: &mut World, path: &str, pods: &[&str]) {
    let endpoints: Vec<Value> = pods.iter().map(|pod| endpoint(world, pod)).collect();
    world.put(slice(path, "IPv4", endpoints.into()));
}

fn set_endpoints(world: &mut World, path: &str, endpoints: Value) {
    world.change(SLICE, path, &json!({"endpoints": endpoints}));
}

/// I001, I002, I016: everything that a mirror has.
#[test]
fn i001_i002_i016_a_mirror() {
    let mut world = tenant();
    serve(&mut world, "demo/web-abcde", &["demo/a", "demo/b", "demo/c"]);
    let path = mirror_of(&world, "demo/web-abcde").unwrap();
    assert!(path.starts_with("demo/web-abcde-"), "{path}");
    let source = world.object(SLICE, "demo/web-abcde").clone();
    let endpoint = |pod: &str, address: &str| {
        let mut endpoint = endpoint(&world, pod);
        endpoint["addresses"] = json!([address]);
        endpoint
    };
    let mut mirror = world.object(SLICE, &path).clone();
    for key in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
        mirror["metadata"].as_object_mut().unwrap().remove(key);
    }
    let expected = json!({
        "apiVersion": "any",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "demo",
            "name": path.strip_prefix("demo/"),
            "labels": {MANAGED_BY: MIRRORS, "k8s.ovn.org/service-name": "web"},
            "annotations": {
                "k8s.ovn.org/source-endpointslice": "web-abcde",
                "k8s.ovn.org/source-endpointslice-version": source["metadata"]["resourceVersion"],
                "k8s.ovn.org/endpointslice-network": "demo_db",
            },
            "ownerReferences": source["metadata"]["ownerReferences"],
        },
        "addressType": "IPv4",
        "ports": source["ports"],
        "endpoints": [endpoint("demo/a", "10.0.0.3"), endpoint("demo/b", "10.0.0.4"), endpoint("demo/c", "10.0.0.5")],
    });
    assert_eq!(mirror, expected);
}

#[test]
fn i004_each_family_has_its_mirror() {
    let mut world = World::new(dual(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24", "2001:db8::/64"]);
    world.pod("demo/a", "n1");
    let endpoints = json!([endpoint(&world, "demo/a")]);
    world.put(slice("demo/web-4", "IPv4", endpoints.clone()));
    world.put(slice("demo/web-6", "IPv6", endpoints.clone()));
    world.put(slice("demo/web-name", "FQDN", endpoints));
    assert_eq!(addresses(&world, "demo/web-4"), texts(&["10.0.0.3"]));
    assert_eq!(addresses(&world, "demo/web-6"), texts(&["2001:db8::3"]));
    assert_eq!(mirror_of(&world, "demo/web-name"), None);
}

/// A network of one family has nothing to say in the other.
#[test]
fn i004_a_family_that_the_network_lacks() {
    let mut world = tenant();
    let endpoints = json!([endpoint(&world, "demo/a")]);
    world.put(slice("demo/web-6", "IPv6", endpoints));
    assert_eq!(mirror_of(&world, "demo/web-6"), None);
}

#[test]
fn i005_pods_of_the_host_keep_their_address() {
    let mut world = tenant();
    world.put(json!({"kind": "Pod", "metadata": {"namespace": "demo", "name": "h"},
                     "spec": {"nodeName": "n1", "hostNetwork": true}}));
    let at = json!({"status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]}});
    world.change(Kind::Node, "n1", &at);
    let mut host = endpoint(&world, "demo/h");
    host["addresses"] = json!(["172.18.0.2"]);
    let other = endpoint(&world, "demo/a");
    world.put(slice("demo/web", "IPv4", json!([host, other])));
    assert_eq!(addresses(&world, "demo/web"), texts(&["172.18.0.2", "10.0.0.3"]));
}

/// A mirror goes with its slice; with the service both go, for they have the same owner.
#[test]
fn i007_the_source_goes() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &["demo/a"]);
    let mirror = mirror_of(&world, "demo/web").unwrap();
    world.delete(SLICE, "demo/web");
    assert!(world.object(SLICE, &mirror).is_null());
    serve(&mut world, "demo/web", &["demo/a"]);
    assert_eq!(mirror_of(&world, "demo/web"), Some(mirror.clone()));
    // A slice that somebody holds is as good as gone: its mirror would be collected again and again.
    world.change(
        SLICE,
        "demo/web",
        &json!({"metadata": {"finalizers": ["x/y"], "deletionTimestamp": "1970-01-02T00:00:00Z"}}),
    );
    assert!(world.object(SLICE, &mirror).is_null());
}

#[test]
fn i008_a_mirror_that_somebody_deletes_or_changes() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &["demo/a"]);
    let path = mirror_of(&world, "demo/web").unwrap();
    let content = |world: &World| {
        let mirror = world.object(SLICE, &path);
        let meta = &mirror["metadata"];
        json!([
            meta["labels"],
            meta["annotations"],
            meta["ownerReferences"],
            mirror["ports"],
            mirror["endpoints"]
        ])
    };
    let before = content(&world);
    world.delete(SLICE, &path);
    assert_eq!(content(&world), before);
    // What is changed is repaired in place: traffic goes on meanwhile.
    let uid = world.object(SLICE, &path)["metadata"]["uid"].clone();
    for tampered in [
        json!({"endpoints": [{"addresses": ["192.0.2.66"]}]}),
        json!({"endpoints": null}),
        json!({"ports": [{"port": 81}]}),
        json!({"metadata": {"annotations": {"k8s.ovn.org/endpointslice-network": "red_net"}}}),
        json!({"metadata": {"annotations": {"k8s.ovn.org/source-endpointslice": "other"}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}}),
        json!({"metadata": {"labels": {"k8s.ovn.org/service-name": "other"}}}),
        json!({"metadata": {"ownerReferences": []}}),
    ] {
        world.change(SLICE, &path, &tampered);
        assert_eq!(content(&world), before, "{tampered}");
        assert_eq!(world.object(SLICE, &path)["metadata"]["uid"], uid, "{tampered}");
    }
}

/// The API server lets nobody change the family of a slice, so such a mirror is made anew.
#[test]
fn i008_a_mirror_of_the_wrong_family() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &["demo/a"]);
    let path = mirror_of(&world, "demo/web").unwrap();
    let before = world.object(SLICE, &path).clone();
    world.delete(SLICE, "demo/web");
    let mut wrong = before.clone();
    wrong["addressType"] = json!("IPv6");
    wrong["metadata"]["uid"] = Value::Null;
    world.paused = true;
    world.put(wrong);
    serve(&mut world, "demo/web", &["demo/a"]);
    world.resume();
    let after = world.object(SLICE, &path);
    assert_eq!((&after["addressType"], &after["endpoints"]), (&before["addressType"], &before["endpoints"]));
}

/// Another manager's mirrors go once ours are there; what mirrors nothing goes.
#[test]
fn i008_further_mirrors_go() {
    let mut world = tenant();
    let source = |name: &str| json!({"k8s.ovn.org/source-endpointslice": name});
    let stray = |name: &str, source: Value| {
        json!({"kind": "EndpointSlice", "metadata": {
                   "namespace": "demo", "name": name, "labels": {MANAGED_BY: MIRRORS},
                   "annotations": source},
               "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]})
    };
    world.put(stray("nothing", source("not-there")));
    world.put(stray("says-nothing", Value::Null));
    serve(&mut world, "demo/web", &["demo/a"]);
    world.put(stray("web-xyz12", source("web")));
    let mirror = mirror_of(&world, "demo/web").unwrap();
    let left: Vec<&str> = world
        .objects
        .keys()
        .filter(|target| target.kind == SLICE)
        .map(|target| target.name.as_str())
        .collect();
    assert_eq!(left, ["web", mirror.strip_prefix("demo/").unwrap()]);
    // While the right one is missing, the other one serves.
    world.paused = true;
    world.delete(SLICE, &mirror);
    world.put(stray("web-xyz12", source("web")));
    let held: Vec<String> = world.held.iter().map(|request| request.target.to_string()).collect();
    assert_eq!(held, [format!("endpointslices {mirror}")]);
    world.resume();
    assert_eq!(mirror_of(&world, "demo/web"), Some(mirror));
}

#[test]
fn i010_without_endpoints() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &[]);
    assert_eq!(mirror_of(&world, "demo/web"), None);
    let endpoints = json!([endpoint(&world, "demo/a")]);
    set_endpoints(&mut world, "demo/web", endpoints);
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.3"]));
    set_endpoints(&mut world, "demo/web", Value::Null);
    assert_eq!(addresses(&world, "demo/web"), texts(&[]));
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
    assert_eq!(addresses(&world, "demo/web"), texts(&[]));
}

#[test]
fn i011_conditions_are_copied() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &["demo/a"]);
    let path = mirror_of(&world, "demo/web").unwrap();
    for conditions in [
        json!({"ready": false, "serving": true, "terminating": true}),
        json!({"ready": false, "serving": false, "terminating": true}),
        json!({}),
    ] {
        let mut changed = endpoint(&world, "demo/a");
        changed["conditions"] = conditions.clone();
        set_endpoints(&mut world, "demo/web", json!([changed]));
        assert_eq!(world.object(SLICE, &path)["endpoints"][0]["conditions"], conditions);
    }
}

#[test]
fn i013_an_address_that_comes_later() {
    let mut world = tenant();
    world.paused = true;
    world.pod("demo/late", "n2");
    world.paused = false;
    serve(&mut world, "demo/web", &["demo/a", "demo/late"]);
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.3"]));
    world.resume();
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.3", "10.0.0.6"]));
    world.delete(Kind::Pod, "demo/late");
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.3"]));
}

/// A pod that has finished, or another one with its name, is not the endpoint any more.
#[test]
fn i013_an_address_that_is_somebody_elses() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &["demo/a", "demo/b"]);
    world.change(Kind::Pod, "demo/a", &json!({"status": {"phase": "Succeeded"}}));
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.4"]));
    world.delete(Kind::Pod, "demo/b");
    world.pod("demo/b", "n2");
    assert_ne!(world.address("demo/b", "demo/db"), Value::Null);
    assert_eq!(addresses(&world, "demo/web"), texts(&[]));
    let endpoints = json!([endpoint(&world, "demo/b")]);
    set_endpoints(&mut world, "demo/web", endpoints);
    assert_eq!(addresses(&world, "demo/web").map(|all| all.len()), Some(1));
}

/// Slices by users and by the controller that mirrors Endpoints.
#[test]
fn i014_addresses_that_are_no_pods() {
    let mut world = tenant();
    for (path, managed_by) in [
        ("demo/by-hand", None),
        ("demo/by-operator", Some("operator.example")),
        ("demo/of-endpoints", Some("endpointslicemirroring-controller.k8s.io")),
    ] {
        let mut object = slice(path, "IPv4", json!([{"addresses": ["192.0.2.10", "192.0.2.11"]}]));
        object["metadata"]["labels"] = match managed_by {
            Some(who) => json!({"kubernetes.io/service-name": "web", MANAGED_BY: who}),
            None => json!({"kubernetes.io/service-name": "web"}),
        };
        object["metadata"]["ownerReferences"] = Value::Null;
        world.put(object);
        let mirror = world.object(SLICE, &mirror_of(&world, path).unwrap());
        assert_eq!(
            mirror["endpoints"],
            json!([{"addresses": ["192.0.2.10", "192.0.2.11"], "conditions": {}}]),
            "{path}"
        );
        assert_eq!(mirror["metadata"]["ownerReferences"], json!([]));
    }
    let mut nobodys = slice("demo/nobodys", "IPv4", json!([{"addresses": ["192.0.2.10"]}]));
    nobodys["metadata"]["labels"] = json!({});
    world.put(nobodys);
    assert_eq!(mirror_of(&world, "demo/nobodys"), None);
}

/// Whoever names a pod of another namespace learns nothing about it, and does not reach it.
#[test]
fn i014_a_pod_of_another_namespace() {
    let mut world = tenant();
    world.tenant("red");
    world.layer2("red/db", &["10.7.0.0/24"]);
    world.put(slice("red/web", "IPv4", json!([endpoint(&world, "demo/a")])));
    assert_eq!(addresses(&world, "red/web"), None);
    world.pod("red/a", "n1");
    assert_eq!(addresses(&world, "red/web"), None);
}

#[test]
fn i017_networks_that_come_and_go() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.put(slice("demo/web", "IPv4", json!([{"addresses": ["192.0.2.10"]}])));
    assert_eq!(mirror_of(&world, "demo/web"), None);
    world.layer2("demo/db", &["10.0.0.0/24"]);
    assert_eq!(addresses(&world, "demo/web"), texts(&["192.0.2.10"]));
    world.delete(Kind::UserDefinedNetwork, "demo/db");
    assert_eq!(mirror_of(&world, "demo/web"), None);
    world.layer2("demo/other", &["10.1.0.0/24"]);
    let mirror = world.object(SLICE, &mirror_of(&world, "demo/web").unwrap());
    assert_eq!(mirror["metadata"]["annotations"]["k8s.ovn.org/endpointslice-network"], "demo_other");
}

/// What a pod has on a network that is gone is no address of the one that came after it.
#[test]
fn i017_a_pod_keeps_its_network() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    let config = json!({"type": "ovn-k8s-cni-overlay", "name": "hand", "topology": "layer2", "role": "primary", "subnets": "10.9.0.0/24"});
    world.nad("demo/hand", &config.to_string());
    world.pod("demo/a", "n1");
    serve(&mut world, "demo/web", &["demo/a"]);
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.9.0.3"]));
    world.delete(Kind::NetworkAttachmentDefinition, "demo/hand");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod("demo/b", "n1");
    let endpoints = json!([endpoint(&world, "demo/a"), endpoint(&world, "demo/b")]);
    set_endpoints(&mut world, "demo/web", endpoints);
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.3"]));
}

/// A namespace of the default network has no mirrors, whatever is in it.
#[test]
fn only_namespaces_of_user_defined_networks_have_mirrors() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.pod("plain/a", "n1");
    serve(&mut world, "plain/web", &["plain/a"]);
    let mut forged = slice("plain/forged", "IPv4", json!([{"addresses": ["192.0.2.1"]}]));
    forged["metadata"]["labels"] = json!({MANAGED_BY: MIRRORS});
    forged["metadata"]["annotations"] = json!({"k8s.ovn.org/source-endpointslice": "web"});
    world.put(forged);
    assert_eq!(mirror_of(&world, "plain/web"), None);
    world.change_namespace(
        "plain",
        &json!({"metadata": {"labels": {"k8s.ovn.org/primary-user-defined-network": ""}}}),
    );
    world.layer2("plain/db", &["10.0.0.0/24"]);
    world.pod("plain/b", "n1");
    let endpoints = json!([endpoint(&world, "plain/a"), endpoint(&world, "plain/b")]);
    set_endpoints(&mut world, "plain/web", endpoints);
    assert_eq!(addresses(&world, "plain/web"), texts(&["10.0.0.3"]));
    world.change_namespace(
        "plain",
        &json!({"metadata": {"labels": {"k8s.ovn.org/primary-user-defined-network": null}}}),
    );
    assert_eq!(mirror_of(&world, "plain/web"), None);
}

/// Somebody's slice is in the way: it stays, and whoever looks at the service's slice finds out.
#[test]
fn a_name_that_somebody_has() {
    let mut world = tenant();
    serve(&mut world, "demo/web", &["demo/a"]);
    let mirror = mirror_of(&world, "demo/web").unwrap();
    world.delete(SLICE, "demo/web");
    let mut other = slice(&mirror, "IPv4", json!([{"addresses": ["192.0.2.1"]}]));
    other["metadata"]["labels"] = json!({});
    world.put(other.clone());
    serve(&mut world, "demo/web", &["demo/a"]);
    let endpoints = json!([endpoint(&world, "demo/b")]);
    set_endpoints(&mut world, "demo/web", endpoints);
    assert_eq!(world.object(SLICE, &mirror)["endpoints"], other["endpoints"]);
    let told: Vec<&String> = world.said.iter().filter(|text| text.contains("MirrorNameTaken")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("EndpointSlice demo/web MirrorNameTaken: "), "{told:?}");
    world.delete(SLICE, &mirror);
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.4"]));
}

/// Before slices are listed pods get their addresses, and no mirror is written or deleted.
#[test]
fn nothing_before_slices_are_listed() {
    let mut world = World::empty(ipv4());
    let synced = crate::world::synced(causeway_alloc::Reuse::default());
    for input in
        synced.into_iter().filter(|input| !matches!(input, causeway_cluster::Input::EndpointSlice(_)))
    {
        let outputs = world.step(input);
        world.take(outputs);
    }
    world.node("n1");
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod("demo/a", "n1");
    let mut old = slice("demo/old-mirror", "IPv4", json!([{"addresses": ["192.0.2.1"]}]));
    old["metadata"]["labels"] = json!({MANAGED_BY: MIRRORS});
    old["metadata"]["annotations"] = json!({"k8s.ovn.org/source-endpointslice": "gone"});
    world.put(old);
    serve(&mut world, "demo/web", &["demo/a"]);
    assert_eq!(world.address("demo/a", "demo/db"), "10.0.0.3/24");
    assert_eq!(world.writes.iter().filter(|text| text.contains("endpointslices")).count(), 0);
    assert_eq!(world.manager.ready(), Err("endpointslices have not been listed".into()));
    let outputs = world.step(causeway_cluster::Input::EndpointSlice(Event::Synced));
    world.take(outputs);
    assert_eq!(addresses(&world, "demo/web"), texts(&["10.0.0.3"]));
    assert!(world.object(SLICE, "demo/old-mirror").is_null());
    assert_eq!(world.manager.ready(), Ok(()));
}

/// Without user-defined networks nobody touches slices, and nobody waits for them.
#[test]
fn no_mirrors_where_networks_are_switched_off() {
    let mut config = ipv4();
    config.features.network_segmentation = false;
    let mut world = World::new(config, &["n1"]);
    world.tenant("demo");
    let mut old = slice("demo/old-mirror", "IPv4", json!([{"addresses": ["192.0.2.1"]}]));
    old["metadata"]["labels"] = json!({MANAGED_BY: MIRRORS});
    world.put(old);
    assert!(!world.object(SLICE, "demo/old-mirror").is_null());
    assert_eq!(world.manager.ready(), Ok(()));
}

/// A creation that fails is not tried for ever: once nobody wants the mirror, it is taken back.
#[test]
fn a_creation_that_fails_gives_way() {
    let mut world = tenant();
    world.failing = Some("endpointslices".into());
    serve(&mut world, "demo/web", &["demo/a"]);
    let asked: Vec<String> =
        world.writes.iter().filter(|text| text.contains("endpointslices")).cloned().collect();
    world.failing = None;
    world.paused = true;
    world.change_namespace(
        "demo",
        &json!({"metadata": {"deletionTimestamp": "1970-01-02T00:00:00Z", "finalizers": ["kubernetes"]}}),
    );
    assert_eq!((&world.withdrawn, world.held.len()), (&asked, 0));
    world.resume();
    assert_eq!(mirror_of(&world, "demo/web"), None);
}

/// Whatever still waits for objects of a namespace that is gone is taken back; other namespaces wait on.
#[test]
fn a_namespace_that_is_gone_takes_its_writes_with_it() {
    let mut world = tenant();
    world.tenant("other");
    world.paused = true;
    for name in ["demo/x", "other/x"] {
        world.pod(name, "n1");
    }
    let waiting =
        |world: &World| world.held.iter().map(|request| request.target.to_string()).collect::<Vec<_>>();
    assert_eq!(waiting(&world), ["pods demo/x"], "other has no network yet");
    world.delete_namespace("demo");
    assert_eq!((waiting(&world).len(), &world.withdrawn[..]), (0, &["pods demo/x networks".to_owned()][..]));
}

/// An event of a pod costs the same with many slices as with few.
#[test]
fn work_for_a_pod_does_not_grow_with_slices() {
    let cost = |slices: usize| {
        let mut world = tenant();
        for number in 0..slices {
            let pod = format!("demo/p{number}");
            serve(&mut world, &format!("demo/web-{number}"), &[&pod]);
        }
        let start = std::time::Instant::now();
        for number in 0..300 {
            let labels = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": format!("none{number}")}}});
            world.change(Kind::Pod, "demo/a", &labels);
        }
        start.elapsed()
    };
    let (few, many) = (cost(1).min(cost(1)), cost(1000).min(cost(1000)));
    assert!(many < few * 5, "{few:?} with 1 slice, {many:?} with 1000");
}

/// Whoever may write slices cannot aim his service at others: only his own pods count, by reference, pods on nodes where they
/// really run, and what is outside. What is skipped is said.
#[test]
fn a_slice_cannot_aim_at_others() {
    let mut world = tenant();
    recorded_at(&mut world, "n1", "172.18.0.2");
    recorded_at(&mut world, "n2", "172.18.0.3");
    world.island("victim", "10.50.0.0/16", json!({"road": "x"}));
    world.put(json!({"kind": "Pod", "metadata": {"namespace": "demo", "name": "host"},
                     "spec": {"nodeName": "n1", "hostNetwork": true}}));
    let plain = |address: &str| json!({"addresses": [address], "conditions": {"ready": true}});
    let on_node = endpoint(&world, "demo/host");
    let host = |address: &str| {
        let mut endpoint = on_node.clone();
        endpoint["addresses"] = json!([address]);
        endpoint
    };
    let inside = [
        "10.244.0.9",
        "10.96.0.1",
        "100.64.0.2",
        "100.65.0.1",
        "100.88.0.2",
        "169.254.0.2",
        "127.0.0.1",
        "172.18.0.3",
        "10.0.0.9",
    ];
    let hosts = [host("172.18.0.3"), host("10.50.0.9")];
    for (number, bad) in inside.map(plain).into_iter().chain(hosts).enumerate() {
        let name = format!("demo/bad{number}");
        let address = bad["addresses"][0].as_str().unwrap().to_owned();
        world.put(slice(&name, "IPv4", json!([bad, plain("192.0.2.7")])));
        assert_eq!(addresses(&world, &name), texts(&["192.0.2.7"]), "{address}");
        let said = world.said.last().unwrap();
        assert!(
            said.starts_with(&format!("EndpointSlice {name} EndpointNotServed")) && said.contains(&address),
            "{said}"
        );
    }
    let mut foreign = endpoint(&world, "demo/a");
    foreign["targetRef"]["namespace"] = "victim".into();
    foreign["addresses"] = json!(["10.244.0.9"]);
    world.put(slice("demo/foreign", "IPv4", json!([foreign])));
    assert_eq!(addresses(&world, "demo/foreign"), None);
    let good = host("172.18.0.2");
    world.put(slice("demo/good", "IPv4", json!([good])));
    assert_eq!(addresses(&world, "demo/good"), texts(&["172.18.0.2"]));
}

/// A node whose kubelet names an address, which its record has.
fn recorded_at(world: &mut World, node: &str, address: &str) {
    world.change(Kind::Node, node, &named(&[address]));
    let claim = json!({"metadata": {"annotations": {"k8s.ovn.org/node-chassis-id": format!("c-{node}")}}});
    world.change(Kind::Node, node, &claim);
    let record = world.annotation(Kind::Node, node, "k8s.ovn.org/node-chassis-record");
    assert_eq!(record["node-ips"], json!([address]));
}

/// The attack with a kubelet's credential: a node names another node's address, one of somebody outside and one of a network. Pods on
/// the other node are served all the same, and so is who is outside; the liar gains nothing. The order of names decides nothing.
#[test]
fn a_kubelets_word_takes_no_service_from_anybody() {
    for (liar, victim) in [("n1", "n2"), ("n2", "n1")] {
        let mut world = tenant();
        recorded_at(&mut world, liar, "172.18.0.9");
        recorded_at(&mut world, victim, "172.18.0.2");
        for (name, node) in [("host", victim), ("accomplice", liar)] {
            world.put(json!({"kind": "Pod", "metadata": {"namespace": "demo", "name": name},
                             "spec": {"nodeName": node, "hostNetwork": true}}));
        }
        let at = |world: &World, pod: &str, address: &str| {
            let mut endpoint = endpoint(world, pod);
            endpoint["addresses"] = json!([address]);
            endpoint
        };
        let good = at(&world, "demo/host", "172.18.0.2");
        world.put(slice("demo/web", "IPv4", json!([good, {"addresses": ["192.0.2.7"]}])));
        let bad =
            ["172.18.0.2", "10.244.0.9", "10.0.0.9"].map(|address| at(&world, "demo/accomplice", address));
        let [one, two, three] = bad;
        world.put(slice("demo/bad", "IPv4", json!([one, two, three, {"addresses": ["192.0.2.8"]}])));
        let served = texts(&["172.18.0.2", "192.0.2.7"]);
        assert_eq!(addresses(&world, "demo/web"), served);
        world.change(Kind::Node, liar, &named(&["172.18.0.2", "192.0.2.7", "10.244.0.9", "10.0.0.9"]));
        for restarted in [false, true] {
            assert_eq!(addresses(&world, "demo/web"), served, "{liar}, restarted: {restarted}");
            assert_eq!(
                addresses(&world, "demo/bad"),
                texts(&["192.0.2.8"]),
                "{liar}, restarted: {restarted}"
            );
            world.restart(|objects| objects.reverse());
        }
        let record = world.annotation(Kind::Node, liar, "k8s.ovn.org/node-chassis-record");
        assert_eq!(record["node-ips"], json!([]), "given up, and nothing taken");
    }
}

fn named(addresses: &[&str]) -> Value {
    let all = addresses.iter().map(|address| json!({"type": "InternalIP", "address": address}));
    json!({"status": {"addresses": all.collect::<Vec<_>>()}})
}

/// An address that is outside until its network is connected is somebody's from then on.
#[test]
fn what_is_connected_is_not_outside() {
    let mut world = tenant();
    world.change_namespace("demo", &json!({"metadata": {"labels": {"road": "x"}}}));
    world.island("victim", "10.50.0.0/16", json!({"road": "x"}));
    world.put(slice("demo/aim", "IPv4", json!([{"addresses": ["10.50.0.3"]}])));
    assert_eq!(
        addresses(&world, "demo/aim"),
        texts(&["10.50.0.3"]),
        "whatever is outside may have this address"
    );
    let both =
        json!([crate::world::cudns(json!({"road": "x"})), crate::world::namespaces(json!({"road": "x"}))]);
    world.connect("main", &[("192.168.0.0/16", 24)], both);
    assert!(world.accepted("main").starts_with("True/"), "{}", world.accepted("main"));
    assert_eq!(addresses(&world, "demo/aim"), texts(&[]));
    assert!(world.said.iter().any(|said| said.contains("not served: 10.50.0.3")), "{:?}", world.said);
    world.delete(Kind::ClusterNetworkConnect, "main");
    assert_eq!(addresses(&world, "demo/aim"), texts(&["10.50.0.3"]));
}

/// On the default network zones serve; its users are told here, once.
#[test]
fn users_of_the_default_network_are_told() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.pod("plain/a", "n1");
    let mut own = endpoint(&world, "plain/a");
    own["addresses"] = json!(["10.244.0.3"]);
    world.put(slice("plain/own", "IPv4", json!([own.clone(), {"addresses": ["192.0.2.7"]}])));
    assert_eq!(world.said, Vec::<String>::new());
    own["addresses"] = json!(["10.244.0.4"]);
    world.put(slice("plain/aim", "IPv4", json!([own])));
    assert_eq!(
        world.said,
        [
            "EndpointSlice plain/aim EndpointNotServed: endpoints are not served: 10.244.0.4. They are addresses inside of the cluster, \
             and not those of the pod that targetRef names or, without it, of any pod of namespace plain"
        ]
    );
    world.pod("plain/b", "n1");
    world.change(SLICE, "plain/aim", &json!({"metadata": {"labels": {"more": "1"}}}));
    assert_eq!(world.said.len(), 1, "{:?}", world.said);
}

/// Without a reference an address counts that a pod of the slice's own namespace has, from when it has it until it is gone.
#[test]
fn an_endpoint_without_a_reference_is_an_own_pod() {
    let mut world = tenant();
    let plain = |address: &str| json!({"addresses": [address], "conditions": {"ready": true}});
    world.put(slice("demo/hand", "IPv4", json!([plain("10.0.0.3"), plain("10.0.0.6"), plain("192.0.2.7")])));
    assert_eq!(addresses(&world, "demo/hand"), texts(&["10.0.0.3", "192.0.2.7"]));
    world.pod("demo/d", "n1");
    assert_eq!(addresses(&world, "demo/hand"), texts(&["10.0.0.3", "10.0.0.6", "192.0.2.7"]));
    world.delete(Kind::Pod, "demo/a");
    assert_eq!(addresses(&world, "demo/hand"), texts(&["10.0.0.6", "192.0.2.7"]));
    world.change(Kind::Pod, "demo/d", &json!({"status": {"phase": "Succeeded"}}));
    assert_eq!(addresses(&world, "demo/hand"), texts(&["192.0.2.7"]));
}

/// One network in two namespaces: a pod of the other one never counts.
#[test]
fn an_endpoint_without_a_reference_is_nobody_elses_pod() {
    let mut world = World::new(ipv4(), &["n1"]);
    for namespace in ["red", "blue"] {
        world.tenant(namespace);
        world.change_namespace(namespace, &json!({"metadata": {"labels": {"on": "shared"}}}));
    }
    let network = json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]}});
    world.cudn("shared", json!({"matchLabels": {"on": "shared"}}), network);
    world.pod("red/a", "n1");
    world.pod("blue/b", "n1");
    let aim = json!([{"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}]);
    world.put(slice("red/hand", "IPv4", aim.clone()));
    world.put(slice("blue/hand", "IPv4", aim));
    assert_eq!(addresses(&world, "red/hand"), texts(&["10.0.0.3"]));
    assert_eq!(addresses(&world, "blue/hand"), texts(&["10.0.0.4"]));
}

/// On the default network likewise: who has a pod there is told nothing, nor when it comes later.
#[test]
fn an_own_pod_of_the_default_network_needs_no_reference() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.namespace("victim", json!({}));
    world.pod("plain/a", "n1");
    world.pod("victim/b", "n1");
    world.put(slice("plain/own", "IPv4", json!([{"addresses": ["10.244.0.3"]}])));
    assert_eq!(world.said, Vec::<String>::new());
    world.put(slice("plain/aim", "IPv4", json!([{"addresses": ["10.244.0.4"]}])));
    assert!(world.said.iter().any(|said| said.contains("plain/aim EndpointNotServed")), "{:?}", world.said);
    world.delete(Kind::Pod, "plain/a");
    assert!(world.said.iter().any(|said| said.contains("plain/own EndpointNotServed")), "{:?}", world.said);
}
