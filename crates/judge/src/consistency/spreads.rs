//! Spreads of clients, where they are kept, against the totals that they are parts of.

use webstone_measure::metrics::{ClientMoments, Measured, Moments};

use super::Books;

/// What is compared, a client's part of it, and the total.
type Part<'a> = (&'static str, fn(&ClientMoments) -> &Moments, &'a Moments);

/// The spreads of clients, where they are kept, add up to those of the totals.
pub(super) fn of_clients(books: &mut Books, measured: &Measured) {
    if measured.client_moments.is_empty() {
        return;
    }
    let one_each = measured.client_moments.len() == measured.clients.len();
    books.holds("spreads: of every client", one_each, || {
        format!("{} of {} clients", measured.client_moments.len(), measured.clients.len())
    });
    let parts: [Part<'_>; 4] = [
        ("connect times: clients = total", |it| &it.connect, &measured.connect),
        ("spreads of response times: clients = total", |it| &it.response, &measured.response),
        ("sizes of answers: clients = total", |it| &it.answer, &measured.response_bytes),
        ("sizes of bodies: clients = total", |it| &it.body, &measured.body_bytes),
    ];
    let of_each = measured.client_moments.iter().zip(&measured.clients).all(|(moments, client)| {
        moments.connect.count == client.connects
            && (moments.response.count, moments.response.sum) == (client.requests, client.response_ns)
            && (moments.answer.count, moments.answer.sum) == (client.requests, client.bytes)
            && moments.body.count == client.requests
    });
    books.holds("spreads: each of its client", of_each, || "counts or sums of a client differ".to_owned());
    for (what, part, total) in parts {
        let mut together = Moments::default();
        measured.client_moments.iter().for_each(|client| together.merge(part(client)));
        books.holds(what, together == *total, || format!("{together:?} and {total:?}"));
    }
}
