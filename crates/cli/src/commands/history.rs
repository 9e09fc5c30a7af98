//! `webstone history`: published results, and runs compared with them.

use webstone_model::series::Kind;
use webstone_report::Subject;
use webstone_report::history::{self, Published};
use webstone_runner::series::{self, SeriesError};

use super::records;
use crate::args::HistoryArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::{form_of, series_failure};

pub(super) fn execute(args: &HistoryArgs, console: &Console) -> Result<Exit, Failure> {
    let format = form_of(Subject::History, args.format, args.output.as_deref())?;
    let all = history::published();
    let chosen: Vec<&Published> =
        all.iter().filter(|result| args.only.as_deref().is_none_or(|text| result.matches(text))).collect();
    if let (true, Some(text)) = (chosen.is_empty(), &args.only) {
        let mut names: Vec<&str> = all.iter().map(|result| result.document.id.as_str()).collect();
        names.dedup();
        return Err(Failure::usage(format!("--only: no published result has `{text}` in its names"))
            .hint(format!("the documents are {}", names.join(", "))));
    }
    let mut runs = Vec::new();
    for run in &args.runs {
        if let Some(path) = records::series(run, args.runs_dir.as_deref()) {
            let failed = |error: SeriesError| series_failure(&error, Kind::Servers);
            let (directory, series) = series::load(&path).map_err(failed)?;
            let cells = series::records(&directory, &series);
            runs.extend(cells.map_err(|error| failed(SeriesError::Store(error)))?.into_iter().flatten());
            continue;
        }
        runs.push(records::load(run, args.runs_dir.as_deref()).map_err(|failure| {
            let name = run.to_string_lossy();
            match all.iter().any(|result| result.matches(&name)) && !run.exists() {
                true => Failure::usage(format!("{name} is not a run"))
                    .hint(format!("for the published results of that name, write --only {name}")),
                false => failure,
            }
        })?);
    }
    let bytes = history::render(&chosen, &runs, format, &console.report_options(args.output.is_some()))
        .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
    console::deliver(&bytes, args.output.as_deref())?;
    Ok(Exit::Done)
}
