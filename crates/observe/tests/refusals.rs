//! Sizes that cannot be built are refused at once: every number of every grammar of machines, traffic and nodes is
//! replaced, and a refusal takes little time and memory.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::collective::Collective;
use hopbyte_fabric::presets::PRESETS;
use hopbyte_fabric::spec::{self, FABRIC_SPECS};
use hopbyte_fabric::{declared, hosts};
use hopbyte_observe::parse_nodes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts allocated bytes.
struct Counted;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(
            NOW.fetch_add(layout.size(), Relaxed) + layout.size(),
            Relaxed,
        );
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Most processor time, in seconds, and memory, in bytes, of a refusal.
const TIME: f64 = 0.1;
const MEMORY: usize = 32 << 20;

/// Replacements of numbers: around every bound of the grammars, and beyond all.
const VALUES: [&str; 8] = [
    "0",
    "7",
    "4097",
    "33554433",
    "1000000000",
    "4294967295",
    "18446744073709551616",
    "1e18",
];

/// Examples that have every option of their grammar.
const MACHINES: [&str; 22] = [
    "gemini:3x2x4",
    "torus:4x3:nodes=2,link=12.5,host=12.5,latency=100",
    "torus:4x3:open=X,nodes=2",
    "torus:2x2x2x2x2x2",
    "mesh:4x3:nodes=2,link=12.5,host=12.5,latency=100",
    "aries:2x6x16:blue=8,columns=4,absent=1",
    "dragonfly:9x8:nodes=4,global=1,link=12.5",
    "slingshot:4x32:nodes=16,global=1",
    "fattree:k=4,levels=3,over=1,rails=1,link=12.5",
    "fattree:k=16,levels=2,over=3",
    "fattree:down=4x8,up=1x4,rails=2,link=50",
    "fattree:down=4x8x2,up=1x4x2",
    "hyperx:4x3:nodes=2,link=12.5,host=12.5,latency=100",
    "hyperx:4x3x2",
    "hyperx:16",
    "torus:8:hosts=dgx-h100",
    "mesh:4x4:nodes=2,hosts=gh200",
    "hyperx:8:hosts=dgx-h100",
    "dragonfly:9x8:hosts=dgx-h100",
    "slingshot:4x32:hosts=mi300x",
    "gemini:2x2x2:hosts=gh200-quad",
    "fattree:down=8x8,up=1x8,rails=8,hosts=dgx-h100",
];

const TRAFFIC: [&str; 16] = [
    "stencil:16:3",
    "stencil:4x4:5:100",
    "stencil:4x4:9:100,10:periodic",
    "stencil:4x4x4:27:1000,10,1",
    "stencil:2x2x2x2x2x2:729",
    "collective:broadcast:48:8192:binomial:root=3",
    "plan:dp=8,tp=4,pp=2,ep=4,cp=2",
    "plan:world=128,tp=4,cp=2,pp=2,vpp=2,etp=2,ep=4",
    "plan:dp=2,hidden=64,layers=4,sequence=8,batch=1,batches=2,word=2,topk=2",
    "plan:dp=2,tp=2,pp=2,ep=2,cp=2,dp-bytes=8,tp-bytes=8,pp-bytes=8,ep-bytes=8,cp-bytes=8",
    "plan:dp=4,tp=2,algorithm=tree",
    "plan:ep=4,dp=4",
    "--ndims=2 --dims=4,4 --nearest --periodic --halo=100,10",
    "--dims=16",
    "--dims=4,4,4 --halo=1,1,1",
    "--dims=2,2,2,2,2,2",
];

const NODES: [&str; 9] = [
    "n0-[0-3]",
    "n0-[000-003]",
    "n[0-1]-[0-1]",
    "n[0-1,3]-[0-1]:2",
    "n0-0:3",
    "x[0-9]y[0-9]z[0-9]",
    "x[0-9]y[0-9]z[0-9]u[0-9]v[0-9]w[0-9]",
    "n0-0,n0-1,x[0-9]:4",
    "all:2",
];

/// Networks that could be built, with hosts that cannot.
const HOSTS: [&str; 4] = [
    "torus:65537:hosts=dgx-h100",
    "mesh:524289x2:hosts=gh200-quad",
    "gemini:65537x2x2:hosts=gh200-quad",
    "fattree:down=512x512,up=1x512,rails=4,hosts=dgx-h100",
];

