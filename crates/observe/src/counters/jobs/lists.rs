//! Job lists of batch systems: Slurm, PBS, Flux, Kubernetes, and a plain CSV.

use super::{Jobs, NO_HOSTS, Then, pods, without_nodes};
use crate::ObserveError;
use crate::counters::end::End;
use crate::counters::ldms_ls::date_ns;
use crate::placement::{Names, host_list};
use crate::text::{Text, cell_texts, lossy};
use hopbyte_fabric::{Fabric, InputError};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Maximum number of jobs in a list.
const MOST: usize = 1 << 20;
/// Formats of job lists.
const EXPECTED: &str = "jobs: JSON of squeue, sacct, scontrol, qstat, flux or kubectl get pods, text of scontrol or qstat, or a CSV";

/// A job as its batch system lists it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// Its name.
    pub id: String,
    /// Its hosts, as `n[001-004,7]`.
    pub hosts: String,
    /// Whether it runs, as its batch system says; a table has only times.
    pub running: Option<bool>,
    /// Start in Unix seconds, if it is known.
    pub start: Option<f64>,
    /// End in Unix seconds, if it is known.
    pub end: Option<f64>,
}

impl Listed {
    /// Whether it ran at a time in Unix seconds, the end included.
    pub fn ran(&self, at: f64) -> bool {
        self.start.is_some_and(|s| s <= at) && self.end.is_none_or(|e| at <= e)
    }

    /// Whether its batch system says that it does not run, and has given it no nodes: it waits, or never began.
    fn waits(&self) -> bool {
        self.running == Some(false) && self.hosts.is_empty()
    }

    /// Whether it is among the jobs of a time.
    pub fn is_of(&self, then: Then) -> bool {
        match then {
            Then::Past(at) => self.ran(at),
            Then::Now(now) | Then::Live(now) => self.running.unwrap_or_else(|| self.ran(now)),
        }
    }
}

/// Reads a list. `None`: no such list.
pub(super) fn read(text: &Text, fabric: &Fabric, then: Then) -> Option<Result<Jobs, ObserveError>> {
    let listed = of(text)?;
    Some(listed.and_then(|listed| place(text, fabric, &listed, then)))
}

/// The jobs of a list without their nodes in a fabric. `None`: no such list.
pub(super) fn of(text: &Text) -> Option<Result<Vec<Listed>, ObserveError>> {
    let content = lossy(text.bytes());
    let start = content.trim_start();
    // A name that was cut is a name too.
    let whole = |listed: Vec<Listed>| -> Result<Vec<Listed>, ObserveError> {
        End::Line.check(text)?;
        Ok(listed)
    };
    Some(if start.starts_with('{') {
        json(text, start)
    } else if start.starts_with("JobId=") {
        scontrol(text, start).and_then(whole)
    } else if start.starts_with("Job Id:") {
        qstat(text, start).and_then(whole)
    } else {
        csv(text)?.and_then(whole)
    })
}

/// The jobs of the time on the nodes of the fabric.
pub(super) fn place(
    text: &Text,
    fabric: &Fabric,
    listed: &[Listed],
    then: Then,
) -> Result<Jobs, ObserveError> {
    let mut jobs = Jobs {
        elsewhere: without_nodes(listed, then),
        ..Jobs::default()
    };
    let (mut others, names) = (0, Names::of(fabric));
    let timed = |j: &Listed| j.end.is_some() || j.start.is_some_and(f64::is_finite);
    jobs.change = listed.iter().any(|j| j.running.is_none() && timed(j));
    for job in listed {
        if !job.is_of(then) {
            others += 1;
            continue;
        }
        let hosts = host_list(&job.hosts).ok_or_else(|| {
            let found: String = job.hosts.chars().take(80).collect();
            text.error(
                found,
                format!("the nodes of job {}, such as n[001-004,7]", job.id),
            )
        })?;
        for host in hosts {
            match names.places(&host) {
                Some(places) => places.into_iter().for_each(|node| jobs.put(node, &job.id)),
                None => jobs.note_unmatched(host),
            }
        }
    }
    jobs.others = others;
    let none = match then {
        Then::Past(_) => false,
        Then::Now(_) => listed.iter().all(Listed::waits),
        Then::Live(_) => others + jobs.counted(NO_HOSTS) == listed.len(),
    };
    if jobs.nodes() > 0 || none {
        return Ok(jobs);
    }
    let found = format!(
        "{} jobs, {others} of them not running then, {} without nodes, {} hosts that are no node of the fabric",
        listed.len(),
        jobs.counted(NO_HOSTS),
        jobs.unmatched()
    );
    let error = text.error(found, format!("jobs on {}", fabric.source()));
    let hint = match (others, then) {
        (0, _) => "do the jobs belong to this fabric?",
        (_, Then::Now(_) | Then::Live(_)) => {
            "--jobs-at TIME selects the jobs of a past time, in Unix seconds"
        }
        (_, Then::Past(_)) if listed.iter().all(|job| job.start.is_none()) => {
            "the list has no times in Unix seconds: squeue --json, sacct --json, qstat -x -t -f with finished jobs, flux jobs --json and a CSV with start have"
        }
        (_, Then::Past(_)) => "is the time in Unix seconds, within the list?",
    };
    Err(error.hint(hint).into())
}

