//! `hopbyte demo`: the whole loop on real input, in a minute.

mod experiment;

use super::links;
use super::map::say_notes;
use crate::args::{CounterArgs, FabricOptions};
use crate::output::{Answer, Output, TIMES, Table, count, scale};
use anyhow::{Context, Result, bail};
use hopbyte_apply::{Launcher, Prepared, write_atomic};
use hopbyte_fabric::Reach;
use hopbyte_fabric::units::{Seconds, bytes_text};
use hopbyte_job::demo::{self, Modelled, SecondJob, simulate, write_readings};
use hopbyte_job::links::lines;
use hopbyte_job::mapping::write_files;
use hopbyte_job::{Asked, Document, Effort, Mapping, Question, search, with_file};
use hopbyte_view::report::{About, mapping_page};
use hopbyte_view::terminal::costs_text;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Swaps per start unless --seconds is given: the same answer on any machine.
const TRIALS: u64 = 300_000;
/// Limit of the second job's listed links.
const LINKS_SHOWN: usize = 5;

/// The user's machine and job; by default the built-in captures.
#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    /// The machine, as every verb takes it
    #[arg(
        long,
        value_name = "FABRIC",
        requires = "traffic",
        help_heading = "Machine"
    )]
    fabric: Option<String>,
    /// Further inputs of the machine.
    #[command(flatten)]
    beside: FabricOptions,
    /// Traffic between the ranks, as `hopbyte map` takes it
    #[arg(long, value_name = "TRAFFIC", help_heading = "Job")]
    traffic: Option<String>,
    /// Nodes for the ranks, as `hopbyte map` takes them
    #[arg(long, value_name = "LIST", help_heading = "Job")]
    nodes: Option<String>,
    /// Ranks per node (default: the fewest that hold all)
    #[arg(long, value_name = "N", help_heading = "Job")]
    ranks_per_node: Option<u32>,
    /// Current placement of the ranks
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    current: Option<PathBuf>,
    /// Load of other jobs: counters, as `hopbyte links` reads them
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    background: Vec<PathBuf>,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    about: CounterArgs,
    /// Search time (default: a fixed number of swaps, for the same answer on any machine)
    #[arg(long, value_name = "SECONDS", help_heading = "Search")]
    seconds: Option<f64>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1, help_heading = "Search")]
    seed: u64,
    /// Folder to write into
    #[arg(long, value_name = "FOLDER", default_value = "out")]
    out: PathBuf,
    /// The loop on real kernels: jobs on an emulated cluster, remapped at run time (needs root, Open MPI)
    #[arg(long, help_heading = "Emulated cluster")]
    lab: bool,
    /// Settings of the emulated cluster.
    #[command(flatten)]
    experiment: experiment::LabArgs,
}

/// The JSON answer.
#[derive(Serialize)]
struct DemoRecord {
    schema: &'static str,
    mapping: Document,
    model: Modelled,
    files: Vec<PathBuf>,
}

/// Inputs of the demo.
struct Scene {
    question: Question,
    second: Option<SecondJob>,
    /// The same question for `hopbyte map`.
    command: String,
}

