//! Warnings and errors that the InfiniBand tools print among their output.
//!
//! Captures made with `2>&1` end in them when a query fails, and `iberror` goes to the standard output anyway:
//!
//! ```text
//! ibroute: iberror: failed: dump tables: not a switch
//! ibwarn: [2112] mad_rpc: _do_madrpc failed; dport (Lid 5)
//! SubnGet() failed; MAD status 0x110 AM 0x2
//! Failed to open 'mlx4_0' port '1'
//! src/query_smp.c:196; umad (DR path slid 0; dlid 0; 0,1 Attr 0x15:1) bad status 110; Connection timed out
//! ```
//!
//! Text that was copied from a terminal has the commands as they were typed, which say nothing about the fabric.

use crate::text::Line;
use memchr::{memchr, memmem, memrchr};

/// Messages of a file, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    count: usize,
    first: String,
}

/// What `dump_lfts` prints first; nothing is missing.
const REPLACED: &[u8] = b"*** WARNING ***: this command has been replaced by dump_fts";

impl Messages {
    /// Whether a line is such a message, which is counted, or a command.
    pub fn take(&mut self, line: Line<'_>) -> bool {
        let is = is_message(line.trimmed());
        if is {
            self.add(line);
        }
        is || is_remark(line.trimmed())
    }

    /// Whether a line is such a message or a command.
    pub fn is_one(line: Line<'_>) -> bool {
        is_message(line.trimmed()) || is_remark(line.trimmed())
    }

    /// Counts a line that says that something could not be read.
    pub fn add(&mut self, line: Line<'_>) {
        if self.count == 0 {
            self.first = crate::fabric::names::name(line.trimmed());
        }
        self.count += 1;
    }

    /// A note on the messages, if there are any.
    pub fn note(&self, file: &str, notes: &mut Vec<String>) {
        let (lines, are) = match self.count {
            0 => return,
            1 => ("line", "is a message"),
            _ => ("lines", "are messages"),
        };
        notes.push(format!(
            "{file}: {} {lines} {are} of the tool, and ports that it could not read are missing: {}",
            self.count, self.first
        ));
    }
}

/// Whether a line concerns neither the fabric nor unreadable ports.
fn is_remark(line: &[u8]) -> bool {
    line.starts_with(REPLACED) || is_command(line)
}

fn is_message(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 15] = [
        b"ibwarn: [",
        b"ibdiag_warn: [",
        b"ibdebug: [",
        b"ibpanic: [",
        b"WARN: ",
        b"SubnGet(",
        b"Query SA failed",
        b"Failed to open ",
        b"Failed to discover ",
        b"Connection timed out",
        // Of the shell and of programs that start the tools.
        b"bash: ",
        b"sh: ",
        b"ssh: ",
        b"sudo: ",
        b"timeout: ",
    ];
    const WHOLE: [&[u8]; 5] = [
        b"Killed",
        b"Terminated",
        b"Aborted",
        b"Segmentation fault",
        b"^C",
    ];
    let word = line.split(|&b| b == b' ').next().unwrap_or_default();
    let source = memmem::find(word, b".c:").is_some() && word.ends_with(b";");
    let core = line.strip_suffix(b" (core dumped)").unwrap_or(line);
    STARTS.iter().any(|s| line.starts_with(s))
        || WHOLE.contains(&core)
        || line.ends_with(b": command not found")
        || source
        || memmem::find(line, b": iberror: ").is_some()
        || memmem::find(line, b": ibpanic: ").is_some()
}

/// Whether a line is the prompt of a shell, with a command or alone: `[root@host ~]# ibnetdiscover`, `user@host:~$`,
/// `host:~ #` of SUSE, and those of managed switches and UFM.
fn is_prompt(line: &[u8]) -> bool {
    let Some(end) = line.iter().position(|b| b"$#>%".contains(b)) else {
        return false;
    };
    if line.get(end + 1).is_some_and(|&b| b != b' ') {
        return false;
    }
    // An environment of Python: `(base) user@host:~$`.
    let own = line[..end].trim_ascii();
    let own = match own.strip_prefix(b"(").and_then(|o| split(o, b')')) {
        Some((_, rest)) => rest.trim_ascii(),
        None => own,
    };
    if is_managed(own) {
        return true;
    }
    let has = |b: u8| own.contains(&b);
    let folder = split(own, b':').map_or(&b""[..], |(_, f)| f);
    match own {
        [b'[', .., b']'] => has(b'@') && !has(b'"'),
        _ => !has(b' ') && !has(b'"') && matches!(folder, [b'~' | b'/', ..]),
    }
}

