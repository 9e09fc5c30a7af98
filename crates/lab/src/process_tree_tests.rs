//! Readings of files with known numbers, and the truth of each figure: a child that does a known amount of work is found to
//! have done so much.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::machine::tests::root_with;
use crate::process_use::CpuTime;

/// What `/proc` has of a process with one thread.
fn files(pid: u32, switches: [u64; 2], faults: [u64; 4], disk: [u64; 2]) -> Vec<(String, String)> {
    let [minor, minor_children, major, major_children] = faults;
    let status = format!(
        "Name:\tx\nVmHWM:\t     8 kB\nVmRSS:\t     6 kB\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
        switches[0], switches[1]
    );
    vec![
        (
            format!("/proc/{pid}/stat"),
            format!(
                "{pid} (a) b) S 1 2 3 4 5 6 {minor} {minor_children} {major} {major_children} 0 0 0 0 20 0 1 0 99"
            ),
        ),
        (format!("/proc/{pid}/status"), status.clone()),
        (format!("/proc/{pid}/task/{pid}/status"), status),
        (format!("/proc/{pid}/io"), format!("rchar: 9\nread_bytes: {}\nwrite_bytes: {}\n", disk[0], disk[1])),
        (format!("/proc/{pid}/fd/0"), String::new()),
        (format!("/proc/{pid}/fd/7"), String::new()),
        (format!("/proc/{pid}/smaps_rollup"), "Rss:  6 kB\nPss:                  3 kB\n".to_owned()),
    ]
}

fn below(files: &[(String, String)]) -> (tempfile::TempDir, Root) {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    root_with(&files)
}

#[test]
fn what_was_used_is_the_difference_of_two_readings() {
    let mut before = [
        files(1, [5, 0], [1, 0, 0, 0], [0, 0]),
        files(2, [100, 10], [50, 0, 1, 0], [4096, 0]),
        files(3, [9_000, 0], [7, 0, 0, 0], [0, 512]),
    ]
    .concat();
    before.push(("/proc/1/task/1/children".to_owned(), "2 3".to_owned()));
    // The third has ended, and the first has waited for it; a fourth was born.
    let mut after = [
        files(1, [6, 0], [1, 9, 0, 2], [0, 1024]),
        files(2, [150, 12], [60, 0, 2, 0], [8192, 512]),
        files(4, [7, 1], [4, 0, 0, 0], [0, 1024]),
    ]
    .concat();
    after.push(("/proc/1/task/1/children".to_owned(), "2 4".to_owned()));
    let (_keep, root) = below(&before);
    let opened = ProcessTree::below(&root, 1).reading().unwrap();
    let (_keep, root) = below(&after);
    let tree = ProcessTree::below(&root, 1);
    let used = opened.until(&tree.reading().unwrap(), tree.present(), tree.memory());
    let expected = ProcessUse {
        switches_voluntary: 1 + 50 + 7,
        switches_involuntary: 2 + 1,
        faults_minor: 2 + 10 + 4,
        faults_major: 2 + 1,
        disk_read_bytes: Some(4096),
        disk_written_bytes: Some(512 + 512 + 1024),
        readings: 1,
        readings_blocked: 0,
        disk_wait_ns: None,
        throttled_ns: None,
        processes_max: 3,
        threads_max: 3,
        descriptors_max: Some(3 * 2),
        resident_bytes: (3 * 6) << 10,
        proportional_bytes: Some((3 * 3) << 10),
        run_queue_ns: None,
        threads_cpu_ns: None,
        busiest: Vec::new(),
    };
    assert_eq!(used, expected);
    assert_eq!(tree.memory().resident_max, (3 * 8) << 10);
    let beneath = ProcessTree::beneath(&root, 1);
    assert_eq!(beneath.present().processes, 2, "what stands between is no part of the server");
    assert_eq!(beneath.memory().resident, (2 * 6) << 10);
    assert_eq!(beneath.reading(), tree.reading(), "but it has waited for those that ended");
    assert_eq!(ProcessTree::below(&root, 77).reading(), None);
}

#[test]
fn what_may_not_be_seen_is_absent() {
    let mut seen = files(1, [1, 1], [0; 4], [0, 0]);
    seen.retain(|(path, _)| !path.ends_with("/io") && !path.contains("/fd/") && !path.ends_with("rollup"));
    let (_keep, root) = below(&seen);
    let tree = ProcessTree::below(&root, 1);
    let reading = tree.reading().unwrap();
    let used = reading.until(&reading, tree.present(), tree.memory());
    assert_eq!((used.disk_read_bytes, used.descriptors_max, used.proportional_bytes), (None, None, None));
    assert_eq!((used.processes_max, used.resident_bytes), (1, 6 << 10));
    let more = Present { processes: 1, threads: 9, descriptors: Some(4) };
    assert_eq!(more.most(tree.present()), more);
}

