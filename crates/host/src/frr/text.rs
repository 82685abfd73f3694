//! FRR's configuration as text: sections, the lines of a section with what they stand under, and the words that change them.
//! Pure: text in, text out.

/// A line of a section, with the lines that it stands under, such as `address-family ipv4 unicast`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Line {
    under: Vec<String>,
    pub(super) text: String,
}

/// A section that is there: its first line, and those below.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Section {
    pub(super) first: String,
    pub(super) lines: Vec<Line>,
}

/// One space between words.
pub(super) fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line says something: not a comment, nor the end of what stands above.
fn counts(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty()
        || line.starts_with('!')
        || line == "end"
        || line == "exit"
        || line.starts_with("exit-"))
}

/// The lines of a section. What other lines stand under is not one itself: FRR forgets it when nothing stands under it.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut open: Vec<(usize, String)> = Vec::new();
    for line in text.lines().filter(|line| counts(line)) {
        let depth = line.len() - line.trim_start().len();
        let deeper = open.last().is_some_and(|(last, _)| *last < depth);
        if deeper {
            // The line before is what this one stands under.
            found.pop();
        }
        while open.last().is_some_and(|(last, _)| *last >= depth) {
            open.pop();
        }
        let text = words(line);
        found.push(Line { under: open.iter().map(|(_, text)| text.clone()).collect(), text: text.clone() });
        open.push((depth, text));
    }
    found
}

/// The sections of a running configuration, as `show running-config` prints it.
pub(super) fn sections(running: &str) -> Vec<Section> {
    let mut sections: Vec<(String, String)> = Vec::new();
    let body = running.split_once("Current configuration:").map_or("", |(_, body)| body);
    for line in body.lines().filter(|line| counts(line)) {
        match sections.last_mut() {
            Some((_, below)) if line.starts_with(' ') => {
                below.push_str(line);
                below.push('\n');
            }
            _ => sections.push((words(line), String::new())),
        }
    }
    sections.into_iter().map(|(first, below)| Section { first, lines: lines(&below) }).collect()
}

/// The lines in an order of their own: FRR prints them in its own, too, and none of them depends on it.
pub(super) fn sorted(all: &[Line]) -> String {
    let mut all = all.to_vec();
    all.sort();
    all.dedup();
    let mut text = String::new();
    write(&mut text, &all, |line| line.to_owned(), "");
    text
}

/// The words that make these lines so, in this order, below a section's first line.
pub(super) fn set(first: &str, all: &[Line]) -> String {
    within(first, all, |line| line.to_owned())
}

/// The words that undo these lines, the last one first: a neighbour goes after what is said of it.
pub(super) fn unset(first: &str, all: &[Line]) -> String {
    let reversed: Vec<Line> = all.iter().rev().cloned().collect();
    if reversed.is_empty() { String::new() } else { within(first, &reversed, undo) }
}

/// The opposite of a line.
pub(super) fn undo(line: &str) -> String {
    line.strip_prefix("no ").map_or_else(|| format!("no {line}"), str::to_owned)
}

fn within(first: &str, all: &[Line], say: impl Fn(&str) -> String) -> String {
    let mut text = format!("{first}\n");
    write(&mut text, all, say, "exit\n");
    // Whether a first line without lines below opens anything is nobody's knowledge; what comes next closes it.
    if !all.is_empty() {
        text.push_str("exit\n");
    }
    text
}

/// Writes lines below what they stand under, each of which is closed by `end`.
fn write(text: &mut String, all: &[Line], say: impl Fn(&str) -> String, end: &str) {
    let mut open: &[String] = &[];
    for line in all {
        let common = open.iter().zip(&line.under).take_while(|(one, other)| one == other).count();
        (common..open.len()).for_each(|_| text.push_str(end));
        for (depth, parent) in line.under.iter().enumerate().skip(common) {
            text.push_str(&format!("{}{parent}\n", " ".repeat(depth + 1)));
        }
        open = &line.under;
        text.push_str(&format!("{}{}\n", " ".repeat(open.len() + 1), say(&line.text)));
    }
    open.iter().for_each(|_| text.push_str(end));
}

