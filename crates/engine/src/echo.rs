//! An echo between one of the server's CPUs and a worker's, while the window is open. A thread on the server's CPU asks over the loopback,
//! and the worker answers in its event loop. An exchange takes longer when the two CPUs are farther apart, or when other virtual machines slow
//! what both do in the kernel. On a virtual machine that changes within seconds, no counter shows it, and requests take longer with it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Exchanges that are timed together. One more precedes them, for the two to find each other.
const ROUNDS: u32 = 8;
/// As long as a short request and its answer: records are compared by it, so it must not change.
const QUESTION_BYTES: usize = 100;
const ANSWER_BYTES: usize = 600;
/// How long a worker waits for the connection.
const CONNECTS: Duration = Duration::from_millis(100);
/// How long the worker may take to begin: it has other answers to handle first, or sleeps.
const BEGINS_MS: i64 = 5;
/// How long either side waits for the other, spinning, before it gives up.
const SPINS: Duration = Duration::from_micros(500);

/// The side that asks. It is made before the level and belongs to one worker.
#[derive(Debug)]
pub struct Echo {
    listener: TcpListener,
    stream: Option<TcpStream>,
    /// Bytes of an answer that have not arrived yet, if need be from the last time.
    owed: usize,
}

impl Echo {
    /// Listens for its worker.
    ///
    /// # Errors
    /// If the loopback has no port left.
    pub fn listen() -> io::Result<Echo> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Echo { listener, stream: None, owed: 0 })
    }

    /// Where the worker connects to: see [`LevelJob::echoes`](crate::LevelJob::echoes).
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// How long an exchange takes now, on average over eight. `None` if the worker is not there, or does not answer in time. Either of the two
    /// may have been interrupted.
    pub fn ask(&mut self) -> Option<Duration> {
        if self.stream.is_none() {
            let (stream, _) = self.listener.accept().ok()?;
            stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).ok()?;
            self.stream = Some(stream);
        }
        let stream = self.stream.as_mut()?;
        let mut answer = [0; ANSWER_BYTES];
        while self.owed > 0 {
            self.owed = self.owed.saturating_sub(stream.read(&mut answer).ok().filter(|bytes| *bytes > 0)?);
        }
        let mut exchange = |is_first: bool| -> Option<()> {
            stream.write_all(&[0; QUESTION_BYTES]).ok()?;
            self.owed = ANSWER_BYTES;
            if is_first {
                // Without taking the CPU from the server.
                wait_for(stream.as_fd());
            }
            let since = Instant::now();
            while self.owed > 0 {
                match stream.read(&mut answer[..self.owed]) {
                    Ok(0) => return None,
                    Ok(bytes) => self.owed -= bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock && since.elapsed() < SPINS => {}
                    Err(_) => return None,
                }
            }
            Some(())
        };
        exchange(true)?;
        let began = Instant::now();
        for _ in 0..ROUNDS {
            exchange(false)?;
        }
        Some(began.elapsed() / ROUNDS)
    }
}

fn wait_for(stream: BorrowedFd<'_>) {
    let most = Timespec { tv_sec: 0, tv_nsec: BEGINS_MS * 1_000_000 };
    let _ = poll(&mut [PollFd::from_borrowed_fd(stream, PollFlags::IN)], Some(&most));
}

/// A worker's side.
#[derive(Debug)]
pub(crate) struct Answering {
    stream: TcpStream,
}

impl Answering {
    /// To be called by the worker's thread, which has its own table of open files.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Answering> {
        // A firewall may drop what it does not know, even here.
        let stream = TcpStream::connect_timeout(&address, CONNECTS)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Answering { stream })
    }

    /// Answers all questions of one [`Echo::ask`], the first of which has arrived.
    #[cold]
    pub(crate) fn answer(&mut self) {
        let mut question = [0; QUESTION_BYTES];
        for _ in 0..=ROUNDS {
            let (mut heard, since) = (0, Instant::now());
            while heard < QUESTION_BYTES {
                match self.stream.read(&mut question[heard..]) {
                    Ok(0) => return,
                    Ok(bytes) => heard += bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock && since.elapsed() < SPINS => {}
                    Err(_) => return,
                }
            }
            if self.stream.write_all(&[0; ANSWER_BYTES]).is_err() {
                return;
            }
        }
    }
}

impl AsFd for Answering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_timed_when_the_worker_answers_and_only_then() {
        let mut echo = Echo::listen().unwrap();
        assert_eq!(echo.ask(), None, "nobody has connected");
        let address = echo.address().unwrap();
        let (quiet, answers) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            let mut answering = Answering::connect(address).unwrap();
            answers.recv().unwrap();
            // What was asked meanwhile is answered late; that ends the first of these.
            while answers.recv_timeout(Duration::ZERO).is_err() {
                wait_for(answering.as_fd());
                answering.answer();
            }
        });
        while echo.stream.is_none() {
            assert_eq!(echo.ask(), None, "the worker does something else");
        }
        quiet.send(()).unwrap();
        // On a busy machine one may have to wait for its CPU many times.
        let until = Instant::now() + Duration::from_secs(60);
        let took = std::iter::from_fn(|| (Instant::now() < until).then(|| echo.ask())).flatten().next();
        let took = took.expect("two threads that answer each other at once do so within a minute");
        assert!(took > Duration::ZERO);
        quiet.send(()).unwrap();
        worker.join().unwrap();
        assert_eq!(echo.ask(), None, "the worker has left");
    }

    /// Known delays in, the same figure out: a worker that takes this much longer for each answer.
    #[test]
    fn an_exchange_takes_as_long_as_its_answer() {
        for delay in [Duration::from_micros(50), Duration::from_micros(200)] {
            let mut echo = Echo::listen().unwrap();
            let address = echo.address().unwrap();
            let worker = std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                while stream.read_exact(&mut [0; QUESTION_BYTES]).is_ok() {
                    let asked = Instant::now();
                    while asked.elapsed() < delay {}
                    if stream.write_all(&[0; ANSWER_BYTES]).is_err() {
                        return;
                    }
                }
            });
            let until = Instant::now() + Duration::from_secs(60);
            let took = std::iter::from_fn(|| (Instant::now() < until).then(|| echo.ask())).flatten().next();
            assert!(took.expect("both have their CPUs at once within a minute") >= delay, "{took:?}");
            drop(echo);
            worker.join().unwrap();
        }
    }
}
