//! Plays a script to our sender in virtual time.

use paceline_congestion::{AnyController, Config, build};
use paceline_recovery::{Recovery, Sender, SenderConfig};
use paceline_units::{Bytes, Instant};

use super::peer::Peer;
use super::script::{MSS, Script};
use super::trace::Transmission;

/// Our sender's transmissions, with Linux's settings and a kind of recovery with SACK; without SACK
/// there is one.
pub fn play(script: &Script, recovery: Recovery) -> Vec<Transmission> {
    // Time before the first write: a clock at zero would hide earlier times.
    let start = Instant::ZERO + script.rtt * 2;
    let mut peer = Peer::new(script, start);
    let Some(mut sender) = sender(script, recovery, start) else {
        return Vec::new();
    };
    let mut writes = script.writes.iter().peekable();
    let mut now = start;
    loop {
        while let Some(write) = writes.next_if(|write| start + write.at <= now) {
            sender.write(now, write.segments * u64::from(MSS));
            send(&mut sender, &mut peer, now);
        }
        while let Some(ack) = peer.poll(now) {
            sender.on_ack(now, &ack);
            send(&mut sender, &mut peer, now);
        }
        if sender.next_timer().is_some_and(|timer| timer <= now) {
            sender.on_timer(now);
            send(&mut sender, &mut peer, now);
        }
        let next = [
            writes.peek().map(|write| start + write.at),
            peer.next_event(),
            sender.next_timer(),
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            break;
        };
        now = now.max(next);
        if peer.is_over(now) {
            break;
        }
    }
    peer.into_log()
}

fn sender(script: &Script, recovery: Recovery, now: Instant) -> Option<Sender<AnyController>> {
    let initial_window = Bytes::new(u64::from(MSS) * u64::from(script.initial_window));
    let controller = Config {
        mss: MSS,
        initial_window,
        seed: 1,
        now,
        srtt: Some(script.handshake_rtt()),
        has_selective_acks: script.sack,
    };
    let config = SenderConfig {
        mss: MSS,
        initial_window,
        recovery: match script.sack {
            true => recovery,
            false => Recovery::NewRenoPrr,
        },
        ..SenderConfig::default()
    };
    let controller = build(script.cc.ours(), &controller, &[]).ok()?;
    let rtt = Some(script.handshake_rtt());
    Some(Sender::new(config, controller, now, rtt))
}

fn send(sender: &mut Sender<AnyController>, peer: &mut Peer<'_>, now: Instant) {
    while let Some(segment) = sender.poll_transmit(now) {
        peer.on_data(now, segment.seq, segment.sent);
    }
}