/// Runs the loop.
pub fn run(args: &DemoArgs, out: &mut Output) -> Result<Answer> {
    if args.lab {
        return experiment::run(&args.experiment, &args.out, args.seed, out);
    }
    let scene = read(args, out)?;
    let (text, folder) = (!out.json, &args.out);
    if text {
        observe(&scene, out)?;
        characterise(&scene, out)?;
    }
    let effort = Effort {
        seconds: args.seconds.unwrap_or(0.0),
        trials: args.seconds.is_none().then_some(TRIALS),
        seed: args.seed,
        ..Effort::DEFAULT
    };
    let mapping = search(&scene.question, &effort, &|_| {})?;
    let mut files = write_files(&scene.question, &mapping, folder)?.written;
    let page = folder.join("report.html");
    write_atomic(
        &page,
        &mapping_page(&scene.question, &mapping, &About::file(&page, &out.command))?,
    )?;
    files.push(page.clone());
    let readings = write_readings(&scene.question, &mapping, folder)?;
    files.extend(readings.clone());
    let modelled = simulate(&scene.question, scene.second.as_ref(), &mapping)?;
    if !text {
        out.object(&DemoRecord {
            schema: "hopbyte.demo/1",
            mapping: Document::of(&scene.question, &mapping),
            model: modelled,
            files,
        })?;
        return Ok(Answer::Yes);
    }
    heading(out, "map: placement of the ranks", &scene.command)?;
    scene.write_job(out)?;
    out.text(&costs_text(
        &mapping,
        &scene.question.machine.fabric,
        out.colour(),
    ))?;
    out.line(mapping.verdict_text())?;
    apply(&scene, &mapping, folder, out)?;
    let command = format!(
        "hopbyte verify --mapping {} --before {} --after {}",
        folder.join("mapping.json").display(),
        readings[0].display(),
        readings[1].display()
    );
    heading(out, "verify: prediction and counters", &command)?;
    write_modelled(&modelled, &scene, out)?;
    heading(out, "look", "")?;
    out.line(format!(
        "open {} in a browser: every link before and after",
        page.display()
    ))?;
    Ok(Answer::Yes)
}

