//! Flags of gates (thresholds, conditions on changes), and the arguments of `compare`.

use std::path::PathBuf;

use clap::Args;
use webstone_judge::comparison::FailWhen;
use webstone_judge::verdict::Standing;
use webstone_measure::metric::Metric;
use webstone_model::threshold::{FailIfs, Thresholds};
use webstone_report::{Format, Subject};

use super::values;

/// Limits that measured values must keep.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Thresholds")]
pub struct ThresholdArgs {
    /// A limit that every level must keep, as in k6; exit code 3 if one fails. Repeatable
    #[arg(long = "threshold", value_name = "CONDITION", long_help = threshold_help())]
    pub threshold: Vec<Thresholds>,
}

/// What the verdict must be.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Thresholds")]
pub struct VerdictArgs {
    /// The worst verdict that passes: valid, sound or noisy; anything below gives exit code 4
    ///
    /// Default: noisy. Example: --require sound
    #[arg(long, value_name = "VERDICT", value_parser = values::required(), hide_possible_values = true)]
    pub require: Option<Standing>,
}

impl VerdictArgs {
    /// The worst that passes.
    pub fn worst(&self) -> Standing {
        self.require.unwrap_or(Standing::Noisy)
    }
}

/// The figures in conditions come from the table of figures.
fn threshold_help() -> String {
    let figures: Vec<String> =
        Metric::names().into_iter().map(|(name, what)| format!("{name} ({what})")).collect();
    format!(
        "A limit that every level must keep, as in k6; exit code 3 if one fails. Repeatable\n\n\
         A figure, <, <=, > or >=, and a limit with its unit; several are separated by commas. Figures: {}. {{clients:40}} \
         after the figure selects a level.\n\n\
         Default: none. Example: --threshold 'p(99)<50ms,errors<0.1%' --threshold 'rate{{clients:40}}>10k'",
        figures.join(", ")
    )
}

/// `webstone compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Runs to compare, the first being the baseline: directories, their record.json, names (the newest run of that
    /// --name), `last` or `last~1`
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// Text report: every figure of every level, not only those that changed
    #[arg(long)]
    pub full: bool,

    /// The noise floor: a percentage, or a run made with --aa
    ///
    /// A change counts when its whole interval lies beyond the floor. Default: the difference between the arms of runs made with
    /// --aa; otherwise the standard error of the mean over iterations.
    ///
    /// Default: from the runs themselves. Example: --noise-floor 2%
    #[arg(long, value_name = "PERCENT|RUN")]
    pub noise_floor: Option<PathBuf>,

    /// Fail (exit code 3) if a figure changes like this. Repeatable
    ///
    /// A figure as for --threshold, <, <=, > or >=, and a change against the baseline in percent; of errors, in percentage
    /// points (pp). Several are separated by commas. {clients:40} after the figure selects a level.
    ///
    /// Default: none. Example: --fail-if 'rate<-3%' --fail-if 'p(99)>+10%,errors>+0.1pp'
    #[arg(long, value_name = "CONDITION", help_heading = "Thresholds")]
    pub fail_if: Vec<FailIfs>,

    /// When a condition of --fail-if fails
    ///
    /// Default: shown. Example: --fail-when possible
    #[arg(long, value_name = "WHEN", help_heading = "Thresholds", value_parser = values::fail_when())]
    pub fail_when: Option<FailWhen>,

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,

    /// Compare runs that are not comparable; the differences are listed
    #[arg(long, help_heading = "Comparison")]
    pub force: bool,

    /// Format of the comparison
    ///
    /// Default: by the ending of the file of -o (html, md, json), else text. Example: --format markdown
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_parser = values::format_of(Subject::Comparison))]
    pub format: Option<Format>,

    /// Write the comparison to a file instead of standard output
    ///
    /// Default: standard output. Example: -o comparison.html
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Directory with the records of runs, for those that are given by name
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub runs_dir: Option<PathBuf>,
}
