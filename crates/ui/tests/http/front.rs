//! A front on a free port.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use webstone_model::spec::RunSpec;
use webstone_model::toml_text;
use webstone_ui::{Bound, Desk, KnownServer, Options, Planned, Problem};

use crate::asker::Asker;

/// Stands in for the command line: it accepts any testbed that is TOML of a specification.
pub(crate) struct Plain;

impl Desk for Plain {
    fn plan(&self, _: &str, text: &str) -> Result<Planned, Problem> {
        match toml_text::read::<RunSpec>(text) {
            Ok(spec) => {
                Ok(Planned { spec, cells: Vec::new(), rounds: 0, warnings: Vec::new(), command_line: None })
            }
            Err(error) => {
                Err(Problem { line: Some(error.line(text)), message: error.rule, ..Problem::default() })
            }
        }
    }

    fn servers(&self) -> Vec<KnownServer> {
        vec![KnownServer { name: "reference", installed: Some("webstone".to_owned()), hint: String::new() }]
    }

    fn workloads(&self) -> Vec<(String, String)> {
        vec![("standard".to_owned(), "five files".to_owned())]
    }

    fn calibration(&self) -> Option<String> {
        None
    }

    fn version(&self) -> String {
        "webstone 0".to_owned()
    }
}

/// A front that runs until it is dropped.
pub(crate) struct Running {
    asker: Asker,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(runs_dir: &Path, program: PathBuf, read_only: bool) -> Running {
        let options = Options {
            port: 0,
            runs_dir: runs_dir.to_owned(),
            program,
            read_only,
            allow_commands: false,
            until_idle: false,
        };
        let bound = Bound::new(options, Arc::new(Plain)).unwrap();
        let (asker, ends) = (Asker::to(bound.url()), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || bound.serve(|| is_over.load(Ordering::Relaxed)).unwrap());
        Running { asker, ends, thread: Some(thread) }
    }
}

impl Deref for Running {
    type Target = Asker;

    fn deref(&self) -> &Asker {
        &self.asker
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}
