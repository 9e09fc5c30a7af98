//! Apache httpd and its handlers: CGI, FastCGI, SCGI and uwsgi (mod_proxy's schemes), a module in C, Lua, and as a proxy.

use webstone_model::spec::Interface;

use super::super::Site;
use super::{CGI_PROGRAM, PATH, socket};

/// Modules that an interface needs besides those of files.
pub(in super::super) fn modules(site: &Site, prefork: bool) -> &'static [&'static str] {
    match site.spec.interface {
        None => &[],
        // As Debian's a2enmod chooses: threads cannot fork safely, so a daemon does it for them.
        Some(Interface::Cgi) if prefork => &["alias", "cgi"],
        Some(Interface::Cgi) => &["alias", "cgid"],
        Some(Interface::Fastcgi) => &["proxy", "proxy_fcgi"],
        Some(Interface::PhpFpm) => &["alias", "proxy", "proxy_fcgi"],
        Some(Interface::Scgi) => &["proxy", "proxy_scgi"],
        Some(Interface::Uwsgi) => &["proxy", "proxy_uwsgi"],
        Some(Interface::Lua) => &["lua"],
        Some(Interface::Asgi | Interface::Node) => &["proxy", "proxy_http"],
        Some(Interface::Native | Interface::Persistent | Interface::Module | Interface::Njs) => &[],
    }
}

/// The handler's part of the configuration.
pub(in super::super) fn part(site: &Site, prefork: bool) -> String {
    let Some(interface) = site.spec.interface else { return String::new() };
    let socket = socket(site);
    // A connection for each thread; by default each request makes one.
    let reuse = if site.is_tuned() { " enablereuse=on" } else { "" };
    let proxied = |scheme: &str, path: &str| {
        let why = if site.is_tuned() { "# Connections to the handler are kept.\n" } else { "" };
        format!("{why}ProxyPass {PATH} \"unix:{socket}|{scheme}://localhost{path}\"{reuse}\n")
    };
    let own = match interface {
        Interface::Cgi => {
            let daemon = match prefork {
                true => String::new(),
                false => format!("ScriptSock {}\n", site.own("cgid.socket")),
            };
            format!("{daemon}ScriptAlias {PATH} {}\n", site.at(CGI_PROGRAM))
        }
        Interface::Fastcgi => proxied("fcgi", PATH),
        Interface::PhpFpm => format!("Alias {PATH} {}\n", site.at("send.php")),
        Interface::Scgi => proxied("scgi", PATH),
        Interface::Uwsgi => proxied("uwsgi", PATH),
        Interface::Lua => {
            let tuned = "# The script is compiled once, and kept by each thread.\nLuaCodeCache forever\nLuaScope thread\n";
            let cache = if site.is_tuned() { tuned } else { "" };
            format!("{cache}LuaMapHandler ^{PATH}$ {} handle\n", site.at("send.lua"))
        }
        Interface::Module => {
            format!("LoadModule webstone_send_module {}\n", site.at(".libs/mod_webstone_send.so"))
        }
        Interface::Asgi | Interface::Node => proxied("http", PATH),
        Interface::Native | Interface::Persistent | Interface::Njs => String::new(),
    };
    let handler = match interface {
        Interface::PhpFpm => format!("    SetHandler \"proxy:unix:{socket}|fcgi://localhost\"\n"),
        Interface::Module => "    SetHandler webstone-send\n".to_owned(),
        _ => String::new(),
    };
    format!("{own}<Location {PATH}>\n{handler}    Require all granted\n</Location>\n")
}
