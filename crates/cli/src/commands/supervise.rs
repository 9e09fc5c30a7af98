//! `webstone supervise`: guards a directory; started by `store::scratch`. Not for people.

use webstone_store::scratch::guard;

use crate::args::SuperviseArgs;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &SuperviseArgs) -> Result<Exit, Failure> {
    let directory = &args.remove;
    guard(directory)
        .map(|()| Exit::Done)
        .map_err(|error| Failure::failed(format!("cannot remove {}: {error}", directory.display())))
}
