//! Names that fit a place and stay different.

use std::collections::{HashMap, HashSet};

/// Truncates to at most `most` characters by omitting the middle.
pub fn shorten(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most || most < 3 {
        return text.into();
    }
    let head = most / 2;
    let tail = most - head - 1;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}…{end}")
}

/// Names of at most `most` characters, different where the names are: without their middle, else without what all begin
/// or end with, else without their beginning, else numbered.
pub fn shorten_all(names: &[&str], most: usize) -> Vec<String> {
    let middle =
        |names: &[&str]| -> Vec<String> { names.iter().map(|n| shorten(n, most)).collect() };
    let plain = middle(names);
    if most < 3 || differ(names, &plain) {
        return plain;
    }
    let own: Vec<String> = own_parts(names);
    let own = middle(&own.iter().map(String::as_str).collect::<Vec<_>>());
    if differ(names, &own) {
        return own;
    }
    let tails = names.iter().map(|n| tail(n, most)).collect();
    if differ(names, &tails) {
        return tails;
    }
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let numbered = names.iter().map(|&name| {
        let next = numbers.len() + 1;
        let number = format!("…{}", numbers.entry(name).or_insert(next));
        let room = most.saturating_sub(number.chars().count());
        name.chars().take(room).collect::<String>() + &number
    });
    numbered.collect()
}

fn differ(names: &[&str], short: &Vec<String>) -> bool {
    let distinct: HashSet<&&str> = names.iter().collect();
    let kept: HashSet<(&&str, &String)> = names.iter().zip(short).collect();
    let shown: HashSet<&String> = short.iter().collect();
    distinct.len() == kept.len() && kept.len() == shown.len()
}

/// The names without what all of them begin and end with, in whose place is a `…`.
fn own_parts(names: &[&str]) -> Vec<String> {
    let names: Vec<Vec<char>> = names.iter().map(|n| n.chars().collect()).collect();
    let Some(first) = names.first() else {
        return Vec::new();
    };
    let shortest = names.iter().map(Vec::len).min().unwrap_or(0);
    let same = |at: &dyn Fn(&[char]) -> char| names.iter().all(|n| at(n) == at(first));
    let head = (0..shortest).take_while(|&i| same(&|n| n[i])).count();
    let most = shortest - head;
    let foot = (0..most)
        .take_while(|&i| same(&|n| n[n.len() - 1 - i]))
        .count();
    let mark = |cut: usize| if cut > 1 { "…" } else { "" };
    // One character in place of one gains nothing.
    let (from, to) = (
        if head > 1 { head } else { 0 },
        if foot > 1 { foot } else { 0 },
    );
    let own = names.iter().map(|n| {
        let part: String = n[from..n.len() - to].iter().collect();
        format!("{}{part}{}", mark(head), mark(foot))
    });
    own.collect()
}

fn tail(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.into();
    }
    let end: String = name.chars().skip(count + 1 - most).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_omitted() {
        assert_eq!(shorten("abcdefghij", 5), "ab…ij");
        assert_eq!(shorten("äöü", 5), "äöü");
    }

    #[test]
    fn different_names_stay_different_within_their_room() {
        let racks = [
            "ufm-host-cx7-rack01-leaf03-sw",
            "ufm-host-cx7-rack02-leaf03-sw",
        ];
        assert_eq!(shorten_all(&racks, 18), ["…1…", "…2…"]);
        let sets: [Vec<String>; 5] = [
            racks.map(String::from).to_vec(),
            (0..300)
                .map(|i| format!("c{}-0c{}s{}g0", i / 60, i % 3, i))
                .collect(),
            (0..40).map(|i| format!("{i:020}")).collect(),
            (0..40)
                .map(|i| format!("{}{}", "x".repeat(i), "y".repeat(60 - i)))
                .collect(),
            vec!["same name of some length".into(); 3],
        ];
        for names in &sets {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for most in 5..30 {
                let short = shorten_all(&names, most);
                assert!(differ(&names, &short), "{most}: {short:?}");
                let longest = short.iter().map(|s| s.chars().count()).max();
                assert!(longest <= Some(most), "{most}: {short:?}");
            }
        }
        assert!(shorten_all(&[], 5).is_empty());
    }
}