/// What tells two sections apart that cannot be there together: a VRF has one BGP instance, whatever its number.
pub(super) fn seat(first: &str) -> String {
    match first.strip_prefix("router bgp ").map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) {
        Some((_, rest)) => format!("router bgp {rest}"),
        None => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = "Building configuration...\n\nCurrent configuration:\n!\nfrr version 10.3\n!\nvrf blue\n vni 1001\nexit-vrf\n!\n\
        router bgp 64999 vrf blue\n bgp router-id 10.255.0.1\n !\n address-family ipv4 unicast\n  redistribute connected\n exit-address-family\n \
        !\n address-family l2vpn evpn\n  advertise ipv4 unicast\n  rd 10.255.0.1:1001\n exit-address-family\nexit\n!\nend\n";

    fn line(under: &[&str], text: &str) -> Line {
        Line { under: under.iter().map(|&text| text.to_owned()).collect(), text: text.to_owned() }
    }

    #[test]
    fn a_running_configuration_is_sections() {
        let found = sections(RUNNING);
        let firsts: Vec<&str> = found.iter().map(|section| section.first.as_str()).collect();
        assert_eq!(firsts, ["frr version 10.3", "vrf blue", "router bgp 64999 vrf blue"]);
        let evpn = "address-family l2vpn evpn";
        assert_eq!(
            found[2].lines,
            [
                line(&[], "bgp router-id 10.255.0.1"),
                line(&["address-family ipv4 unicast"], "redistribute connected"),
                line(&[evpn], "advertise ipv4 unicast"),
                line(&[evpn], "rd 10.255.0.1:1001"),
            ]
        );
    }

    #[test]
    fn the_order_of_lines_and_the_width_of_their_margins_say_nothing() {
        let one = lines(
            "bgp router-id 1.1.1.1\naddress-family ipv4 unicast\n    redistribute  connected\n    redistribute static\n",
        );
        let other = lines(
            " address-family ipv4 unicast\n  redistribute static\n  redistribute connected\n exit-address-family\n bgp router-id 1.1.1.1\n",
        );
        assert_eq!(sorted(&one), sorted(&other));
        assert_eq!(
            sorted(&one),
            " bgp router-id 1.1.1.1\n address-family ipv4 unicast\n  redistribute connected\n  redistribute static\n"
        );
        assert_eq!(lines(&sorted(&one)), one, "what is sorted reads as it was");
    }

    #[test]
    fn lines_are_set_in_order_and_undone_in_reverse() {
        let all = lines(
            "neighbor 10.0.0.1 remote-as 1\nno bgp default ipv4-unicast\naddress-family l2vpn evpn\n neighbor 10.0.0.1 activate\n",
        );
        let first = "router bgp 1";
        assert_eq!(
            set(first, &all),
            "router bgp 1\n neighbor 10.0.0.1 remote-as 1\n no bgp default ipv4-unicast\n address-family l2vpn evpn\n  \
             neighbor 10.0.0.1 activate\nexit\nexit\n"
        );
        assert_eq!(
            unset(first, &all),
            "router bgp 1\n address-family l2vpn evpn\n  no neighbor 10.0.0.1 activate\nexit\n bgp default ipv4-unicast\n \
             no neighbor 10.0.0.1 remote-as 1\nexit\n"
        );
        assert_eq!(set("ip prefix-list x seq 5 permit any", &[]), "ip prefix-list x seq 5 permit any\n");
        assert_eq!(unset(first, &[]), "");
    }

    #[test]
    fn a_vrf_has_one_instance() {
        assert_eq!(seat("router bgp 1 vrf blue"), seat("router bgp 2 vrf blue"));
        assert_eq!(seat("router bgp 1"), seat("router bgp 2"));
        assert_ne!(seat("router bgp 1"), seat("router bgp 1 vrf blue"));
        assert_eq!(seat("vrf blue"), "vrf blue");
    }
}
