//! The directory that a server runs in: its configuration, its files, its logs. It lies in the system's directory for
//! temporary files, because the user that a server runs as may not look into the one that runs are kept in; what a reader
//! needs of it is copied into the record. It is removed with the server, by the supervisor where webstone cannot.
//!
//! webstone may run as root, and the server's user must not gain from that: everything that webstone writes or reads lies where
//! that user cannot write. Logs, sockets and temporary files of the server go into one directory of its own inside,
//! which webstone only reads, without following links (`plain_file`).

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use webstone_workload::Workload;
use webstone_workload::content::file_path;

use crate::fileset::{self, FilesetError, FilesetOptions};
use crate::machine::Root;
use webstone_store::scratch::Scratch;

/// Name of the directory of files.
const FILES: &str = "files";
/// Name of the directory that belongs to the server's user.
pub(super) const OWN: &str = "own";

/// A user that a server runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// Its name.
    pub(crate) name: String,
    /// Its number.
    pub(crate) id: u32,
    /// Its group's number.
    pub(crate) group: u32,
}

/// Users without rights on usual systems, the likeliest first.
const USERS: [&str; 4] = ["www-data", "http", "apache", "nobody"];

/// The user that a server shall run as: `None` where webstone itself has no more rights than that.
pub(crate) fn user(root: &Root) -> Option<User> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let text = root.text("/etc/passwd").unwrap_or_default();
    let of_name = |name: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut fields = line.split(':').skip(1);
        let mut number = || fields.next()?.parse::<u32>().ok();
        Some(User { name: (*name).to_owned(), id: number()?, group: number()? })
    };
    USERS.iter().find_map(of_name)
}

/// The directory, made; removed when dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    held: Scratch,
}

impl Directory {
    /// Makes it, for a user. `webstone` is this program's executable, which removes it where this process cannot.
    pub(crate) fn create(user: Option<&User>, webstone: &Path) -> io::Result<Directory> {
        let held = Scratch::create("server", webstone)?;
        let own = held.path().join(OWN);
        fs::DirBuilder::new().mode(0o700).create(&own)?;
        // For the server's user and this one alone: a log has the URLs of requests, with whatever secrets are in their queries.
        fs::set_permissions(&own, fs::Permissions::from_mode(0o750))?;
        // No other user can enter the directory above yet.
        if let Some(user) = user {
            chown(&own, Some(user.id), None)?;
        }
        fs::set_permissions(held.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Directory { held })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.held.path()
    }

    /// Writes the workload's files into it, readable for everybody, and gives the directory that they are in with their
    /// paths below it. A workload without files to serve gets an empty one.
    pub(crate) fn files(&self, workload: &Workload) -> Result<(PathBuf, Vec<String>), FilesetError> {
        let root = self.path().join(FILES);
        let io = |source| FilesetError::Io { action: "create the directory", path: root.clone(), source };
        fs::create_dir_all(&root).map_err(io)?;
        match fileset::generate(workload, &root, &FilesetOptions::default()) {
            Ok(_) | Err(FilesetError::Empty { .. }) => {}
            Err(error) => return Err(error),
        }
        readable(&root).map_err(io)?;
        let all =
            workload.pages.iter().flat_map(|page| &page.files).map(|file| file_path(&file.url).into_owned());
        let mut files: Vec<String> = all
            .map(|path| path.trim_start_matches('/').to_owned())
            .filter(|path| root.join(path).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok((root, files))
    }

    /// Provides a program under a name: linked where that is possible, because the user that the server runs as may not
    /// look into the directory where it is; copied otherwise.
    pub(crate) fn executable(&self, program: &Path, name: &str) -> io::Result<()> {
        let path = self.path().join(name);
        // A link keeps the program's mode: a program that not everybody may run must stay so.
        let is_for_all = fs::metadata(program)?.permissions().mode() & 0o005 == 0o005;
        if is_for_all && fs::hard_link(program, &path).is_ok() {
            return Ok(());
        }
        fs::copy(program, &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
    }

    /// Writes a file that only the server's user and this one may read, as [`Directory::write`] does.
    pub(crate) fn write_private(&self, name: &str, text: &str, user: Option<&User>) -> io::Result<()> {
        let path = self.path().join(name);
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        if let Some(user) = user {
            std::os::unix::fs::fchown(&file, None, Some(user.group))?;
            file.set_permissions(fs::Permissions::from_mode(0o640))?;
        }
        file.write_all(text.as_bytes())
    }

    /// Writes a file that the server reads. It must not be there yet: neither a file nor a link is written through.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path().join(name);
        let mut file = fs::File::options().write(true).create_new(true).mode(0o644).open(&path)?;
        file.write_all(text.as_bytes())?;
        // Whatever the umask is.
        file.set_permissions(fs::Permissions::from_mode(0o644))
    }
}

/// Whatever the umask is, the server's user may read.
fn readable(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => readable(&entry.path())?,
            false => fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?,
        }
    }
    Ok(())
}