/// The text with one number, or all numbers from a place on, replaced by each value.
fn replaced(text: &str) -> Vec<String> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        // Names of hosts and dimensions have digits as well.
        let word = at > 0 && text.as_bytes()[at - 1].is_ascii_alphabetic() && text.contains(':');
        if digits > 0 && !word {
            places.push(at..at + digits);
        }
        at += digits.max(1);
    }
    let mut all = Vec::new();
    for value in VALUES {
        for first in 0..places.len() {
            for last in [first + 1, places.len()] {
                let mut new = text.to_owned();
                for place in places[first..last].iter().rev() {
                    new.replace_range(place.clone(), value);
                }
                all.push(new);
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Processor time of this thread.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Whether a text is refused; a refusal that takes long or much memory is `bad`.
fn is_refused<T>(
    text: &str,
    read: &dyn Fn(&str) -> Result<T, String>,
    bad: &mut Vec<String>,
) -> bool {
    let (begin, before) = (seconds(), NOW.load(Relaxed));
    MOST.store(before, Relaxed);
    let answer = read(text).map(drop);
    let (took, memory) = (seconds() - begin, MOST.load(Relaxed).saturating_sub(before));
    let Err(error) = answer else { return false };
    if took > TIME || memory > MEMORY {
        bad.push(format!("{text}: {took:.3} s, {memory} bytes: {error}"));
    }
    true
}

/// Asks for all replacements; refusals that take long or much memory are `bad`.
fn ask<T>(forms: &[&str], read: &dyn Fn(&str) -> Result<T, String>, bad: &mut Vec<String>) {
    for form in forms {
        let is_example = !NODES.contains(form);
        assert!(!is_example || read(form).is_ok(), "{form}");
        let mut refused = 0;
        for text in replaced(form) {
            refused += usize::from(is_refused(&text, read, bad));
        }
        assert!(refused > 0, "{form}");
    }
}

#[test]
fn what_cannot_be_built_is_refused_at_once() {
    let mut bad = Vec::new();
    let machine = |text: &str| spec::machine(text).map_err(|e| e.to_string());
    ask(&MACHINES, &machine, &mut bad);
    for text in HOSTS {
        assert!(is_refused(text, &machine, &mut bad), "{text}");
    }
    let traffic = |text: &str| declared::traffic(text).map_err(|e| e.to_string());
    ask(&TRAFFIC, &traffic, &mut bad);
    let mut collectives = Vec::new();
    for kind in Collective::names()
        .split(", ")
        .map(|n| Collective::named(n).unwrap())
    {
        for algorithm in kind.algorithms() {
            let hosts = algorithm.inner().map_or("", |_| "/4");
            collectives.push(format!(
                "collective:{}:8:1000:{}{hosts}",
                kind.name(),
                algorithm.name()
            ));
        }
    }
    let collectives: Vec<&str> = collectives.iter().map(String::as_str).collect();
    ask(&collectives, &traffic, &mut bad);
    let torus = spec::machine("torus:4x4").unwrap().fabric;
    let nodes = |text: &str| parse_nodes(text, 1, &torus).map_err(|e| e.to_string());
    ask(&NODES, &nodes, &mut bad);
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// A form or an option that is added to a grammar needs an example here.
#[test]
fn the_examples_have_every_form_and_option() {
    let options = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '=' || c == '-'));
        words
            .filter(|w| w.ends_with('='))
            .map(str::to_owned)
            .collect()
    };
    for (form, _) in FABRIC_SPECS {
        let kind = form.split(':').next().unwrap();
        let of_kind = MACHINES
            .iter()
            .filter(|m| m.starts_with(&format!("{kind}:")));
        let of_kind: Vec<&&str> = of_kind.collect();
        assert!(!of_kind.is_empty(), "{form}");
        for option in options(form) {
            assert!(
                of_kind.iter().any(|m| m.contains(&option)),
                "{kind} {option}"
            );
        }
    }
    for (form, _) in declared::TRAFFIC_SPECS {
        let start = form.split([':', '=']).next().unwrap();
        assert!(
            start == "collective" || TRAFFIC.iter().any(|t| t.starts_with(start)),
            "{form}"
        );
        for option in options(form) {
            assert!(TRAFFIC.iter().any(|t| t.contains(&option)), "{option}");
        }
    }
    for (name, text, _) in PRESETS {
        assert!(
            FABRIC_SPECS
                .iter()
                .any(|(form, _)| form.split(':').next() == text.split(':').next()),
            "{name}"
        );
    }
    let _ = hosts::HOST_KINDS;
}
