//! Interfaces between servers and the handler `send`: what each needs of the system, the processes of the handler, and the
//! handlers' sources. The configuration of each server is in a file of its own.
//!
//! Every handler keeps the contract of `webstone_server`'s own (`size`, `writes`, `fill`). Behind CGI, FastCGI, SCGI and uwsgi
//! it is webstone's executable itself (`webstone respond`), so that only the interface differs.

pub(super) mod apache;
pub(super) mod lighttpd;
pub(super) mod nginx;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use webstone_model::spec::{Interface, ServerSpec, Software};

use super::program::{Lack, for_servers, on_path};
use super::runnable::{self, Unusable};
use super::{ERROR_LOG, Refusal, Setup, Site};

/// Path of the handler.
pub(super) const PATH: &str = "/send";
/// Name of webstone's executable in the server's directory, as a responder.
pub(super) const RESPONDER: &str = "webstone";
/// The same as a CGI program: it recognises the role by this name.
pub(super) const CGI_PROGRAM: &str = "send.cgi";
/// Where Debian has nginx's modules.
pub(super) const NGINX_MODULES: &str = "/usr/lib/nginx/modules";

/// A process that answers for the server (PHP-FPM, a responder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// Its program and arguments.
    pub words: Vec<OsString>,
    /// The socket that is there when it is ready.
    pub socket: PathBuf,
}

/// Something that an interface needs of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Programs of which one must be there, or whole paths of a file.
    pub any_of: &'static [&'static str],
    /// Debian's package.
    pub package: &'static str,
}

/// Something that an interface needs and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Debian's package.
    pub package: &'static str,
    /// The part that exists and cannot be used; `None` if nothing exists.
    pub unusable: Option<Unusable>,
}

impl Lacking {
    /// `what nginx needs for it is not installed`.
    pub fn sentence(&self, software: Software) -> String {
        match &self.unusable {
            None => format!("what {} needs for it is not installed", software.name()),
            Some(unusable) => format!("what {} needs for it cannot be run: {unusable}", software.name()),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self.unusable {
            None => format!("install it (Debian: apt-get install {})", self.package),
            Some(_) => Unusable::HINT.to_owned(),
        }
    }
}

impl Need {
    /// Where it is.
    fn found(self) -> Option<PathBuf> {
        self.sought().ok()
    }

    fn sought(self) -> Result<PathBuf, Lacking> {
        let lacking = |unusable| Lacking { package: self.package, unusable };
        if self == APXS {
            // webstone itself runs it, before the server is started.
            return self.any_of.iter().find_map(|name| on_path(name)).ok_or(lacking(None));
        }
        if let Some(file) = self.any_of.iter().map(Path::new).find(|path| path.is_absolute()) {
            if !file.is_file() {
                return Err(lacking(None));
            }
            return runnable::reads(file).map(|()| file.to_owned()).map_err(|it| lacking(Some(it)));
        }
        let found = for_servers(self.any_of).map_err(|lack| match lack {
            Lack::Missing => lacking(None),
            Lack::Unusable(unusable) => lacking(Some(unusable)),
        })?;
        if self == UVICORN {
            runnable::starts(&found).map_err(|unusable| lacking(Some(unusable)))?;
        }
        Ok(found)
    }
}

const FCGIWRAP: Need = Need { any_of: &["fcgiwrap"], package: "fcgiwrap" };
const PHP_FPM: Need =
    Need { any_of: &["php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm"], package: "php-fpm" };
const UVICORN: Need = Need { any_of: &["uvicorn"], package: "uvicorn" };
const NODE: Need = Need { any_of: &["node", "nodejs"], package: "nodejs" };
const APXS: Need = Need { any_of: &["apxs", "apxs2"], package: "apache2-dev" };
const NGINX_LUA: Need =
    Need { any_of: &["/usr/lib/nginx/modules/ngx_http_lua_module.so"], package: "libnginx-mod-http-lua" };
const NGINX_JS: Need =
    Need { any_of: &["/usr/lib/nginx/modules/ngx_http_js_module.so"], package: "libnginx-mod-http-js" };

/// The interfaces of a server.
pub fn of_software(software: Software) -> &'static [Interface] {
    use Interface::{Asgi, Cgi, Fastcgi, Lua, Module, Native, Njs, Node, Persistent, PhpFpm, Scgi, Uwsgi};
    match software {
        Software::Reference => &[Native, Cgi, Fastcgi, Persistent],
        Software::Nginx => &[Cgi, Fastcgi, PhpFpm, Scgi, Uwsgi, Lua, Njs, Asgi, Node],
        Software::Apache | Software::ApachePrefork => {
            &[Cgi, Fastcgi, PhpFpm, Scgi, Uwsgi, Module, Lua, Asgi, Node]
        }
        Software::Lighttpd => &[Cgi, Fastcgi, PhpFpm, Scgi, Uwsgi, Asgi, Node],
        _ => &[],
    }
}

