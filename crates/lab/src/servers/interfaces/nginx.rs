//! nginx and its handlers: FastCGI (its only way to CGI too, through fcgiwrap), SCGI, uwsgi, Lua, njs, and as a proxy.

use std::fmt::Write as _;

use webstone_model::spec::Interface;

use super::super::Site;
use super::{CGI_PROGRAM, NGINX_MODULES, PATH, has_socket_each, socket, socket_of};

/// The variables of a request, as Debian's `fastcgi_params`, `scgi_params` and `uwsgi_params` have them.
const VARIABLES: [(&str, &str); 16] = [
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
];

/// Modules to load, before everything else.
pub(in super::super) fn modules(site: &Site) -> String {
    let names: &[&str] = match site.spec.interface {
        Some(Interface::Lua) => &["ndk_http_module", "ngx_http_lua_module"],
        Some(Interface::Njs) => &["ngx_http_js_module"],
        _ => &[],
    };
    names.iter().map(|name| format!("load_module {NGINX_MODULES}/{name}.so;\n")).collect()
}

/// What stands in `http`, outside of the server.
pub(in super::super) fn http(site: &Site) -> String {
    match site.spec.interface {
        Some(Interface::Fastcgi) if has_socket_each(site) => {
            let handlers = site.handlers();
            let servers: String = (0..handlers)
                .map(|slot| format!("        server unix:{};\n", socket_of(site, &slot.to_string())))
                .collect();
            format!(
                "    # A socket for each process, so that kept connections are spread evenly.\n    \
                 upstream handler {{\n{servers}        keepalive {};\n    }}\n",
                4 * handlers
            )
        }
        Some(Interface::Asgi | Interface::Node) => {
            let keepalive = match site.is_tuned() {
                true => "        # Connections to the application are kept.\n        keepalive 64;\n",
                false => "",
            };
            format!("    upstream handler {{\n        server unix:{};\n{keepalive}    }}\n", socket(site))
        }
        Some(Interface::Njs) => format!("    js_path {};\n    js_import send.js;\n", site.at("")),
        Some(Interface::Lua) => {
            format!("    lua_package_path \"{}?.lua;/usr/share/lua/5.1/?.lua;;\";\n", site.at(""))
        }
        _ => String::new(),
    }
}

/// The handler's location in the server.
pub(in super::super) fn location(site: &Site) -> String {
    let Some(interface) = site.spec.interface else { return String::new() };
    let pass = format!("unix:{}", socket(site));
    let inner = match interface {
        Interface::Cgi => {
            variables("fastcgi", Some(&site.at(CGI_PROGRAM))) + &format!("fastcgi_pass {pass};\n")
        }
        Interface::PhpFpm => {
            variables("fastcgi", Some(&site.at("send.php"))) + &format!("fastcgi_pass {pass};\n")
        }
        Interface::Fastcgi if has_socket_each(site) => {
            variables("fastcgi", None)
                + "# Connections to the handler are kept; by default each request makes one.\nfastcgi_keep_conn on;\nfastcgi_pass handler;\n"
        }
        Interface::Fastcgi => variables("fastcgi", None) + &format!("fastcgi_pass {pass};\n"),
        Interface::Scgi => variables("scgi", None) + &format!("scgi_param SCGI 1;\nscgi_pass {pass};\n"),
        Interface::Uwsgi => variables("uwsgi", None) + &format!("uwsgi_pass {pass};\n"),
        Interface::Lua => format!("content_by_lua_file {};\n", site.at("send.lua")),
        Interface::Njs => "js_content send.send;\n".to_owned(),
        Interface::Asgi | Interface::Node => {
            let kept = "# What a kept connection to the application needs.\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n";
            format!(
                "{}proxy_set_header Host $http_host;\nproxy_pass http://handler;\n",
                if site.is_tuned() { kept } else { "" }
            )
        }
        Interface::Native | Interface::Persistent | Interface::Module => String::new(),
    };
    let mut text = format!("        location = {PATH} {{\n");
    for line in inner.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "            {line}");
    }
    text + "        }\n"
}

fn variables(protocol: &str, script: Option<&str>) -> String {
    let mut text: String =
        VARIABLES.iter().map(|(name, value)| format!("{protocol}_param {name} {value};\n")).collect();
    if let Some(script) = script {
        text += &format!("{protocol}_param SCRIPT_FILENAME {script};\n");
        // PHP wants to be told that it was the server that chose the script.
        text += &format!("{protocol}_param REDIRECT_STATUS 200;\n");
    }
    text
}
