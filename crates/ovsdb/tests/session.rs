//! The state machine against a server played from a script: old servers, broken ones, and what is remembered
//! between connections. Real servers are met in the tests of the client.
#![allow(clippy::unwrap_used)]

use causeway_ovsdb::{
    Atom, Change, ChangeKind, Condition, Datum, EncodedTransaction, Error, Event, MonitorMethod,
    MonitorTable, NotReady, Op, Session, SessionConfig, SyncReport, TransactOutcome, Transaction, Uuid,
};
use serde_json::{Value, json};

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// A session with a script for a server.
struct Stage {
    session: Session,
}

fn schema() -> Value {
    json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
        "name": {"type": "string"},
        "set": {"type": {"key": "integer", "min": 0, "max": "unlimited"}}}}}})
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn config() -> SessionConfig {
    let mut config = SessionConfig::new("D");
    config.tables = vec![MonitorTable::whole("T")];
    config
}

impl Stage {
    fn new(config: SessionConfig) -> Stage {
        Stage { session: Session::new(config) }
    }

    /// A stage whose session is connected and past its greeting.
    fn greeted(config: SessionConfig) -> Stage {
        let mut stage = Stage::new(config);
        stage.greet();
        stage
    }

    fn greet(&mut self) {
        self.session.connected(0);
        let sent = self.sent();
        self.say(json!({"id": sent[0]["id"], "result": null, "error": "unknown database"}));
        self.say(json!({"id": sent[1]["id"], "result": schema(), "error": null}));
    }

    /// A stage whose session has loaded these rows up to transaction `txn`.
    fn loaded(config: SessionConfig, rows: Value, txn: &str) -> Stage {
        let mut stage = Stage::greeted(config);
        stage.load(false, rows, txn);
        stage
    }

    fn load(&mut self, found: bool, rows: Value, txn: &str) -> SyncReport {
        let request = self.one("monitor_cond_since");
        self.say(json!({"id": request["id"], "result": [found, txn, {"T": rows}], "error": null}));
        match self.events().pop() {
            Some(Event::Synced(report)) => report,
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self) -> Vec<Value> {
        let bytes = self.session.take_output().unwrap_or_default();
        serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>().unwrap()
    }

    /// The only request that was sent.
    fn one(&mut self, method: &str) -> Value {
        let sent = self.sent();
        assert_eq!(sent.iter().map(|m| &m["method"]).collect::<Vec<_>>(), [method], "{sent:?}");
        sent[0].clone()
    }

    fn hear(&mut self, message: Value) -> Result<(), Error> {
        self.session.receive(message.to_string().as_bytes(), 0)
    }

    fn say(&mut self, message: Value) {
        self.hear(message).unwrap();
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.next_event()).collect()
    }

    fn held(&self) -> Vec<(u128, Datum)> {
        let replica = self.session.replica();
        let mut rows: Vec<_> = replica
            .rows(replica.table("T").unwrap())
            .map(|r| (r.uuid.as_u128(), r.get("set").unwrap().clone()))
            .collect();
        rows.sort_by_key(|r| r.0);
        rows
    }
}

fn numbers(values: impl IntoIterator<Item = i64>) -> Datum {
    Datum::set(values.into_iter().map(Atom::Integer))
}

fn update(method: &str, txn: Option<&str>, rows: Value) -> Value {
    let tables = json!({"T": rows});
    let params = txn.map_or_else(|| json!(["replica", tables]), |txn| json!(["replica", txn, tables]));
    json!({"method": method, "params": params, "id": null})
}

#[test]
fn the_greeting_asks_for_the_server_and_the_schema_then_for_the_rows() {
    let mut stage = Stage::new(config());
    assert_eq!(stage.session.transact(&Transaction::default()), Err(NotReady));
    stage.session.connected(0);
    let sent = stage.sent();
    assert_eq!((&sent[0]["method"], &sent[0]["params"][0]), (&json!("monitor"), &json!("_Server")));
    assert_eq!((&sent[1]["method"], &sent[1]["params"]), (&json!("get_schema"), &json!(["D"])));
    assert_eq!(stage.session.call("list_dbs", "[]"), Err(NotReady), "who is there is not known yet");
    // The answers may come in any order.
    stage.say(json!({"id": sent[1]["id"], "result": schema(), "error": null}));
    assert_eq!(stage.sent(), Vec::<Value>::new());
    let row = json!({"name": "D", "model": "standalone", "connected": true, "leader": true});
    let rows = json!({id(9).to_string(): {"new": row}});
    stage.say(json!({"id": sent[0]["id"], "result": {"Database": rows}, "error": null}));
    let monitor = stage.one("monitor_cond_since");
    assert_eq!(monitor["params"], json!(["D", "replica", {"T": [{"columns": ["name", "set"]}]}, NIL]));
}

