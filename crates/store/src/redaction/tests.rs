//! Both sides of every rule: what must be redacted, in the syntax of each program, and what only looks like it.

use super::*;
use webstone_measure::errors::{ErrorClass, ErrorExample};
use webstone_workload::{Feed, FileRequest, Page, RequestDetail};

/// The secret of all positive cases; `{}` in a case is where it stands.
const SECRETS: [&str; 4] = ["hunter2", "Tr0ub4dor&3", "s3cr3t/with+slash=", "abc.DEF-123_x"];

/// In every case the secret must be redacted, and its name kept.
fn goes(cases: &[&str]) {
    let mut wrong = Vec::new();
    for case in cases {
        for secret in SECRETS {
            // Unquoted, an ampersand ends a value of a query; quoted it is part of it.
            if secret.contains('&') && !case.contains(['"', '\'']) {
                continue;
            }
            let with = case.replace("{}", secret);
            let kept = text(&with).text;
            let name =
                case.split_whitespace().next().unwrap_or_default().split("{}").next().unwrap_or_default();
            if kept.contains(secret) || !kept.contains(REDACTED) || !kept.contains(name) {
                wrong.push(format!("{with}\n→ {kept}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn stays(cases: &[&str]) {
    let changed = cases.iter().map(|case| (case, text(case))).filter(|(case, kept)| kept.text != **case);
    let changed: Vec<String> = changed.map(|(case, kept)| format!("{case}\n→ {}", kept.text)).collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn nginx() {
    goes(&[
        "proxy_set_header X-Api-Key \"{}\";",
        "proxy_set_header X-Api-Key {};",
        "    proxy_set_header Authorization \"Basic {}\";",
        "proxy_set_header Cookie \"session={}; theme=dark\";",
        "proxy_set_header \"Authorization\" 'Bearer {}';",
        "fastcgi_param DB_PASSWORD {};",
        "fastcgi_param DB_PASSWORD '{}';",
        "env API_TOKEN={};",
        "set $api_key \"{}\";",
        "set $secret {};",
        "if ($http_authorization != \"Basic {}\") { return 401; }",
        "if ($http_x_api_key = '{}') { set $ok 1; }",
        "if ($arg_token !~ \"^{}$\") { return 403; }",
        "secure_link_secret {};",
        "secure_link_md5 \"$secure_link_expires$uri {}\";",
        "proxy_pass http://admin:{}@backend:8080/x;",
        "map $http_x_api_key $client {\n    default \"\";\n    \"{}\" one;\n}",
        "map $http_x_api_key $client { default 0; '{}' 1; }",
        "proxy_set_header\n    Authorization\n    \"Basic {}\";",
        "# proxy_set_header X-Auth-Token \"{}\";",
        "return 302 \"https://x/?access_token={}\";",
        "js_var $jwt_secret \"{}\";\n",
    ]);
    let map = text(
        "map $http_x_api_key $c {\n  default \"\";\n  \"k1 a\" one; # of\n  k2 two;\n}\nserver { listen 80; }",
    );
    assert_eq!(
        map.text,
        "map $http_x_api_key $c {\n  default \"\";\n  [redacted] one; # of\n  [redacted] two;\n}\nserver { listen 80; }"
    );
    assert_eq!(map.secrets, 2);
    stays(&[
        "server_tokens off;",
        "ssl_certificate_key /etc/nginx/tls/site.key;",
        "ssl_session_ticket_key /etc/nginx/ticket.key;",
        "ssl_password_file /etc/keys/global.pass;",
        "auth_basic \"Restricted area\";\nauth_basic_user_file /etc/nginx/.htpasswd;",
        "proxy_pass http://backend;",
        "proxy_pass http://127.0.0.1:8080/a@b;",
        "fastcgi_pass unix:/run/php-fpm.sock;",
        "proxy_cache_key \"$scheme$request_method$host$request_uri\";",
        "proxy_cache_path /var/cache keys_zone=one:10m inactive=60m;",
        "proxy_set_header Authorization $http_authorization;",
        "proxy_set_header Authorization \"\";",
        "proxy_pass_header Authorization;\nproxy_hide_header Set-Cookie;",
        "fastcgi_param HTTP_AUTHORIZATION $http_authorization;",
        "add_header Access-Control-Allow-Headers \"Authorization, Content-Type\";",
        "add_header Access-Control-Allow-Headers 'Content-Type, Authorization';",
        "add_header Access-Control-Allow-Credentials true;",
        "add_header Vary \"Cookie\";",
        "map $http_upgrade $connection_upgrade { default upgrade; '' close; }",
        "map $http_authorization $x { default $remote_user; }",
        "limit_req_zone $http_authorization zone=token:10m rate=1r/s;",
        "limit_req zone=token burst=5;",
        "log_format main '$remote_addr - $remote_user \"$request\" $status \"$http_cookie\"';",
        "proxy_cookie_path / \"/; secure\";",
        "hash $cookie_session consistent;",
        "sub_filter 'a' 'b';\ntcp_nodelay on;\nsendfile on;",
        "auth_jwt_key_file conf/keys.json;",
    ]);
}

#[test]
fn apache() {
    goes(&[
        "RequestHeader set Authorization \"Bearer {}\"",
        "RequestHeader set X-Api-Key \"{}\" early",
        "Header always set Set-Cookie \"id={}\"",
        "SetEnv DB_PASSWORD {}",
        "SetEnv DB_PASSWORD \"{}\"",
        "Define APP_SECRET {}",
        "AuthLDAPBindPassword \"{}\"",
        "AuthLDAPBindPassword {}",
        "SessionCryptoPassphrase {}",
        "DBDParams \"host=db user=www password={}\"",
        "DBDParams \"host=db user=www pass={}\"",
        "ProxyPass \"/app\" \"ajp://h:8009/\" secret={}",
        "JkWorkerProperty worker.a.secret={}",
        "Require expr \"%{HTTP:X-Api-Key} == '{}'\"",
        "RewriteCond %{HTTP:X-Api-Key} ^{}$",
        "SetEnvIf X-Api-Key {} allowed",
        "    #AuthLDAPBindPassword {}",
    ]);
    stays(&[
        "ServerTokens Prod\nServerSignature Off",
        "AuthType Basic\nAuthName \"Private\"\nAuthUserFile /etc/apache2/.htpasswd\nRequire valid-user",
        "SSLCertificateKeyFile /etc/ssl/private/site.key",
        "SSLPassPhraseDialog builtin",
        "SetEnvIf Authorization \"(.*)\" HTTP_AUTHORIZATION=$1",
        "RewriteCond %{HTTP:Authorization} ^(.*)\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]",
        "SessionCryptoPassphraseFile /etc/key",
        "ProxyPass / http://backend/",
        "Header append Vary Cookie",
        "KeepAlive On\nMaxKeepAliveRequests 100",
        "AuthBasicProvider file",
    ]);
}

#[test]
fn lighttpd_caddy_haproxy() {
    goes(&[
        "auth.backend.ldap.bind-pw = \"{}\"",
        "secdownload.secret = \"{}\"",
        "setenv.add-request-header = ( \"Authorization\" => \"Basic {}\" )",
        "setenv.add-environment = ( \"API_TOKEN\" => \"{}\", \"X\" => \"y\" )",
        "vhostdb.mysql = ( \"dbname\" => \"v\", \"password\" => \"{}\" )",
        "mysql-vhost.pass = \"{}\"",
        "reverse_proxy {\n  header_up Authorization \"Bearer {}\"\n}",
        "header_up X-Api-Key {}",
        "acme_dns cloudflare\n api_token {}",
        "user admin insecure-password {}",
        "user admin password {} groups g1",
        "stats auth admin:{}",
        "http-request set-header Authorization Basic\\ {}",
        "http-request deny unless { req.hdr(x-api-key) -m str {} }",
        "http-request set-header X-Api-Key \"{}\"",
        "setenv DB_PASS {}",
    ]);
    stays(&[
        "auth.backend.htpasswd.userfile = \"/etc/lighttpd/.htpasswd\"",
        "ssl.privkey = \"/etc/tls/key.pem\"\nssl.pemfile = \"/etc/tls/cert.pem\"",
        "server.tag = \"lighttpd\"",
        "tls cert.pem key.pem",
        "api_token {env.CF_API_TOKEN}",
        "cookie SERVERID insert indirect nocache",
        "server s1 10.0.0.1:80 check cookie s1",
        "bind :443 ssl crt /etc/haproxy/site.pem",
        "http-request deny unless { req.hdr(Authorization) -m found }",
        "stats enable\nstats uri /stats",
        "stick-table type ip size 1m expire 10s store http_req_rate(10s)",
    ]);
}

#[test]
fn php_and_structured_files() {
    goes(&[
        "mysqli.default_pw = \"{}\"",
        "mysqli.default_pw = {}",
        "session.save_path = \"tcp://h:6379?auth={}\"",
        "env[DB_PASSWORD] = {}",
        "php_admin_value[app.secret] = {}",
        "define('DB_PASSWORD', '{}');",
        "$db['default']['password'] = '{}';",
        "$password = '{}';",
        "'password' => '{}',",
        "putenv('API_KEY={}');",
        "{ \"password\": \"{}\", \"user\": \"root\" }",
        "{\"clientSecret\":\"{}\"}",
        "{ \\\"password\\\": \\\"{}\\\" }",
        "password: {}",
        "password: '{}'",
        "apiKey: {}",
        "password: |\n  {}\n  {}\nnext: 1",
        "private_key: >-\n  {}\n",
        "APIKey={}",
        "export AWS_SECRET_ACCESS_KEY={}",
        "PGPASSWORD_PROD={}",
        "<password>{}</password>",
        "<connection user=\"a\" password=\"{}\"/>",
        "dsn = root:{}@tcp(127.0.0.1:3306)/db",
        "url = postgres://app:{}@db/x?sslmode=off",
        "requirepass {}",
        "token = \"two\nlines {}\"",
        "curl --password {} http://x/",
    ]);
    assert_eq!(text("{\"password\":\"a\\\"b c\",\"n\":1}").text, "{\"password\":\"[redacted]\",\"n\":1}");
    assert_eq!(text("a=1&password=x y&b=2").text, "a=1&password=[redacted] y&b=2");
    assert_eq!(text("password=one\\ word next").text, "password=[redacted] next");
    stays(&[
        "session.cookie_lifetime = 0\nsession.use_only_cookies = 1\nsession.cookie_secure = 1",
        "session.save_path = \"/var/lib/php\"",
        "expose_php = Off\nopcache.enable=1\nopcache.memory_consumption=128",
        "$hash = password_hash($input);",
        "$token = $_SERVER['HTTP_X'];",
        "\"token_endpoint\": \"https://x/t\"",
        "token_timeout: 30s",
        "password: ${DB_PASSWORD}",
        "password = \"\"",
        "secrets:\n  - db",
        "zend.assertions = -1",
        "worker_processes 4;\nevents { worker_connections 1024; }",
    ]);
}

#[test]
fn secrets_that_need_no_name() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----\nafter";
    assert_eq!(
        text(key).text,
        "-----BEGIN OPENSSH PRIVATE KEY-----[redacted]-----END OPENSSH PRIVATE KEY-----\nafter"
    );
    assert_eq!(
        text("x\n-----BEGIN RSA PRIVATE KEY-----\nMIIE").text,
        "x\n-----BEGIN RSA PRIVATE KEY-----[redacted]",
        "a key that is cut off"
    );
    for secret in [
        "$apr1$r31....$Yqx3dzVhDfU9Zo.1IXYnS.",
        "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC",
        "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG",
        "$6$rounds=5000$salt$IhkeFQ3HMYXg",
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$hash",
        "{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=",
        "{SSHA}W6ttrmzLkOVdpkQG2XvxPbAEhWsYvLq8",
    ] {
        for before in ["alice:", "    bob ", "user admin x "] {
            let kept = text(&format!("{before}{secret}\n")).text;
            assert!(
                !kept.contains(&secret[secret.len() - 8..]) && kept.contains(REDACTED),
                "{before}{secret} → {kept}"
            );
        }
    }
    for (with, kept) in [
        ("alice:rqXexS6ZhobKA", "alice:[redacted]"),
        ("alice:realm:939e7578ed9e3c518a452acee763bce9", "alice:realm:[redacted]"),
        ("see https://u:p@h/x and http://h:80/", "see https://[redacted]@h/x and http://h:80/"),
        ("https://u:p/w@h/x", "https://[redacted]@h/x"),
        ("https://ghtoken@github.com/x", "https://[redacted]@github.com/x"),
        ("Basic YWRtaW46aHVudGVyMg==", "Basic [redacted]"),
        ("\"Bearer abc123def456\" 1;", "\"Bearer [redacted]\" 1;"),
        ("key AKIAIOSFODNN7EXAMPLE end", "key [redacted] end"),
        ("x ghp_abcdefghijklmnopqrstuvwx y", "x [redacted] y"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_DEF z", "jwt [redacted] z"),
    ] {
        assert_eq!(text(with).text, kept);
    }
    stays(&[
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "AuthType Basic",
        "needs basic authentication here",
        "http://127.0.0.1:8080/index.html",
        "https://user.example/path@version",
        "root /var/www/html;",
        "listen [::]:80;",
        "ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256;",
        "abc",
        "",
    ]);
}

#[test]
fn what_is_redacted_once_stays_as_it_is() {
    for with in
        ["password x", "https://u:p@h", "map $http_x_api_key $c { \"k\" 1; }", "Authorization: Basic abc1="]
    {
        let once = text(with).text;
        assert_eq!(text(&once), Redacted { text: once.clone(), secrets: 0 }, "{with}");
    }
}

#[test]
fn header_fields_and_variables_by_their_names() {
    for name in [
        "Authorization",
        "authorization",
        "Proxy-Authorization",
        "Cookie",
        "Set-Cookie",
        "X-Api-Key",
        "X-Auth-Token",
        "X-Amz-Security-Token",
        "X-Vault-Token",
        "Private-Token",
        "API_KEY",
        "DB_PASSWORD",
        "clientSecret",
    ] {
        assert_eq!(value(name, "whatever"), REDACTED, "{name}");
    }
    for name in [
        "Accept",
        "Host",
        "Cache-Control",
        "If-None-Match",
        "X-Request-Id",
        "Idempotency-Key",
        "PATH",
        "Cookie-Policy",
    ] {
        assert_eq!(value(name, "whatever"), "whatever", "{name}");
    }
    assert_eq!(value("Referer", "http://u:p@h/?token=abc"), "http://[redacted]@h/?token=[redacted]");
}

#[test]
fn a_command_line_keeps_everything_but_its_secrets() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let typed = words(&[
        "webstone",
        "run",
        "http://h:1",
        "-c",
        "1,3",
        "-H",
        "Authorization: Basic c2VjcmV0",
        "-HCookie: a=b; c=d",
        "--header=X-Api-Key: k",
        "--header",
        "Accept: */*",
        "--body",
        "user=u&password=p w&x=1",
        "--proxy",
        "http://u:p@proxy:3128",
        "--name",
        "basic-token",
        "5:/file10k.html,/x?token=t",
        "u:/file10k.htmg",
    ]);
    let kept = words(&[
        "webstone",
        "run",
        "http://h:1",
        "-c",
        "1,3",
        "-H",
        "Authorization: [redacted]",
        "-HCookie: [redacted]",
        "--header=X-Api-Key: [redacted]",
        "--header",
        "Accept: */*",
        "--body",
        "user=u&password=[redacted] w&x=1",
        "--proxy",
        "http://[redacted]@proxy:3128",
        "--name",
        "basic-token",
        "5:/file10k.html,/x?token=[redacted]",
        "u:[redacted]",
    ]);
    assert_eq!(command_line(&typed), kept);
}

#[test]
fn a_command_with_a_secret_before_a_colon_is_no_header() {
    let typed =
        ["env TOKEN=c2VjcmV0 ./app --listen 127.0.0.1:{port}", "X-Token: c2VjcmV0"].map(str::to_owned);
    let kept = ["env TOKEN=[redacted] ./app --listen 127.0.0.1:{port}", "X-Token: [redacted]"];
    assert_eq!(command_line(&typed), kept);
}

#[test]
fn a_record_keeps_no_secret_of_specification_or_workload() {
    let mut asked = RunSpec::default();
    asked.client.headers.add("authorization", "Basic c2VjcmV0");
    asked.client.headers.add("Authorization", "Bearer c2VjcmV0");
    asked.client.headers.add("Accept", "*/*");
    asked.client.body = Some("{\"password\":\"c2VjcmV0\"}".into());
    asked.client.proxy = Some("http://u:c2VjcmV0@p:1".into());
    asked.disclosure.insert("notes".into(), "db at mysql://u:c2VjcmV0@db".into());
    let kept = spec(&asked);
    assert!(!format!("{kept:?}").contains("c2VjcmV0"), "{kept:?}");
    assert!(kept.client.headers.iter().any(|(name, value)| name == "Accept" && value == "*/*"));
    assert!(
        kept.client.headers.iter().map(|(name, _)| name).eq(["authorization", "authorization", "Accept"]),
        "in the order in which they are sent"
    );
    assert!(format!("{asked:?}").contains("c2VjcmV0"), "what is sent is untouched");

    let mut detail = RequestDetail::default();
    detail.headers.add("Cookie", "c2VjcmV0");
    detail.body = Some("token=c2VjcmV0".into());
    let file = FileRequest {
        url: "/x?api_key=c2VjcmV0&a=1".into(),
        detail: Box::new(detail),
        ..FileRequest::default()
    };
    let plain = FileRequest { url: "/file500.html".into(), ..FileRequest::default() };
    let page = Page { weight: 1, files: vec![file, plain.clone()], think: Default::default() };
    let mut kept = Workload { pages: vec![page], ..Workload::default() };
    workload(&mut kept);
    assert!(!format!("{kept:?}").contains("c2VjcmV0"), "{kept:?}");
    assert_eq!(&*kept.pages[0].files[0].url, "/x?api_key=[redacted]&a=1");
    assert_eq!(kept.pages[0].files[1], plain);
}

#[test]
fn fields_and_parameters_of_requests_are_known_by_one_list() {
    for name in [
        "Ocp-Apim-Subscription-Key",
        "X-Auth",
        "X-JWT",
        "x-session-id",
        "X-Session",
        "pin",
        "otp",
        "X-Key",
        "sid",
        "X-CSRF",
        "JSESSIONID",
        "X-Amz-Signature",
    ] {
        assert_eq!(value(name, "hunter2"), REDACTED, "{name}");
        for body in [format!("{name}=hunter2&a=1"), format!("a=1&{name}=hunter2")] {
            let mut asked = RunSpec::default();
            asked.client.body = Some(body);
            let kept = spec(&asked).client.body.unwrap();
            assert!(!kept.contains("hunter2") && kept.contains("a=1"), "{kept}");
        }
    }
    for url in [
        "/x?sig={}&a=1",
        "/x?a=1&code={}",
        "/x?key={}",
        "/x?session={}",
        "/x?sid={}",
        "/x;jsessionid={}",
        "/x?pass={}",
        "http://h/?pin={}",
        "/x?otp={}",
        "/x?X-Amz-Signature={}",
        "/x?user[password]={}",
    ] {
        let mut asked = RunSpec { workload: url.replace("{}", "hunter2"), ..RunSpec::default() };
        asked.target = vec![format!("http://u:hunter2@h{}", asked.workload)];
        asked.server.command = Some("serve --password hunter2 --port {port}".into());
        let kept = format!("{:?}", spec(&asked));
        assert!(!kept.contains("hunter2"), "{url}: {kept}");
        let file = FileRequest { url: url.replace("{}", "hunter2").into(), ..FileRequest::default() };
        let page = Page { weight: 1, files: vec![file], think: Default::default() };
        let mut kept =
            Workload { name: url.replace("{}", "hunter2"), pages: vec![page], ..Workload::default() };
        workload(&mut kept);
        assert_eq!(&*kept.pages[0].files[0].url, url.replace("{}", REDACTED));
        assert_eq!(kept.name, url.replace("{}", REDACTED));
    }
    goes(&[
        "proxy_set_header X-Auth {};",
        "proxy_set_header X-JWT \"{}\";",
        "proxy_set_header Ocp-Apim-Subscription-Key {};",
        "RequestHeader set X-Session-Id {}",
        "map $uri $backend_token {\n    default \"{}\";\n}",
        "map $http_x_auth $ok { \"{}\" 1; default 0; }",
        "map $arg_key $ok { {} 1; default 0; }",
        "map $cookie_login $ok { {} 1; default 0; }",
        "{\"pin\": \"{}\", \"user\": \"a\"}",
        "proxy_pass http://b/x?code={};",
    ]);
    stays(&[
        "GET /x?size=10&page=2&code_page=1",
        "/api/{{users.name}}?key={{users.key}}",
        "the server is not pinned: pin it with --server-cpus",
        "session tickets; auth basic; a key of two words",
        "ssl_session_cache shared:SSL:10m;",
        "map $uri $upstream { /a a; /b b; default c; }",
        "rewrite ^ /x?key=$1 last;",
    ]);
}

#[test]
fn a_feed_is_kept_by_its_shape() {
    let of = |password: &str| {
        let rows = vec![vec!["ann".to_owned(), password.to_owned()]];
        let feed = Feed { columns: vec!["name".into(), "word".into()], rows, ..Feed::default() };
        let mut kept =
            Workload { feeds: [("users".to_owned(), feed)].into_iter().collect(), ..Workload::default() };
        workload(&mut kept);
        kept
    };
    let (one, same, other) = (of("hunter2"), of("hunter2"), of("hunter3"));
    assert!(!format!("{one:?}").contains("hunter2") && !format!("{one:?}").contains("ann"), "{one:?}");
    assert_eq!(one.feeds["users"].columns, ["name", "word"]);
    assert_eq!(one.feeds["users"].kept.as_ref().unwrap().rows, 1);
    assert_eq!(one.sha256(), same.sha256());
    assert_ne!(one.sha256(), other.sha256(), "another feed is another workload");
}

#[test]
fn an_example_of_an_error_keeps_no_token() {
    let mut table = ErrorTable::default();
    table.add(ErrorClass::WrongStatus, || ErrorExample {
        at_ns: 1,
        address: "127.0.0.1:80".into(),
        request: "GET /x?access_token=c2VjcmV0&a=1".into(),
        detail: "status 401, expected 200 to 299".into(),
    });
    let kept = errors(table);
    assert_eq!(kept.total(), 1);
    let (_, _, example) = kept.iter().next().unwrap();
    let example = example.unwrap();
    assert_eq!(example.request, "GET /x?access_token=[redacted]&a=1");
    assert_eq!(example.detail, "status 401, expected 200 to 299");
}

#[test]
fn a_line_of_a_megabyte_is_read_once() {
    let json = "{\"user\":\"a'b\",\"password\":\"hunter2\"},".repeat(4_000);
    let kept = text(&json);
    assert_eq!(kept.secrets, 4_000);
    assert!(!kept.text.contains("hunter2"));
}

/// Texts cut between any two characters never cause a panic, and redaction lengthens them within a bound.
#[test]
fn no_text_makes_it_panic() {
    let text_of_all = "map $http_x_api_key $c { \"ké\" 1; }\r\npassword: |\n  é é\n$pässword = 'é\\'";
    let more = "secret\\\n\u{2028}é\ntoken=\\\"é\\\" <password>é</password> stats auth é:é\nhttp://é:é@é -HCookie: é\n";
    let whole: Vec<char> = text_of_all.chars().chain(more.chars()).collect();
    for from in 0..whole.len() {
        for to in (from..=whole.len()).step_by(7) {
            let part: String = whole[from..to].iter().collect();
            let once = text(&part).text;
            assert!(once.len() <= part.len() + part.len() / 2 * REDACTED.len(), "{part:?}");
        }
    }
}

#[test]
fn commands_of_generators_keep_everything_but_their_secrets() {
    let command = "ssh -o Port=22 gen1 env API_TOKEN=hunter2 webstone agent";
    let agent = "env GEN_PASSWORD=hunter2 ssh gen1 webstone agent".to_owned();
    let asked = RunSpec {
        generators: vec![webstone_model::generators::GeneratorHost::reached_by(agent)],
        ..RunSpec::default()
    };
    let kept = spec(&asked);
    assert_eq!(kept.generators[0].agent, format!("env GEN_PASSWORD={REDACTED} ssh gen1 webstone agent"));
    let mut hosts = [GeneratorRecord {
        command: command.into(),
        environment: [("sysctl".to_owned(), serde_json::json!({"password": "password=hunter2"}))].into(),
        ..GeneratorRecord::default()
    }];
    generators(&mut hosts);
    let kept = format!("{hosts:?}");
    assert!(!kept.contains("hunter2"), "{kept}");
    assert!(hosts[0].command.ends_with("webstone agent") && hosts[0].command.contains("ssh -o Port=22 gen1"));
    let mut lost = GeneratorLoss { generator: 0, why: "ended: token=hunter2 was refused".into() };
    loss(&mut lost);
    assert_eq!(lost.why, format!("ended: token={REDACTED} was refused"));
}

#[test]
fn messages_quote_no_password() {
    for (said, shown) in [
        ("URL `http://u:p@h/`: no", "URL `http://[redacted]@h/`: no"),
        ("--proxy: `http://u:p/w@h:3128`, but", "--proxy: `http://[redacted]@h:3128`, but"),
        ("'http://token@h' and \"https://u:p@h\"", "'http://[redacted]@h' and \"https://[redacted]@h\""),
        ("`u:p@h` is not a host", "`[redacted]@h` is not a host"),
        ("http://h:80/a@b, ann@example.org, a: b@c", "http://h:80/a@b, ann@example.org, a: b@c"),
    ] {
        assert_eq!(message(said), shown);
    }
}
