//! The agent over streams and bytes: greetings, questions, strangers; and that it measures the same as a run here.

use super::super::frames::receive;
use super::*;
use std::io::Cursor;
use std::os::unix::net::UnixStream;

/// A role that makes no load, and repeats its messages.
struct Idle(Voice);

impl LoadRole for Idle {
    fn asked(&mut self, number: u64, ask: LoadAsk, payload: Vec<u8>) {
        let said = format!("{ask:?} with {} bytes", payload.len());
        self.0.say(number, LoadAnswer::Failed(said), &payload).unwrap();
    }
}

fn idle(voice: Voice) -> Box<dyn LoadRole> {
    Box::new(Idle(voice))
}

fn greeting(protocol: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    greet(&mut bytes, &Greeting { protocol, version: "8.8.8".to_owned() }).unwrap();
    bytes
}

/// An agent's answers to these bytes before its input ends.
fn served(bytes: Vec<u8>) -> Result<(), ServeError> {
    serve(Cursor::new(bytes), io::sink(), "9.9.9", BTreeSet::new(), idle)
}

#[test]
fn the_end_of_its_input_ends_it_also_in_the_middle_of_a_message() {
    assert!(served(Vec::new()).is_ok());
    assert!(served(greeting(PROTOCOL)).is_ok());
    let mut torn = greeting(PROTOCOL);
    torn.extend(b"\0\0\0\x10{\"num");
    assert!(served(torn).is_ok());
}

#[test]
fn strangers_are_refused() {
    let error = served(greeting(PROTOCOL + 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "webstone 9.9.9 here speaks version {PROTOCOL} of the agent's protocol, but webstone 8.8.8 on the other side speaks version {}",
            PROTOCOL + 1
        )
    );
    assert_eq!(error.hint(), Some(SAME_VERSION));
    let error = served(b"GET / HTTP/1.1\r\n".to_vec()).unwrap_err();
    assert!(
        error.to_string().starts_with("this agent was not started by webstone: it sent `GET /"),
        "{error}"
    );
    let mut unknown = Vec::new();
    send(&mut unknown, &serde_json::json!({ "number": 1, "message": "SelfDestruct" })).unwrap();
    for garbled in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\x02{}", &unknown] {
        let mut bytes = greeting(PROTOCOL);
        bytes.extend(garbled);
        assert!(matches!(served(bytes), Err(ServeError::Garbled(_))), "{garbled:?}");
    }
}

/// An agent on a thread of its own, and the other end of its stream.
fn agent() -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let input = theirs.try_clone().unwrap();
    std::thread::spawn(move || serve(input, theirs, "9.9.9", BTreeSet::new(), idle));
    ours
}

fn asked(stream: &mut UnixStream, number: u64, message: Ask) -> Answer {
    send(stream, &Numbered { number, message }).unwrap();
    let answer: Numbered<Answer> = receive(stream).unwrap();
    assert_eq!(answer.number, number);
    answer.message
}

#[test]
fn questions_are_answered_in_their_order_and_senseless_ones_refused() {
    let mut stream = agent();
    stream.write_all(&greeting(PROTOCOL)).unwrap();
    assert_eq!(greeted(&mut stream).unwrap().version, "9.9.9");
    let before_ns = Control::now_ns();
    let Answer::Echoed(echoed) = asked(&mut stream, 1, Ask::Echo) else { panic!("it echoes") };
    let stamps = [before_ns, echoed.received_ns, echoed.sent_ns, Control::now_ns()];
    assert!(stamps.is_sorted(), "{stamps:?}");
    assert!(matches!(asked(&mut stream, 2, Ask::Open), Answer::Refused(_)));
    assert!(matches!(asked(&mut stream, 3, Ask::Level), Answer::Refused(_)));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let loopback = BTreeSet::from([address.ip()]);
    let find = Find { ports: Ports::tcp([address.port()]), addresses: loopback.clone(), generator: loopback };
    let Answer::Found(found) = asked(&mut stream, 4, Ask::Find(find)) else { panic!("it looks") };
    // The listener is the agent's own process here, which is never the server that it measures.
    assert_eq!((found.listens, found.cpus, found.strange.len()), (true, None, 0));
    assert_eq!(found.boot, environment::boot(&Root::default()));
    assert!(found.environment.contains_key("kernel.release"));
    assert_eq!(asked(&mut stream, 5, Ask::Level), Answer::Ready);
    // An abandoned level is ended by the next.
    assert_eq!(asked(&mut stream, 6, Ask::Level), Answer::Ready);
    // It counts once a second meanwhile: in a longer window where the machine is so busy that it missed the second.
    let mut numbers = 7..;
    let mut window = |pause_ms: u64| {
        assert_eq!(asked(&mut stream, numbers.next().unwrap(), Ask::Level), Answer::Ready);
        let since = Instant::now();
        let opened = asked(&mut stream, numbers.next().unwrap(), Ask::Open);
        assert!(matches!(opened, Answer::Opened(_)), "{opened:?}");
        std::thread::sleep(Duration::from_millis(pause_ms));
        let Answer::Closed(closed) = asked(&mut stream, numbers.next().unwrap(), Ask::Close) else {
            panic!("it closes")
        };
        let elapsed = Duration::from_nanos(closed.window.host.elapsed_ns);
        assert!(elapsed >= Duration::from_millis(pause_ms) && elapsed <= since.elapsed(), "{elapsed:?}");
        closed
    };
    let closed =
        [1_200, 2_500, 5_000, 10_000].into_iter().map(&mut window).find(|it| it.window.host.probes >= 3);
    let closed = closed.expect("it counts within ten seconds");
    assert_eq!((closed.window.server, closed.window.host.descriptors), (None, None));
    assert!(closed.window.host.links.iter().all(|link| link.loopback));
    assert!(matches!(asked(&mut stream, 99, Ask::Echo), Answer::Echoed(_)));
    let told = asked(&mut stream, 100, Ask::Load(LoadAsk::Go(7)));
    assert_eq!(told, Answer::Load(LoadAnswer::Failed("Go(7) with 0 bytes".to_owned())));
}