/// What an interface of a server needs besides the server itself.
fn needs(software: Software, interface: Interface) -> &'static [Need] {
    match (software, interface) {
        (Software::Nginx, Interface::Cgi) => &[FCGIWRAP],
        (Software::Nginx, Interface::Lua) => &[NGINX_LUA],
        (Software::Nginx, Interface::Njs) => &[NGINX_JS],
        (_, Interface::PhpFpm) => &[PHP_FPM],
        (_, Interface::Module) => &[APXS],
        (_, Interface::Asgi) => &[UVICORN],
        (_, Interface::Node) => &[NODE],
        _ => &[],
    }
}

/// The first requirement of an interface that is not installed for servers.
pub fn missing(software: Software, interface: Interface) -> Option<Lacking> {
    needs(software, interface).iter().find_map(|need| need.sought().err())
}

/// Whether an interface has a fixed number of processes, or of request slots.
fn has_processes(software: Software, interface: Interface) -> bool {
    match interface {
        Interface::Native | Interface::Module | Interface::Lua | Interface::Njs => false,
        // Apache and lighttpd start as many as there are requests.
        Interface::Cgi => matches!(software, Software::Reference | Software::Nginx),
        _ => true,
    }
}

/// Most processes of a handler: a typing error must not start a hundred thousand.
const HANDLERS_MAX: u32 = 1_024;

/// Checks that a server has the interface of its specification.
pub(super) fn check(spec: &ServerSpec) -> Result<(), Refusal> {
    let name = spec.software.name();
    let Some(interface) = spec.interface else {
        return match spec.handlers {
            0 => Ok(()),
            handlers => Err(Refusal {
                what: format!(
                    "server.handlers: `{handlers}`: without an interface, {name} has no handler processes"
                ),
                hint: "choose an interface with server.interface; `webstone servers` lists them".to_owned(),
            }),
        };
    };
    let known = of_software(spec.software);
    if !known.contains(&interface) {
        let names: Vec<&str> = known.iter().map(|interface| interface.name()).collect();
        return Err(Refusal {
            what: format!("server.interface: `{interface}`: {name} has no such interface"),
            hint: match names.is_empty() {
                true => "remove it, or choose another server; `webstone servers` lists them".to_owned(),
                false => format!("{name} has {}", names.join(", ")),
            },
        });
    }
    if spec.handlers > 0 && !has_processes(spec.software, interface) {
        return Err(Refusal {
            what: format!(
                "server.handlers: `{}`: {name} has no handler processes with {interface}",
                spec.handlers
            ),
            hint: "remove it; server.threads sets the number of the server's own workers".to_owned(),
        });
    }
    if spec.handlers > HANDLERS_MAX {
        return Err(Refusal {
            what: format!("server.handlers: `{}` is more than {HANDLERS_MAX}, the limit", spec.handlers),
            hint: "give fewer; with 0, the default, it follows from the number of CPUs".to_owned(),
        });
    }
    match missing(spec.software, interface) {
        None => Ok(()),
        Some(lacking) => Err(Refusal {
            what: format!("server.interface: `{interface}`: {}", lacking.sentence(spec.software)),
            hint: lacking.hint(),
        }),
    }
}