/// Reads the user's files, or the captures after writing them into the folder.
fn read(args: &DemoArgs, out: &mut Output) -> Result<Scene> {
    let own = args.fabric.is_some();
    if own && args.nodes.is_none() && args.current.is_none() {
        bail!(
            "no nodes for the job\nhint: give NODES='name[01-16]:4' (--nodes), or where it ran (--current)"
        );
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let mut asked = Asked {
        traffic: args.traffic.clone().unwrap_or_default(),
        machine: args
            .beside
            .source(args.fabric.as_deref().unwrap_or_default()),
        nodes: args.nodes.clone(),
        ranks_per_node: args.ranks_per_node,
        current: args.current.clone(),
        background: args.background.clone(),
        counters: args.about.options(),
        ..Asked::default()
    };
    let mut second = None;
    if !own {
        let files = demo::unpack(&args.out.join("input"))?;
        asked.machine.fabric = files.fabric.display().to_string();
        asked.machine.routes = vec![files.tables];
        asked.nodes = asked.nodes.or_else(|| Some(demo::NODES.into()));
        if asked.traffic.is_empty() {
            asked.traffic = files.job.display().to_string();
        }
        if asked.background.is_empty() {
            let machine = asked.machine.read()?;
            let job = demo::second_job(&files.second, &machine)?;
            let reading = args.out.join("background.jsonl");
            write_atomic(&reading, &lines(&machine.fabric, &job.snapshot)?)?;
            asked.background = vec![reading];
            second = Some(job);
        }
    }
    let question = asked.read()?;
    say_notes(&question, out);
    Ok(Scene {
        command: asked.command(),
        question,
        second,
    })
}

impl Scene {
    fn write_job(&self, out: &mut Output) -> Result<()> {
        let q = &self.question;
        out.line(format!(
            "the job: {} ranks sending {}, on {} nodes with {} slots",
            count(q.exchange.tasks()),
            bytes_text(q.exchange.total_bytes()),
            count(q.allocation.nodes().len()),
            count(q.allocation.capacity()),
        ))?;
        match q.loads.text() {
            Some(wire) => Ok(out.line(wire)?),
            None => Ok(()),
        }
    }
}

/// A step of the loop, and its command.
fn heading(out: &mut Output, step: &str, command: &str) -> Result<()> {
    out.line(format!("\n== {step}"))?;
    if !command.is_empty() {
        out.line(format!("   {command}"))?;
    }
    Ok(())
}

fn observe(scene: &Scene, out: &mut Output) -> Result<()> {
    let machine = &scene.question.machine;
    let fabric = &machine.fabric;
    let source = &scene.question.machine.source;
    out.line("== observe: the machine")?;
    out.line(format!("   hopbyte fabric show {}", source.words()))?;
    let reach = Reach::of(fabric, &machine.routing);
    let links = fabric.link_ids().filter(|&l| fabric.is_hop(l)).count();
    out.line(format!(
        "{} routers, {} nodes, {} directed links; {}: {} of {} pairs of nodes have a route",
        count(fabric.routers().len()),
        count(fabric.nodes().len()),
        count(links),
        machine.routing.describe(),
        count(reach.routable as usize),
        count(reach.pairs as usize),
    ))?;
    Ok(())
}

fn characterise(scene: &Scene, out: &mut Output) -> Result<()> {
    let question = &scene.question;
    let Some(background) = &question.background else {
        return Ok(());
    };
    let files = question.background_source.iter().flat_map(|b| &b.files);
    let files: Vec<String> = files.map(|f| f.display().to_string()).collect();
    let command = format!(
        "hopbyte links {} --fabric {} --top {LINKS_SHOWN}",
        files.join(" "),
        question.machine.source.words()
    );
    heading(out, "characterise: load of other jobs", &command)?;
    if let Some(second) = &scene.second {
        out.line(format!(
            "a second job (LAMMPS peptide, {} ranks on {} nodes) sends {} again every {}",
            second.tasks,
            second.nodes,
            bytes_text(second.bytes()),
            Seconds(second.window_seconds),
        ))?;
    }
    links::write_worst(&question.machine.fabric, background, LINKS_SHOWN, out)?;
    Ok(())
}

fn apply(scene: &Scene, mapping: &Mapping, folder: &Path, out: &mut Output) -> Result<()> {
    let saved = folder.join("mapping.json");
    let command = format!("hopbyte apply {}", saved.display());
    heading(out, "apply: input of the launcher", &command)?;
    let launch = mapping.launch(&scene.question);
    for launcher in Launcher::ALL {
        let path = folder.join(launcher.file_name());
        if let Ok(Prepared { advice, .. }) = launch.prepare(launcher)
            && !advice.command.is_empty()
            && path.exists()
        {
            let command = with_file(&advice.command, &path.display().to_string());
            out.line(format!("{:<28} {command}", path.display()))?;
        }
    }
    Ok(())
}

/// Times of the exchange in text.
fn write_modelled(modelled: &Modelled, scene: &Scene, out: &mut Output) -> Result<()> {
    let before = if scene.question.current.is_some() {
        "as it ran"
    } else {
        "in order"
    };
    out.line("modelled, uncalibrated: all messages at once, links shared max-min fairly")?;
    let most = modelled
        .beside_seconds
        .unwrap_or(modelled.alone_seconds)
        .max(modelled.mapped_seconds);
    let (time, unit) = scale(most, &TIMES);
    let mut table = Table::new(&["<placement", &format!("exchange {time}"), "change %"]);
    let reference = modelled.beside_seconds.unwrap_or(modelled.alone_seconds);
    let mut row = |name: String, seconds: f64, compared: bool| {
        let change = format!("{:+.1}", 100.0 * (seconds / reference - 1.0));
        let change = if compared { change } else { String::new() };
        table.row([name, format!("{:.3}", seconds / unit), change]);
    };
    if let Some(beside) = modelled.beside_seconds {
        row(format!("{before}, alone"), modelled.alone_seconds, true);
        row(format!("{before}, beside the second job"), beside, false);
        row(
            "mapped, beside the second job".into(),
            modelled.mapped_seconds,
            true,
        );
    } else {
        row(before.into(), modelled.alone_seconds, false);
        row("mapped".into(), modelled.mapped_seconds, true);
    }
    out.table(&table)?;
    if let Some(recovered) = modelled.recovered_ratio {
        out.line(format!(
            "the mapping recovers {:.0} % of the time lost to the second job",
            100.0 * recovered
        ))?;
    }
    Ok(())
}
