//! A specification and a workload, compiled: request bytes, addresses, limits. Made once, shared by all workers.

use indexmap::IndexMap;
use webstone_measure::units::{Bandwidth, NANOS_PER_SECOND, Nanos};
use webstone_workload::aim;
use webstone_workload::arrivals::ArrivalProcess;
use webstone_workload::content::Content;
use webstone_workload::http2_settings::Http2Settings;
use webstone_workload::is_absolute;
use webstone_workload::load::{
    Check, ConnectionPolicy, GeneratorTask, HttpVersion, QuicVersion, Resolve, WhenBusy, parse_cpu_list,
};
use webstone_workload::request::Request;
use webstone_workload::route::ProxyProtocol;
use webstone_workload::{Body, Feed, FileRequest, Sampler, Statuses, Workload};

use crate::client::Client;
use crate::contents::Contents;
use crate::feeds;
use crate::h1::request::{
    RequestParts, is_field_value, is_idempotent, is_safe, is_target, is_token, write_request,
};
use crate::h2::request::{Builder, Coding, Requests};
use crate::h3::qlog::Qlog;
use crate::layer::Layer;
use crate::link::Link;
use crate::origin::{Origin, split};
use crate::origins::Origins;
use crate::plan_error::PlanError;
use crate::request_template::RequestTemplate;
use crate::session::Session;
use crate::slice::Slice;
use crate::sys::{Address, Source};
use crate::tls::TlsPlan;

/// Everything that a level needs before its first request, computed once.
#[derive(Debug)]
pub struct Plan {
    pub(crate) workload: Workload,
    pub(crate) sampler: Sampler,
    pub(crate) pages: Vec<PagePlan>,
    pub(crate) requests: Vec<RequestPlan>,
    pub(crate) origins: Vec<Origin>,
    /// Request bytes; [`RequestPlan`] points into it.
    pub(crate) bytes: Vec<u8>,
    /// Default method, for labels.
    pub(crate) method: String,
    pub(crate) source: Vec<Source>,
    pub(crate) policy: ConnectionPolicy,
    pub(crate) requests_per_connection: u64,
    pub(crate) parallel: u32,
    pub(crate) check: Check,
    /// Expected statuses of requests that do not give their own.
    pub(crate) expected: Statuses,
    pub(crate) reset: bool,
    pub(crate) resolve_each: bool,
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    pub(crate) seed: u64,
    pub(crate) arrivals: ArrivalProcess,
    pub(crate) when_busy: WhenBusy,
    pub(crate) spin: bool,
    /// Whether spreads are kept of each page and client.
    pub(crate) spreads: bool,
    /// Bandwidth of each client's line, if clients have lines of their own.
    pub(crate) bandwidth: Option<Bandwidth>,
    pub(crate) connect_timeout_ns: u64,
    pub(crate) first_byte_timeout_ns: u64,
    pub(crate) request_timeout_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) page_limit: Option<u64>,
    pub(crate) warmup_ns: u64,
    pub(crate) drain_ns: u64,
    pub(crate) workers: u32,
    pub(crate) cpus: Vec<u32>,
    pub(crate) trace: u32,
    /// Page → slot of its own histograms; `None` for pages without.
    pub(crate) histogram_slots: Vec<Option<u16>>,
    pub(crate) histogram_pages: Vec<u32>,
    /// Check sums that bodies must have, if contents are checked.
    pub(crate) contents: Option<Contents>,
    /// Requests of a run in HTTP/2 or HTTP/3; empty otherwise.
    pub(crate) h2: Requests,
    http: HttpVersion,
    pub(crate) quic_version: QuicVersion,
    pub(crate) qlog: Option<Qlog>,
    is_pipelined: bool,
    /// HTTP/2: the settings that a connection begins with.
    pub(crate) h2_settings: Http2Settings,
    /// HTTP/2: maximum number of concurrent streams per connection.
    pub(crate) streams: u32,
    pub(crate) clients_per_connection: u32,
    /// Settings of TLS; absent if no URL uses it.
    pub(crate) tls: Option<TlsPlan>,
    templates: Vec<RequestTemplate>,
    /// Feeds encoded for request lines, if any value needs that.
    target_feeds: Option<IndexMap<String, Feed>>,
}

