//! What a workload asks of the handler `send` that not every interface has: an answer with a ready-made head.

use webstone_model::spec::{Interface, RunSpec};
use webstone_workload::Workload;

use super::SpecError;

/// Whether a workload asks the handler for answers with a ready-made head.
pub(crate) fn asks_for_ready_heads(workload: &Workload) -> bool {
    let mut files = workload.pages.iter().flat_map(|page| &page.files);
    files.any(|file| {
        let (path, query) = file.url.split_once('?').unwrap_or_default();
        path.ends_with("/send") && query.split('&').any(|word| word == "head=ready")
    })
}

/// Whether an interface has such answers. The handlers of others would not notice that they are asked for one.
pub(crate) fn has_ready_heads(interface: Option<Interface>) -> bool {
    interface == Some(Interface::Module)
}

/// Refuses a workload that asks a server of ours for ready-made heads that it cannot give.
pub(crate) fn ready_heads(spec: &RunSpec, workload: &Workload) -> Result<(), SpecError> {
    if !spec.target.is_empty() || has_ready_heads(spec.server.interface) || !asks_for_ready_heads(workload) {
        return Ok(());
    }
    Err(SpecError::value(
        "workload",
        &workload.name,
        "a workload for answers with a ready-made head (`head = \"ready\"`), which only a module within the server has",
        "set server.interface to module, with apache or apache-prefork, or leave `head` out of the workload",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::units::Nanos;
    use webstone_workload::{FileRequest, Page};

    fn workload(url: &str) -> Workload {
        let files = vec![FileRequest { url: url.into(), ..FileRequest::default() }];
        let pages = vec![Page { weight: 1, files, think: Nanos::ZERO }];
        Workload { name: "w".into(), pages, ..Workload::default() }
    }

    #[test]
    fn a_ready_made_head_is_a_modules_alone() {
        let refused = |url: &str, interface| {
            let mut spec = RunSpec::default();
            spec.server.interface = interface;
            ready_heads(&spec, &workload(url)).err().map(|error| error.to_string())
        };
        let ready = "/send?size=7&fill=none&head=ready";
        let said = refused(ready, Some(Interface::Cgi)).unwrap();
        assert!(said.starts_with("workload: `w` is a workload for answers with a ready-made head"), "{said}");
        assert!(refused(ready, None).is_some());
        assert_eq!(refused(ready, Some(Interface::Module)), None);
        for other in ["/send?size=7&head=built", "/send?size=7", "/x?head=ready", "/head=ready"] {
            assert_eq!(refused(other, Some(Interface::Cgi)), None, "{other}");
        }
        let elsewhere = RunSpec { target: vec!["http://192.0.2.1".into()], ..RunSpec::default() };
        assert_eq!(ready_heads(&elsewhere, &workload(ready)), Ok(()), "what is there is not known");
    }
}
