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
    .counters.held.packets
)]
pub struct Unbalanced {
    link: String,
    counters: Box<Counters>,
}

/// Checks the links of a run when it has ended.
///
/// # Errors
/// The first link whose packet counts do not balance.
pub fn audit<P: Packet + Clone>(known: &[LinkInfo], links: &[Link<P>]) -> Result<(), Unbalanced> {
    let mut links = known.iter().zip(links);
    links.try_for_each(|(known, link)| balance(&known.name, link.counters()))
}

fn balance(link: &str, counters: &Counters) -> Result<(), Unbalanced> {
    match counters.balanced() {
        true => Ok(()),
        false => Err(Unbalanced {
            link: link.to_owned(),
            counters: Box::new(*counters),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_is_nowhere_is_an_error() {
        let mut counters = Counters::default();
        counters.offered.packets = 7;
        counters.delivered.packets = 4;
        counters.dropped_queue.packets = 1;
        counters.held.packets = 2;
        assert_eq!(balance("bottleneck", &counters), Ok(()));
        counters.held.packets = 1;
        let error = balance("bottleneck", &counters).unwrap_err().to_string();
        let message = "`bottleneck` has lost count of its packets: 7 offered and 0 duplicated, \
                    but 4 delivered, 1 dropped and 1 queued";
        assert!(error.contains(message), "{error}");
    }
}
