//! The record of a job as a page.

use super::Table;
use hopbyte_fabric::units::{bytes_text, count};
use hopbyte_job::record::merge::Merged;
use hopbyte_job::record::times::Times;
use hopbyte_job::record::variables::Variable;
use hopbyte_job::shell_word;
use std::fmt::Write;

/// Functions listed by their time.
const LISTED: usize = 6;

/// Traffic by phase, time in MPI by call, and the command that uses them.
pub fn record_text(record: &Merged, colour: bool) -> String {
    let mut page = format!(
        "# {} ranks on {} host{}: {} pairs sent {} in {} messages\n",
        count(record.ranks),
        count(record.hosts),
        if record.hosts == 1 { "" } else { "s" },
        count(record.pairs),
        bytes_text(record.bytes),
        count(record.messages as usize)
    );
    let mut table = Table::new(&["<phase", "pairs", "bytes", "messages"]);
    for phase in &record.phases {
        table.row([
            phase.name.clone(),
            count(phase.pairs),
            count(phase.bytes as usize),
            count(phase.messages as usize),
        ]);
    }
    page += &table.render(colour);
    page += &record
        .times
        .as_ref()
        .map_or_else(String::new, |t| times(t, colour));
    page += &variables(&record.variables, colour);
    for note in &record.notes {
        let _ = writeln!(page, "# {note}");
    }
    let word = |file: &std::path::Path| shell_word(&file.display().to_string());
    let (traffic, placement) = (word(&record.traffic), word(&record.placement));
    let _ = writeln!(
        page,
        "\nhopbyte map {traffic} --current {placement} --fabric …"
    );
    page
}

/// Performance variables, with the range over ranks.
fn variables(variables: &[Variable], colour: bool) -> String {
    if variables.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["<variable of the MPI", "<class", "least", "most", "sum"]);
    for v in variables {
        let [least, most, sum] = [v.least, v.most, v.sum].map(|x| {
            if x.fract() == 0.0 && (0.0..1e15).contains(&x) {
                count(x as usize)
            } else {
                format!("{x:.6}")
            }
        });
        table.row([v.name.clone(), v.class.clone(), least, most, sum]);
    }
    table.render(colour)
}

fn times(times: &Times, colour: bool) -> String {
    let threads = match times.threads {
        0 | 1 => String::new(),
        n => format!("; {n} threads of a rank call MPI: by call the times of all are added"),
    };
    let mut page = format!(
        "# {:.3} s; a rank computes for {:.3} s and is in MPI for {:.3} s (mean; {:.3} to {:.3}){threads}\n",
        times.seconds,
        times.compute_seconds,
        times.mpi_seconds,
        times.least_mpi_seconds,
        times.most_mpi_seconds
    );
    let mut table = Table::new(&["<call", "calls", "s a rank", "% of MPI"]);
    let all: f64 = times.calls.iter().map(|call| call.seconds).sum();
    for call in times.calls.iter().take(LISTED) {
        table.row([
            call.name.clone(),
            count(call.calls as usize),
            format!("{:.3}", call.seconds),
            format!("{:.0}", 100.0 * call.seconds / all.max(1e-12)),
        ]);
    }
    page += &table.render(colour);
    page
}
