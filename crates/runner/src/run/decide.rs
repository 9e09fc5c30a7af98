//! What the target decides before the load, where that is left to it: the version of HTTP (`auto`), and where redirects lead.

use tracing::info;
use webstone_lab::fetch::ByProbe;
use webstone_lab::interrupt::Interrupt;
use webstone_model::event::Event;
use webstone_model::spec::HttpVersion;
use webstone_store::redaction;

use super::RunError;
use super::prepare::{RunBrief, Served, go_on, preparing};
use crate::observer::Observer;
use crate::preflight::patience::{LastAsked, SILENCE_MAX, Watched};
use crate::preflight::target::{Destinations, TargetFacts};
use crate::preflight::{redirects, version};
use crate::waiting;

/// Asks the target for what it decides, if that is asked for: the version of HTTP, and where redirects lead.
pub(crate) fn decide(
    asked: &mut RunBrief,
    facts: &mut TargetFacts,
    served: &mut Served,
    is_allowed: bool,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<(), RunError> {
    if asked.effective.client.http == HttpVersion::Auto {
        choose_version(asked, facts, served, is_allowed, observer)?;
        go_on(interrupt)?;
    }
    if asked.effective.client.follow > 0 {
        follow(asked, served, is_allowed, observer, interrupt)?;
    }
    Ok(())
}

/// Asks which version of HTTP the run has, also if other hosts make the load: all of them have the same.
fn choose_version(
    asked: &mut RunBrief,
    facts: &mut TargetFacts,
    served: &mut Served,
    is_allowed: bool,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    if !is_allowed {
        return Err(RunError::Refused {
            what: "client.http: `auto` is decided by the check before the load, which is left out".to_owned(),
            hint: "leave out --no-check, or name a version with client.http".to_owned(),
        });
    }
    observer.event(&preparing("asking which version of HTTP the target offers"));
    let paths = served.destinations.paths(&asked.effective.client, &asked.workload)?;
    let chosen = version::choose(&asked.effective.client, paths, &version::by_probe)?;
    info!(why = chosen.why, "preflight: the version of HTTP is chosen");
    observer.event(&preparing(&chosen.why));
    for spec in [&mut asked.spec, &mut asked.effective] {
        spec.client.http = chosen.http;
        spec.client.connect_to.splice(0..0, chosen.connect_to.iter().cloned());
    }
    facts.http = Some(chosen.why);
    served.destinations = Destinations::of_spec(&asked.effective, &asked.workload)?;
    Ok(())
}

/// Asks where redirects lead, also if other hosts make the load: the workload that they get has the steps.
fn follow(
    asked: &mut RunBrief,
    served: &mut Served,
    is_allowed: bool,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<(), RunError> {
    if !is_allowed {
        return Err(RunError::Refused {
            what: "client.follow: redirects are found by the check before the load, which is left out"
                .to_owned(),
            hint: "leave out --no-check or client.follow".to_owned(),
        });
    }
    observer.event(&preparing("asking where redirects lead"));
    let RunBrief { effective, workload, warnings, .. } = asked;
    let fetch = ByProbe::like(&effective.client);
    let last = LastAsked::new(served.destinations.first());
    let targets = served.destinations.targets().to_vec();
    let ask = || {
        redirects::follow(effective, workload, &targets, &Watched { fetch: &fetch, last: &last }, interrupt)
    };
    let say = || {
        let what = format!("following {} …", redaction::text(&last.url()).text);
        observer.event(&Event::Waiting { what });
    };
    let found = waiting::saying_after(SILENCE_MAX, ask, say)?;
    go_on(interrupt)?;
    info!(followed = found.followed, unasked = found.unasked, "preflight: redirects are found");
    if found.unasked > 0 {
        warnings.push(format!(
            "the redirects of {} of the workload's requests are not followed: only GET and HEAD without templates in the URL are \
             asked where they lead",
            found.unasked
        ));
    }
    served.destinations = Destinations::of_spec(effective, workload)?;
    Ok(())
}
