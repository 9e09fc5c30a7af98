//! Name resolution for every connection, if the run asks for it (`resolve = "per-connection"`).
//!
//! The system's resolver blocks, so it runs on threads of its own; an event descriptor wakes the worker when an
//! answer is ready. The time counts as connect time, as it would for a user.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::sys::Waker;

/// Resolver threads per worker. Further lookups wait.
const THREADS: u32 = 16;

/// A lookup: which connection asks, and for which name.
struct Question {
    connection: u32,
    ticket: u32,
    host: String,
    port: u16,
}

/// The result of a lookup.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The connection that asked.
    pub(crate) connection: u32,
    /// The number given with the question. If it is no longer the connection's, the answer is outdated.
    pub(crate) ticket: u32,
    /// The addresses, or why there are none.
    pub(crate) addresses: Result<Vec<SocketAddr>, String>,
}

/// Resolver threads of one worker. They end when it is dropped.
pub(crate) struct Resolver {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    waker: Arc<Waker>,
}

impl Resolver {
    /// Starts the threads; at most one for each of `clients`.
    pub(crate) fn start(clients: u32) -> std::io::Result<Resolver> {
        let (questions, to_answer) = channel::<Question>();
        let (answered, answers) = channel();
        let to_answer = Arc::new(Mutex::new(to_answer));
        let waker = Arc::new(Waker::new()?);
        for number in 0..clients.clamp(1, THREADS) {
            let (to_answer, answered, waker) = (to_answer.clone(), answered.clone(), waker.clone());
            let work = move || {
                loop {
                    // A poisoned lock or a closed channel both mean that the worker has ended.
                    let Ok(Ok(question)) = to_answer.lock().map(|queue| queue.recv()) else { return };
                    let found = (question.host.as_str(), question.port).to_socket_addrs();
                    let addresses = match found.map(Iterator::collect::<Vec<_>>) {
                        Ok(list) if list.is_empty() => Err("the name has no address".to_owned()),
                        Ok(list) => Ok(list),
                        Err(error) => Err(error.to_string()),
                    };
                    let answer =
                        Answer { connection: question.connection, ticket: question.ticket, addresses };
                    if answered.send(answer).is_err() {
                        return;
                    }
                    waker.wake();
                }
            };
            std::thread::Builder::new().name(format!("resolver-{number}")).spawn(work)?;
        }
        Ok(Resolver { questions, answers, waker })
    }

    /// Becomes readable when an answer is ready.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Asks for a name on behalf of a connection.
    pub(crate) fn ask(&self, connection: u32, ticket: u32, host: &str, port: u16) {
        let question = Question { connection, ticket, host: host.to_owned(), port };
        // The threads live as long as this sender does.
        let _ = self.questions.send(question);
    }

    /// The next answer, if one is ready.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}
