//! Limits, lines and kinds of files.

use super::*;
use std::fs::File;
use std::io::Write;

fn read(bytes: &[u8], limits: Limits) -> Result<Text, String> {
    Text::from_bytes("f", bytes, limits).map_err(|e| e.to_string())
}

/// Yields `left` bytes of the same value without holding them.
struct Same(u8, u64, [u8; CHUNK]);

impl Read for Same {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(self.1 as usize);
        buffer[..n].fill(self.0);
        self.1 -= n as u64;
        Ok(n)
    }
}

impl BufRead for Same {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(&self.2[..self.2.len().min(self.1 as usize)])
    }
    fn consume(&mut self, amount: usize) {
        self.1 -= amount as u64;
    }
}

#[test]
fn lines_and_words() {
    let text = read(b"\xef\xbb\xbfa b\r\n\n  c\td \nlast", Limits::TEXT).unwrap();
    let lines: Vec<(u64, &[u8])> = text.lines().map(|l| (l.number, l.bytes)).collect();
    assert_eq!(
        lines,
        [(1, &b"a b"[..]), (2, b""), (3, b"  c\td "), (4, b"last")]
    );
    let words: Vec<&[u8]> = text.lines().nth(2).unwrap().words().collect();
    assert_eq!(words, [b"c", b"d"]);
    assert_eq!(read(b"", Limits::TEXT).unwrap().lines().count(), 0);
}

#[test]
fn numbers_are_exact_or_refused() {
    assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(decimal(b"18446744073709551616"), None);
    assert_eq!(decimal(b""), None);
    assert_eq!(decimal(b"-1"), None);
    assert_eq!(hexadecimal(b"0xffffffffffffffff"), Some(u64::MAX));
    assert_eq!(hexadecimal(b"1ffffffffffffffff"), None);
    assert_eq!(hexadecimal(b"0x"), None);
    assert_eq!(float(b"1.5e3"), Some(1500.0));
    assert_eq!(float(b"nan"), None);
    assert_eq!(float(b"inf"), None);
}

#[test]
fn a_huge_line_is_refused_early() {
    let endless = Same(b'x', 100 << 20, [b'x'; CHUNK]);
    let error = Text::from_reader("f", endless, Limits::TEXT).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("f:1: found a line of more than"), "{text}");
    assert!(text.contains("hint:"), "{text}");
    // Lines just within the limit pass, regardless of their position relative to the read chunks.
    for length in [100, CHUNK - 1, CHUNK, CHUNK + 1, 1 << 20] {
        let mut line = vec![b'y'; length];
        line.push(b'\n');
        let all = line.repeat(3);
        assert_eq!(read(&all, Limits::TEXT).unwrap().lines().count(), 3);
        let limits = Limits {
            line: length - 1,
            ..Limits::TEXT
        };
        let error = read(&[b"ok\n", &all[..]].concat(), limits).unwrap_err();
        assert!(error.starts_with("f:2: "), "{error}");
    }
    let limits = Limits {
        bytes: 1000,
        ..Limits::TEXT
    };
    assert!(
        read(&[b'\n'; 1001], limits)
            .unwrap_err()
            .contains("more than 1000 bytes")
    );
    assert!(
        read(b"ELF\0\0", Limits::TEXT)
            .unwrap_err()
            .contains("binary data")
    );
    let mut binary = vec![0; 3 << 20];
    binary[0] = 1;
    assert!(read(&binary, Limits::ANY).unwrap().is_binary());
}

/// `flux jobs --json` and others print a single line.
#[test]
fn json_and_xml_may_be_one_long_line() {
    for start in ["[", "\u{feff} \n\t{", "<"] {
        let text = [start, &"1,".repeat(1 << 20), "1]"].concat();
        assert!(read(text.as_bytes(), Limits::TEXT).is_ok());
        let limits = Limits {
            bytes: 1 << 20,
            ..Limits::TEXT
        };
        let error = read(text.as_bytes(), limits).unwrap_err();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }
    let text = [&" ".repeat(5000), "[", &"1,".repeat(1 << 20)].concat();
    assert!(read(text.as_bytes(), Limits::TEXT).is_err());
}