#[test]
fn older_servers_get_older_monitors() {
    let unknown = [json!("unknown method"), json!({"error": "unknown method", "details": "x"})];
    for error in unknown {
        let mut stage = Stage::greeted(config());
        for method in ["monitor_cond_since", "monitor_cond"] {
            let request = stage.one(method);
            stage.say(json!({"id": request["id"], "error": error}));
        }
        let request = stage.one("monitor");
        let rows = json!({id(1).to_string(): {"new": {"name": "a", "set": ["set", []]}}});
        stage.say(json!({"id": request["id"], "result": {"T": rows}, "error": null}));
        assert!(stage.session.is_synced());
        stage.say(update("update", None, json!({id(1).to_string(): {"old": {"set": 1}, "new": {"set": 7}}})));
        assert_eq!(stage.held(), [(1, numbers([7]))]);
    }
}

#[test]
fn conditions_are_sent_to_monitors_that_know_them() {
    let mut config = config();
    config.tables[0].conditions = vec![Condition::equal("name", "a")];
    let mut stage = Stage::greeted(config);
    let request = stage.one("monitor_cond_since");
    let table = json!([{"columns": ["name", "set"], "where": [["name", "==", "a"]]}]);
    assert_eq!(request["params"][2]["T"], table);
    stage.say(json!({"id": request["id"], "error": "unknown method"}));
    let request = stage.one("monitor_cond");
    assert_eq!(request["params"][2]["T"], table);
    stage.say(json!({"id": request["id"], "error": "unknown method"}));
    assert_eq!(stage.one("monitor")["params"][2]["T"], json!([{"columns": ["name", "set"]}]));
}

