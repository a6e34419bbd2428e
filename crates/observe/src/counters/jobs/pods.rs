//! Pods of Kubernetes as jobs: `kubectl get pods -o json`.

use super::lists::Listed;
use crate::text::Text;
use hopbyte_fabric::InputError;
use serde_json::Value;

/// Labels with the name of a pod's job, the outermost first: JobSet, Kubeflow, Volcano, and Kubernetes itself.
const LABELS: [&str; 5] = [
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
];
/// Owners of pods that belong to their node, not to a job.
const OF_NODE: [&str; 2] = ["DaemonSet", "Node"];
/// Namespace and name have at most 63 and 253 characters.
const LONGEST: usize = 320;

/// The pods of a document; `None`: it has none.
pub(super) fn of(document: &Value) -> Option<&[Value]> {
    let kind = document.get("kind").and_then(Value::as_str)?;
    match kind {
        "Pod" => Some(std::slice::from_ref(document)),
        "List" | "PodList" => document.get("items")?.as_array().map(Vec::as_slice),
        _ => None,
    }
}

/// Whether a pod belongs to its node (of a DaemonSet, or of the node itself) and is part of no job.
pub(super) fn is_of_node(pod: &Value) -> bool {
    let kind = pod.pointer("/metadata/ownerReferences/0/kind");
    let kind = kind.and_then(Value::as_str);
    kind.is_some_and(|kind| OF_NODE.contains(&kind))
}

/// A pod as a job on its node, named `NAMESPACE/JOB`. A pod without a job is one.
pub(super) fn listed(text: &Text, pod: &Value) -> Result<Listed, InputError> {
    let word = |path: &str| pod.pointer(path).and_then(Value::as_str);
    let is_pod = matches!(word("/kind"), None | Some("Pod"));
    let name = word("/metadata/name").filter(|name| is_pod && !name.is_empty());
    let Some(name) = name else {
        let kind = word("/kind").filter(|_| !is_pod);
        let error = text.error(kind.unwrap_or("an item without a name"), "pods");
        return Err(error.hint("kubectl get pods --all-namespaces -o json prints them"));
    };
    let labels = pod.pointer("/metadata/labels");
    let label = |name: &&str| labels.and_then(|l| l.get(*name)).and_then(Value::as_str);
    let job = LABELS
        .iter()
        .find_map(|name| label(name).filter(|job| !job.is_empty()))
        .or_else(|| word("/metadata/ownerReferences/0/name"));
    let id = match word("/metadata/namespace") {
        Some(space) => format!("{space}/{}", job.unwrap_or(name)),
        None => job.unwrap_or(name).to_owned(),
    };
    if id.len() > LONGEST || id.contains(char::is_control) {
        let found: String = id.chars().take(80).collect();
        return Err(text.error(
            found,
            format!("a pod's name of at most {LONGEST} characters"),
        ));
    }
    let is_running = word("/status/phase") == Some("Running");
    let time = |word: Option<&str>| match word {
        Some(word) => utc_seconds(word).map(Some).ok_or_else(|| {
            text.error(
                word.chars().take(80).collect::<String>(),
                "a time as 2026-11-27T10:00:00Z",
            )
        }),
        None => Ok(None),
    };
    let ends = pod
        .pointer("/status/containerStatuses")
        .and_then(Value::as_array);
    let ended = |c: &Value| {
        c.pointer("/state/terminated/finishedAt")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let mut end: Option<f64> = None;
    for word in ends.into_iter().flatten().filter_map(ended) {
        let at = time(Some(&word))?;
        end = match (end, at) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }
    let start = time(word("/status/startTime"))?;
    Ok(Listed {
        id,
        hosts: word("/spec/nodeName").unwrap_or_default().to_owned(),
        running: Some(is_running),
        start,
        end: end.filter(|_| !is_running),
    })
}

/// Unix seconds of a time in UTC, `2026-11-27T10:00:00Z`, with or without a fraction.
fn utc_seconds(word: &str) -> Option<f64> {
    let (date, time) = word.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|n| n.parse::<i64>().ok());
    let mut next =
        |within: std::ops::RangeInclusive<i64>| date.next()?.filter(|n| within.contains(n));
    let (year, month, day) = (next(1970..=9999)?, next(1..=12)?, next(1..=31)?);
    let mut time = time.split(':').map(|n| n.parse::<f64>().ok());
    let mut next = |most: f64| time.next()?.filter(|n| (0.0..=most).contains(n));
    let (hour, minute, second) = (next(23.0)?, next(59.0)?, next(60.99)?);
    // Days since 1970 (Hinnant, days_from_civil), from 1 March of year 0.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    Some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // By date -u -d WORD +%s.
        for (word, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T12:00:00Z", 951_825_600.0),
            ("2026-11-27T10:00:00Z", 1_795_773_600.0),
            ("2026-11-27T10:00:00.5Z", 1_795_773_600.5),
            ("2100-03-01T00:00:00Z", 4_107_542_400.0),
        ] {
            assert_eq!(utc_seconds(word), Some(seconds), "{word}");
        }
        for word in [
            "",
            "2026-11-27",
            "2026-13-27T10:00:00Z",
            "2026-11-27T10:00Z",
            "2026-11-27T10:00:00",
        ] {
            assert_eq!(utc_seconds(word), None, "{word}");
        }
    }
}
