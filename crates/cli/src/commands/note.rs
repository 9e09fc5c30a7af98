//! `webstone note`: a note about a run, beside its record.

use std::path::Path;

use webstone_store::library::{LibraryError, Notes};

use super::records;
use crate::args::NoteArgs;
use crate::console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &NoteArgs) -> Result<Exit, Failure> {
    let directory = records::any(&args.run, args.runs_dir.as_deref())?;
    // Wrong input is reported with its flag, before anything is written.
    for (flag, tag) in
        args.tag.iter().map(|tag| ("--tag", tag)).chain(args.untag.iter().map(|tag| ("--untag", tag)))
    {
        Notes::check_tag(tag).map_err(|error| {
            let failure = Failure::usage(format!("{flag}: {error}"));
            error.hint().map_or(failure.clone(), |hint| failure.hint(hint))
        })?;
    }
    let is_edit = args.text.is_some() || !args.tag.is_empty() || !args.untag.is_empty();
    let notes = match is_edit {
        false => Notes::load(&directory).map_err(LibraryError::Notes)?,
        true => Notes::edit(&directory, |notes| {
            if let Some(text) = &args.text {
                notes.text.clone_from(text);
            }
            notes.tags.extend(args.tag.iter().cloned());
            args.untag.iter().for_each(|tag| {
                notes.tags.remove(tag);
            });
        })
        .map_err(LibraryError::Notes)?,
    };
    console::print(&text(&directory, &notes))?;
    Ok(Exit::Done)
}

fn text(directory: &Path, notes: &Notes) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    if notes.is_empty() {
        return format!("{name}: no note\n");
    }
    let tags: Vec<&str> = notes.tags.iter().map(String::as_str).collect();
    let mut out = format!("{name}\n");
    if !tags.is_empty() {
        out += &format!("tags     {}\n", tags.join(", "));
    }
    out += &format!("updated  {}\n", notes.updated);
    if !notes.text.is_empty() {
        out += &format!("\n{}\n", notes.text.trim_end());
    }
    out
}