/// Whether it is the prompt of a managed switch or of UFM without its end: `[standalone: master]`, with a name before it or
/// not, `(config)` behind it or not. In brackets are the role and no number of a port.
fn is_managed(prompt: &[u8]) -> bool {
    let mode = prompt.strip_suffix(b")");
    let mode = mode.and_then(|p| memrchr(b'(', p).map(|at| &p[..at]));
    let rest = mode.unwrap_or(prompt).trim_ascii_end();
    let Some((name, role)) = rest.strip_suffix(b"]").and_then(|r| split(r, b'[')) else {
        return false;
    };
    let is_letter = |b: &u8| b.is_ascii_alphanumeric() || b" -_:.".contains(b);
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    name.trim_ascii_end().iter().all(is_name)
        && role.iter().all(is_letter)
        && role.iter().any(u8::is_ascii_alphabetic)
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let i = memchr(at, text)?;
    Some((&text[..i], &text[i + 1..]))
}

/// Whether a line is a prompt, or one of another form before a command of the tools: `$ sudo ibroute 4`.
fn is_command(line: &[u8]) -> bool {
    if is_prompt(line) {
        return true;
    }
    const TOOLS: [&[u8]; 6] = [
        b"ibroute",
        b"ibnetdiscover",
        b"iblinkinfo",
        b"dump_fts",
        b"dump_lfts.sh",
        b"cat",
    ];
    const BEFORE: [&[u8]; 2] = [b"sudo", b"ib"];
    let mut words = crate::text::words(line);
    let ends = |w: &[u8]| w.ends_with(b"$") || w.ends_with(b"#");
    // `$`, `user@host:~$`, or `[user@host ~]$`.
    let first = words.next().unwrap_or_default();
    let typed = ends(first) || words.next().is_some_and(|w| w.len() > 1 && ends(w));
    let tool = words.find(|w| !BEFORE.contains(w)).unwrap_or_default();
    let tool = tool.rsplit(|&b| b == b'/').next().unwrap_or_default();
    typed && TOOLS.contains(&tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_from_output() {
        for (line, is) in [
            ("ibroute: iberror: failed: dump tables: not a switch", true),
            ("/usr/sbin/ibroute: iberror: failed: x", true),
            (
                "ibwarn: [2112] mad_rpc: _do_madrpc failed; dport (Lid 5)",
                true,
            ),
            ("SubnGet() failed; MAD status 0x110 AM 0x2", true),
            (
                "SubnGet(LFT) failed on switch 'x' DLID 5; MAD status 0x110 AM 0x0",
                true,
            ),
            ("Failed to open 'mlx4_0' port '1'", true),
            ("Segmentation fault (core dumped)", true),
            ("bash: line 1: ibroute: command not found", true),
            ("Killed the switch", false),
            (
                "src/query_smp.c:196; umad (DR path slid 0) bad status 110",
                true,
            ),
            (
                "0x0001 001 : (Channel Adapter portguid 0x1: 'ibwarn: [1]')",
                false,
            ),
            ("Switch\t8 \"S-1\" # \"src.c:1;\"", false),
            ("134 valid lids dumped", false),
            ("user@node:~$ ibroute 4", true),
            ("root@sm:~/x# sudo /usr/sbin/ibroute 4 2>/dev/null", true),
            ("$ ibnetdiscover -p", true),
            ("[root@sm ~]# iblinkinfo -l", true),
            ("user@node:~$ ls", true),
            ("[root@head ~]#", true),
            ("head:~ #", true),
            ("head:/tmp # exit", true),
            ("(base) user@head:/scratch/x> cat lst", true),
            ("sm1-ufm [ mgmt-ha-active ] (config) #", true),
            ("switch-1a2b3c [standalone: master] (config) # ", true),
            ("switch-1a2b3c [standalone: master] > show version", true),
            ("[standalone: master] # ", true),
            ("[1]\"H-1\"[1](1a) # \"n1 HCA-1\" lid 1 4xDDR", false),
            ("[21]\"S-1a\"[20]# \"leaf\" lid 1 4xDDR", false),
            ("[1](1c34) # x", false),
            ("Unicast lids [0x0-0x6a] of switch # x", false),
            ("[1] \"H-1\"[1] # \"user@host:~$\" lid 1 4xDDR", false),
            ("[1]\t#", false),
            ("{ CA Ports:01 NodeGUID:1 {host:~ #} LID:1 PN:1 }", false),
            ("0x0001 036 # Channel Adapter portguid 0x1: 'a'", false),
            ("0x0001 036 : (Switch portguid 0x1: 'user@host:~ #')", false),
            ("Switch\t8 \"S-1\"\t\t# \"ibroute\" base port 0", false),
            ("Switch\t8 \"S-1\"\t\t# ibroute base port 0", false),
        ] {
            let bytes = line.as_bytes();
            assert_eq!(
                Messages::default().take(Line { number: 1, bytes }),
                is,
                "{line}"
            );
        }
    }
}
