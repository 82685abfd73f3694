//! Questions that pods, nodes and hosts outside ask, many at once.

use causeway_sandbox::Result;
use causeway_sandbox::harness::Sandbox;
use std::collections::BTreeMap;

/// One question: a command, and how it is called.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) command: String,
    pub(crate) label: String,
}

/// Answers by label; what failed has none.
pub(crate) type Said = BTreeMap<String, String>;

impl Ask {
    pub(crate) fn new(command: &str, label: &str) -> Ask {
        Ask { command: command.to_owned(), label: label.to_owned() }
    }

    pub(crate) fn http(url: &str, label: &str) -> Ask {
        Ask::new(&format!("curl -sf --max-time 4 '{url}'"), label)
    }

    pub(crate) fn udp(address: &str, port: u16, word: &str, label: &str) -> Ask {
        // The machine under the sandbox need not have a program for it.
        let talk = format!(
            "exec 3<>/dev/udp/{address}/{port} && echo {word} >&3 && timeout 2 dd bs=2000 count=1 <&3 2>/dev/null | grep ."
        );
        Ask::new(&format!("bash -c '{talk}'"), label)
    }

    pub(crate) fn ping(address: &str, label: &str) -> Ask {
        Ask::new(&format!("ping -c 1 -W 2 {address} >/dev/null"), label)
    }
}

/// All at once; an answer is a line of its own.
fn script(all: &[Ask]) -> String {
    let one = |(n, ask): (usize, &Ask)| {
        format!("(said=$({} 2>/dev/null) && echo \"{n}=$(echo \"$said\" | tr -d '\\n ')\") &", ask.command)
    };
    all.iter().enumerate().map(one).chain(["wait".to_owned()]).collect::<Vec<_>>().join("\n")
}

fn read(all: &[Ask], text: &str) -> Said {
    let line = |line: &str| {
        let (number, said) = line.split_once('=')?;
        Some((all.get(number.parse::<usize>().ok()?)?.label.clone(), said.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Asks from pods.
///
/// # Errors
/// When a pod cannot run anything.
pub(crate) fn asked_from_pods<'a>(
    sandbox: &Sandbox,
    pods: &[&'a str],
    all: &[Ask],
) -> Result<Vec<(&'a str, Said)>> {
    let script = script(all);
    std::thread::scope(|scope| {
        let asked: Vec<_> = pods
            .iter()
            .map(|pod| (*pod, scope.spawn(|| sandbox.pod(pod).exec(&["sh", "-c", &script]))))
            .collect();
        asked.into_iter().map(|(pod, text)| Ok((pod, read(all, &text.join().unwrap()?)))).collect()
    })
}

/// Asks from a node, or from a host outside.
pub(crate) fn asked_from(sandbox: &Sandbox, host: &str, all: &[Ask]) -> Said {
    read(all, &sandbox.exec(host, &["sh", "-c", &script(all)]).unwrap())
}

pub(crate) fn asked_from_outside(sandbox: &Sandbox, all: &[Ask]) -> Said {
    asked_from(sandbox, "outside", all)
}
