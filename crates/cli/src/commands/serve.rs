//! `webstone serve`: the reference server, in the foreground or as the child of a run.

use webstone_model::workload::content;
use webstone_runner::server::{Fileset, ServeOptions, serve};

use super::load_workload;
use crate::args::ServeArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent;

pub(super) fn execute(args: &ServeArgs, console: &Console) -> Result<Exit, Failure> {
    let (spec, workload) = intent::of_serve(args)?;
    let has_root = spec.root.is_some();
    let mut options = ServeOptions::new(spec);
    options.until_stdin_closes = args.until_stdin_closes;
    if !has_root {
        options.fileset = fileset(&workload)?;
    }
    let mut announced = Ok(());
    let report = serve(options, |ready| {
        // Programs that start the server wait for this line.
        announced = console::print(format!("READY {}\n", ready.url).as_bytes());
        ready.notes.iter().for_each(|note| console.note(format!("warning: {note}")));
    })
    .map_err(|error| Failure { hint: error.hint, ..Failure::failed(error.what) })?;
    announced?;
    match report.log_error {
        Some(error) => Err(Failure::failed(format!("--access-log: {error}"))),
        None => Ok(Exit::Done),
    }
}

/// The generated files of a workload; what states no size is no file of it.
fn fileset(name: &str) -> Result<Fileset, Failure> {
    let workload = load_workload(name)?;
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let entries =
        files.filter_map(|file| Some((content::file_path(&file.url).into_owned(), file.size?))).collect();
    Ok(Fileset::from_entries(entries, content::fill))
}
