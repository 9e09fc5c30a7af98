//! Another real server: a Caddy on one CPU, on the files and with the certificate of `nginx`.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::children::{Cpus, Group};
use crate::nginx;

const PROGRAM: &str = "/usr/bin/caddy";

/// A running Caddy; it ends with this value.
#[derive(Debug)]
pub struct Caddy {
    _process: Group,
    base_url: String,
}

impl Caddy {
    /// Whether it can be started.
    pub fn is_installed() -> bool {
        Path::new(PROGRAM).is_file()
    }

    /// Starts on the files of [`nginx::write_files`].
    ///
    /// # Errors
    /// If it does not serve every file within 10 seconds.
    pub fn start(folder: &Path, cpus: &Cpus) -> Result<Caddy, String> {
        // Between finding a free port and listening on it another program may take it.
        let mut last = String::new();
        for _ in 0..3 {
            let (port, plain_port) = nginx::free_ports()?;
            let file = folder.join("Caddyfile");
            fs::write(&file, configuration(folder, port, plain_port))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let home = format!("HOME={}", folder.display());
            let file = file.display().to_string();
            let command = ["env", &home, "GOMAXPROCS=1", PROGRAM, "run", "--config", &file];
            let command = [&command[..], &["--adapter", "caddyfile"]].concat();
            let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
            let on = cpus.server.map(|cpu| cpu.to_string());
            let mut process = Group::start(&command, on.as_deref(), Stdio::null())?;
            match nginx::ready(&mut process, plain_port) {
                Ok(()) => {
                    return Ok(Caddy { _process: process, base_url: format!("https://127.0.0.1:{port}") });
                }
                Err(error) => last = error,
            }
        }
        Err(format!("Caddy does not serve: {last}"))
    }

    /// `https://127.0.0.1:PORT`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }
}

/// HTTP/3 with the TCP port that offers it, without a log. Of what all tools offer, Go picks TLS_AES_128_GCM_SHA256; the group is nginx's.
fn configuration(folder: &Path, port: u16, plain_port: u16) -> String {
    let folder = folder.display();
    let files = format!("    bind 127.0.0.1\n    root * {folder}/www\n    file_server\n");
    format!(
        "{{\n    admin off\n    auto_https off\n    grace_period 1s\n    storage file_system {folder}/caddy\n    \
         log {{\n        output discard\n    }}\n}}\n\
         http://:{plain_port} {{\n{files}}}\n\
         https://:{port} {{\n{files}    tls {folder}/certificate.pem {folder}/key.pem {{\n        curves x25519\n    }}\n}}\n"
    )
}
