//! `webstone man`: manual pages, made from the definition of the command line.

use std::path::Path;

use clap_mangen::Man;

use crate::console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(dir: Option<&Path>) -> Result<Exit, Failure> {
    let mut command = crate::args::command();
    command.build();
    let Some(dir) = dir else {
        console::print_as_is(&page(command)?)?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(dir).map_err(|error| Failure::file("create", dir, &error))?;
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let pages = shown.map(|sub| (format!("webstone-{}", sub.get_name()), sub.clone()));
    let pages: Vec<_> = pages.collect();
    write(dir, "webstone", command)?;
    for (name, sub) in pages {
        write(dir, &name, sub)?;
    }
    Ok(Exit::Done)
}

fn write(dir: &Path, name: &str, command: clap::Command) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    // The page of a subcommand has the title of its file.
    let page = page(command.display_name(name.to_owned()))?;
    std::fs::write(&path, page).map_err(|error| Failure::file("write", &path, &error))
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::failed(format!("cannot make a manual page: {error}")))?;
    Ok(page)
}
