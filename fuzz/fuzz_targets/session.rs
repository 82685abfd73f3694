//! Whatever a server says, at whatever point of the conversation: no panic, and how it is split makes no difference.
#![no_main]

use causeway_fuzz::{SCHEMA, parts, text};
use causeway_ovsdb::{MonitorTable, Session, SessionConfig, Transaction};
use libfuzzer_sys::fuzz_target;

fn greet(session: &mut Session, first: u64, progress: u8) {
    session.connected(0);
    if progress == 0 {
        return;
    }
    let (server, schema, monitor) = (first, first + 1, first + 2);
    let mut script =
        format!(r#"{{"id":{server},"error":"unknown database"}}{{"id":{schema},"result":{SCHEMA}}}"#);
    if progress > 1 {
        let row = r#"{"72c4a754-35f4-5265-9a62-cdfa5ae3e3f3":{"initial":{"is":["set",[1,2]]}}}"#;
        script += &format!(r#"{{"id":{monitor},"result":[false,"0",{{"T":{row}}}]}}"#);
    }
    session.receive(script.as_bytes(), 0).expect("a good greeting is understood");
    if progress > 2 {
        session.want_lock("l", false);
        session.transact(&Transaction::default()).expect("the greeting is over");
    }
}

/// Everything that can be seen of a session after it has heard these parts.
fn play<'a>(progress: u8, parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut config = SessionConfig::new("D");
    config.tables = vec![MonitorTable::whole("T")];
    let mut session = Session::new(config);
    greet(&mut session, 1, progress);
    let mut error = None;
    for part in parts {
        if let Err(e) = session.receive(part, 1) {
            error = Some(e.to_string());
            break;
        }
    }
    session.disconnected();
    let events: Vec<_> = std::iter::from_fn(|| session.next_event()).collect();
    let replica = session.replica();
    let mut rows: Vec<_> =
        replica.tables().flat_map(|t| replica.rows(t)).map(|r| format!("{} {:?}", r.uuid, r.row)).collect();
    rows.sort();
    format!("{error:?} {events:?} {rows:?}")
}

fuzz_target!(|data: (u8, [u8; 3], &[u8])| {
    let (progress, sizes, data) = data;
    let text = text(data);
    let whole = play(progress % 4, std::iter::once(&text[..]));
    assert_eq!(whole, play(progress % 4, parts(&text, &sizes)));
});
