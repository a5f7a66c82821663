//! Conservation: every packet offered to a link is accounted for.

use paceline_path::{Counters, Link, Packet};
use paceline_record::LinkInfo;

/// A link whose packet counts do not balance: a defect of the engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the link `{link}` has lost count of its packets: {} offered and {} duplicated, \
     but {} delivered, {} dropped and {} queued; please report this scenario",
    .counters.offered.packets,
    .counters.duplicated.packets,
    .counters.delivered.packets,
    .counters.dropped().packets,
    .held
)]
pub struct Unbalanced {
    link: String,
    counters: Box<Counters>,
    held: usize,
}

/// Checks the links of a run when it has ended.
///
/// # Errors
/// The first link whose packet counts do not balance.
pub fn audit<P: Packet + Clone>(known: &[LinkInfo], links: &[Link<P>]) -> Result<(), Unbalanced> {
    let mut links = known.iter().zip(links);
    match links.find(|(_, link)| !link.is_balanced()) {
        None => Ok(()),
        Some((known, link)) => Err(Unbalanced {
            link: known.name.clone(),
            counters: Box::new(*link.counters()),
            held: link.held(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_link_and_its_counts() {
        let mut counters = Counters::default();
        counters.offered.packets = 7;
        counters.delivered.packets = 4;
        counters.dropped_queue.packets = 1;
        let lost = Unbalanced {
            link: "bottleneck".to_owned(),
            counters: Box::new(counters),
            held: 1,
        };
        let message = "`bottleneck` has lost count of its packets: 7 offered and 0 duplicated, \
                    but 4 delivered, 1 dropped and 1 queued";
        assert!(lost.to_string().contains(message), "{lost}");
    }
}
