//! JetStream: requests to a server that stores published messages, and its answers. JSON on subjects.
//!
//! Reference: "JetStream API" in the NATS documentation (`$JS.API.*`); acknowledgements of deliveries
//! contain the message's stream sequence in the reply subject `$JS.ACK.*`.

use crate::Refusal;
use serde_json::{Value, json};

/// Subject and payload of the request for a stream of a cluster's subjects. An existing stream with other
/// limits is not modified.
pub fn stream(name: &str, cluster: &str, most_seconds: Option<u64>) -> (String, String) {
    let max_age = most_seconds.map_or(0, |s| s.saturating_mul(1_000_000_000));
    let config = json!({
        "name": name, "subjects": [format!("hopbyte.{cluster}.*")], "retention": "limits",
        "storage": "file", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": max_age,
        "discard": "old", "num_replicas": 1,
    });
    (format!("$JS.API.STREAM.CREATE.{name}"), config.to_string())
}

/// Parameters of a consumer of a stream.
#[derive(Clone, Debug)]
pub struct Consumer<'a> {
    /// The stream.
    pub stream: &'a str,
    /// Subject filter.
    pub filter: &'a str,
    /// Subject of deliveries.
    pub deliver: &'a str,
    /// First stream sequence to deliver.
    pub from: u64,
}

/// Subject and payload of the request. The consumer is ephemeral: it ends with its last subscriber. The
/// server sends a heartbeat every five seconds.
pub fn consumer(wanted: &Consumer<'_>) -> (String, String) {
    let config = json!({
        "stream_name": wanted.stream,
        "config": {
            "deliver_subject": wanted.deliver, "filter_subject": wanted.filter,
            "deliver_policy": "by_start_sequence", "opt_start_seq": wanted.from.max(1),
            "ack_policy": "none", "max_deliver": -1, "replay_policy": "instant",
            "idle_heartbeat": 5_000_000_000_u64, "num_replicas": 1, "mem_storage": true,
        },
    });
    let subject = format!("$JS.API.CONSUMER.CREATE.{}", wanted.stream);
    (subject, config.to_string())
}

/// Whether a published message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Stored.
    Yes,
    /// Not stored.
    No,
}

/// Decodes the answer to a request or a publication: an error becomes a refusal with the server's text.
pub fn acknowledgement(payload: &[u8]) -> Result<Stored, Refusal> {
    let wrong = || Refusal::new("an answer that is not JetStream's");
    let answer: Value = serde_json::from_slice(payload).map_err(|_| wrong())?;
    if let Some(error) = answer.get("error") {
        let text = error.get("description").and_then(Value::as_str);
        return Err(Refusal::new(text.unwrap_or("an unexplained error")));
    }
    let place = answer.get("seq").and_then(Value::as_u64);
    Ok(if place.is_some() {
        Stored::Yes
    } else {
        Stored::No
    })
}

/// The stream sequence of a message that was delivered with this reply subject.
pub fn delivered(reply: &str) -> Option<u64> {
    let words: Vec<&str> = reply.split('.').collect();
    if words.len() < 9 || words[..2] != ["$JS", "ACK"] {
        return None;
    }
    // $JS.ACK.STREAM.CONSUMER.TIMES.PLACE.… or $JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.TIMES.PLACE.…
    words[if words.len() == 9 { 5 } else { 7 }].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let kept = br#"{"stream":"S","seq":5}"#;
        assert_eq!(acknowledgement(kept), Ok(Stored::Yes));
        let made =
            br#"{"type":"io.nats.jetstream.api.v1.stream_create_response","did_create":true}"#;
        assert_eq!(acknowledgement(made), Ok(Stored::No));
        let full = br#"{"error":{"code":400,"description":"maximum bytes exceeded"},"seq":0}"#;
        assert_eq!(
            acknowledgement(full).unwrap_err().to_string(),
            "maximum bytes exceeded"
        );
        assert!(acknowledgement(b"+OK").is_err());
    }

    #[test]
    fn places_are_read_in_both_forms() {
        assert_eq!(delivered("$JS.ACK.S.c.1.42.7.1700000000.0"), Some(42));
        assert_eq!(
            delivered("$JS.ACK._.acc.S.c.1.42.7.1700000000.0.rand"),
            Some(42)
        );
        assert_eq!(delivered("$JS.ACK.S.c.1.x.7.1700000000.0"), None);
        assert_eq!(delivered("_INBOX.a.b.c.d.e.f.g.h"), None);
    }
}
