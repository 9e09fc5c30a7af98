//! lighttpd and its handlers: CGI, FastCGI, SCGI and uwsgi, and as a proxy.

use webstone_model::spec::Interface;

use super::super::Site;
use super::{CGI_PROGRAM, PATH, socket};

/// Modules that an interface needs besides those of files.
pub(in super::super) fn modules(site: &Site) -> &'static [&'static str] {
    match site.spec.interface {
        Some(Interface::Cgi) => &["alias", "cgi"],
        Some(Interface::Fastcgi) => &["fastcgi"],
        Some(Interface::PhpFpm) => &["alias", "fastcgi"],
        Some(Interface::Scgi | Interface::Uwsgi) => &["scgi"],
        Some(Interface::Asgi | Interface::Node) => &["proxy"],
        _ => &[],
    }
}

/// The handler's part of the configuration.
pub(in super::super) fn part(site: &Site) -> String {
    let socket = socket(site);
    let behind = |directive: &str, of: &str, more: &str| {
        format!("{directive} = ( \"{of}\" => (( \"socket\" => \"{socket}\"{more} )) )\n")
    };
    // There is no such file, and need not be.
    let no_file = ", \"check-local\" => \"disable\"";
    match site.spec.interface {
        Some(Interface::Cgi) => format!(
            "alias.url = ( \"{PATH}\" => \"{0}\" )\n# Started by itself, without an interpreter.\ncgi.assign = ( \"{CGI_PROGRAM}\" => \"\" )\n",
            site.at(CGI_PROGRAM)
        ),
        Some(Interface::Fastcgi) => behind("fastcgi.server", PATH, no_file),
        Some(Interface::PhpFpm) => {
            format!("alias.url = ( \"{PATH}\" => \"{}\" )\n", site.at("send.php"))
                + &behind("fastcgi.server", ".php", "")
        }
        Some(Interface::Scgi) => behind("scgi.server", PATH, no_file),
        Some(Interface::Uwsgi) => behind("scgi.server", PATH, no_file) + "scgi.protocol = \"uwsgi\"\n",
        Some(Interface::Asgi | Interface::Node) => behind("proxy.server", PATH, ""),
        _ => String::new(),
    }
}
