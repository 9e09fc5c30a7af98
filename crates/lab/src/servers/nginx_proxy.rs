//! nginx before an origin, and with `--server-cache` as a cache of its answers. Everything but the location is as for nginx
//! that serves files.

use super::nginx;
use super::tls;
use super::{Driver, Setup, Site};

pub(super) const DRIVER: Driver = Driver { configure, ..nginx::DRIVER };

fn configure(site: &Site) -> Setup {
    let caches = site.spec.cache == Some(true);
    let mut http = nginx::files_common(site);
    http += &format!("    upstream origin {{\n        server {};\n", site.origin);
    if site.is_tuned() {
        http += "        # Connections to the origin are kept; by default each request makes one.\n        keepalive 64;\n";
    }
    http += "    }\n";
    if caches {
        http += &format!(
            "    proxy_cache_path {} keys_zone=answers:16m max_size=1g inactive=60m use_temp_path=off;\n",
            site.own("cache")
        );
    }
    http += &format!(
        "    server {{\n{}{}        server_name _;\n        location / {{\n            \
         proxy_pass http://origin;\n",
        tls::nginx_listen(site, &nginx::listen_options(site)),
        tls::nginx(site),
    );
    // Debian's proxy_params.
    http += "            proxy_set_header Host $http_host;\n            proxy_set_header X-Real-IP $remote_addr;\n            \
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n            \
             proxy_set_header X-Forwarded-Proto $scheme;\n";
    if site.is_tuned() {
        http += "            # What a kept connection to the origin needs.\n            proxy_http_version 1.1;\n            \
                 proxy_set_header Connection \"\";\n";
    }
    if caches {
        http += "            proxy_cache answers;\n            proxy_cache_valid 200 10m;\n";
    }
    if caches && site.is_tuned() {
        http += "            # One request fetches what many wait for.\n            proxy_cache_lock on;\n";
    }
    http += "        }\n    }\n";
    let caching = match caches {
        true => "answers of the origin, on disk (proxy_cache)",
        false => "nothing",
    };
    nginx::whole(site, &http, caching)
}