fn checked(text: &Text, id: &str) -> Result<String, InputError> {
    let id = id.trim();
    let printable = !id.is_empty() && id.len() <= 64 && !id.contains(char::is_control);
    if printable {
        return Ok(id.to_owned());
    }
    let found: String = id.chars().take(80).collect();
    Err(text.error(found, "a job id of at most 64 characters"))
}

/// A number that Slurm prints plainly or as `{"set": …, "infinite": …, "number": …}`; 0 is not known.
fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    let plain = value.as_f64();
    let set = || {
        let flag = |name| value.get(name).and_then(Value::as_bool);
        let known = flag("set") != Some(false) && flag("infinite") != Some(true);
        value
            .get("number")
            .and_then(Value::as_f64)
            .filter(|_| known)
    };
    plain.or_else(set).filter(|&n| n > 0.0)
}

/// A word that Slurm prints plainly, in a list, or below `current`.
fn word(value: Option<&Value>) -> Option<&str> {
    match value? {
        Value::String(word) => Some(word),
        Value::Array(words) => word(words.first()),
        Value::Object(parts) => word(parts.get("current")),
        _ => None,
    }
}

fn json(text: &Text, content: &str) -> Result<Vec<Listed>, ObserveError> {
    let document: Value =
        serde_json::from_str(content).map_err(|e| text.error(format!("no JSON: {e}"), EXPECTED))?;
    let wrong = || text.error("JSON of another kind", EXPECTED);
    if let Some(Value::Object(jobs)) = document.get("Jobs") {
        let job = |(id, job): (&String, &Value)| {
            let job = job.as_object().ok_or_else(wrong)?;
            Ok((id.clone(), job.clone()))
        };
        let jobs: Result<Vec<_>, InputError> = jobs.iter().map(job).collect();
        return pbs(text, &jobs?).map_err(Into::into);
    }
    // Flux prints a single job without a list.
    let one = || {
        let is_flux = document.as_object().is_some_and(is_flux);
        is_flux.then(|| std::slice::from_ref(&document))
    };
    let pods = pods::of(&document);
    let jobs = document.get("jobs").and_then(Value::as_array);
    let Some(jobs) = pods.or(jobs.map(Vec::as_slice)).or_else(one) else {
        return Err(wrong().into());
    };
    if jobs.len() > MOST {
        return Err(text
            .error(format!("{} jobs", jobs.len()), format!("at most {MOST}"))
            .into());
    }
    let job = |job: &Value| {
        if pods.is_some() {
            return pods::listed(text, job);
        }
        let job = job.as_object().ok_or_else(wrong)?;
        if is_flux(job) {
            flux(text, job)
        } else {
            slurm(text, job)
        }
    };
    let is_job = |j: &&Value| pods.is_none() || !pods::is_of_node(j);
    jobs.iter()
        .filter(is_job)
        .map(job)
        .collect::<Result<_, _>>()
        .map_err(Into::into)
}

/// An element of `jobs` of `squeue --json`, `sacct --json` or `scontrol show job --json`.
fn slurm(text: &Text, job: &Map<String, Value>) -> Result<Listed, InputError> {
    let time = job.get("time");
    let of = |name: &str, long: &str| {
        number(time.and_then(|t| t.get(name))).or_else(|| number(job.get(long)))
    };
    let state = word(job.get("job_state")).or_else(|| word(job.get("state")));
    let id = job.get("job_id").and_then(Value::as_u64);
    let Some(id) = id.filter(|&id| id > 0) else {
        return Err(text.error("a job without job_id", "jobs of Slurm"));
    };
    // The components of a heterogeneous job have ids of their own and talk to each other: they are one job.
    let of_sacct = job.get("het").and_then(|het| het.get("job_id"));
    let whole = number(job.get("het_job_id")).or_else(|| number(of_sacct));
    let id = whole.map_or(id, |whole| whole as u64);
    Ok(Listed {
        id: checked(text, &id.to_string())?,
        hosts: slurm_hosts(word(job.get("nodes")).unwrap_or_default()),
        running: Some(state.is_some_and(|s| s == "RUNNING")),
        start: of("start", "start_time"),
        end: of("end", "end_time"),
    })
}

