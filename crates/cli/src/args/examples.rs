//! Examples at the end of each command's help, ready to be typed, and the first help.

/// Examples of `webstone ui`.
pub(super) const UI_EXAMPLES: &str = "\
Examples:
  webstone ui
  webstone ui --port 8080 --runs-dir /srv/benchmarks
  webstone ui --read-only";

/// The help of `webstone --help`: the most used commands first, ready to be typed.
pub(super) const TOP_TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Common commands:
  webstone run
      Benchmark the embedded server: the `standard` workload, four client counts, half a minute,
      a report, a record in runs/.
  webstone run --server nginx:tuned
      The same on nginx: configured, started, measured, stopped.
  webstone genfiles /var/www/html
      Write the workload's files where a real server can serve them.
  webstone checkfiles http://127.0.0.1:8080
      Check that the server serves every one of them, complete and unchanged.
  webstone run http://127.0.0.1:8080 -c 20..100+10 -d 1m -i 3
      Benchmark that server: nine client counts, a minute each, three times.
  webstone hit http://127.0.0.1:8080/index.html -c 64 -d 10s
      One URL, one load, a short answer.
  webstone report runs/20260701T120000Z-webstone --format json
      Print the report of a stored run, in any format.
  webstone verify result.tar.gz
      Verify a stored run, series or archive: files, signature, and every figure recomputed.
  webstone compare last~1 last --fail-if 'rate<-3%'
      Compare two runs: faster, slower, or no difference shown.
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,errors<0.1%'
      The highest load at which the server keeps this SLO.
  webstone duel main HEAD --build 'cargo build --release' --serve './target/release/app --port {port}'
      Two versions of a server side by side: a change of 1 % in a minute.
  webstone servers nginx,apache,lighttpd,caddy
      Compare servers, ranked where their intervals differ.
  webstone ui
      All of it in a browser.

All commands:
{subcommands}

Options:
{options}

Exit codes: 0 done · 1 webstone failed · 2 usage · 3 a threshold failed · 4 invalid or inconclusive
            5 a run rule is not met · 6 a record does not verify · 130, 143 interrupted
`webstone COMMAND --help` explains every option with its unit, default and an example.
";

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  webstone run
  webstone run http://127.0.0.1:8080 -w standard -c 20..100+10 -d 10m -i 3
  webstone run --server nginx --server-log off --server-cpus 0 -c 20..100+10
  webstone run --server haproxy:tuned --server-origin http://192.0.2.7:8080
  webstone run http://web1 --server-agent 'ssh root@web1 webstone agent'
  webstone run http://[::1]:8080 -c 1..256*2 --connections keep-alive --name nginx-keepalive
  webstone run -f testbed.toml -d 30s
  webstone run --format json | jq '.computed.levels[].figures.request_rate'
  webstone run http://127.0.0.1:8080 -c 64 --dump-spec > testbed.toml

Exit codes: 0 done, 1 webstone failed, 2 usage, 3 a threshold failed, 4 the measurement is inconclusive or invalid (a broken identity, a
level without a success, or errors above 1 %), 130 interrupted by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. Interrupted
once, a run ends its level, keeps and reports what was measured; interrupted twice, it stops at once.";

pub(super) const GENERATORS_EXAMPLES: &str = "\
Examples:
  webstone generators check -f testbed.toml
  webstone generators check --generator 'ssh gen1 webstone agent' --generator 'ssh gen2 webstone agent'
  webstone generators job --pods 40 --cpus 8 --image registry.example/webstone:1 | kubectl apply -f -

Exit codes: 0 all hosts can make load together, 1 one of them cannot, 2 usage.";

pub(super) const SERVERS_EXAMPLES: &str = "\
Examples:
  webstone servers
  webstone servers show nginx:tuned
  webstone servers nginx,apache,lighttpd,caddy -w standard -c 20..100+10 -d 1m -i 5
  webstone servers nginx,apache --profiles stock,tuned --policies per-request,keep-alive --plan
  webstone servers -f testbed.toml -o servers.html
  webstone servers --resume runs/20260701T120000Z-servers
  webstone report runs/20260701T120000Z-servers --format csv

Exit codes: 0 done, 1 webstone or a cell failed, 2 usage, 4 the figures of a cell are invalid or inconclusive, 130 or 143 interrupted.";

pub(super) const SCALE_EXAMPLES: &str = "\
Examples:
  webstone scale nginx:tuned --cpus 1,2,4,8 -c 20..100+20 -d 1m -i 5
  webstone scale nginx,apache,reference --cpus 1,2,4 -w silicon-surf
  webstone scale -f testbed.toml --plan
  webstone scale --resume runs/20260701T120000Z-scale

Exit codes: as of `webstone servers`.";

pub(super) const SPICE_EXAMPLES: &str = "\
Examples:
  webstone spice nginx
  webstone spice nginx,apache --interfaces static,cgi,fastcgi,php-fpm,lua,module -c 10..60+10 -d 1m -i 5
  webstone spice apache --cpus 1,2,4 --plan
  webstone spice nginx:tuned -w standard --policies per-request,keep-alive
  webstone spice --resume runs/20260701T120000Z-spice

