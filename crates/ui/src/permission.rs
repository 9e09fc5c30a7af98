//! Which powers of a testbed a front grants to holders of its token; they are defined in [`webstone_model::powers`].

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use webstone_measure::shown::quoted;
use webstone_model::powers::{self, Power};
use webstone_model::spec::RunSpec;
use webstone_store::plain_file;

use crate::Options;
use crate::desk::Problem;

impl Options {
    /// What testbeds may do.
    pub(crate) fn granted(&self) -> &'static [Power] {
        if self.allow_commands { &Power::ALL } else { &Power::OF_FRONTS }
    }
}

/// What a testbed may not do here.
pub(crate) fn refusal(spec: &RunSpec, granted: &[Power]) -> Option<Problem> {
    let asked = powers::refused(spec, granted)?;
    let message = format!(
        "{}: it {} {}, which this front does not allow",
        asked.key,
        asked.power.in_words(),
        quoted(&asked.value)
    );
    Some(Problem {
        key: Some(asked.key.to_owned()),
        line: None,
        message,
        hint: Some("start the front with --allow-commands, or run the testbed in a terminal".to_owned()),
    })
}

/// Why a file in the directory of runs may change after a check: another user could write it, or put something else in its place. `None`:
/// nobody could.
///
/// # Errors
/// If a folder on the path cannot be read.
pub(crate) fn may_change(runs_dir: &Path, file: &Path) -> io::Result<Option<Problem>> {
    for path in file.ancestors().take_while(|path| path.starts_with(runs_dir)) {
        let found = path.symlink_metadata()?;
        // Where the sticky bit is set, as on /tmp, nobody renames what belongs to somebody else.
        let is_sticky = found.mode() & 0o1000 != 0;
        let Some(whose) = plain_file::others_hand(&found).filter(|_| !is_sticky) else { continue };
        let message = format!("{} {whose}, so it could change after this check", path.display());
        let hint = "start the front with --allow-commands, or resume the series in a terminal".to_owned();
        return Ok(Some(Problem { key: None, line: None, message, hint: Some(hint) }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_can_write_or_replace_may_change() {
        let runs = tempfile::tempdir().unwrap();
        let series = runs.path().join("series");
        let file = series.join("series.json");
        create_dir(&series).unwrap();
        write(&file, "").unwrap();
        for (path, mode, changes) in [
            (&file, 0o644, false),
            (&file, 0o666, true),
            (&series, 0o777, true),
            (&series, 0o1777, false),
            (&runs.path().to_owned(), 0o777, true),
        ] {
            let before = path.metadata().unwrap().permissions();
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let found = may_change(runs.path(), &file).unwrap();
            assert_eq!(found.is_some(), changes, "{path:?} {mode:o}: {found:?}");
            set_permissions(path, before).unwrap();
        }
        assert!(may_change(runs.path(), &series.join("nothing")).is_err());
    }
}