/// A process that listens and, told to, burns its CPU, with two descriptors more than its standard ones.
struct Burner(std::process::Child);

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_sees_what_a_local_look_sees() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let burner = std::process::Command::new("sh")
        .args(["-c", "exec 3</dev/null 4</dev/null; while :; do :; done"])
        // The listening socket is its standard input, and nobody else's.
        .stdin(std::os::fd::OwnedFd::from(listener))
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("every system has a shell");
    let burner = Burner(burner);
    let root = Root::default();
    let tree = ProcessTree::below(&root, burner.0.id());
    let used = || tree.reading().unwrap().cpu.whole_ns;
    let mut stream = agent();
    stream.write_all(&greeting(PROTOCOL)).unwrap();
    greeted(&mut stream).unwrap();
    let loopback = BTreeSet::from([std::net::Ipv4Addr::LOCALHOST.into()]);
    let find = Find { ports: Ports::tcp([port]), addresses: loopback.clone(), generator: loopback };
    let Answer::Found(found) = asked(&mut stream, 1, Ask::Find(find)) else { panic!("it looks") };
    assert_eq!(found.cpus, Some(crate::machine::allowed_cpus(&root)));
    asked(&mut stream, 2, Ask::Level);
    // What it used up to just before a question, and just after its answer.
    let mut numbers = 3..;
    let mut ask = |message: Ask, burnt_ns: u64| {
        let from = used();
        while used() < from + burnt_ns {
            std::thread::sleep(Duration::from_millis(10));
        }
        let before = used();
        (asked(&mut stream, numbers.next().unwrap(), message), [before, used()])
    };
    let seen =
        |server: &Option<ServerUse>| server.as_ref().map(|used| used.user_ns + used.system_ns).unwrap();
    let are_between = |seen: u64, [from, to]: [[u64; 2]; 2]| {
        let bounds = to[0] - from[1]..=to[1] - from[0];
        assert!(bounds.contains(&seen), "{seen} ns are not within {bounds:?}");
    };
    let (_, opening) = ask(Ask::Open, 0);
    let (mut sum, mut before) = (0, opening);
    for _ in 0..2 {
        let (Answer::Slice(slice), end) = ask(Ask::Slice, 100_000_000) else { panic!("it tells of a slice") };
        are_between(seen(&slice.server), [before, end]);
        (sum, before) = (sum + seen(&slice.server), end);
    }
    let (Answer::Closed(closed), close) = ask(Ask::Close, 100_000_000) else { panic!("it closes") };
    let last = seen(&closed.last_slice.as_ref().unwrap().server);
    are_between(last, [before, close]);
    let seen = seen(&closed.window.server);
    are_between(seen, [opening, close]);
    assert_eq!(sum + last, seen);
    let server = closed.window.server.unwrap();
    let (here, there) = (tree.present(), server.processes.unwrap());
    assert_eq!((there.processes_max, there.threads_max), (1, 1));
    // The program that started this test may have left it open files, which its children inherit.
    assert!(here.descriptors >= Some(5));
    assert_eq!((here.processes, here.threads, here.descriptors), (1, 1, there.descriptors_max));
    assert_eq!(there.resident_bytes, tree.memory().resident);
    assert!(closed.window.host.probe_cpu_ns > 0);
    if there.run_queue_ns.is_some() {
        let told: u64 = there.busiest.iter().map(|thread| thread.cpu_ns).sum();
        assert_eq!(there.busiest[0].thread, tree.heads[0]);
        assert!(told <= seen && told * 10 >= seen * 9, "{there:?}");
    }
}
