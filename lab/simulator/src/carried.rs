//! Contents that packets do not hold themselves.

use std::collections::VecDeque;

/// Contents on their way, by number.
pub(crate) struct Carried<P> {
    first: u64,
    sent: VecDeque<Option<(u32, P)>>,
    bytes: usize,
    /// The most recent ones that have left: a path that copies packets delivers them again.
    left: Option<VecDeque<(u64, P)>>,
}

impl<P: Clone> Carried<P> {
    /// Number of contents of which a copy may still follow.
    const COPIES: usize = 256;

    /// None yet, over a path that copies packets, or does not.
    pub fn new(copies: bool) -> Self {
        Self {
            first: 0,
            sent: VecDeque::new(),
            bytes: 0,
            left: copies.then(VecDeque::new),
        }
    }

    /// The sum of their sizes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of the entries themselves; what they point to is in [`Self::bytes`].
    pub fn memory(&self) -> usize {
        let left = self.left.as_ref().map_or(0, VecDeque::capacity);
        self.sent.capacity() * size_of::<Option<(u32, P)>>() + left * size_of::<(u64, P)>()
    }

    /// Adds one of this size; returns its number.
    pub fn put(&mut self, size: u32, content: P) -> u64 {
        self.bytes += size as usize;
        self.sent.push_back(Some((size, content)));
        self.first + self.sent.len() as u64 - 1
    }

    /// The content of a packet on its way, or of a copy.
    pub fn get(&self, number: u64) -> Option<&P> {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        match self.sent.get(index.unwrap_or(usize::MAX)) {
            Some(Some((_, content))) => Some(content),
            _ => self.copy(number),
        }
    }

    fn copy(&self, number: u64) -> Option<&P> {
        let mut copies = self.left.iter().flatten();
        copies
            .find(|(left, _)| *left == number)
            .map(|(_, copy)| copy)
    }

    fn take(&mut self, number: u64) -> Option<P> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (size, content) = self.sent.get_mut(index)?.take()?;
        self.bytes -= size as usize;
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.first += 1;
        }
        Some(content)
    }

    /// The content that arrives as `number`: for the first time, or as a copy.
    pub fn arrive(&mut self, number: u64) -> Option<P> {
        self.leave(number).or_else(|| self.copy(number).cloned())
    }

    /// The content of a packet that arrives or is lost; none for a copy. Copies may still arrive.
    pub fn leave(&mut self, number: u64) -> Option<P> {
        let content = self.take(number)?;
        if let Some(copies) = &mut self.left {
            if copies.len() == Self::COPIES {
                copies.pop_front();
            }
            copies.push_back((number, content.clone()));
        }
        Some(content)
    }
}
