//! The guest of the tests: it does what its controller's name says.

use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time;

use paceline_endpoint::{Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_units::Instant;

process::seams!();

fn main() -> ExitCode {
    process::serve(|config, _| match config.controller {
        "refuses" => Err("it refuses".to_owned()),
        what => Ok(Faulty {
            what: what.to_owned(),
            began: time::Instant::now(),
            seen: 0,
            sent: false,
        }),
    })
}

struct Faulty {
    what: String,
    began: time::Instant,
    /// What the clock showed, and what was drawn.
    seen: u64,
    sent: bool,
}

impl Endpoint for Faulty {
    type Payload = Vec<u8>;

    fn receive(&mut self, _now: Instant, datagram: Datagram<Vec<u8>>) {
        self.seen = datagram.payload.len() as u64;
    }

    fn on_timer(&mut self, _now: Instant) {
        match self.what.as_str() {
            "panics" => panic!("at its worst"),
            "aborts" => {
                eprintln!("at its\n\nworst");
                std::process::abort()
            }
            "exits" => std::process::exit(3),
            "spins" => loop {
                std::hint::spin_loop();
            },
            "grows" => {
                let mut all = Vec::new();
                loop {
                    all.push(Vec::<u8>::with_capacity(1 << 30));
                }
            }
            "babbles" => {
                let out = std::io::stdin().as_fd().try_clone_to_owned();
                let mut out = UnixStream::from(out.expect("its socket"));
                out.write_all(&[0xff; 64]).expect("room");
            }
            "clock" => self.seen = u64::try_from(self.began.elapsed().as_nanos()).expect("days"),
            "draws" => self.seen = RandomState::new().hash_one(1),
            _ => {}
        }
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Batch<Vec<u8>>> {
        let sends = self.what == "well" && !std::mem::replace(&mut self.sent, true);
        sends.then(|| Batch::single(3, vec![1, 2, 3], Ecn::Ect0))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        Some(Instant::from_nanos(77))
    }

    fn write(&mut self, _now: Instant, _write: Write) {}

    fn delivered(&self) -> u64 {
        self.seen
    }

    fn stats(&self) -> Stats {
        Stats {
            lost_packets: 5,
            phase: "Up",
            ..Stats::default()
        }
    }
}