Exit codes: as of `webstone servers`.";

pub(super) const HIT_EXAMPLES: &str = "\
Examples:
  webstone hit http://127.0.0.1:8080/index.html
  webstone hit http://127.0.0.1:8080/ -t 1 -c 64 -d 30s --latency
  webstone hit http://127.0.0.1:8080/ -n 100k
  webstone hit http://127.0.0.1:8080/a.html http://127.0.0.1:8080/b.gif --repetitions 10
  webstone hit http://127.0.0.1:8080/ --threshold 'p(99)<50ms,errors<0.1%'
  webstone hit http://127.0.0.1:8080/api -m POST --body @order.json -H 'Content-Type: application/json'
  webstone hit http://127.0.0.1:8080/ --connections per-request --format json";

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  webstone compare runs/20260701T120000Z-before runs/20260701T130000Z-after
  webstone compare before after --noise-floor 2% --format markdown
  webstone compare before after --noise-floor runs/20260701T110000Z-aa
  webstone compare before after --fail-if 'rate<-3%' --fail-if 'p(99)>+10%,errors>+0.1pp'
  webstone compare before after --fail-if 'rate{clients:40}<-3%' --threshold 'p(99)<50ms'
  webstone compare last~1 last --force

Exit codes: 0 done, 1 webstone failed or a condition could not be judged, 2 usage or not comparable, 3 a condition or
threshold failed, 4 one was asked for and a run is invalid (--force judges it anyway).";

pub(super) const FIND_EXAMPLES: &str = "\
Examples:
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,errors<0.1%'
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,fairness>0.95' --to 4k --resolution 2%
  webstone find http://127.0.0.1:8080 -w standard --slo 'avg<20ms' -d 10s --repeats 20 -o search.html

Exit codes: 0 the limit was found, or the SLO is kept up to --to; 1 webstone failed, or noise leaves the edge undecided;
2 usage; 3 the SLO is never kept; 4 the measurement is invalid or inconclusive; 130, 143 interrupted: what was measured is kept.";

pub(super) const DUEL_EXAMPLES: &str = "\
Examples:
  webstone duel nginx nginx:tuned
  webstone duel nginx,access_log=on nginx,access_log=off
  webstone duel main HEAD --build 'cargo build --release' --serve './target/release/app --port {port}'
  webstone duel old='./app-1.2 --port {port}' new='./app-1.3 --port {port}' --path /api/items -c 64
  webstone duel main HEAD --serve './serve.sh {port}' --fail-if 'cpu > +3%' --at-most 3m -o comment.md";

pub(super) const WORKOUT_EXAMPLES: &str = "\
Examples:
  webstone workout
  webstone workout http://127.0.0.1:8080 -c 50 -d 30s --offenders 64 --vary
  webstone workout --server nginx:tuned --misdeeds slow-writer,slow-reader --offenders 500
  webstone workout http://127.0.0.1:8080 -w workout-16k -n 200 --break";

pub(super) const CALIBRATE_EXAMPLES: &str = "\
Examples:
  webstone calibrate
  webstone calibrate -d 5s -i 5
  webstone calibrate --show";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  webstone serve
  webstone serve --listen 127.0.0.1:8080 --threads 2 --cpus 0-1
  webstone serve --listen [::1]:8080 --root /var/www/html --access-log access.log";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  webstone list
  webstone list nginx verdict:valid
  webstone list tag:baseline workload:standard since:2026-07 --all";

pub(super) const NOTE_EXAMPLES: &str = "\
Examples:
  webstone note last
  webstone note last --tag baseline --text 'before the new kernel'
  webstone note 20260701T120000Z-webstone --untag baseline";

pub(super) const CERTIFY_EXAMPLES: &str = "\
Examples:
  webstone certify runs/20260701T120000Z-webstone
  webstone certify runs/20260701T120000Z-webstone --key ~/.ssh/id_ed25519 --archive result.tar.gz
  webstone certify runs/20260701T120000Z-webstone --key webstone-key --uncertified --format markdown

Exit codes: 0 every rule is met (or --uncertified was given), 5 one is not, 6 the record does not verify, 1 webstone
failed, 2 usage. docs/certify.md says how to check a signature without webstone.";

pub(super) const VERIFY_EXAMPLES: &str = "\
Examples:
  webstone verify runs/20260701T120000Z-webstone
  webstone verify last            # the newest run, series or duel
  webstone verify result.tar.gz --signer tester.pub
  webstone verify result.zip --allowed-signers allowed_signers --format json

Exit codes: 0 everything is as it was, 6 something is not, 1 webstone failed, 2 usage.";

pub(super) const HISTORY_EXAMPLES: &str = "\
Examples:
  webstone history
  webstone history --only fasttrack
  webstone history runs/20260701T120000Z-webstone --only html
  webstone history runs/20260701T120000Z-webstone -o history.html
  webstone history --format csv -o history.csv
  webstone history --server nginx
  webstone history --server nginx:tuned --metric p99";
