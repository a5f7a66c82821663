//! Compact storage of a column's cells.
//!
//! Most cells of a record differ little from the cell of the same flow one row before: a counter
//! has grown, a state is the same. A block of cells stores these differences, each group of them in
//! as many bytes as its largest needs.

/// A column of cells of 64 bits that grows.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    /// The number of rows between two of the same flow or link, if all have a row each time.
    period: usize,
    /// Blocks of [`Self::BLOCK`] cells.
    blocks: Vec<Box<[u8]>>,
    /// The cells after them.
    open: Vec<u64>,
}

/// Differences of one width.
const GROUP: usize = 64;

impl Packed {
    const BLOCK: usize = 16 * GROUP;

    pub(crate) fn new(period: usize) -> Self {
        Self {
            period: period.max(1),
            blocks: Vec::new(),
            open: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, cell: u64) {
        self.open.push(cell);
        if self.open.len() == Self::BLOCK {
            self.close();
        }
    }

    pub(crate) fn extend(&mut self, mut cells: impl ExactSizeIterator<Item = u64>) {
        while cells.len() > 0 {
            let room = Self::BLOCK - self.open.len();
            self.open.extend(cells.by_ref().take(room));
            if self.open.len() == Self::BLOCK {
                self.close();
            }
        }
    }

    /// The number of cells.
    #[cfg(feature = "folder")]
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * Self::BLOCK + self.open.len()
    }

    /// The cells from one on.
    pub(crate) fn cells_from(&self, first: usize) -> Vec<u64> {
        let (block, within) = (first / Self::BLOCK, first % Self::BLOCK);
        let blocks = self.blocks.get(block..).unwrap_or_default();
        let mut cells = Vec::with_capacity(blocks.len() * Self::BLOCK + self.open.len());
        for block in blocks {
            self.read(block, &mut cells);
        }
        cells.extend(&self.open);
        let before = match blocks {
            [] => first - self.blocks.len() * Self::BLOCK,
            _ => within,
        };
        cells.drain(..before.min(cells.len()));
        cells
    }

    /// Packs the open cells.
    #[inline(never)]
    fn close(&mut self) {
        let mut bytes = Vec::new();
        pack(&self.open, self.period, &mut bytes);
        self.blocks.push(bytes.into_boxed_slice());
        self.open.clear();
    }

    /// Reads the cells of a block.
    fn read(&self, mut block: &[u8], cells: &mut Vec<u64>) {
        let read = unpack(&mut block, Self::BLOCK, self.period, cells);
        debug_assert!(read.is_some(), "a block as it was packed");
    }
}

/// Appends cells to `bytes` as their differences from the cell one period before; at the beginning,
/// from the previous one.
pub(crate) fn pack(cells: &[u64], period: usize, bytes: &mut Vec<u8>) {
    let (first, others) = cells.split_at(period.min(cells.len()));
    let padded = cells.len().next_multiple_of(GROUP);
    let mut differences = Vec::with_capacity(padded);
    differences.extend(subtract(first, &[0]));
    differences.extend(subtract(first.get(1..).unwrap_or_default(), cells));
    differences.extend(subtract(others, cells));
    differences.resize(padded, 0);
    let groups = differences.as_chunks::<GROUP>().0;
    let width_of = |group: &[u64; GROUP]| {
        let all = group.iter().fold(0, |all, difference| all | difference);
        (u64::BITS - all.leading_zeros()).div_ceil(8)
    };
    // Exactly: a block that shrinks afterwards leaves a gap in the heap that no other block fills.
    let sizes = groups
        .iter()
        .map(|group| 1 + width_of(group) as usize * GROUP);
    bytes.reserve_exact(sizes.sum());
    for group in groups {
        let width = width_of(group);
        bytes.push(width as u8);
        // All lowest bytes first, then all second ones.
        for byte in 0..width {
            bytes.extend(group.map(|difference| (difference >> (8 * byte)) as u8));
        }
    }
}

/// Takes `count` cells from the front of `bytes`, as [`pack`] wrote them; `None` if they are not
/// there.
pub(crate) fn unpack(
    bytes: &mut &[u8],
    count: usize,
    period: usize,
    cells: &mut Vec<u64>,
) -> Option<()> {
    let start = cells.len();
    cells.resize(start + count.next_multiple_of(GROUP), 0);
    for group in cells[start..].as_chunks_mut::<GROUP>().0 {
        let (width, rest) = bytes.split_first()?;
        let (columns, rest) = rest.split_at_checked(usize::from(*width) * GROUP)?;
        *bytes = rest;
        for (byte, of_all) in (0..u64::BITS / 8).zip(columns.as_chunks::<GROUP>().0) {
            for (difference, of_one) in group.iter_mut().zip(of_all) {
                *difference |= u64::from(*of_one) << (8 * byte);
            }
        }
    }
    cells.truncate(start + count);
    let cells = &mut cells[start..];
    let mut before = 0;
    let turn = period.min(count);
    for cell in &mut cells[..turn] {
        before = unzigzag(*cell).wrapping_add(before);
        *cell = before;
    }
    for number in turn..count {
        cells[number] = unzigzag(cells[number]).wrapping_add(cells[number - turn]);
    }
    Some(())
}

/// The difference of each of `cells` from that of `before`, as far as both exist.
fn subtract(cells: &[u64], before: &[u64]) -> impl Iterator<Item = u64> {
    let pairs = cells.iter().zip(before);
    pairs.map(|(cell, before)| zigzag(cell.wrapping_sub(*before)))
}

/// A difference of either sign, small if it is small.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64) >> 63) as u64
}

fn unzigzag(difference: u64) -> u64 {
    (difference >> 1) ^ (difference & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_from_any_cell_on() {
        // From zero to the maximum, in steps of all widths, with the ends of the range between.
        let cell = |k: u64| match k % 17 {
            0 => u64::MAX,
            1 => 0,
            n => k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (4 * n - 8),
        };
        for period in [0, 1, 4, 63, 1023, 1024, 5000] {
            for count in [0, 1, 1023, 1024, 1025, 3000] {
                let cells: Vec<u64> = (0..count).map(cell).collect();
                let (mut one_by_one, mut at_once) = (Packed::new(period), Packed::new(period));
                cells.iter().for_each(|cell| one_by_one.push(*cell));
                let (first, second) = cells.split_at(cells.len() / 3);
                at_once.extend(first.iter().copied());
                at_once.extend(second.iter().copied());
                for from in [0, 1, 1023, 1024, 1500, 3000, 9000] {
                    let rest = cells.get(from..).unwrap_or_default();
                    assert_eq!(one_by_one.cells_from(from), rest, "{period} {count} {from}");
                    assert_eq!(at_once.cells_from(from), rest, "{period} {count} {from}");
                }
            }
        }
    }

    #[test]
    fn counters_of_several_flows_take_a_byte_or_two() {
        let mut packed = Packed::new(4);
        for row in 0..1024 {
            packed.push((row % 4) * 1_000_000_000 + row / 4 * 100);
        }
        // One byte per sixteen groups stores their widths; the first group has the distances
        // between the flows.
        assert_eq!(packed.blocks[0].len(), 16 + 4 * 64 + 15 * 64);
    }
}
