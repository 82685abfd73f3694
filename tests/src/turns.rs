//! Packets that a switch drops because they took too many turns in its datapath: no program goes by them unseen.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What a switch says of such a packet.
const SAID: &str = "Max recirculation depth exceeded";
const PAUSE: Duration = Duration::from_secs(3);

/// Ends the whole program as one that has failed when a switch of a sandbox says so, with what the switch said last.
pub(crate) fn watch(logs: PathBuf) {
    thread::spawn(move || {
        loop {
            if let Some(log) = said_in(&logs) {
                // Written, not printed: what a test prints is kept until the test ends, which it will not.
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(20)..].join("\n");
                let _nobody_reads = writeln!(
                    std::io::stderr(),
                    "packets were dropped for want of turns in the datapath: {}\n{last}",
                    log.display()
                );
                std::process::exit(101);
            }
            thread::sleep(PAUSE);
        }
    });
}

fn said_in(logs: &Path) -> Option<PathBuf> {
    let all = fs::read_dir(logs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut switches =
        all.filter(|log| log.file_name().is_some_and(|name| name.to_string_lossy().contains("vswitchd")));
    let said = |log: &PathBuf| fs::read(log).is_ok_and(|text| String::from_utf8_lossy(&text).contains(SAID));
    switches.find(said)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_heard() {
        let folder = std::env::temp_dir().join(format!("causeway-turns-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("n1.vswitchd.log");
        fs::write(&log, "all is well\n").unwrap();
        fs::write(folder.join("n1.other.log"), SAID).unwrap();
        assert_eq!(said_in(&folder), None);
        fs::write(&log, format!("all is well\nWARN|{SAID}\n")).unwrap();
        assert_eq!(said_in(&folder), Some(log));
        fs::remove_dir_all(&folder).unwrap();
    }
}