/// Slurm's words for no nodes become none.
fn slurm_hosts(hosts: &str) -> String {
    match hosts.trim() {
        "None assigned" | "(null)" | "None" => String::new(),
        hosts => hosts.to_owned(),
    }
}

/// Whether a job is Flux's, which has nodes only once it runs.
fn is_flux(job: &Map<String, Value>) -> bool {
    ["nodelist", "t_submit"]
        .iter()
        .any(|key| job.contains_key(*key))
}

/// An element of `jobs` of `flux jobs --json`, under the name that `flux jobs` prints.
fn flux(text: &Text, job: &Map<String, Value>) -> Result<Listed, InputError> {
    let id = match job.get("jobid").or_else(|| job.get("id")) {
        Some(Value::String(id)) => id.clone(),
        Some(id @ Value::Number(_)) => id.to_string(),
        _ => return Err(text.error("a job without id", "jobs of Flux")),
    };
    let state = word(job.get("state")).or_else(|| word(job.get("status")));
    Ok(Listed {
        id: checked(text, &id)?,
        hosts: word(job.get("nodelist")).unwrap_or_default().to_owned(),
        running: Some(state.is_some_and(|s| s == "RUN")),
        start: number(job.get("t_run")),
        end: number(job.get("t_cleanup")).or_else(|| number(job.get("t_inactive"))),
    })
}

/// The jobs of `qstat -f`, each with its id and attributes.
fn pbs(text: &Text, jobs: &[(String, Map<String, Value>)]) -> Result<Vec<Listed>, InputError> {
    // Only finished jobs show the zone of their dates. That of the others is the zone of the last of them.
    let finished = jobs
        .iter()
        .filter_map(|(_, job)| Some((unix(job.get("history_timestamp"))?, ahead(job)?)));
    let last = finished.max_by(|a, b| a.0.total_cmp(&b.0));
    let listed = jobs.iter().map(|(id, job)| {
        let ahead = ahead(job).or(last.map(|(_, ahead)| ahead));
        let time = |key: &str| unix(job.get(key)).or_else(|| Some(date(job.get(key))? - ahead?));
        let hosts = pbs_hosts(word(job.get("exec_host")).unwrap_or_default());
        Ok(Listed {
            id: checked(text, id)?,
            running: Some(word(job.get("job_state")) == Some("R")),
            // A job that waits to be run again has the start of its last run, and no hosts.
            start: time("stime").filter(|_| !hosts.is_empty()),
            end: time("obittime").or_else(|| time("history_timestamp")),
            hosts,
        })
    });
    let listed: Vec<Listed> = listed.collect::<Result<_, InputError>>()?;
    let begun = |(id, job): &&(String, Map<String, Value>)| match word(job.get("job_state")) {
        Some(FINISHED) => id.contains("[]") && job.contains_key("stime"),
        state => state == Some(BEGUN),
    };
    let arrays = jobs.iter().filter(begun).map(|(id, _)| id.as_str());
    with_members(text, arrays, listed)
}

/// Unix seconds, as a number or in digits.
fn unix(value: Option<&Value>) -> Option<f64> {
    let digits = || word(value)?.parse().ok();
    number(value)
        .or_else(digits)
        .filter(|t| t.is_finite() && *t > 0.0)
}

/// A date of PBS as if it were in UTC, in Unix seconds.
fn date(value: Option<&Value>) -> Option<f64> {
    date_ns(word(value)?).map(|ns| ns as f64 / 1e9)
}

/// Seconds by which the dates of a finished job are ahead of UTC. PBS prints them without their zone, but the moment at
/// which a job becomes history in Unix seconds, minutes after its end at most.
fn ahead(job: &Map<String, Value>) -> Option<f64> {
    const QUARTER: f64 = 900.0;
    const SLACK: f64 = 60.0;
    let end = date(job.get("obittime")).or_else(|| date(job.get("mtime")))?;
    let later = end - unix(job.get("history_timestamp"))?;
    let ahead = ((later - SLACK) / QUARTER).ceil() * QUARTER;
    (ahead.abs() <= 14.0 * 3600.0).then_some(ahead)
}

/// States of a job array of PBS with started members, and of a finished one. Its nodes are those of its members.
const BEGUN: &str = "B";
const FINISHED: &str = "F";

/// The list, which must have the members of these arrays: `5[1].server` of `5[].server`.
fn with_members<'a>(
    text: &Text,
    arrays: impl Iterator<Item = &'a str>,
    listed: Vec<Listed>,
) -> Result<Vec<Listed>, InputError> {
    for array in arrays {
        let stem = array.split_once("[]").map_or(array, |(stem, _)| stem);
        let is_member = |job: &Listed| {
            let rest = job.id.strip_prefix(stem).unwrap_or_default();
            rest.starts_with('[') && !rest.starts_with("[]")
        };
        if !listed.iter().any(is_member) {
            let found = format!("the job array {array} without its members");
            return Err(text.error(found, "the output of qstat -t -f, which lists them"));
        }
    }
    Ok(listed)
}