/// [`RequestPlan::status`] of a request that expects the run's statuses, if those are not the default (2xx).
pub(crate) const LISTED: u16 = 1;
/// [`RequestPlan::template`] of a request that never changes.
pub(crate) const NO_TEMPLATE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePlan {
    pub(crate) first_request: u32,
    pub(crate) requests: u32,
    pub(crate) think_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestPlan {
    pub(crate) page: u32,
    pub(crate) file: u32,
    pub(crate) origin: u32,
    /// Request bytes for a connection that stays open.
    pub(crate) keep: Slice,
    /// Request bytes that announce the end of the connection.
    pub(crate) last: Slice,
    /// Expected body length; [`u64::MAX`] if any is accepted.
    pub(crate) size: u64,
    /// Expected status; 0 for any from 200 to 299, [`LISTED`] for those of [`Plan::expected`].
    pub(crate) status: u16,
    pub(crate) is_head: bool,
    pub(crate) is_idempotent: bool,
    /// Index of its template, or [`NO_TEMPLATE`].
    pub(crate) template: u32,
}

impl Plan {
    /// Compiles a run and resolves host names. `spec.target` must have at least one URL and `spec.generator` its
    /// workers: the caller has filled in the embedded server's address and the number of workers.
    pub fn compile(spec: &GeneratorTask, workload: &Workload) -> Result<Plan, PlanError> {
        let client = &spec.client;
        if client.parallel == 0 {
            return Err(PlanError::new("--parallel: at 0, no file can be requested", "give 1 or more"));
        }
        if spec.load.duration == Nanos::ZERO && spec.load.pages.is_none() {
            return Err(PlanError::new(
                "the level would never end: it has neither a duration nor a number of pages",
                "give -d 10s, -n 1000, or both",
            ));
        }
        let sampler = Sampler::new(workload.pages.iter().map(|page| page.weight)).ok_or_else(|| {
            PlanError::new(
                format!(
                    "workload {}: it has no pages, a weight is 0, or the sum of the weights is too large",
                    workload.name
                ),
                "give every page a weight from 1 to 2^40",
            )
        })?;
        let sampler = match spec.load.repetitions {
            Some(_) => sampler.in_turn(),
            None => sampler,
        };
        let strangers = match client.unix_socket {
            None => aim::strangers(workload, &spec.target, &client.allow_hosts),
            // Everything goes to the socket, whichever host is named.
            Some(_) => Vec::new(),
        };
        if !strangers.is_empty() {
            let (what, hint) = aim::refusal(&workload.name, &strangers);
            return Err(PlanError::new(what, hint));
        }
        if client.http == HttpVersion::Auto {
            let hint = "name one of them with --http";
            return Err(PlanError::new("--http auto: the version was not decided before the load", hint));
        }
        let tls = needs_tls(spec, workload).then(|| TlsPlan::new(&client.tls, client.http)).transpose()?;
        let mut origins = Origins::new(spec, workload, tls.clone())?;
        let mut plan = Plan {
            sampler,
            pages: Vec::with_capacity(workload.pages.len()),
            requests: Vec::new(),
            origins: Vec::new(),
            bytes: Vec::new(),
            method: client.method.clone(),
            source: sources(spec)?,
            policy: client.connections,
            requests_per_connection: client.requests_per_connection.map_or(u64::MAX, u64::from).max(1),
            parallel: client.parallel,
            check: client.check,
            expected: client.expect_status.clone(),
            reset: client.reset,
            resolve_each: client.resolve == Resolve::PerConnection,
            proxy_protocol: client.proxy_protocol,
            seed: client.seed,
            arrivals: spec.load.arrivals,
            when_busy: spec.load.when_busy,
            spin: spec.generator.spin.unwrap_or(false),
            spreads: spec.generator.spreads,
            bandwidth: client.bandwidth,
            connect_timeout_ns: client.connect_timeout.0,
            first_byte_timeout_ns: client.first_byte_timeout.0,
            request_timeout_ns: client.request_timeout.0,
            duration_ns: spec.load.duration.0,
            page_limit: spec.load.pages,
            warmup_ns: spec.load.warmup.0,
            drain_ns: spec.load.drain.0,
            workers: spec.generator.workers.max(1),
            cpus: cpus(spec)?,
            trace: spec.generator.trace,
            histogram_slots: Vec::new(),
            histogram_pages: Vec::new(),
            contents: None,
            h2: Requests::default(),
            http: client.http,
            quic_version: client.quic_version,
            qlog: match (&spec.generator.qlog, client.http) {
                (Some(directory), HttpVersion::Http3) => {
                    Some(Qlog::new(directory, spec.generator.qlog_connections)?)
                }
                _ => None,
            },
            is_pipelined: client.pipeline > 1,
            h2_settings: client.http2_settings,
            streams: client.streams.unwrap_or(u32::MAX),
            clients_per_connection: client.clients_per_link(),
            tls,
            templates: Vec::new(),
            target_feeds: None,
            workload: workload.clone(),
        };
        let mut contents = Vec::new();
        let mut h2 = Builder::new(match client.http {
            HttpVersion::Http3 => Coding::Qpack,
            _ => Coding::Hpack,
        });
        for (index, page) in workload.pages.iter().enumerate() {
            if page.files.is_empty() {
                return Err(PlanError::new(
                    format!("workload {}: page {index} has no files", workload.name),
                    "give it one, or remove the page",
                ));
            }
            plan.pages.push(PagePlan {
                first_request: plan.requests.len() as u32,
                requests: page.files.len() as u32,
                think_ns: client.think.unwrap_or(page.think).0,
            });
            for (file_index, file) in page.files.iter().enumerate() {
                let request = plan.request(spec, &mut origins, &mut h2, (index, file_index), file)?;
                let method = file.detail.method.as_ref().unwrap_or(&client.method);
                if client.tls.early_data && !is_safe(method) {
                    // Recorded early data can be replayed (RFC 8470 section 3).
                    return Err(PlanError::new(
                        format!(
                            "--early-data: page {index} has a request that may change something: {method} {}",
                            file.url
                        ),
                        "leave out --early-data, or ask by GET, HEAD or OPTIONS",
                    ));
                }
                if client.pipeline > 1 && !request.is_idempotent {
                    return Err(PlanError::new(
                        format!(
                            "--pipeline: page {index} has a request that no other may follow before its answer ({})",
                            file.url
                        ),
                        "leave out --pipeline, or ask by GET, HEAD, PUT, DELETE or OPTIONS",
                    ));
                }
                if let (Some(line), Some(size)) = (client.bandwidth, file.known_size(&client.method))
                    && line.time_of(size) > client.request_timeout
                {
                    let (takes, limit) = (line.time_of(size).0 / NANOS_PER_SECOND, client.request_timeout);
                    return Err(PlanError::new(
                        format!(
                            "--bandwidth {line}: {} of page {index} has {size} bytes, which take {takes} s, longer than --timeout {limit}",
                            file.url
                        ),
                        format!("give --timeout {}s or more, or a workload with smaller files", takes + 60),
                    ));
                }
                contents.push(plan.generated_file(&request, file));
                plan.requests.push(request);
            }
        }
        plan.target_feeds =
            feeds::for_targets(plan.templates.iter().map(RequestTemplate::line), &workload.feeds);
        plan.origins = origins.list;
        plan.h2 = h2.finish()?;
        plan.contents = (client.check == Check::Content).then(|| Contents::new(&contents));
        plan.choose_page_histograms(spec.generator.page_histograms);
        Ok(plan)
    }

    /// Number of requests of all pages.
    pub fn request_count(&self) -> usize {
        self.requests.len()
    }

    /// Number of workers that a level uses.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Whether the run is in HTTP/2.
    pub(crate) fn is_h2(&self) -> bool {
        self.http == HttpVersion::Http2
    }

    /// Whether the run is in HTTP/3.
    pub(crate) fn is_h3(&self) -> bool {
        self.http == HttpVersion::Http3
    }

    /// Whether requests are header blocks, not text.
    fn has_blocks(&self) -> bool {
        self.is_h2() || self.is_h3()
    }

    /// Whether requests follow each other on a connection without waiting for answers.
    pub(crate) fn is_pipelined(&self) -> bool {
        self.is_pipelined
    }

    /// Whether bodies are received, not discarded in the kernel: because their content is checked, because Unix
    /// sockets cannot discard, or because there are frames within them.
    pub(crate) fn receives_bodies(&self) -> bool {
        let is_unix = |address: &Address| matches!(address, Address::Unix(_));
        self.has_blocks()
            || self.is_pipelined
            || self.check == Check::Content
            || self.tls.is_some()
            || self.origins.iter().any(|origin| origin.addresses.iter().any(is_unix))
    }

    pub(crate) fn slice(&self, slice: Slice) -> &[u8] {
        &self.bytes[slice.start()..slice.end()]
    }

    /// The address that a link goes to, for messages.
    pub(crate) fn peer<S, L: Layer, P: Session>(&self, link: &Link<S, L, P>) -> String {
        let origin = &self.origins[link.origin as usize];
        match &link.resolved {
            Some(address) => address.to_string(),
            None => origin.addresses[link.address as usize].to_string(),
        }
    }

    /// Method and URL of a request, for messages.
    pub(crate) fn label(&self, request: u32) -> String {
        let request = &self.requests[request as usize];
        let file = &self.workload.pages[request.page as usize].files[request.file as usize];
        let method = file.detail.method.as_deref().unwrap_or(&self.method);
        if is_absolute(&file.url) {
            format!("{method} {}", file.url)
        } else {
            let origin = &self.origins[request.origin as usize];
            format!("{method} {}://{}{}", origin.scheme.name(), origin.authority, file.url)
        }
    }

    /// Appends a templated request, filled with the client's next values, to `out`.
    pub(crate) fn render(&self, request: u32, is_last: bool, client: &mut Client, out: &mut Vec<u8>) {
        let feeds = &self.workload.feeds;
        let for_targets = self.target_feeds.as_ref().unwrap_or(feeds);
        if self.has_blocks() {
            return self.h2.render(request, feeds, for_targets, client, out);
        }
        let template = &self.templates[self.requests[request as usize].template as usize];
        template.render(feeds, for_targets, is_last, client, out);
    }

    /// Content and size of the generated file that a request asks for; `None` for anything else.
    fn generated_file(&self, request: &RequestPlan, file: &FileRequest) -> Option<(Content, u64)> {
        let size = file.generated_size(&self.method).filter(|_| request.template == NO_TEMPLATE)?;
        Some((Content::of_url(&file.url), size))
    }

    fn request(
        &mut self,
        spec: &GeneratorTask,
        origins: &mut Origins,
        h2: &mut Builder,
        (page, index): (usize, usize),
        file: &FileRequest,
    ) -> Result<RequestPlan, PlanError> {
        let what = format!("workload {}, page {page}, file {index}", self.workload.name);
        let absolute = (is_absolute(&file.url) && file.url.contains("://"))
            .then(|| split(&what, &file.url))
            .transpose()?;
        let secure = origins.secure().filter(|_| file.detail.tls).cloned();
        let (absolute, path) = match &absolute {
            Some((target, path)) => (Some(target), &**path),
            None => (secure.as_ref(), &*file.url),
        };
        let is_templated = RequestTemplate::is_needed(&what, spec, file)?;
        let can_stand = if is_templated { RequestTemplate::is_target(&what, path)? } else { is_target(path) };
        if !path.starts_with('/') || !can_stand {
            return Err(PlanError::new(
                format!("{what}: `{path}` is not a path"),
                "paths begin with a slash; percent-encode spaces and other special bytes (%20)",
            ));
        }
        let origin = origins.index(&what, absolute)?;
        let detail = &file.detail;
        let mut sent = detail.request(&spec.client);
        check_fields(&sent, &what)?;
        if let Some((fault, hint)) = sent.fault(spec.client.http) {
            return Err(PlanError::new(format!("{what}: {fault}"), hint));
        }
        if is_templated && matches!(sent.body, Some(Body::Bytes(_))) {
            return Err(PlanError::new(
                format!(
                    "{what}: its URL or a header field has templates, and the body is bytes, which have none"
                ),
                "leave out the templates, or give a body that is text (--body)",
            ));
        }
        if is_templated && sent.body.is_some() {
            // It is added when the request is filled in.
            sent.fields.remove("Content-Length");
        }
        let method = sent.method;
        if !is_token(method) {
            return Err(PlanError::new(
                format!("{what}: `{method}` is not an HTTP method"),
                "write GET, HEAD, POST, …",
            ));
        }
        let asked = origins.target(absolute);
        let authority = asked.authority();
        let target = if origins.names_url(asked) && !self.has_blocks() {
            format!("http://{authority}{path}")
        } else {
            path.to_owned()
        };
        let mut parts = RequestParts {
            method,
            target: &target,
            host: &authority,
            version: spec.client.http,
            headers: sent.fields.iter().as_slice(),
            body: sent.body.map(Body::bytes),
            last: false,
            body_later: false,
        };
        if self.has_blocks() {
            let scheme = origins.scheme(absolute);
            h2.add(&what, origin, scheme, is_templated, &parts)?;
        }
        let mut template = NO_TEMPLATE;
        if is_templated {
            template = self.templates.len() as u32;
            self.templates.push(RequestTemplate::for_file(&what, &mut parts, &self.workload.feeds)?);
        }
        let mut keep = Slice::default();
        let mut last = Slice::default();
        if self.has_blocks() {
            // These requests are made together, at the end.
        } else if self.policy != ConnectionPolicy::PerRequest {
            keep = self.append(&what, &parts)?;
        }
        let announces_end =
            self.policy != ConnectionPolicy::KeepAlive || self.requests_per_connection != u64::MAX;
        if announces_end && !self.has_blocks() {
            parts.last = true;
            last = self.append(&what, &parts)?;
        }
        Ok(RequestPlan {
            page: page as u32,
            file: index as u32,
            origin,
            keep,
            last,
            size: file
                .known_size(&self.method)
                // A coded body has another length.
                .filter(|_| spec.client.check != Check::Status && spec.client.accept_encoding.is_empty())
                .unwrap_or(u64::MAX),
            status: detail.status.unwrap_or(if self.expected.is_default() { 0 } else { LISTED }),
            is_head: method == "HEAD",
            is_idempotent: is_idempotent(method),
            template,
        })
    }

    fn append(&mut self, what: &str, parts: &RequestParts<'_>) -> Result<Slice, PlanError> {
        let start = self.bytes.len();
        write_request(parts, &mut self.bytes);
        let too_long = || {
            PlanError::new(
                format!("{what}: the requests of the workload take more than 4 GiB"),
                "shorten the bodies or split the workload",
            )
        };
        let end = u32::try_from(self.bytes.len()).map_err(|_| too_long())?;
        Ok(Slice::of_bytes(start, end as usize - start))
    }

    /// Gives the heaviest pages histograms of their own.
    fn choose_page_histograms(&mut self, most: u32) {
        let mut order: Vec<u32> = (0..self.pages.len() as u32).collect();
        order.sort_by_key(|page| std::cmp::Reverse(self.workload.pages[*page as usize].weight));
        order.truncate(most.min(u32::from(u16::MAX)) as usize);
        order.sort_unstable();
        self.histogram_slots = vec![None; self.pages.len()];
        for (slot, page) in order.iter().enumerate() {
            self.histogram_slots[*page as usize] = Some(slot as u16);
        }
        self.histogram_pages = order;
    }
}

/// The local addresses of connections. It must be possible to bind a socket to each.
fn sources(spec: &GeneratorTask) -> Result<Vec<Source>, PlanError> {
    let sources: Vec<Source> = Source::all(&spec.client).collect();
    for source in &sources {
        source.check().map_err(|(what, hint)| PlanError::new(what, hint))?;
    }
    Ok(sources)
}

fn cpus(spec: &GeneratorTask) -> Result<Vec<u32>, PlanError> {
    if !spec.generator.pin {
        return Ok(Vec::new());
    }
    parse_cpu_list(&spec.generator.cpus)
        .map_err(|what| PlanError::new(format!("--cpus: {what}"), "`lscpu -e` lists the CPUs of this host"))
}

fn check_fields(request: &Request<'_>, what: &str) -> Result<(), PlanError> {
    for (name, value) in &request.fields {
        if !is_token(name) || !is_field_value(value) {
            return Err(PlanError::new(
                format!("{what}: `{name}: {value}` is not a header field"),
                "write -H 'Name: value' without line ends or other control characters",
            ));
        }
    }
    Ok(())
}

/// Whether any URL of a run is `https`.
fn needs_tls(spec: &GeneratorTask, workload: &Workload) -> bool {
    let is_secure = |url: &str| url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    let files = workload.pages.iter().flat_map(|page| &page.files);
    spec.target.iter().any(|url| is_secure(url)) || files.map(|file| &*file.url).any(is_secure)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