#[test]
fn threads_are_distinguished_by_what_they_used() {
    let mut before = [files(1, [0; 2], [0; 4], [0; 2]), files(2, [0; 2], [0; 4], [0; 2])].concat();
    before.push(("/proc/1/task/1/children".to_owned(), "2".to_owned()));
    before.push(("/proc/1/task/1/schedstat".to_owned(), "100 10 1".to_owned()));
    before.push(("/proc/2/task/2/schedstat".to_owned(), "5000 200 1".to_owned()));
    // The first process has a second thread, with a name that must not be printed as it is; five more of the other, of which
    // the least busy are not kept.
    let mut after = before.clone();
    let schedstat = |process: u32, thread: u32| format!("/proc/{process}/task/{thread}/schedstat");
    let status = |process: u32, thread: u32| format!("/proc/{process}/task/{thread}/status");
    after.retain(|(path, _)| *path != schedstat(2, 2));
    after.push((schedstat(2, 2), "9000 300 1".to_owned()));
    after.push((schedstat(1, 3), "7000 50 1".to_owned()));
    after.push((status(1, 3), "State:\tD (disk sleep)\nName:\tno\u{1b}[2Jise\n".to_owned()));
    for thread in 4..9 {
        after.push((schedstat(2, thread), format!("{thread} 1 1")));
        after.push((status(2, thread), "Name:\tidle\n".to_owned()));
    }
    let (_keep, root) = below(&before);
    let opened = ProcessTree::below(&root, 1).reading().unwrap();
    let (_keep, root) = below(&after);
    let tree = ProcessTree::below(&root, 1);
    let used = opened.until(&tree.reading().unwrap(), tree.present(), tree.memory()).of_window();
    let thread = |process, thread, name: &str, cpu_ns, run_queue_ns| ThreadUse {
        process,
        thread,
        name: name.to_owned(),
        cpu_ns,
        run_queue_ns,
    };
    assert_eq!(used.run_queue_ns, Some(100 + 50 + 5));
    assert_eq!((used.readings, used.readings_blocked), (1, 1));
    assert_eq!(
        used.busiest,
        [
            thread(1, 3, "no?[2Jise", 7000, 50),
            thread(2, 2, "x", 4000, 100),
            thread(2, 8, "idle", 8, 1),
            thread(2, 7, "idle", 7, 1)
        ]
    );
}

/// A script that says when it is ready and does its work when it is told to.
struct Worker {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
    tree: ProcessTree,
    /// What its work took by its own account.
    account: CpuTime,
}

/// The beginning of each script: `ready()` waits for the order to begin, `burnt()` returns the CPU time since.
const PRELUDE: &str = "\
import mmap, os, resource, sys, threading, time
def used():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return { 'user': use.ru_utime, 'system': use.ru_stime }
def ready():
    global before
    print('ready', flush=True)
    sys.stdin.readline()
    before = used()
def burnt(kind):
    return used()[kind] - before[kind]