/// `n1/0*4+n2/0*4` as a list of hosts.
fn pbs_hosts(hosts: &str) -> String {
    let host = |part: &str| part.split('/').next().unwrap_or_default().trim().to_owned();
    let hosts: Vec<String> = hosts.split('+').map(host).collect();
    hosts.join(",")
}

/// Text of `scontrol show job`: records of `KEY=VALUE` words, each from `JobId=`. Its times have no zone and are not read.
fn scontrol(text: &Text, content: &str) -> Result<Vec<Listed>, ObserveError> {
    let mut jobs: Vec<Listed> = Vec::new();
    for word in content.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        if key == "JobId" {
            jobs.push(Listed {
                id: checked(text, value)?,
                running: Some(false),
                ..Listed::default()
            });
        }
        let Some(job) = jobs.last_mut() else { continue };
        match key {
            "HetJobId" => job.id = checked(text, value)?,
            "JobState" => job.running = Some(value == "RUNNING"),
            // `ReqNodeList` and `ExcNodeList` are other keys.
            "NodeList" => job.hosts = slurm_hosts(value),
            _ => {}
        }
    }
    Ok(jobs)
}

/// Text of `qstat -f`: `Job Id: …` and indented `key = value` lines, continued on lines that begin with a tab.
fn qstat(text: &Text, content: &str) -> Result<Vec<Listed>, ObserveError> {
    let unfolded = content.replace("\r\n", "\n").replace("\n\t", "");
    let mut jobs: Vec<(String, Map<String, Value>)> = Vec::new();
    for line in unfolded.lines() {
        if let Some(id) = line.strip_prefix("Job Id:") {
            jobs.push((id.trim().to_owned(), Map::new()));
        }
        let attribute = line.trim().split_once(" = ");
        if let (Some((key, value)), Some((_, job))) = (attribute, jobs.last_mut()) {
            job.insert(key.to_owned(), value.trim().into());
        }
    }
    pbs(text, &jobs).map_err(Into::into)
}

/// Lines `job,node` with a header, in any order of columns, and optional `start` and `end` in Unix seconds. `None`: the
/// first line is no such header.
fn csv(text: &Text) -> Option<Result<Vec<Listed>, ObserveError>> {
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
    let header = lines.next()?;
    let names = cell_texts(header.bytes)?;
    let names: Vec<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
    let column = |words: &[&str]| names.iter().position(|n| words.contains(&n.as_str()));
    let job = column(&["job", "jobid", "job_id"])?;
    let node = column(&["node", "host", "hostname", "nodes"])?;
    let times = [column(&["start"]), column(&["end"])];
    let row = |line: crate::text::Line<'_>| {
        let row = cell_texts(line.bytes).ok_or_else(|| text.error_at(line, "closed quotes"))?;
        if row.len() != names.len() {
            return Err(text.error_at(line, format!("{} cells", names.len())).into());
        }
        let time = |at: Option<usize>| match at.map(|at| row[at].as_str()) {
            None | Some("") => Ok(None),
            Some(cell) => cell
                .parse::<f64>()
                .ok()
                .filter(|t| t.is_finite())
                .map(Some)
                .ok_or_else(|| text.error_at(line, "times in Unix seconds")),
        };
        Ok(Listed {
            id: checked(text, &row[job]).map_err(|e| e.at(line.number))?,
            hosts: row[node].clone(),
            running: None,
            start: time(times[0])?,
            end: time(times[1])?,
        })
    };
    // Without a start a job of a table has always run.
    let open = |listed: Listed| Listed {
        start: listed.start.or(Some(f64::NEG_INFINITY)),
        ..listed
    };
    let all: Result<Vec<Listed>, ObserveError> = lines.map(|l| row(l).map(open)).collect();
    Some(all.map(ended))
}

/// A row with an end is that of the row of the same job, hosts and start before it that had none yet.
fn ended(rows: Vec<Listed>) -> Vec<Listed> {
    let mut jobs: Vec<Listed> = Vec::with_capacity(rows.len());
    let mut open: HashMap<(String, String, u64), usize> = HashMap::new();
    for row in rows {
        let start = row.start.unwrap_or(f64::NEG_INFINITY).to_bits();
        let key = (row.id.clone(), row.hosts.clone(), start);
        if row.end.is_none() {
            open.insert(key, jobs.len());
        } else if let Some(before) = open.remove(&key) {
            jobs[before].end = row.end;
            continue;
        }
        jobs.push(row);
    }
    jobs
}
