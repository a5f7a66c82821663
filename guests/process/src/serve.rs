//! The guest's side.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use paceline_capi::EndConfig;
use paceline_endpoint::Endpoint;
use paceline_units::Instant;

use crate::seams;
use crate::wire::{Answer, Fields, Message, Request, VERSION};

/// What makes an end, with options as a scenario writes them, or says what is wrong with them.
type Make<E> = fn(&EndConfig<'_>, &[(&str, &str)]) -> Result<E, String>;

/// Bytes of memory that a guest may have.
const MEMORY: u64 = 4 << 30;
/// Datagrams that one answer may have.
const AT_ONCE: usize = 256;

/// A certificate of a server and its key, of which nothing is secret: clients verify none. Signatures of RSA have one
/// length.
const IDENTITY: [&str; 2] = [include_str!("certificate.pem"), include_str!("key.pem")];

/// The certificate of a server and its key, as files that are nowhere but in memory, and the paths to them.
///
/// # Errors
/// If there is no memory.
pub fn identity() -> io::Result<[(File, String); 2]> {
    let in_memory = |text: &str| {
        // SAFETY: the name is a string of C.
        let file = unsafe { libc::memfd_create(c"pem".as_ptr(), 0) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, and nobody else has it.
        let mut file = unsafe { File::from_raw_fd(file) };
        file.write_all(text.as_bytes())?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok((file, path))
    };
    Ok([in_memory(IDENTITY[0])?, in_memory(IDENTITY[1])?])
}

/// Runs an end that `make` makes, for the process at the other end of standard input, a socket, until that closes it.
pub fn serve<E: Endpoint<Payload = Vec<u8>>>(make: Make<E>) -> ExitCode {
    let limit = libc::rlimit {
        rlim_cur: MEMORY,
        rlim_max: MEMORY,
    };
    // SAFETY: it reads the limit.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    match run(make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            eprintln!("hint: Paceline starts this program; it is of no use by itself");
            ExitCode::FAILURE
        }
    }
}

fn run<E: Endpoint<Payload = Vec<u8>>>(make: Make<E>) -> io::Result<()> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let mut stream = UnixStream::from(input);
    let Some(mut fields) = Fields::receive(&mut stream)? else {
        return Ok(());
    };
    let mut end = match fields.init() {
        Some(init) if init.version == VERSION => {
            at(init.now);
            seams::set_seed(init.seed);
            let config = EndConfig {
                sends: init.sends,
                max_datagram: init.max_datagram,
                seed: init.seed,
                now: init.now,
                controller: &init.controller,
            };
            let options: Vec<_> = init.options.iter().map(|(n, v)| (&**n, &**v)).collect();
            let made = catch_unwind(AssertUnwindSafe(|| make(&config, &options)));
            made.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
        }
        Some(_) => Err("the library and the program beside it are of different builds".to_owned()),
        None => Err("no end is asked for".to_owned()),
    };
    let mut out = Message::default();
    loop {
        out.answer(&answer(&mut end, &mut fields));
        out.send(&mut stream)?;
        match Fields::receive(&mut stream)? {
            Some(next) => fields = next,
            None => return Ok(()),
        }
    }
}

fn at(now: Instant) {
    seams::set_time(now.as_nanos());
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", said.unwrap_or("without a message"))
}

/// What the requests of a message lead to. After a failure that is all there is.
fn answer<E: Endpoint<Payload = Vec<u8>>>(
    end: &mut Result<E, String>,
    fields: &mut Fields,
) -> Answer {
    let failed = |why: &String| Answer {
        failure: Some(why.clone()),
        ..Answer::default()
    };
    let one = match end {
        Ok(one) => one,
        Err(why) => return failed(why),
    };
    match catch_unwind(AssertUnwindSafe(|| carried_out(one, fields))) {
        Ok(answer) => answer,
        Err(panic) => {
            let why = panicked(panic.as_ref());
            let answer = failed(&why);
            *end = Err(why);
            answer
        }
    }
}

fn carried_out<E: Endpoint<Payload = Vec<u8>>>(end: &mut E, fields: &mut Fields) -> Answer {
    let mut batches = Vec::new();
    let mut more = false;
    while !fields.is_at_end() {
        match fields.request() {
            Some(Request::Receive(now, datagram)) => {
                at(now);
                end.receive(now, datagram);
            }
            Some(Request::OnTimer(now)) => {
                at(now);
                end.on_timer(now);
            }
            Some(Request::Write(now, write)) => {
                at(now);
                end.write(now, write);
            }
            Some(Request::Transmit(now)) => {
                at(now);
                batches.extend(std::iter::from_fn(|| end.poll_transmit(now)).take(AT_ONCE));
                more = batches.len() == AT_ONCE;
            }
            None => {
                return Answer {
                    failure: Some("a request that it does not know".to_owned()),
                    ..Answer::default()
                };
            }
        }
    }
    Answer {
        failure: end.failure(),
        timer: end.next_timer(),
        delivered: end.delivered(),
        stats: end.stats(),
        batches,
        more,
        ..Answer::default()
    }
}
