//! Names that a misspelt one may stand for.

use crate::collective::Collective;
use crate::declared::{TRAFFIC_SPECS, is_traffic_spec};
use crate::presets::PRESETS;
use crate::spec::{self, FABRIC_SPECS};

/// Names at most.
const MOST: usize = 3;

/// Length of a part from which it tells names apart.
const SHORTEST: usize = 3;

/// The known names nearest to `wanted`, at most three: those that contain it or are contained in it, and those a few
/// typing errors away (wrong, missing, additional and swapped characters), nearest first.
pub fn similar<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = wanted.trim().to_lowercase();
    // One error in four characters; short names differ by one anyway.
    let errors = (wanted.chars().count() / 4).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in known {
        let have = name.to_lowercase();
        if wanted.is_empty() || have.is_empty() {
            continue;
        }
        let apart = have.chars().count().abs_diff(wanted.chars().count());
        let distance = match apart <= errors {
            true => strsim::damerau_levenshtein(&wanted, &have),
            false => usize::MAX,
        };
        if distance <= errors {
            found.push((distance, name));
        } else if wanted.len().min(have.len()) >= SHORTEST
            && (have.contains(&wanted) || wanted.contains(&have))
        {
            found.push((errors + apart, name));
        } else {
            continue;
        }
        // Stable, so that equally near names keep their order.
        found.sort_by_key(|f| f.0);
        found.truncate(MOST);
    }
    found.into_iter().map(|f| f.1.to_owned()).collect()
}

/// Advice for a path that does not exist, if it is a spec in another place or a misspelt one.
pub fn misspelt(path: &str) -> Option<String> {
    for (known, what) in [
        (spec::is_fabric_spec(path), "machine"),
        (is_traffic_spec(path), "traffic"),
    ] {
        if known {
            return Some(format!(
                "{path} is a spec of a {what}: are two arguments swapped?"
            ));
        }
    }
    let (head, rest) = path.split_at(path.find(':').unwrap_or(path.len()));
    if let Some((name, spec, _)) = PRESETS.iter().find(|p| p.0 == head && !rest.is_empty()) {
        return Some(format!(
            "{name} is a known machine, which takes no options; its spec does: {spec}"
        ));
    }
    // `alltoall:16:1000` without its first word.
    if let Some(name) = Collective::near(head).filter(|_| !rest.is_empty()) {
        return Some(format!(
            "there is no such file; did you mean collective:{name}{rest}? The form is collective:NAME:RANKS:BYTES"
        ));
    }
    let is_form = !rest.is_empty();
    let forms = FABRIC_SPECS.iter().chain(&TRAFFIC_SPECS);
    let forms = forms.filter_map(|(form, _)| form.split(':').next());
    let named = PRESETS.iter().map(|preset| preset.0);
    let near = similar(head, forms.chain(named));
    // A file's name may contain that of a spec by chance.
    let near: Vec<String> = near
        .into_iter()
        .filter(|name| is_form || !head.contains(name.as_str()))
        .collect();
    let nearest = near.first().filter(|_| !path.contains('/'))?;
    // Known machines take no options.
    let options = |name: &str| match PRESETS.iter().any(|preset| preset.0 == name) {
        true => "",
        false => rest,
    };
    let meant = near.iter().map(|name| format!("{name}{}", options(name)));
    let meant = meant.collect::<Vec<_>>().join(" or ");
    let list = match TRAFFIC_SPECS
        .iter()
        .any(|(form, _)| form.starts_with(nearest.as_str()))
    {
        true => "",
        false => " `hopbyte fabric specs` lists the specs of machines",
    };
    Some(format!(
        "there is no such file; did you mean {meant}?{list}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_found_nearest_first() {
        let known = ["torus", "mesh", "fattree", "dragonfly", "gemini"];
        for (typed, meant) in [
            ("tours", "torus"),
            ("Torus", "torus"),
            ("tors", "torus"),
            ("fat-tree", "fattree"),
            ("dragonfyl", "dragonfly"),
            ("geminy", "gemini"),
        ] {
            assert_eq!(similar(typed, known).first().unwrap(), meant);
        }
        for (path, word) in [
            ("tors:4x4", "did you mean torus:4x4? `hopbyte fabric specs`"),
            ("fat-tree:k=4", "fattree:k=4"),
            ("stensil:4x4:5", "stencil:4x4:5?"),
            ("alltoal:16", "did you mean collective:alltoall:16?"),
            ("stencil:4x4:5", "swapped"),
            ("torus:4x4", "swapped"),
            ("gpu-rail:hosts=16", "did you mean gpu-rails? "),
            (
                "gpu-rails:hosts=16",
                "takes no options; its spec does: fattree:down=",
            ),
        ] {
            assert!(misspelt(path).unwrap().contains(word), "{path}");
        }
        for path in [
            "counters.csv",
            "reduce",
            "runs/tors:4x4",
            "links.jsonl",
            "-",
            "",
        ] {
            assert_eq!(misspelt(path), None, "{path}");
        }
        assert!(similar("hypercube", known).is_empty());
        assert!(similar("", known).is_empty());
        let nodes = ["c0-0c0s0n0", "c0-0c0s0n1", "c0-0c0s1n0", "c1-0c0s0n0"];
        assert_eq!(similar("c0-0c0s0n", nodes)[..2], nodes[..2]);
    }
}
