//! Which powers of a testbed a front uses for anyone who has its token. What they are, [`webstone_model::powers`] says.

use webstone_model::powers::{self, Power};
use webstone_model::shown::quoted;
use webstone_model::spec::RunSpec;

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
