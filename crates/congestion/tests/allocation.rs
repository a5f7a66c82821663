//! No controller allocates after construction.

mod pipe;

use paceline_congestion::controllers;
use pipe::Pipe;

#[test]
fn no_controller_allocates() {
    for spec in controllers() {
        let mut pipe = Pipe::new(spec.name, 100);
        let counted = allocation_counter::measure(|| {
            for _ in 0..20_000 {
                pipe.step(2);
            }
            pipe.lose();
            pipe.time_out();
            for _ in 0..1000 {
                pipe.step(1);
            }
        });
        assert_eq!(counted.count_total, 0, "{}", spec.name);
    }
}
