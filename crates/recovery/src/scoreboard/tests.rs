use super::*;

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    for _ in 0..segments {
        board.send_new(PacketState {
            size: 100,
            ..PacketState::default()
        });
    }
    board
}

fn sack(board: &mut Scoreboard, start: u64, end: u64) -> Vec<u64> {
    let mut fresh = Vec::new();
    board.sack(Block { start, end }, &mut fresh);
    let indices: Vec<u64> = fresh.iter().flat_map(|part| part.start..part.end).collect();
    for index in &indices {
        board.mark_sacked(*index);
    }
    indices
}

#[test]
fn a_block_covers_whole_segments_and_only_new_ones() {
    let mut board = board(10);
    assert_eq!(sack(&mut board, 300, 500), [3, 4]);
    assert_eq!(sack(&mut board, 200, 650), [2, 5]);
    assert_eq!(sack(&mut board, 710, 790), [0_u64; 0]);
    assert_eq!(sack(&mut board, 850, 1000), [9]);
    assert_eq!(sack(&mut board, 0, 1001), [0_u64; 0]);
    assert_eq!((board.in_flight(), board.sacked_bytes()), (500, 500));
    assert_eq!(board.audit(), Ok(()));
}

#[test]
fn lost_segments_are_sent_again_lowest_first_and_can_be_lost_again() {
    let mut board = board(6);
    for index in [3, 1, 2] {
        board.mark_lost(index);
    }
    assert_eq!(board.first_waiting(), Some(1));
    assert_eq!(board.in_flight(), 300);
    let packet = PacketState {
        size: 100,
        ..PacketState::default()
    };
    assert_eq!(board.send_again(1, packet), Some(100));
    assert_eq!(board.first_waiting(), Some(2));
    assert_eq!(board.lost_count(), 3);
    let again = board.mark_lost(1);
    assert!(again.is_some_and(|lost| lost.retransmission && lost.starts_range));
    assert_eq!(board.first_waiting(), Some(1));
    // A segment already waiting is not lost twice.
    assert!(board.mark_lost(1).is_none());
    assert_eq!(board.audit(), Ok(()));
}

#[test]
fn lost_for_three_ranges_or_more_than_two_segments_above() {
    let mut board = board(12);
    let below = |board: &Scoreboard| board.lost_below(3, 200);
    sack(&mut board, 1000, 1100);
    assert_eq!(below(&board), 0);
    sack(&mut board, 700, 800);
    assert_eq!(below(&board), 0);
    // A third range, a single segment: three segments lie above it.
    sack(&mut board, 300, 400);
    assert_eq!(below(&board), 3);
    // Three segments in a row are enough by themselves.
    sack(&mut board, 900, 1000);
    assert_eq!(below(&board), 7);
    sack(&mut board, 1100, 1200);
    assert_eq!(below(&board), 9);
    // Two of twice the size are not: `>` in bytes, `>=` in ranges.
    assert_eq!(board.lost_below(3, 300), 7);
    assert_eq!(board.lost_below(2, 300), 7);
    assert_eq!(board.lost_below(1, 300), 9);
}

#[test]
fn holes_lie_between_what_was_sacked() {
    let mut board = board(8);
    assert_eq!((board.first_hole(0), board.last_hole()), (None, Some(7)));
    sack(&mut board, 200, 400);
    sack(&mut board, 600, 800);
    assert_eq!(board.first_hole(0), Some(0));
    assert_eq!(board.first_hole(2), Some(4));
    assert_eq!(board.first_hole(6), None);
    assert_eq!(board.last_hole(), Some(5));
}

#[test]
fn a_range_of_losses_starts_once() {
    let mut board = board(6);
    let starts: Vec<bool> = [1, 2, 4]
        .into_iter()
        .filter_map(|index| board.mark_lost(index))
        .map(|lost| lost.starts_range)
        .collect();
    assert_eq!(starts, [true, false, true]);
}

#[test]
fn the_oldest_transmission_skips_what_was_delivered_lost_or_sent_again() {
    let mut board = board(4);
    let packet = PacketState {
        size: 100,
        ..PacketState::default()
    };
    assert_eq!(board.oldest().map(|oldest| oldest.index), Some(0));
    board.send_again(0, packet);
    board.mark_lost(1);
    sack(&mut board, 200, 300);
    assert_eq!(board.oldest().map(|oldest| oldest.index), Some(3));
    board.exonerate();
    assert_eq!(board.oldest().map(|oldest| oldest.index), Some(1));
    assert_eq!(board.audit(), Ok(()));
}

#[test]
fn acknowledgments_free_what_they_cover() {
    let mut board = board(4);
    board.mark_lost(0);
    sack(&mut board, 100, 200);
    assert_eq!(board.pop_acked(250).map(|(index, _)| index), Some(0));
    assert!(board.pop_acked(250).is_none());
    board.trim();
    assert_eq!(
        (board.una(), board.in_flight(), board.lost_count()),
        (200, 200, 0)
    );
    assert_eq!(board.first_waiting(), None);
    assert_eq!(board.audit(), Ok(()));
}

proptest::proptest! {
    /// A part by which the highest range grows is taken by the short form as by the general one.
    #[test]
    fn the_highest_range_grows_in_one_call_as_in_two(
        blocks in proptest::collection::vec((0u64..60, 1u64..12, 0u64..3, 0u64..60), 1..40),
    ) {
        let mut short = Scoreboard::default();
        for number in 0..40 {
            let size = if number % 7 == 6 { 40 } else { 100 };
            short.send_new(PacketState { size, ..PacketState::default() });
        }
        let mut general = short.clone();
        for (start, count, cut, lost) in blocks {
            let next = short.sacked.last().and_then(|last| short.get(last.end));
            // Most blocks begin where the highest range ends.
            let start = match (next, start) {
                (Some(next), 12..) => next.seq,
                (_, start) => 100 * start,
            };
            let block = Block { start, end: (start + 100 * count - 20 * cut).min(short.nxt) };
            if short.sack_span(block).is_none() {
                sack(&mut short, block.start, block.end);
            }
            sack(&mut general, block.start, block.end);
            if lost < 40 {
                short.mark_lost(lost);
                general.mark_lost(lost);
            }
            proptest::prop_assert_eq!(format!("{short:?}"), format!("{general:?}"));
        }
    }
}
