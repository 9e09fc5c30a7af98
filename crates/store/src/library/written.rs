//! How the library writes: under a name of its own in the same directory, then renamed. Readers see the old content or the new, and each of
//! two writers leaves a whole file. [`crate::replace`] cannot promise that: its writers share one temporary name.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What the temporary name begins and ends with.
const BEGIN: &str = ".writing-";
const END: &str = ".tmp";
/// Age from which on a temporary file is one that a killed writer left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Writes a file as a whole.
pub(super) fn write_beside(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(BEGIN)
        .suffix(END)
        // Less the umask, as for any file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Removes what killed writers left behind. What cannot be removed stays.
pub(super) fn tidy(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(BEGIN) && name.ends_with(END));
        let is_old = || {
            let changed = entry.metadata().and_then(|found| found.modified());
            changed
                .is_ok_and(|then| SystemTime::now().duration_since(then).is_ok_and(|age| age > LEFT_BEHIND))
        };
        if is_ours && is_old() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