/// Whether a path can be written into six servers' configurations unchanged: blanks and quotes are special in each of them.
pub(crate) fn is_plain(path: &str) -> bool {
    path.chars().all(|c| c.is_alphanumeric() || "/._-+@%,=~".contains(c))
}

/// The address to listen on, with a free port where none is named.
pub(crate) fn address(listen: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = listen.trim().parse().map_err(|_| {
        format!("`{listen}` is not an address with a port: write it as in 127.0.0.1:0 or [::1]:8080")
    })?;
    if address.port() != 0 {
        return Ok(address);
    }
    // Free now; if another process takes it before the server does, the caller tries again.
    TcpListener::bind(address)
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no port is free on {}: {error}", address.ip()))
}

/// The address to listen on over TLS, besides `first`: a free port is never that one's, though the server has not taken it yet.
pub(crate) fn second_address(listen: &str, first: SocketAddr) -> Result<SocketAddr, String> {
    // Held while another is asked for.
    let _held = TcpListener::bind(first).ok();
    match address(listen)? {
        same if same == first => Err(format!("`{listen}` is where the server listens without TLS")),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;
    use webstone_workload::builtin;

    #[test]
    fn the_files_are_there_for_everybody() {
        let directory = Directory::create(None, Path::new("/bin/true")).unwrap();
        let (root, files) = directory.files(&builtin("standard").unwrap()).unwrap();
        assert_eq!(files, ["file500.html", "file500k.html", "file50k.html", "file5k.html", "file5m.html"]);
        let found = root.join("file5k.html").metadata().unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (5125, 0o644));
        let path = directory.path().to_owned();
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn a_program_keeps_its_mode() {
        let place = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let program = place.path().join("program");
        fs::write(&program, "x").unwrap();
        let directory = Directory::create(None, Path::new("/bin/true")).unwrap();
        for (mode, name) in [(0o700, "a"), (0o750, "b"), (0o755, "c")] {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            directory.executable(&program, name).unwrap();
            let mode_of = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode_of(&program), mode_of(&directory.path().join(name))), (mode, 0o755));
        }
    }

    #[test]
    fn the_servers_user_can_write_into_one_directory_alone() {
        use std::os::unix::fs::MetadataExt;
        // Where this is no privileged process, both are its own user's.
        let me = rustix::process::geteuid();
        let user = me.is_root().then(|| User { name: "nobody".into(), id: 65_534, group: 65_534 });
        let directory = Directory::create(user.as_ref(), Path::new("/bin/true")).unwrap();
        directory.write("x.conf", "x").unwrap();
        assert!(directory.write("x.conf", "y").is_err(), "what is there is not written through");
        std::os::unix::fs::symlink("/nonexistent/target", directory.path().join("y.conf")).unwrap();
        directory.write_private("tls.key", "secret", user.as_ref()).unwrap();
        let key = fs::metadata(directory.path().join("tls.key")).unwrap();
        assert_eq!(
            (key.uid(), key.mode() & 0o777),
            (me.as_raw(), if user.is_some() { 0o640 } else { 0o600 })
        );
        assert_eq!(key.gid(), user.as_ref().map_or(rustix::process::getegid().as_raw(), |user| user.group));
        assert!(directory.write("y.conf", "y").is_err(), "nor is a link");
        for (name, owner) in
            [(".", me.as_raw()), ("x.conf", me.as_raw()), (OWN, user.map_or(me.as_raw(), |u| u.id))]
        {
            let found = fs::metadata(directory.path().join(name)).unwrap();
            assert_eq!((found.uid(), found.mode() & 0o022), (owner, 0), "{name}");
        }
        assert_eq!(fs::metadata(directory.path().join(OWN)).unwrap().mode() & 0o007, 0, "logs have queries");
    }

    #[test]
    fn the_user_is_one_without_rights() {
        let (_keep, root) = root_with(&[(
            "/etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\nwww-data:x:33:34:w:/var/www:/bin/false\n",
        )]);
        let expected = rustix::process::geteuid().is_root();
        let found = user(&root);
        assert_eq!(found, expected.then(|| User { name: "www-data".into(), id: 33, group: 34 }));
    }

    #[test]
    fn a_second_address_is_another_one() {
        let first = address("127.0.0.1:0").unwrap();
        assert_ne!(second_address("127.0.0.1:0", first).unwrap().port(), first.port());
        let told = second_address(&first.to_string(), first).unwrap_err();
        assert_eq!(told, format!("`{first}` is where the server listens without TLS"));
    }

    #[test]
    fn addresses_are_one_address_and_a_port() {
        assert_eq!(address("127.0.0.1:8080").unwrap().port(), 8080);
        assert_ne!(address("127.0.0.1:0").unwrap().port(), 0);
        assert!(address("[::1]:1").unwrap().is_ipv6());
        for text in ["localhost:80", "127.0.0.1", "127.0.0.1:1,127.0.0.1:2", "unix:/x"] {
            assert!(address(text).unwrap_err().contains("write it as in"), "{text}");
        }
        assert!(is_plain("/tmp/a-b.c") && !is_plain("/tmp/a b") && !is_plain("/tmp/\"x"));
    }
}