/// A handler's source: its name in the server's directory, and its text.
fn source(software: Software, interface: Interface) -> Option<(&'static str, &'static str)> {
    Some(match (software, interface) {
        (_, Interface::PhpFpm) => ("send.php", include_str!("../handlers/send.php")),
        (_, Interface::Module) => ("mod_webstone_send.c", include_str!("../handlers/mod_webstone_send.c")),
        (Software::Nginx, Interface::Lua) => ("send.lua", include_str!("../handlers/send_nginx.lua")),
        (_, Interface::Lua) => ("send.lua", include_str!("../handlers/send_apache.lua")),
        (_, Interface::Njs) => ("send.js", include_str!("../handlers/send_njs.js")),
        (_, Interface::Asgi) => ("send_asgi.py", include_str!("../handlers/send_asgi.py")),
        (_, Interface::Node) => ("send_node.js", include_str!("../handlers/send_node.js")),
        _ => return None,
    })
}

/// Programs that start CGI processes without waiting for them, so that their CPU time is lost (wait(2), notes on SIGCHLD).
fn nobody_waits(software: Software) -> Option<&'static str> {
    match software {
        Software::Nginx => Some("fcgiwrap"),
        Software::Apache => Some("mod_cgid's daemon"),
        _ => None,
    }
}

/// Adds the handler to a setup: sources, programs, processes.
pub(super) fn equip(site: &Site, setup: &mut Setup) {
    let Some(interface) = site.spec.interface else { return };
    let software = site.spec.software;
    if let Some((name, text)) = source(software, interface) {
        setup.files.push((name.to_owned(), text.to_owned()));
    }
    let path = |need: Need| need.found().unwrap_or_else(|| PathBuf::from(need.any_of[0])).into_os_string();
    let handlers = site.handlers().to_string();
    let socket = socket(site);
    let unix = format!("unix:{socket}");
    let companion = |words: Vec<OsString>| vec![Companion { words, socket: PathBuf::from(&socket) }];
    let words = |first: OsString, others: &[&str]| {
        companion(std::iter::once(first).chain(others.iter().map(OsString::from)).collect())
    };
    match interface {
        Interface::Cgi => {
            setup.executables.push(CGI_PROGRAM);
            if let Some(starter) = nobody_waits(software) {
                setup.unseen.push(format!(
                    "the server's CPU time does not include its CGI processes: {starter} does not wait for them (it \
                     ignores SIGCHLD), so the kernel drops their CPU time; with lighttpd, apache-prefork and the \
                     reference server it is counted"
                ));
            }
            if software == Software::Nginx {
                // nginx starts no programs; -f sends their messages to standard error.
                setup.companions = words(path(FCGIWRAP), &["-f", "-c", &handlers, "-s", &unix]);
            }
        }
        Interface::Fastcgi | Interface::Scgi | Interface::Uwsgi => {
            setup.executables.push(RESPONDER);
            let own = site.at(RESPONDER).into();
            let name = interface.name();
            setup.companions = words(own, &["respond", name, "--listen", &unix, "--processes", &handlers]);
            if has_socket_each(site) {
                setup.companions = words(
                    site.at(RESPONDER).into(),
                    &[
                        "respond",
                        name,
                        "--listen",
                        &format!("unix:{}", socket_of(site, "{slot}")),
                        "--processes",
                        &handlers,
                    ],
                );
                setup.companions[0].socket = PathBuf::from(socket_of(site, "0"));
            }
        }
        Interface::PhpFpm => {
            setup.files.push(("php-fpm.conf".to_owned(), php_fpm(site)));
            let configuration = site.at("php-fpm.conf");
            // Without the system's php.ini, but with the cache of compiled scripts, as Debian has it.
            setup.companions = words(
                path(PHP_FPM),
                &["-n", "-d", "zend_extension=opcache.so", "--nodaemonize", "--fpm-config", &configuration],
            );
        }
        Interface::Module => setup.build = vec![path(APXS), "-c".into(), "mod_webstone_send.c".into()],
        Interface::Asgi => {
            let directory = site.at("");
            setup.companions = words(
                path(UVICORN),
                &[
                    "--uds",
                    &socket,
                    "--workers",
                    &handlers,
                    "--no-access-log",
                    "--log-level",
                    "warning",
                    "--app-dir",
                    &directory,
                    "send_asgi:app",
                ],
            );
        }
        Interface::Node => {
            setup.companions = words(path(NODE), &[&site.at("send_node.js"), &socket, &handlers]);
        }
        Interface::Native | Interface::Persistent | Interface::Lua | Interface::Njs => {}
    }
    let behind = match setup.companions.is_empty() {
        true => String::new(),
        false => format!("; behind it {handlers} processes for {interface}"),
    };
    setup.disclosure.processes += &behind;
}

