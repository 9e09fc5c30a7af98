//! Maps the operating system's error numbers to the classes of `docs/measurement.md`.

use std::io;

use rustix::io::Errno;
use webstone_measure::errors::ErrorClass;

/// The class of a failed system call on a connection. `connecting` decides which kind a time-out is.
pub(crate) fn class_of(error: &io::Error, connecting: bool) -> ErrorClass {
    match Errno::from_io_error(error) {
        // A Unix socket returns EAGAIN when its listen queue is full, and ENOENT when there is no socket of that
        // name.
        Some(Errno::CONNREFUSED | Errno::AGAIN | Errno::NOENT) if connecting => ErrorClass::Refused,
        Some(Errno::TIMEDOUT) if connecting => ErrorClass::ConnectTimeout,
        Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::NOTCONN | Errno::TIMEDOUT) => {
            ErrorClass::Reset
        }
        Some(Errno::CONNREFUSED) => ErrorClass::Refused,
        Some(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN) => {
            ErrorClass::Unreachable
        }
        Some(Errno::ADDRNOTAVAIL) => ErrorClass::OutOfPorts,
        Some(Errno::MFILE | Errno::NFILE) => ErrorClass::OutOfDescriptors,
        _ if error.kind() == io::ErrorKind::ConnectionReset => ErrorClass::Reset,
        _ => ErrorClass::GeneratorIo,
    }
}

/// The operating system's message, without its number.
pub(crate) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_blame_whom_they_should() {
        for (errno, connecting, class) in [
            (Errno::CONNREFUSED, true, ErrorClass::Refused),
            (Errno::CONNRESET, false, ErrorClass::Reset),
            (Errno::PIPE, false, ErrorClass::Reset),
            (Errno::TIMEDOUT, true, ErrorClass::ConnectTimeout),
            (Errno::HOSTUNREACH, true, ErrorClass::Unreachable),
            (Errno::ADDRNOTAVAIL, true, ErrorClass::OutOfPorts),
            (Errno::MFILE, true, ErrorClass::OutOfDescriptors),
            (Errno::INVAL, true, ErrorClass::GeneratorIo),
        ] {
            assert_eq!(class_of(&errno.into(), connecting), class, "{errno:?}");
        }
        assert_eq!(describe(&Errno::CONNREFUSED.into()), "connection refused");
    }
}
