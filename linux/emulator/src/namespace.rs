//! Two hosts of our own: network namespaces that exist only through this process's descriptors.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use paceline_tcp::netlink::{LOOPBACK, Request, RouteMetrics, Routing};
use paceline_tcp::packet::{PROBE, RECEIVERS, SENDER, receiver};
use paceline_tcp::settings::{Stack, counter, settings};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::sys;
use crate::tun::{DEVICE, Tun};

/// Why the hosts could not be created.
#[derive(Debug)]
pub struct HostError {
    /// The attempted operation.
    pub what: String,
    /// The kernel's reason.
    pub source: io::Error,
}

impl HostError {
    /// An error: `what` was refused.
    pub fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self { what, source }
    }
}

/// Leaves the machine's network for an empty one, as root of a new user namespace or, if that is
/// not allowed and we are already root, unchanged. Returns whether there is a new user namespace.
pub fn isolate() -> Result<bool, HostError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    match sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) {
        Ok(()) => {
            let map = |file: &str, text: String| {
                fs::write(file, text).map_err(HostError::at(format!("write {file}")))
            };
            // Without it an unprivileged process may not map its group (user_namespaces(7)).
            map("/proc/self/setgroups", "deny".into())?;
            map("/proc/self/uid_map", format!("0 {user} 1"))?;
            map("/proc/self/gid_map", format!("0 {group} 1"))?;
            Ok(true)
        }
        Err(error) => {
            let what = "make a user namespace, nor a network namespace without one";
            sys::unshare(UnshareFlags::NEWNET).map_err(|_| HostError::at(what)(error))?;
            Ok(false)
        }
    }
}

/// A host: its network namespace and the device that leads out of it.
pub struct Host {
    namespace: File,
    /// The device.
    pub device: Tun,
    index: u32,
}

/// Its name in both namespaces.
pub const LINK: &str = "path0";

/// Packets that a device holds while the emulator is late. This is far more than its own delay can
/// accumulate: drops are detected and reported.
const DEVICE_QUEUE: u32 = 20_000;

/// The MTU and the queue of a host's device.
pub fn sizes(stack: &Stack) -> (u32, u32) {
    (stack.mtu, DEVICE_QUEUE)
}

impl Host {
    /// Makes a host of the namespace that the process is in.
    fn make(stack: &Stack) -> Result<Self, HostError> {
        let path = "/proc/thread-self/ns/net";
        let namespace = File::open(path).map_err(HostError::at(format!("open {path}")))?;
        tune(stack)?;
        let device = Tun::open(LINK).map_err(HostError::at(format!("open {DEVICE}")))?;
        let mut routing = Routing::open().map_err(HostError::at("open a netlink socket"))?;
        let index = routing
            .find(LINK)
            .map_err(HostError::at("find the device"))?;
        routing
            .request(&Request::bring_up(LOOPBACK, None))
            .and_then(|()| routing.request(&Request::bring_up(index, Some(sizes(stack)))))
            .map_err(HostError::at("bring the devices up"))?;
        Ok(Self {
            namespace,
            device,
            index,
        })
    }

    /// Creates the host of all senders, with a route for each flow's receiver.
    pub fn senders(stack: &Stack, routes: &[RouteMetrics]) -> Result<Self, HostError> {
        let host = Self::make(stack)?;
        let mut routing = Routing::open().map_err(HostError::at("open a netlink socket"))?;
        routing
            .request(&Request::add_address(host.index, SENDER))
            .map_err(HostError::at("add an address"))?;
        let flows = (0..).zip(routes);
        let flows = flows.map(|(flow, metrics)| (receiver(flow), *metrics));
        let probe = (PROBE, RouteMetrics::default());
        for (to, metrics) in flows.chain([probe]) {
            let route = Request::add_route(host.index, Some(SENDER), (to, 32), metrics);
            let added = routing.request(&route);
            added.map_err(HostError::at("add a route"))?;
        }
        Ok(host)
    }

    /// Creates the host of all receivers, in its own namespace.
    pub fn receivers(stack: &Stack, ecn: bool) -> Result<Self, HostError> {
        sys::unshare(UnshareFlags::NEWNET).map_err(HostError::at("make a network namespace"))?;
        let host = Self::make(stack)?;
        let mut routing = Routing::open().map_err(HostError::at("open a netlink socket"))?;
        let (network, prefix) = RECEIVERS;
        let metrics = RouteMetrics {
            ecn,
            ..RouteMetrics::default()
        };
        routing
            .request(&Request::add_local(network, prefix))
            .and_then(|()| {
                let route = Request::add_route(host.index, None, (SENDER, 32), metrics);
                routing.request(&route)
            })
            .map_err(HostError::at("add a route"))?;
        Ok(host)
    }

    /// Gives the host a program's address, and routes to the other end.
    pub fn give(&self, own: Ipv4Addr, there: &[(Ipv4Addr, u8)]) -> Result<(), HostError> {
        self.enter()?;
        let mut routing = Routing::open().map_err(HostError::at("open a netlink socket"))?;
        let routes = there
            .iter()
            .map(|to| Request::add_route(self.index, Some(own), *to, RouteMetrics::default()));
        std::iter::once(Request::add_address(self.index, own))
            .chain(routes)
            .try_for_each(|request| routing.request(&request))
            .map_err(HostError::at("add an address"))?;
        // Sessions inside reach the other end through this host.
        let forwards = "/proc/sys/net/ipv4/ip_forward";
        fs::write(forwards, "1").map_err(HostError::at(format!("write {forwards}")))?;
        // Any user's program may ping.
        let range = "/proc/sys/net/ipv4/ping_group_range";
        let _ = fs::write(range, "0 2147483647");
        Ok(())
    }

    /// Its network namespace.
    pub fn namespace(&self) -> &File {
        &self.namespace
    }

    /// From now on its connections send one segment per packet.
    pub fn without_offloads(&self) -> Result<(), HostError> {
        Routing::open()
            .and_then(|mut routing| routing.request(&Request::without_offloads(self.index)))
            .map_err(HostError::at("turn the device's offloads off"))
    }

    /// Moves this thread into the host: sockets that it creates belong there.
    pub fn enter(&self) -> Result<(), HostError> {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(io::Error::from)
            .map_err(HostError::at("enter a namespace"))
    }

    /// Packets that the device has dropped. Moves this thread into the host.
    pub fn drops(&self) -> u64 {
        let entered = self.enter().is_ok();
        let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let line = table
            .lines()
            .find(|line| line.trim_start().starts_with(LINK));
        // Of the columns after the name, the 4th counts drops on receipt, the 12th on sending.
        let columns: Vec<u64> = line
            .and_then(|line| line.split_once(':'))
            .map(|(_, rest)| rest.split_whitespace().flat_map(str::parse).collect())
            .unwrap_or_default();
        let column = |at: usize| columns.get(at).copied().unwrap_or(0);
        if entered { column(3) + column(11) } else { 0 }
    }

    /// Tail loss probes sent by the host's TCP. Moves this thread into the host.
    pub fn loss_probes(&self) -> Option<u64> {
        self.enter().ok()?;
        let table = fs::read_to_string("/proc/thread-self/net/netstat").ok()?;
        counter(&table, "TcpExt:", "TCPLossProbes")
    }
}

fn tune(stack: &Stack) -> Result<(), HostError> {
    for (name, value) in settings(stack) {
        let path = format!("/proc/sys/net/ipv4/{name}");
        match fs::write(&path, value) {
            // A kernel that lacks a setting has only one behaviour.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(HostError::at(format!("write {path}")))?,
        }
    }
    Ok(())
}