#[test]
fn compressed_content_is_recognised_and_bounded() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(b"one\ntwo\n").unwrap();
    let gz = gz.finish().unwrap();
    assert_eq!(read(&gz, Limits::TEXT).unwrap().bytes(), b"one\ntwo\n");
    let twice = [gz.clone(), gz.clone()].concat();
    assert_eq!(read(&twice, Limits::TEXT).unwrap().bytes().len(), 16);
    assert!(read(&gz[..gz.len() - 9], Limits::TEXT).is_err());

    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b'\n'; 1 << 22]).unwrap();
    let limits = Limits {
        bytes: 1 << 20,
        ..Limits::TEXT
    };
    let error = read(&bomb.finish().unwrap(), limits).unwrap_err();
    assert!(error.contains("more than 1048576 bytes"), "{error}");

    let mut zeros = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zeros.write_all(&vec![0; 1 << 22]).unwrap();
    let error = read(&zeros.finish().unwrap(), Limits::ANY).unwrap_err();
    assert!(error.contains("262144 zero bytes at its begin"), "{error}");

    let zst = ruzstd::encoding::compress_to_vec(
        &b"three\nfour\n"[..],
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    assert_eq!(read(&zst, Limits::TEXT).unwrap().bytes(), b"three\nfour\n");
    let twice = [zst.clone(), zst.clone()].concat();
    assert_eq!(read(&twice, Limits::TEXT).unwrap().bytes().len(), 22);
    assert!(read(&zst[..zst.len() - 3], Limits::TEXT).is_err());
}

#[test]
fn a_missing_file_and_a_folder_are_errors() {
    let missing = Text::read(Path::new("/nonexistent/file"), Limits::TEXT);
    assert!(missing.unwrap_err().to_string().contains("hint: check"));
    let folder = Text::read(&std::env::temp_dir(), Limits::TEXT);
    assert!(folder.unwrap_err().to_string().contains("found a folder"));
}

#[test]
fn pipes_devices_and_sockets_are_told_apart_before_they_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, found) in [
        (pipe.as_path(), "a named pipe"),
        (socket.as_path(), "a socket"),
        (Path::new("/dev/zero"), "a device"),
        (Path::new("/dev/urandom"), "a device"),
        (folder.path(), "a folder"),
    ] {
        let error = Text::read(path, Limits::ANY).unwrap_err().to_string();
        assert!(error.contains(&format!("found {found}")), "{error}");
        assert_eq!(open(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn cells_may_be_quoted() {
    let of = |line: &str| -> Vec<String> {
        cells(line.as_bytes())
            .map(|c| lossy(c).into_owned())
            .collect()
    };
    assert_eq!(of("a, b ,,c"), ["a", "b", "", "c"]);
    assert_eq!(of("\"a,1\", \"b\" ,\"\",c"), ["a,1", "b", "", "c"]);
    assert_eq!(of("\"say \"\"x\"\", y\",z"), ["say \"\"x\"\", y", "z"]);
    // Quotes that do not enclose the cell are characters of it.
    assert_eq!(of("\"a\"b,c"), ["\"a\"b", "c"]);
    assert_eq!(of("\"open,c"), ["\"open", "c"]);
    assert_eq!(of(""), [""]);
    assert_eq!(of("a,"), ["a", ""]);
    let texts = |line: &str| cell_texts(line.as_bytes());
    let said = ["say \"x\", y".to_owned(), "a\"\"b".to_owned()];
    assert_eq!(texts("\"say \"\"x\"\", y\", a\"\"b").unwrap(), said);
    assert_eq!(texts("a,\"open"), None);
}

#[test]
fn whole_numbers_may_have_a_fraction_of_zero() {
    assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(whole(b"40000.0"), Some(40_000));
    assert_eq!(whole(b"4e4"), Some(40_000));
    for bad in [&b"4.5"[..], b"-1.0", b"nan", b"1e300", b"x", b""] {
        assert_eq!(whole(bad), None);
    }
    // JSON has the same bound.
    let value = |text: &str| whole_value(&serde_json::from_str(text).unwrap());
    for (word, expected) in [
        ("9007199254740992.0", Some(1 << 53)),
        ("9007199254740994.0", None),
        ("4.5", None),
    ] {
        assert_eq!(value(word), expected);
        assert_eq!(whole(word.as_bytes()), expected);
    }
}

#[test]
fn files_that_are_shortened_while_they_are_read_are_not_taken_as_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let read = |change: &dyn Fn(&File)| {
        std::fs::write(&path, "0,1,5\n0,2,5\n").unwrap();
        let writer = File::options().append(true).open(&path).unwrap();
        let (mut file, begin) = opened(&path).unwrap().unwrap();
        change(&writer);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        shortened(&file, &begin)
    };
    assert_eq!(read(&|_| {}), None);
    assert_eq!(read(&|mut w| w.write_all(b"0,3,5\n").unwrap()), None);
    let found = read(&|w| w.set_len(6).unwrap()).unwrap();
    assert_eq!(found, "6 of 12 bytes: it was written meanwhile");
    assert!(Text::read(Path::new("/proc/self/status"), Limits::TEXT).is_ok());
}

#[test]
fn comments_begin_with_a_blank_before_them() {
    for (line, expected) in [
        ("0,leaf#2 # the second", "0,leaf#2 "),
        ("# all", ""),
        ("0,\"sw #1\",3#", "0,\"sw #1\",3#"),
        ("ann's # one", "ann's "),
    ] {
        assert_eq!(without_comment(line.as_bytes()), expected.as_bytes());
    }
}