";
/// Its end. The line is written at once, without Python's buffers: others may write, too.
const CLOSING: &str = "
sys.stdout.write(f\"done {1e9 * burnt('user'):.0f} {1e9 * burnt('system'):.0f}\\n\")
sys.stdout.flush()
sys.stdin.readline()
";

fn skipped(why: &str) {
    println!("skipped: {why}");
}

impl Worker {
    /// Starts it and waits until it is ready; without Python, prints that and returns `None`.
    fn start(script: &str) -> Option<Worker> {
        let child = Command::new("python3")
            .args(["-c", &format!("{PRELUDE}{script}{CLOSING}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            skipped("python3 is not installed");
            return None;
        };
        let said = BufReader::new(child.stdout.take().unwrap());
        let tree = ProcessTree::below(&Root::default(), child.id());
        let mut worker = Worker { child, said, tree, account: CpuTime::default() };
        assert_eq!(worker.says(), "ready");
        Some(worker)
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Lets it work, and returns what it used: CPU time, everything else, and its peak of memory.
    fn work(&mut self) -> (CpuTime, ProcessUse, u64) {
        self.tree.reset_peak();
        let before = self.tree.reading().unwrap();
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let done = self.says();
        let told: Vec<&str> = done.split(' ').collect();
        let ["done", user, system] = told[..] else { panic!("the script said `{done}`") };
        self.account = CpuTime { user_ns: user.parse().unwrap(), system_ns: system.parse().unwrap() };
        let after = self.tree.reading().unwrap();
        let memory = self.tree.memory();
        let used = before.until(&after, self.tree.present(), memory);
        (after.cpu.since(before.cpu), used, memory.resident_max)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a value is what it must be, to a share of it and an amount.
fn assert_near(what: &str, value: u64, truth: u64, percent: u64, besides: u64) {
    let off = value.abs_diff(truth);
    assert!(off <= truth * percent / 100 + besides, "{what}: {value} instead of {truth}");
}

const MILLISECOND: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

#[test]
fn cpu_time_is_what_was_burnt_user_and_system_apart() {
    // 300 ms each, in user mode, and in the kernel, which fills a buffer with zeros. The script looks itself how long it has
    // worked: which part a moment belongs to is sampled by the kernel, and skewed beside other programs.
    let user = "ready()\nwhile burnt('user') < 0.3:\n    for _ in range(10000): pass\n";
    let system = "zero = open('/dev/zero', 'rb', 0)\nroom = bytearray(1 << 23)\nready()\n\
                  while burnt('system') < 0.3: zero.readinto(room)\n";
    for script in [user, system] {
        let Some(mut worker) = Worker::start(script) else { return };
        let (cpu, ..) = worker.work();
        let account = worker.account;
        assert!(account.user_ns.max(account.system_ns) >= 300 * MILLISECOND, "{account:?}");
        assert_near("user", cpu.user_ns, account.user_ns, 5, 20 * MILLISECOND);
        assert_near("system", cpu.system_ns, account.system_ns, 5, 20 * MILLISECOND);
        let both = |cpu: CpuTime| cpu.user_ns + cpu.system_ns;
        assert_near("both", both(cpu), both(account), 1, 5 * MILLISECOND);
    }
}

#[test]
fn cpu_time_of_children_that_have_ended_is_their_parents() {
    let script = "ready()\nchild = os.fork()\nif child == 0:\n    end = time.process_time() + 0.2\n    \
                  while time.process_time() < end: pass\n    os._exit(0)\nos.waitpid(child, 0)\n";
    let Some(mut worker) = Worker::start(script) else { return };
    let (cpu, ..) = worker.work();
    assert_near("CPU time", cpu.user_ns + cpu.system_ns, 200 * MILLISECOND, 10, 20 * MILLISECOND);
}

#[test]
fn memory_is_what_was_touched_and_its_faults_one_a_page() {
    // 32 MiB are kept and 16 MiB given back; every page is touched once. Huge pages would take fewer faults.
    let script = "ready()\ndef touched(mib):\n    room = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n    \
                  room.madvise(15)\n    for at in range(0, mib << 20, 4096): room[at] = 1\n    return room\n\
                  kept = touched(32)\ntouched(16).close()\n";
    let Some(mut worker) = Worker::start(script) else { return };
    let before = worker.tree.memory();
    let (_, used, resident_max) = worker.work();
    assert_near("resident", used.resident_bytes - before.resident, 32 * MIB, 1, MIB);
    // Its share of pages that it shares with other Pythons changes as those begin and end, by no more than the share before.
    let proportional = used.proportional_bytes.unwrap().saturating_sub(before.proportional.unwrap());
    assert_near("proportional", proportional, 32 * MIB, 1, before.resident);
    assert_near("peak", resident_max - before.resident, 48 * MIB, 1, MIB);
    assert_near("minor faults", used.faults_minor, 48 * MIB / 4096, 1, 300);
}

#[test]
fn memory_that_is_shared_counts_once() {
    // Four processes look at the same 32 MiB.
    let script = "room = mmap.mmap(-1, 32 << 20)\nfor at in range(0, 32 << 20, 4096): room[at] = 1\nready()\nfor _ in range(3):\n    \
                  if os.fork() == 0:\n        for at in range(0, 32 << 20, 4096): room[at]\n        \
                  sys.stdout.write('child\\n'); sys.stdout.flush(); time.sleep(60)\n";
    let Some(mut worker) = Worker::start(script) else { return };
    worker.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut words: Vec<String> = (0..4)
        .map(|_| {
            let line = worker.says();
            line.split(' ').next().unwrap().to_owned()
        })
        .collect();
    words.sort();
    assert_eq!(words, ["child", "child", "child", "done"]);
    let (memory, present) = (worker.tree.memory(), worker.tree.present());
    let proportional = memory.proportional.unwrap();
    // Besides, each has some memory of its own.
    assert!((32 * MIB..64 * MIB).contains(&proportional), "{memory:?}");
    assert!(memory.resident >= 4 * 32 * MIB, "{memory:?}");
    assert_eq!((present.processes, present.threads), (4, 4));
    let children = worker.tree.all();
    children.iter().filter(|pid| **pid != worker.child.id()).for_each(|pid| {
        let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    });
}

#[test]
fn bytes_that_disks_wrote_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("written");
    let script = format!(
        "file = open('{}', 'wb', 0)\nready()\nfor _ in range(8): file.write(b'x' * (1 << 20))\nos.fsync(file.fileno())\n",
        path.display()
    );
    let Some(mut worker) = Worker::start(&script) else { return };
    let (_, used, _) = worker.work();
    let written = used.disk_written_bytes.unwrap();
    if written == 0 && is_in_memory(directory.path()) {
        return skipped("the directory for temporary files is in memory, where no disk writes");
    }
    assert_near("written", written, 8 * MIB, 1, 64 << 10);
}

fn is_in_memory(path: &std::path::Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let of = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?)).filter(|(point, _)| path.starts_with(point))
    });
    let kind = of.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind);
    matches!(kind, Some("tmpfs" | "ramfs" | "overlay"))
}

