//! What was received on a connection of QUIC: numbers of packets, and bytes of answers.

use super::quic_wire::{Part, varint};

/// Most ranges in an acknowledgement; earlier ones were acknowledged long ago.
const RANGES_MAX: usize = 32;

/// Numbers of packets that were received: ranges with both ends, in order.
#[derive(Debug, Default)]
pub(crate) struct Received(Vec<(u64, u64)>);

impl Received {
    /// The number that is expected next.
    pub(crate) fn next(&self) -> u64 {
        self.0.last().map_or(0, |last| last.1 + 1)
    }

    #[inline]
    pub(crate) fn insert(&mut self, number: u64) {
        match self.0.last_mut() {
            Some(last) if number == last.1 + 1 => last.1 = number,
            _ => self.insert_elsewhere(number),
        }
    }

    fn insert_elsewhere(&mut self, number: u64) {
        let ranges = &mut self.0;
        // The first that does not end before the number.
        let at = ranges.partition_point(|range| range.1 < number);
        if ranges.get(at).is_some_and(|range| range.0 <= number) {
            return;
        }
        let follows = at > 0 && ranges[at - 1].1 + 1 == number;
        let precedes = ranges.get(at).is_some_and(|range| range.0 == number + 1);
        match (follows, precedes) {
            (true, true) => ranges[at - 1].1 = ranges.remove(at).1,
            (true, false) => ranges[at - 1].1 = number,
            (false, true) => ranges[at].0 = number,
            (false, false) => ranges.insert(at, (number, number)),
        }
        if ranges.len() > RANGES_MAX {
            ranges.remove(0);
        }
    }

    /// Appends a frame that acknowledges them.
    pub(crate) fn write_ack(&self, out: &mut Vec<u8>) {
        let Some((last, others)) = self.0.split_last() else { return };
        out.push(0x02);
        varint(out, last.1);
        // Without a delay.
        varint(out, 0);
        varint(out, others.len() as u64);
        varint(out, last.1 - last.0);
        let mut above = last.0;
        for (low, high) in others.iter().rev() {
            varint(out, above - high - 2);
            varint(out, high - low);
            above = *low;
        }
    }
}

/// The requests of a connection that are in progress.
#[derive(Debug)]
pub(crate) struct Slots {
    /// By the number of the stream, modulo the number of slots: more than requests at a time, as these end in any order.
    slots: Box<[Slot]>,
    /// How many may be in progress, and are.
    most: usize,
    busy: usize,
    /// Streams that have begun.
    begun: u64,
}

/// A request and its answer.
#[derive(Clone, Debug)]
struct Slot {
    /// Its stream's number; [`FREE`] if no request uses the slot.
    stream: u64,
    /// The answer came whole up to here.
    end: u64,
    /// What came beyond that.
    beyond: Vec<(u64, u64)>,
    /// Bytes of the answer, as soon as its end came.
    size: u64,
    /// Whether a tick has passed since the request was sent, and none of its answer came.
    is_late: bool,
}

const FREE: u64 = u64::MAX;
const UNKNOWN: u64 = u64::MAX;

impl Slots {
    pub(crate) fn new(most: usize) -> Slots {
        let slot = Slot { stream: FREE, end: 0, beyond: Vec::new(), size: UNKNOWN, is_late: false };
        let slots = vec![slot; (2 * most).next_power_of_two()].into_boxed_slice();
        Slots { slots, most, busy: 0, begun: 0 }
    }

    pub(crate) fn are_free(&self) -> bool {
        self.busy == 0
    }

    /// The stream of a new request, if there may be one.
    #[inline]
    pub(crate) fn begin(&mut self, streams_max: u64) -> Option<u64> {
        let stream = self.begun << 2;
        let slot = &mut self.slots[at(self.begun, self.slots.len())];
        if self.busy == self.most || self.begun >= streams_max || slot.stream != FREE {
            return None;
        }
        (slot.stream, slot.end, slot.size, slot.is_late) = (stream, 0, UNKNOWN, false);
        self.busy += 1;
        self.begun += 1;
        Some(stream)
    }

    /// Takes a part of an answer; returns whether the answer is whole now, for the first time.
    #[inline]
    pub(crate) fn hear(&mut self, part: Part<'_>) -> bool {
        let Part { stream, begin, data, is_last } = part;
        let end = begin + data.len() as u64;
        let slot = &mut self.slots[at(stream >> 2, self.slots.len())];
        if slot.stream != stream {
            return false;
        }
        slot.is_late = false;
        if is_last {
            slot.size = end;
        }
        if begin <= slot.end {
            slot.end = slot.end.max(end);
            slot.join();
        } else {
            slot.beyond.push((begin, end));
        }
        if slot.end != slot.size {
            return false;
        }
        slot.stream = FREE;
        self.busy -= 1;
        true
    }

    /// A tick: appends the streams of requests that had no answer at the one before either.
    pub(crate) fn late(&mut self, due: &mut Vec<u64>) {
        for slot in self.slots.iter_mut().filter(|slot| slot.stream != FREE && slot.end == 0) {
            if std::mem::replace(&mut slot.is_late, true) {
                due.push(slot.stream);
            }
        }
    }
}

impl Slot {
    /// Joins what came beyond the end to it, if it now reaches there.
    #[inline]
    fn join(&mut self) {
        while let Some(at) = self.beyond.iter().position(|part| part.0 <= self.end) {
            self.end = self.end.max(self.beyond.swap_remove(at).1);
        }
    }
}

fn at(stream: u64, slots: usize) -> usize {
    stream as usize & (slots - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_gives_the_same_ranges() {
        for numbers in [[0, 1, 2, 4, 7, 8], [8, 7, 4, 2, 1, 0], [4, 0, 8, 2, 1, 7], [1, 8, 0, 7, 4, 2]] {
            let mut received = Received::default();
            for number in numbers.into_iter().chain(numbers) {
                received.insert(number);
            }
            assert_eq!(received.0, [(0, 2), (4, 4), (7, 8)]);
            let mut frame = Vec::new();
            received.write_ack(&mut frame);
            // To 8, at once, two more ranges; 8 and one below it; a gap of two, one; a gap of one, three.
            assert_eq!(frame, [2, 8, 0, 2, 1, 1, 0, 0, 2]);
            assert_eq!(received.next(), 9);
        }
        let mut many = Received::default();
        (0..100).for_each(|number| many.insert(2 * number));
        assert_eq!((many.0.len(), many.0[0]), (RANGES_MAX, (136, 136)));
    }

    #[test]
    fn an_answer_is_whole_once_in_any_order() {
        let bytes = [0; 30];
        let part = |begin: u64, end: u64, is_last| Part {
            stream: 0,
            begin,
            data: &bytes[begin as usize..end as usize],
            is_last,
        };
        let mut slots = Slots::new(1);
        assert_eq!(slots.begin(9), Some(0));
        assert_eq!(slots.begin(9), None);
        for (piece, whole) in [
            (part(20, 30, true), false),
            (part(0, 5, false), false),
            (part(10, 20, false), false),
            (part(0, 10, false), true),
            (part(0, 30, true), false),
        ] {
            assert_eq!(slots.hear(piece), whole, "{piece:?}");
        }
        assert!(slots.are_free());
        // Not before the server allows it.
        assert_eq!((slots.begin(1), slots.begin(2)), (None, Some(4)));
        let mut due = Vec::new();
        slots.late(&mut due);
        assert!(due.is_empty());
        slots.late(&mut due);
        assert_eq!(due, [4]);
    }
}
