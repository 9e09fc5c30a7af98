//! Ranges of a byte buffer that a plan or a request owns.

/// A range of bytes within a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    start: u32,
    length: u32,
}

impl Slice {
    /// To be called only if the buffer has at most 4 GiB.
    pub(crate) fn of_bytes(start: usize, length: usize) -> Slice {
        Slice { start: start as u32, length: length as u32 }
    }

    #[inline]
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }

    #[inline]
    pub(crate) fn end(self) -> usize {
        self.start as usize + self.length as usize
    }
}
