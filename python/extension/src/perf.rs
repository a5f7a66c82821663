//! Bulk transfers over real QUIC: a client or a server, on its own thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use paceline_perf::{ClientOptions, Error, Limits, News, Outcome, Report};
use paceline_units::Duration;
use pyo3::prelude::*;
use serde_json::json;

use crate::interruptible::PERIOD;
use crate::run::Run;

/// A message of the thread.
enum Message {
    /// One object of JSON.
    Line(String),
    Ended(Result<Option<Box<Outcome>>, Error>),
}

/// A client or a server. Its iterator returns its messages as JSON, and ends when it does.
#[pyclass(module = "paceline._paceline", frozen)]
pub struct Perf {
    stop: Arc<AtomicBool>,
    messages: Mutex<Receiver<Message>>,
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
        let (sender, messages) = mpsc::channel();
        let stopped = stop.clone();
        thread::Builder::new().spawn(move || {
            // Nobody listens any more to an abandoned thread.
            let mut emit = |line| drop(sender.send(Message::Line(line)));
            let ended = work(&stopped, &mut emit);
            drop(sender.send(Message::Ended(ended)));
        })?;
        Ok(Self {
            stop,
            messages: Mutex::new(messages),
            ended: Mutex::new(None),
        })
    }

    fn wait(&self, py: Python<'_>) -> Result<Message, RecvTimeoutError> {
        py.detach(|| {
            let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.recv_timeout(PERIOD)
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
                Ok(Message::Line(line)) => return Ok(Some(line)),
                Ok(Message::Ended(ended)) => self.end(ended),
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
                Ok(Message::Ended(ended)) => self.end(ended),
                Ok(Message::Line(_)) | Err(RecvTimeoutError::Timeout) => {}
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
    let options = ClientOptions {
        server: address(server)?,
        token: token.parse().map_err(failed)?,
        cc,
        time: time.map(Duration::from_nanos),
        bytes: size,
        reverse,
        streams,
        report: Duration::from_nanos(report.max(1)),
    };
    Perf::spawn(move |stop, emit| {
        let on_report = &mut |report: &Report| emit(line(report));
        paceline_perf::client(&options, stop, on_report).map(|outcome| Some(Box::new(outcome)))
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
    Perf::spawn(move |stop, emit| {
        let on_news = &mut |news| emit(event(news).to_string());
        paceline_perf::server(address, limits, stop, on_news).map(|()| None)
    })
}

fn address(text: &str) -> PyResult<SocketAddr> {
    let wrong =
        |_| pyo3::exceptions::PyValueError::new_err(format!("{text} is no address and port"));
    text.parse().map_err(wrong)
}

fn event(news: News) -> serde_json::Value {
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