#[test]
fn a_server_that_can_not_serve_says_why() {
    let row = |name: &str, model: &str, connected: bool| json!({"name": name, "model": model, "connected": connected, "leader": false});
    let cases = [
        (row("E", "standalone", true), "the server has no database D"),
        (row("D", "clustered", false), "the server is cut off from the other servers of D"),
        (row("D", "relay", false), "the server is cut off from the other servers of D"),
        (row("D", "clustered", true), "the server is not the leader of D"),
    ];
    for (row, words) in cases {
        let mut config = config();
        config.leader_only = true;
        let mut stage = Stage::new(config);
        stage.session.connected(0);
        let request = stage.sent()[0]["id"].clone();
        let rows = json!({id(9).to_string(): {"new": row}});
        let error =
            stage.hear(json!({"id": request, "result": {"Database": rows}, "error": null})).unwrap_err();
        assert!(matches!(error, Error::Unusable(_)));
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn after_a_reconnect_the_last_transaction_is_named_and_the_difference_told() {
    let rows = json!({id(1).to_string(): {"initial": {"set": 1}}, id(2).to_string(): {"initial": {}}});
    let mut stage = Stage::loaded(config(), rows, "t1");
    stage.say(update("update3", Some("t2"), json!({id(1).to_string(): {"modify": {"set": 2}}})));
    stage.session.disconnected();
    stage.events();
    stage.greet();
    let request = stage.one("monitor_cond_since");
    assert_eq!(request["params"][3], "t2");
    let missed =
        json!({id(1).to_string(): {"modify": {"set": ["set", [1, 3]]}}, id(2).to_string(): {"delete": null}});
    stage.say(json!({"id": request["id"], "result": [true, "t3", {"T": missed}], "error": null}));
    assert_eq!(stage.held(), [(1, numbers([2, 3]))]);
    let Some(Event::Synced(report)) = stage.events().pop() else { panic!() };
    assert!(report.resumed && !report.first);
    let table = stage.session.replica().table("T").unwrap();
    let modify = ChangeKind::Modify(vec![(1, numbers([1, 3]))]);
    let delete = ChangeKind::Delete(["".into(), Datum::empty()].into());
    let want = [Change { table, uuid: id(1), kind: modify }, Change { table, uuid: id(2), kind: delete }];
    assert_eq!(report.changes, want);
}

/// What the next connection says it has.
fn claims(stage: &mut Stage) -> Value {
    stage.session.disconnected();
    stage.greet();
    stage.one("monitor_cond_since")["params"][3].clone()
}

#[test]
fn what_can_not_be_trusted_is_not_resumed() {
    let row = json!({id(1).to_string(): {"initial": {"set": 1}}});
    let fresh = || Stage::loaded(config(), row.clone(), "t1");
    assert_eq!(claims(&mut fresh()), "t1");
    // Cut off in the middle of an image.
    let mut stage = fresh();
    stage.session.disconnected();
    stage.greet();
    stage.sent();
    assert_eq!(claims(&mut stage), NIL);
    // Nonsense was received.
    let mut stage = fresh();
    let nonsense = json!({id(2).to_string(): {"insert": {}}, id(3).to_string(): {"modify": {}}});
    stage.hear(update("update3", Some("t2"), nonsense)).unwrap_err();
    assert_eq!(claims(&mut stage), NIL);
    // Conditions changed, with and without the server's word that it knows.
    let mut stage = fresh();
    stage.session.set_conditions("T", vec![Condition::equal("name", "a")]);
    let request = stage.one("monitor_cond_change");
    assert_eq!(request["params"], json!(["replica", "replica", {"T": [{"where": [["name", "==", "a"]]}]}]));
    assert_eq!(claims(&mut stage), NIL);
    let mut stage = fresh();
    stage.session.set_conditions("T", Vec::new());
    let request = stage.one("monitor_cond_change");
    assert_eq!(request["params"][2], json!({"T": [{"where": [true]}]}));
    stage.say(json!({"id": request["id"], "result": {}, "error": null}));
    assert_eq!(stage.events(), [Event::ConditionsInForce]);
    assert_eq!(claims(&mut stage), "t1");
    stage.session.disconnected();
    stage.session.set_conditions("T", Vec::new());
    assert_eq!(claims(&mut stage), NIL);
    // Another server in between could not count.
    let mut stage = fresh();
    stage.session.disconnected();
    stage.greet();
    let request = stage.one("monitor_cond_since");
    stage.say(json!({"id": request["id"], "error": "unknown method"}));
    let request = stage.one("monitor_cond");
    stage.say(json!({"id": request["id"], "result": {"T": row}, "error": null}));
    assert_eq!(claims(&mut stage), NIL);
}

#[test]
fn what_a_broken_message_changed_is_told_with_the_next_image() {
    let mut stage = Stage::loaded(config(), json!({}), "t1");
    let rows = json!({id(2).to_string(): {"insert": {}}, id(3).to_string(): {"modify": {}}});
    let error = stage.hear(update("update3", Some("t2"), rows)).unwrap_err();
    assert!(error.to_string().contains("modify of unknown row"), "{error}");
    stage.session.disconnected();
    assert_eq!(stage.events(), []);
    stage.greet();
    let report = stage.load(false, json!({}), "t3");
    let kinds: Vec<_> = report.changes.into_iter().map(|c| (c.uuid, c.kind)).collect();
    let gone = ChangeKind::Delete(["".into(), Datum::empty()].into());
    assert_eq!(kinds, [(id(2), ChangeKind::Insert), (id(2), gone)]);
}

#[test]
fn a_first_image_that_was_cut_off_leaves_no_trace_in_the_report() {
    let mut stage = Stage::greeted(config());
    let request = stage.one("monitor_cond_since");
    let text =
        json!({"id": request["id"], "result": [false, "t1", {"T": {id(1).to_string(): {"initial": {}}}}]});
    let text = text.to_string();
    stage.session.receive(&text.as_bytes()[..text.len() - 3], 0).unwrap();
    stage.session.disconnected();
    stage.greet();
    let report = stage.load(false, json!({id(2).to_string(): {"initial": {}}}), "t1");
    assert_eq!(report, SyncReport { first: true, ..SyncReport::default() });
    assert_eq!(stage.held(), [(2, Datum::empty())]);
}

#[test]
fn a_silent_server_is_asked_once_and_then_given_up() {
    let mut config = config();
    config.probe_interval = Some(100);
    let mut stage = Stage::loaded(config, json!({}), "t1");
    assert_eq!(stage.session.deadline(), Some(100));
    stage.session.tick(99).unwrap();
    assert_eq!(stage.sent(), Vec::<Value>::new());
    stage.session.tick(100).unwrap();
    let echo = stage.one("echo");
    assert_eq!(stage.session.deadline(), Some(200));
    stage.session.tick(199).unwrap();
    stage
        .session
        .receive(json!({"id": echo["id"], "result": [], "error": null}).to_string().as_bytes(), 199)
        .unwrap();
    assert_eq!(stage.session.deadline(), Some(299));
    stage.session.tick(300).unwrap();
    let error = stage.session.tick(400).unwrap_err();
    assert_eq!(error.to_string(), "no answer to an echo request for 100 ms");
    stage.session.set_probe_interval(None);
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn an_echo_request_is_answered_with_its_own_words() {
    let mut stage = Stage::loaded(config(), json!({}), "t1");
    stage.say(json!({"id": "echo", "method": "echo", "params": [1, "x"]}));
    assert_eq!(stage.sent(), [json!({"id": "echo", "result": [1, "x"], "error": null})]);
    stage.say(json!({"id": null, "method": "something_new", "params": []}));
    assert_eq!(stage.sent(), Vec::<Value>::new());
}

fn comment() -> Transaction {
    Transaction::new(vec![Op::Comment("x".into()), Op::Comment("y".into())])
}

#[test]
fn a_reply_must_have_a_result_for_every_operation() {
    for result in [json!([]), json!([{}]), json!([{}, null]), json!([{}, {}, {}])] {
        let mut stage = Stage::loaded(config(), json!({}), "t1");
        stage.session.transact(&comment()).unwrap();
        let request = stage.one("transact");
        let error = stage.hear(json!({"id": request["id"], "result": result, "error": null})).unwrap_err();
        assert!(error.to_string().contains("for a transaction of 2 operations"), "{error}");
    }
}

#[test]
fn without_results_only_success_and_the_reason_of_a_failure_are_told() {
    let mut stage = Stage::loaded(config(), json!({}), "t1");
    let failure = json!([{}, {"error": "timed out", "details": "no"}]);
    for (result, outcome) in
        [(json!([{}, {"count": 1}]), None), (failure, Some("wait on T) failed: timed out: no"))]
    {
        let mut transaction = EncodedTransaction::without_results(0);
        transaction.push(&Op::Comment("x".into()));
        transaction.push(&Op::wait_for_row("T", id(1)));
        stage.session.transact_encoded(transaction).unwrap();
        let request = stage.one("transact");
        stage.say(json!({"id": request["id"], "result": result, "error": null}));
        match (stage.events().pop(), outcome) {
            (Some(Event::Transacted(_, TransactOutcome::Done(results))), None) => assert_eq!(results, []),
            (Some(Event::Transacted(_, TransactOutcome::Failed(error))), Some(words)) => {
                assert!(error.to_string().contains(words), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_that_is_refused_as_such_is_no_failed_commit() {
    let mut stage = Stage::loaded(config(), json!({}), "t1");
    let sent = stage.session.transact(&comment()).unwrap();
    stage.session.cancel(sent);
    let requests = stage.sent();
    let methods: Vec<_> = requests.iter().map(|m| m["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["transact", "cancel", "echo"]);
    assert_eq!((&requests[1]["id"], &requests[1]["params"]), (&Value::Null, &json!([requests[0]["id"]])));
    // A server that answers a cancelled request does it before it answers the next one.
    stage.say(json!({"id": requests[0]["id"], "result": null, "error": "canceled"}));
    stage.say(json!({"id": requests[2]["id"], "result": [], "error": null}));
    let events = stage.events();
    let [Event::Transacted(id, TransactOutcome::Failed(error))] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*id, error.to_string().as_str()), (sent, "the request was refused: canceled"));
}

#[test]
fn how_the_bytes_are_split_makes_no_difference() {
    let rows =
        json!({id(1).to_string(): {"initial": {"set": ["set", [1, 2]]}}, id(2).to_string(): {"initial": {}}});
    for size in [1, 2, 3, 7, 64] {
        let mut stage = Stage::greeted(config());
        let request = stage.one("monitor_cond_since");
        let text =
            json!({"id": request["id"], "result": [false, "t1", {"T": rows}], "error": null}).to_string();
        let text = text
            + &update("update3", Some("t2"), json!({id(2).to_string(): {"modify": {"set": 5}}})).to_string();
        for part in text.as_bytes().chunks(size) {
            stage.session.receive(part, 0).unwrap();
        }
        assert_eq!(stage.held(), [(1, numbers([1, 2])), (2, numbers([5]))]);
        assert_eq!(stage.events().len(), 2);
    }
}

#[test]
fn the_method_to_begin_with_can_be_chosen() {
    for (method, name) in [(MonitorMethod::Plain, "monitor"), (MonitorMethod::Cond, "monitor_cond")] {
        let mut config = config();
        config.method = method;
        let mut stage = Stage::greeted(config);
        let request = stage.one(name);
        let error = stage.hear(json!({"id": request["id"], "error": "not allowed"})).unwrap_err();
        assert_eq!(error.to_string(), format!("the server refused {name}: not allowed"));
    }
}
