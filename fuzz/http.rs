//! Targets of the HTTP servers.

use hopbyte_job::{Machine, MachineSource};
use hopbyte_serve::desk::Desk;
use hopbyte_serve::http::{Request, read};
use std::sync::LazyLock;

/// Maximum length of a body.
const LONGEST: usize = 1 << 16;
const TOKEN: &str = "0123456789abcdef";

static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let source = MachineSource {
        fabric: "gemini:2x2x8".to_owned(),
        ..MachineSource::default()
    };
    source.read().expect("the spec is a constant")
});
static DESK: LazyLock<Desk<'static>> = LazyLock::new(|| Desk::new(&MACHINE, "fuzz"));

/// Reads a request without a token, and with one: an answer needs the token in the request, a body is as long as
/// the limit allows, and the oracle answers it.
pub fn request(bytes: &[u8]) {
    let Ok(open) = read(bytes, None, LONGEST) else {
        return;
    };
    let guarded =
        read(bytes, Some(TOKEN), LONGEST).expect("the connection does not depend on the token");
    if guarded.is_ok() {
        let shown = bytes
            .windows(TOKEN.len())
            .any(|part| part == TOKEN.as_bytes());
        assert!(shown, "a request without the token");
        assert_eq!(guarded, open);
    }
    let Ok(request) = open else { return };
    assert!(
        request
            .body
            .as_ref()
            .is_none_or(|body| body.len() <= LONGEST)
    );
    assert!(!request.name.contains('/'));
    let answer = DESK.http(&request).unwrap_or_else(|needs| {
        let granted = needs.0;
        let more = Request { granted, ..request };
        DESK.http(&more).expect("as many bytes as it needs")
    });
    assert!([200, 400, 404].contains(&answer.status) && !answer.body.is_empty());
}

/// A line to the oracle with packed numbers after it: the answer is a line of JSON, and as many packed floats as
/// it says.
pub fn ask(bytes: &[u8]) {
    let end = bytes
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(bytes.len());
    let packed = bytes.get(end + 1..).unwrap_or_default();
    let answered = DESK.answer(&bytes[..end], packed, usize::MAX);
    let answered = answered.expect("no answer needs more");
    let line: serde_json::Value = serde_json::from_slice(&answered.line).expect("a line of JSON");
    let packed = line["packed"].as_u64().unwrap_or(0);
    assert_eq!(packed, answered.packed.len() as u64);
    assert_eq!(line["error"].is_string(), answered.refused);
}
