//! The end of a session's path inside another session.

use std::env;
use std::io;

use paceline_tcp::netlink::{Request, RouteMetrics, Routing};
use paceline_tcp::settings::Stack;

use crate::namespace::{HostError, LINK, sizes};
use crate::place::{BITS, CLIENT_KEY, DEEPEST, Place};
use crate::tun::Tun;

/// The end of a path that leads to the client's end of another session, in which this process was
/// started.
pub struct Gate {
    /// Its device there.
    pub device: Tun,
    /// The place of the path's client.
    pub place: Place,
}

impl Gate {
    /// Opens one if this process is at the client's end of a session, before it leaves that.
    pub fn open(stack: &Stack) -> Result<Option<Self>, HostError> {
        let client = env::var(CLIENT_KEY).ok().and_then(|text| text.parse().ok());
        let Some(outer) = client.and_then(Place::of) else {
            return Ok(None);
        };
        let mut routing = Routing::open().map_err(HostError::at("open a netlink socket"))?;
        if routing.find(LINK).is_err() {
            // The error outside such a place.
            return Ok(None);
        }
        for number in 1..1 << BITS {
            let Some(place) = outer.inside(number) else {
                break;
            };
            let name = format!("path{number}");
            let device = match Tun::open(&name) {
                // The place of another session next to this one.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => continue,
                device => device.map_err(HostError::at("open a device inside a session"))?,
            };
            let own = place.gate();
            let (network, metrics) = (place.networks()[1], RouteMetrics::default());
            let route = |index| Request::add_route(index, Some(own), network, metrics);
            routing
                .find(&name)
                .and_then(|index| {
                    routing.request(&Request::bring_up(index, Some(sizes(stack))))?;
                    routing.request(&Request::add_address(index, own))?;
                    routing.request(&route(index))
                })
                .map_err(HostError::at("lead a path to the session around it"))?;
            return Ok(Some(Self { device, place }));
        }
        let beside = (1 << BITS) - 1;
        let what = format!(
            "start one more session here (at most {DEEPEST} inside one another, {beside} beside one another)"
        );
        Err(HostError::at(what)(io::ErrorKind::QuotaExceeded.into()))
    }
}
