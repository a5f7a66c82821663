//! Bulk transfers over real QUIC: a client or a server, on its own thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use paceline_perf::{Error, Limits, News, Outcome, Report, Wish};
use paceline_units::Duration;
use pyo3::prelude::*;
use serde_json::json;

use crate::heard::PERIOD;
use crate::run::Run;

/// A message of the thread.
enum Told {
    /// One object of JSON.
    Line(String),
    Ended(Result<Option<Box<Outcome>>, Error>),
}

/// A client or a server. Its iterator returns its messages as JSON, and ends when it does.
#[pyclass(module = "paceline._paceline", frozen)]
pub struct Perf {
    stop: Arc<AtomicBool>,
    told: Mutex<Receiver<Told>>,
    ended: Mutex<Option<Ended>>,
}

/// How it ended.
#[derive(Default)]
struct Ended {
    failed: Option<Error>,
    outcome: Option<Box<Outcome>>,
}

impl Perf {
    fn spawn(
        work: impl FnOnce(&AtomicBool, &mut dyn FnMut(String)) -> Result<Option<Box<Outcome>>, Error>
        + Send
        + 'static,
    ) -> PyResult<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, told) = mpsc::channel();
        let stopped = stop.clone();
        thread::Builder::new().spawn(move || {
            // Nobody listens any more to an abandoned thread.
            let mut tell = |line| drop(sender.send(Told::Line(line)));
            let ended = work(&stopped, &mut tell);
            drop(sender.send(Told::Ended(ended)));
        })?;
        Ok(Self {
            stop,
            told: Mutex::new(told),
            ended: Mutex::new(None),
        })
    }

    fn wait(&self, py: Python<'_>) -> Result<Told, RecvTimeoutError> {
        py.detach(|| {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.recv_timeout(PERIOD)
        })
    }

    fn end(&self, ended: Result<Option<Box<Outcome>>, Error>) {
        let ended = match ended {
            Ok(outcome) => Ended {
                failed: outcome.as_ref().and_then(|outcome| outcome.failed.clone()),
                outcome,
            },
            Err(error) => Ended {
                failed: Some(error),
                outcome: None,
            },
        };
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    fn has_ended(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.is_some()
    }
}

#[pymethods]
impl Perf {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        while !self.has_ended() {
            match self.wait(py) {
                Ok(Told::Line(line)) => return Ok(Some(line)),
                Ok(Told::Ended(ended)) => self.end(ended),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => self.end(Ok(None)),
            }
        }
        Ok(None)
    }

    /// Asks it to end, and waits until it has.
    fn stop(&self, py: Python<'_>) {
        self.stop.store(true, Relaxed);
        while !self.has_ended() {
            match self.wait(py) {
                Ok(Told::Ended(ended)) => self.end(ended),
                Ok(Told::Line(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.end(Ok(None)),
            }
        }
    }

    /// Why it failed: the kind, the reason, and whether the request was wrong.
    #[getter]
    fn failed(&self) -> Option<(&'static str, String, bool)> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = ended.as_ref()?.failed.as_ref()?;
        let kind = failed.kind;
        Some((kind.name(), failed.message.clone(), kind.is_input()))
    }

    /// The result of a client's test that began: JSON, the duration of the handshake, and the
    /// record.
    #[getter]
    fn outcome(&self) -> Option<(String, u64, Run)> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = ended.as_ref()?.outcome.as_ref()?;
        let total = line(&outcome.total);
        Some((total, outcome.handshake_ns, Run::new(outcome.run.clone())))
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

fn line(report: &Report) -> String {
    json!(report).to_string()
}

fn failed(failed: Error) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(failed.message)
}

/// A test against a server; times are in nanoseconds. Raises `ValueError` for an invalid token.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn perf_client(
    server: &str,
    token: &str,
    cc: String,
    time: Option<u64>,
    size: Option<u64>,
    reverse: bool,
    streams: u32,
    report: u64,
) -> PyResult<Perf> {
    let wish = Wish {
        server: address(server)?,
        token: token.parse().map_err(failed)?,
        cc,
        time: time.map(Duration::from_nanos),
        bytes: size,
        reverse,
        streams,
        report: Duration::from_nanos(report.max(1)),
    };
    Perf::spawn(move |stop, tell| {
        let told = &mut |report: &Report| tell(line(report));
        paceline_perf::client(&wish, stop, told).map(|outcome| Some(Box::new(outcome)))
    })
}

/// A server, until it is stopped or has had one test.
#[pyfunction]
pub fn perf_server(listen: &str, time: u64, size: u64, once: bool) -> PyResult<Perf> {
    let address = address(listen)?;
    let limits = Limits {
        time: Duration::from_nanos(time),
        bytes: size,
        once,
    };
    Perf::spawn(move |stop, tell| {
        let told = &mut |news| tell(said(news).to_string());
        paceline_perf::server(address, limits, stop, told).map(|()| None)
    })
}

fn address(text: &str) -> PyResult<SocketAddr> {
    let wrong =
        |_| pyo3::exceptions::PyValueError::new_err(format!("{text} is no address and port"));
    text.parse().map_err(wrong)
}

fn said(news: News) -> serde_json::Value {
    match news {
        News::Listening { address, token } => json!({
            "event": "listening",
            "address": address.to_string(),
            "token": token.to_string(),
        }),
        News::Started {
            client,
            cc,
            reverse,
        } => json!({
            "event": "started",
            "client": client.to_string(),
            "cc": cc,
            "reverse": reverse,
        }),
        News::Ended {
            client,
            bytes,
            time,
            failed,
        } => json!({
            "event": "ended",
            "client": client.to_string(),
            "bytes": bytes,
            "time_ns": time.as_nanos(),
            "failed": failed.map(|failed| failed.message),
        }),
        News::Refused { client, why } => json!({
            "event": "refused",
            "client": client.to_string(),
            "why": why.message,
        }),
    }
}
