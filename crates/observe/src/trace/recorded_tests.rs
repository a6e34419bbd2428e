use super::*;

const HEAD: &str = "# hopbyte-trace 1\nrank\tRANK\nsize\t2\nseconds\t1.5\nphase\t0\tmain\ngroup\t08\t2\t0-1\n\
    event\t0\treceive\t0\t08\tPEER\t7\t0\t-\nevent\t1\tsend\t0\t08\tPEER\t7\t-1\t-\nevent\t2\twait\t0\t-\t-1\t-1\t0\t-\n\
    event\t3\tcollective\t0\t08\t-1\t0\t-1\tallreduce\nevent\t4\tend\t0\t-\t-1\t-1\t-1\t-\nprogram\n";

fn text(rank: u32, program: &str) -> Text {
    let head = HEAD.replace("RANK", &rank.to_string());
    let head = head.replace("PEER", &(1 - rank).to_string());
    let whole = format!("{head}{program}events\t9\nended\tfinalize\n");
    Text::from_bytes(format!("rank.{rank}.hbt"), whole.as_bytes(), LIMITS).unwrap()
}

const LOOP: &str = "(\t3\n(\t2,1*2\n0\t1000\t50\n1\t0\t0\t64\n2\n)\n3\t2000\t10\t8\n)\n4\t500\n";

#[test]
fn loops_and_calls_are_read() {
    let folded = read("t", &[text(0, LOOP), text(1, LOOP)]).unwrap();
    // Inner iterations: 2, 1, 1; a computation, a receive, a send and a wait in each.
    assert_eq!(folded.calls(), 2 * (4 * 4 + 3 * 2 + 1));
    let trace = folded.unfold(100).unwrap();
    let traffic = trace.traffic().unwrap();
    let sent = traffic.phases[0].exchange.sends(0)[0];
    assert_eq!((sent.bytes, sent.messages), (4.0 * 64.0, 4));
    assert_eq!(folded.ranks[0].seconds, 1.5);
    let inside = folded.ranks[1].mpi_seconds;
    assert!(
        (inside - (4.0 * 50.0 + 3.0 * 10.0) * 1e-9).abs() < 1e-15,
        "{inside}"
    );
    assert!(folded.notes.is_empty());
}

#[test]
fn every_prefix_and_wrong_line_is_refused_or_said() {
    let whole = text(0, LOOP);
    let other = text(1, LOOP);
    let bytes = whole.bytes().to_vec();
    for end in 0..bytes.len() - 1 {
        let cut = Text::from_bytes("rank.0.hbt", &bytes[..end], LIMITS).unwrap();
        let read = read("t", &[cut, other.clone()]);
        let said = read.as_ref().is_ok_and(|f| !f.notes.is_empty());
        assert!(read.is_err() || said, "{end} bytes");
    }
    for (from, to) in [
        ("(\t3", "(\t3*0"),
        ("(\t3", "(\tx"),
        (")\n4", ")\n)\n4"),
        ("\n3\t2000", "\n9\t2000"),
        ("0\t1000", "0\t-1"),
        ("0\t1000", "0\tnan"),
        ("receive\t0\t08\t1", "receive\t0\t08\t2"),
        ("size\t2", "size\t3"),
    ] {
        let wrong = lossy(&bytes).replacen(from, to, 1);
        assert_ne!(wrong.as_bytes(), &bytes[..], "{from}");
        let wrong = Text::from_bytes("rank.0.hbt", wrong.as_bytes(), LIMITS).unwrap();
        assert!(read("t", &[wrong, other.clone()]).is_err(), "{to}");
    }
    assert!(read("t", &[whole]).is_err());
}

#[test]
fn traces_that_end_early_say_so() {
    let running = lossy(text(0, LOOP).bytes()).replace("finalize", "running");
    let running = Text::from_bytes("rank.0.hbt", running.as_bytes(), LIMITS).unwrap();
    let folded = read("t", &[running, text(1, LOOP)]).unwrap();
    assert_eq!(
        folded.notes,
        ["incomplete: the traces of 1 ranks end early: ended by running"]
    );
}
