//! Paths that control the server itself: its counters, and refusing connections for a time.
//!
//! A connection that asks for one of them is left out of the counters.

use std::time::Duration;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::{Content, ServerBody, respond};
use crate::exchange::Exchange;
use crate::handlers::{bad_query, text};
use crate::query::{Query, QueryError};

/// Answers with [`crate::Counters`] as JSON.
pub const COUNTERS_PATH: &str = "/.webstone/counters";

/// Refuses connections for a time: `/.webstone/refuse?for=1s`. From the answer on, and until the time is over, nothing listens at any of
/// the server's addresses; open connections continue.
pub const REFUSE_PATH: &str = "/.webstone/refuse";

/// Orders faults of connections before their first request: `/.webstone/fault?fault=alert&alert=unknown-ca`. The module
/// `connection_faults` has them all.
pub const FAULT_PATH: &str = "/.webstone/fault";

/// Longest time for which connections are refused.
const REFUSE_MAX: Duration = Duration::from_secs(3600);

/// Whether a path is one of these.
pub(crate) fn is_control(path: &str) -> bool {
    path.starts_with("/.webstone/")
}

pub(crate) fn counters(exchange: Exchange, is_head: bool) -> Response<ServerBody> {
    let counters = exchange.shard.shared.count();
    let json = serde_json::to_vec(&counters).expect("numbers under fixed names are always JSON");
    let mut response = respond(exchange, StatusCode::OK, is_head, Content::Whole(json.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(crate) async fn refuse(exchange: Exchange, is_head: bool, query: Option<&str>) -> Response<ServerBody> {
    match span(query) {
        Err(error) => bad_query(exchange, is_head, &error),
        Ok(span) => {
            exchange.shard.shared.acceptor.refuse(span).await;
            text(exchange, StatusCode::OK, is_head, format!("refusing connections for {span:?}\n"))
        }
    }
}

pub(crate) fn fault(exchange: Exchange, is_head: bool, query: Option<&str>) -> Response<ServerBody> {
    match exchange.shard.shared.connection_faults.order(query) {
        Err(error) => bad_query(exchange, is_head, &error),
        Ok(words) => text(exchange, StatusCode::OK, is_head, words),
    }
}

fn span(query: Option<&str>) -> Result<Duration, QueryError> {
    let query = Query::parse(query)?;
    let span = query.duration("for")?.unwrap_or(Duration::from_secs(1));
    query.finish("for")?;
    if span > REFUSE_MAX {
        return Err(QueryError("for: at most 1h".to_owned()));
    }
    Ok(span)
}
