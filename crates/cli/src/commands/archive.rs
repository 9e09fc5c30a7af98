//! `webstone archive`: a record as one file.

use std::path::{Path, PathBuf};

use webstone_store::certify::archive::{ArchiveError, Form, write};

use super::records;
use crate::args::ArchiveArgs;
use crate::console::Console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &ArchiveArgs, console: &Console) -> Result<Exit, Failure> {
    let directory = records::locate(&args.run, None)?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => {
            let whole = directory.canonicalize().unwrap_or_else(|_| directory.clone());
            let mut name = whole.file_name().unwrap_or(whole.as_os_str()).to_owned();
            name.push(".tar.gz");
            PathBuf::from(name)
        }
    };
    make(&directory, &output, console)?;
    Ok(Exit::Done)
}

/// Writes the archive and prints a note.
pub(super) fn make(directory: &Path, output: &Path, console: &Console) -> Result<(), Failure> {
    let form = form_of(output)?;
    write(directory, output, form).map_err(|error| failure(&error))?;
    console.note(format!("archive: {}", output.display()));
    Ok(())
}

/// The format of an archive, by the name of the file to be written.
pub(super) fn form_of(output: &Path) -> Result<Form, Failure> {
    Form::of_name(output).ok_or_else(|| {
        Failure::usage(format!("the archive {}: its name has no known ending", output.display()))
            .hint("end it in .tar.gz or .zip")
    })
}

pub(super) fn failure(error: &ArchiveError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        ArchiveError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            failure.hint("an archive is never overwritten: remove it, or name another file")
        }
        ArchiveError::Content { .. } => {
            failure.hint("give a directory below runs/, or an archive made by `webstone archive`")
        }
        ArchiveError::Io { .. } => failure,
    }
}