#[test]
fn sleeps_are_voluntary_switches() {
    let Some(mut worker) = Worker::start("ready()\nfor _ in range(100): time.sleep(0.001)\n") else { return };
    let (_, used, _) = worker.work();
    // One a sleep, and the few that reading and writing a line take.
    assert_near("voluntary switches", used.switches_voluntary, 100, 0, 6);
}

#[test]
fn two_that_want_one_cpu_are_switched_against_their_will() {
    let script = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nready()\nend = time.monotonic() + 0.4\nchild = os.fork()\n\
                  while time.monotonic() < end: pass\nif child == 0: os._exit(0)\n";
    let Some(mut worker) = Worker::start(script) else { return };
    let (_, used, _) = worker.work();
    // The scheduler lets either run for some milliseconds at a time.
    assert!(used.switches_involuntary >= 5, "{used:?}");
}

/// If the kernel keeps no scheduling statistics, it said so.
fn threads(used: &ProcessUse) -> Option<&[ThreadUse]> {
    if used.run_queue_ns.is_none() {
        skipped("this kernel does not report how long a thread waited for its CPU");
        return None;
    }
    Some(&used.busiest)
}

#[test]
fn the_thread_that_burns_is_the_busiest_by_its_own_account() {
    // Python's threads have the process's name, so the one that burns gives itself one.
    let script = "burned = threading.Event()\ndef burn():\n    import ctypes\n    ctypes.CDLL(None).prctl(15, b'burner', 0, 0, 0)\n    \
                  end = time.thread_time() + 0.2\n    while time.thread_time() < end: pass\n    burned.set()\n    time.sleep(600)\n\
                  ready()\nfor task in burn, lambda: time.sleep(600): threading.Thread(target=task, daemon=True).start()\n\
                  burned.wait()\n";
    let Some(mut worker) = Worker::start(script) else { return };
    let (cpu, used, _) = worker.work();
    let Some([busiest, others @ ..]) = threads(&used) else { return };
    assert_eq!((busiest.process, &*busiest.name), (worker.child.id(), "burner"));
    assert_ne!(busiest.thread, busiest.process, "it is not the first thread");
    assert!((190 * MILLISECOND..=cpu.user_ns + cpu.system_ns).contains(&busiest.cpu_ns), "{used:?}");
    let rest: u64 = others.iter().map(|thread| thread.cpu_ns).sum();
    assert!(busiest.cpu_ns + rest <= cpu.user_ns + cpu.system_ns, "{used:?}");
}

#[test]
fn two_that_share_a_cpu_wait_for_each_other() {
    // Both burn 200 ms of CPU time, and until the first has done so the other wants the CPU too: however busy the machine is,
    // they wait 200 ms at least, together.
    let script = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nreader, writer = os.pipe()\nready()\n\
                  child = os.fork()\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n\
                  if child == 0:\n    os.write(writer, b'.')\n    sys.stdin.readline()\n    os._exit(0)\nos.read(reader, 1)\n";
    let Some(mut worker) = Worker::start(script) else { return };
    let (_, used, _) = worker.work();
    let Some(busiest) = threads(&used) else { return };
    let waited: u64 = busiest.iter().map(|thread| thread.run_queue_ns).sum();
    assert_eq!(busiest.len(), 2, "{used:?}");
    assert_eq!(used.run_queue_ns, Some(waited));
    assert!(waited >= 190 * MILLISECOND, "{used:?}");
}

#[test]
fn descriptors_and_threads_are_counted() {
    let script = "ready()\nheld = [os.open('/dev/null', os.O_RDONLY) for _ in range(100)]\n\
                  for _ in range(5): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n";
    let Some(mut worker) = Worker::start(script) else { return };
    let before = worker.tree.present();
    let (_, used, _) = worker.work();
    assert_eq!(used.descriptors_max.unwrap(), before.descriptors.unwrap() + 100);
    assert_eq!((before.threads, used.threads_max, used.processes_max), (1, 6, 1));
}