/// The socket between a server and its handler.
pub(super) fn socket(site: &Site) -> String {
    site.own("handler.socket")
}

/// The socket of one of its processes, where each has one.
pub(super) fn socket_of(site: &Site, slot: &str) -> String {
    site.own(&format!("handler-{slot}.socket"))
}

/// Whether each process has a socket of its own: if the server keeps its connections, the server has to spread the requests.
pub(super) fn has_socket_each(site: &Site) -> bool {
    site.is_tuned()
        && site.spec.software == Software::Nginx
        && site.spec.interface == Some(Interface::Fastcgi)
}

/// PHP-FPM's configuration.
fn php_fpm(site: &Site) -> String {
    let processes = match (site.is_tuned(), site.spec.handlers) {
        (false, 0) => "pm = dynamic\npm.max_children = 5\npm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n"
            .to_owned(),
        _ => format!(
            "; All processes from the start: none is made while the load runs.\npm = static\npm.max_children = {}\n",
            site.handlers()
        ),
    };
    format!(
        "; PHP-FPM, profile {}, written by webstone.\n[global]\npid = {}\nerror_log = {}\nlog_level = warning\ndaemonize = no\n[www]\nlisten = {}\n{processes}; Each write of the handler is handed on at once.\nphp_admin_value[output_buffering] = 0\n",
        site.spec.profile.name(),
        site.own("php-fpm.pid"),
        site.own(ERROR_LOG),
        socket(site),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_a_server_has_not_is_refused() {
        let refused = |software, interface, handlers| {
            check(&ServerSpec { software, interface, handlers, ..ServerSpec::default() }).unwrap_err()
        };
        let said = refused(Software::Nginx, Some(Interface::Persistent), 0);
        assert_eq!(said.what, "server.interface: `persistent`: nginx has no such interface");
        assert!(said.hint.starts_with("nginx has cgi, fastcgi, php-fpm"), "{}", said.hint);
        let said = refused(Software::Caddy, Some(Interface::Cgi), 0);
        assert!(said.hint.contains("choose another server"), "{}", said.hint);
        let said = refused(Software::Nginx, Some(Interface::Lua), 3);
        assert!(said.what.contains("nginx has no handler processes with lua"), "{}", said.what);
        let said = refused(Software::Lighttpd, None, 3);
        assert!(said.what.starts_with("server.handlers: `3`"), "{}", said.what);
        let said = refused(Software::Reference, Some(Interface::Fastcgi), 1_025);
        assert_eq!(said.what, "server.handlers: `1025` is more than 1024, the limit");
        assert!(said.hint.starts_with("give fewer"), "{}", said.hint);
        let most =
            ServerSpec { interface: Some(Interface::Fastcgi), handlers: 1_024, ..ServerSpec::default() };
        assert_eq!(check(&most), Ok(()));
        assert_eq!(
            check(&ServerSpec { interface: Some(Interface::Persistent), ..ServerSpec::default() }),
            Ok(())
        );
    }

    #[test]
    fn every_handler_keeps_the_contract_in_its_own_words() {
        for software in [Software::Nginx, Software::Apache, Software::Lighttpd] {
            for interface in of_software(software) {
                let Some((name, text)) = source(software, *interface) else { continue };
                for word in ["size", "writes", "fill", "10240", "pattern", "none", "random", "63"] {
                    assert!(text.contains(word), "{name}: {word}");
                }
            }
        }
    }
}
