//! Whatever a server says, at whatever point of the conversation: no panic, and how it is split makes no difference.
#![no_main]

use causeway_fuzz::{SCHEMA, parts, text};
use causeway_ovsdb::{MonitorTable, Session, SessionConfig, Transaction};
use libfuzzer_sys::fuzz_target;

const ROW: &str = r#"{"72c4a754-35f4-5265-9a62-cdfa5ae3e3f3":{"initial":{"is":["set",[1,2]]}}}"#;

/// Connects, and plays an honest server as far as `progress` says.
fn greet(session: &mut Session, progress: u8) {
    session.connected(0);
    let server = first_id(&session.take_output().expect("a greeting is sent"));
    if progress == 0 {
        return;
    }
    let schema = server + 1;
    let script =
        format!(r#"{{"id":{server},"error":"unknown database"}}{{"id":{schema},"result":{SCHEMA}}}"#);
    session.receive(script.as_bytes(), 0).expect("a good greeting is understood");
    if progress == 1 {
        return;
    }
    let requests = session.take_output().expect("a monitor is asked for");
    let last = requests.windows(6).rposition(|w| w == b"{\"id\":").expect("a request has an id");
    let monitor = first_id(&requests[last..]);
    let image = format!(r#"{{"id":{monitor},"result":[false,"0",{{"T":{ROW}}}]}}"#);
    session.receive(image.as_bytes(), 0).expect("a good image is understood");
    if progress > 2 {
        session.want_lock("l", false);
        session.transact(&Transaction::default()).expect("the greeting is over");
    }
}

fn first_id(requests: &[u8]) -> u64 {
    let digits = requests.iter().skip_while(|b| !b.is_ascii_digit()).take_while(|b| b.is_ascii_digit());
    digits.fold(0, |id, digit| id * 10 + u64::from(digit - b'0'))
}

fn rows(session: &Session) -> Vec<String> {
    let replica = session.replica();
    let rows = replica.tables().flat_map(|t| replica.rows(t)).map(|r| format!("{} {:?}", r.uuid, r.row));
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

fn session() -> Session {
    let mut config = SessionConfig::new("D");
    config.tables = vec![MonitorTable::whole("T")];
    Session::new(config)
}

/// Everything that can be seen of a session after it has heard these parts.
fn play<'a>(progress: u8, parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut session = session();
    greet(&mut session, progress);
    let mut error = None;
    for part in parts {
        if let Err(e) = session.receive(part, 1) {
            error = Some(e.to_string());
            break;
        }
    }
    session.disconnected();
    let events: Vec<_> = std::iter::from_fn(|| session.next_event()).collect();
    let seen = format!("{error:?} {events:?} {:?}", rows(&session));
    // Whatever was heard, the next honest server puts it right.
    greet(&mut session, 2);
    let mut fresh = crate::session();
    greet(&mut fresh, 2);
    assert!(session.is_synced());
    assert_eq!(rows(&session), rows(&fresh));
    seen
}

fuzz_target!(|data: (u8, [u8; 3], &[u8])| {
    let (progress, sizes, data) = data;
    let text = text(data);
    let whole = play(progress % 4, std::iter::once(&text[..]));
    assert_eq!(whole, play(progress % 4, parts(&text, &sizes)));
});
