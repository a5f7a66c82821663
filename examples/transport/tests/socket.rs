//! The example over UDP on this host: the same code, a clock and a socket instead of an engine.

use std::net::UdpSocket;
use std::thread;
use std::time::Instant;

use example_transport::End;
use paceline_endpoint::udp::drive;
use paceline_endpoint::{Amount, Endpoint, Write};
use paceline_units::Duration;

#[test]
fn data_arrives_over_loopback() {
    const BYTES: u64 = 1000 * 1200;
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (here, there) = (bind(), bind());
    let address = |socket: &UdpSocket| socket.local_addr().expect("bound");
    let (from, to) = (address(&here), address(&there));
    let end = || End::new(20, 1200, Duration::from_millis(50));
    let origin = Instant::now();
    let limit = paceline_units::Instant::ZERO + Duration::from_secs(60);
    let receiver = thread::spawn(move || {
        let mut end = end();
        drive(&mut end, &there, from, origin, &mut |now, end| {
            end.delivered() >= BYTES || now > limit
        })
        .expect("a socket that works");
        end.delivered()
    });
    let mut sender = end();
    let write = Write {
        amount: Amount::Bytes(BYTES),
        ..Write::default()
    };
    sender.write(paceline_units::Instant::ZERO, write);
    drive(&mut sender, &here, to, origin, &mut |now, end: &mut End| {
        end.stats().acknowledged.get() >= BYTES || receiver.is_finished() || now > limit
    })
    .expect("a socket that works");
    assert_eq!(receiver.join().expect("no panic"), BYTES);
}
