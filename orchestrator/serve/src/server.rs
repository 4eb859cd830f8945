//! Listens for connections, and limits the work that a client without the token can cause.

use crate::{
    access::Token,
    answers::{ServedAnswers, ServedVerdict},
    current::{Current, Served},
};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Runtime,
    task::{JoinHandle, yield_now},
    time::{interval, sleep, timeout},
};

/// Maximum number of open connections; well below the usual limit of 1024 file descriptors.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of connections that wait to be accepted. The client of a further connection retries only after a second.
const MAX_WAITING: u32 = 1024;
/// Number of connections accepted before the first is read: far below [`MAX_CONNECTIONS`], so that none is closed before it was read.
const AT_ONCE: u32 = 32;
/// Maximum bytes of the head of a request; bodies are not read.
const MAX_HEAD: usize = 16 << 10;
/// Time limit for the request of a client that has not shown the token.
const REQUEST: Duration = Duration::from_secs(10);
/// Time limit for sending the answer to a client that has shown the token.
const ANSWER: Duration = Duration::from_secs(600);
/// Number of threads that read files.
const READERS: usize = 16;
/// Interval between checks whether the server should end.
const TICK: Duration = Duration::from_millis(200);
/// Pause after an error of the operating system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(20);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be opened.
    #[error("cannot listen on 127.0.0.1:{port}: {error}")]
    Listen {
        /// The port number.
        port: u16,
        /// The error.
        error: io::Error,
    },
    /// The token cannot be created.
    #[error("no random numbers for a token: {0}")]
    Token(io::Error),
}

/// A server that listens for connections.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    answers: Arc<ServedAnswers>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("port", &self.answers.port)
            .finish_non_exhaustive()
    }
}

/// A connection that was accepted.
struct Connection {
    task: JoinHandle<()>,
    /// Whether the client has shown the token.
    is_known: Arc<AtomicBool>,
}

impl Server {
    /// Starts to listen on the loopback interface; for port 0, the system chooses a free port.
    ///
    /// # Errors
    /// The port is in use, or the system returns no random numbers.
    pub fn listen(port: u16, served: Served) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Listen { port, error };
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()
            .map_err(failed)?;
        let listener = {
            let _entered = runtime.enter();
            let socket = TcpSocket::new_v4().map_err(failed)?;
            socket.set_reuseaddr(true).map_err(failed)?;
            socket.bind(at).map_err(failed)?;
            socket.listen(MAX_WAITING).map_err(failed)?
        };
        let port = listener.local_addr().map_err(failed)?.port();
        let token = Token::new().map_err(ServeError::Token)?;
        let place = Token::new().map_err(ServeError::Token)?;
        Ok(Self {
            runtime,
            listener,
            answers: Arc::new(ServedAnswers {
                port,
                token,
                place: format!("/{}", place.text()),
                served,
                current: Current::default(),
            }),
        })
    }

    /// Returns the address of the page, including the token.
    pub fn address(&self) -> String {
        let ServedAnswers { port, token, .. } = &*self.answers;
        format!("http://127.0.0.1:{port}/?token={}", token.text())
    }

    /// Answers requests until `is_over` returns true; it is called several times per second.
    pub fn run(&self, is_over: impl Fn() -> bool) {
        self.runtime.block_on(self.accept(is_over));
    }

    async fn accept(&self, is_over: impl Fn() -> bool) {
        let (mut open, mut accepted_now) = (VecDeque::new(), 0u32);
        let mut ticks = interval(TICK);
        while !is_over() {
            tokio::select! {
                _ = ticks.tick() => open.retain(|c: &Connection| !c.task.is_finished()),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        if open.len() >= MAX_CONNECTIONS {
                            make_room(&mut open);
                        }
                        open.push_back(connection(stream, Arc::clone(&self.answers)));
                        accepted_now = (accepted_now + 1) % AT_ONCE;
                        if accepted_now == 0 {
                            yield_now().await;
                        }
                    }
                    // the client closed the connection before it was accepted
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // no file descriptor is free, so a later attempt may succeed
                    Err(_) => {
                        make_room(&mut open);
                        sleep(PAUSE).await;
                    }
                },
            }
        }
    }
}

/// Closes the oldest connection whose client has not shown the token, or the oldest of all if there is none. An honest client is safe: its request
/// takes much less time than opening [`MAX_CONNECTIONS`] other connections.
fn make_room(open: &mut VecDeque<Connection>) {
    open.retain(|c| !c.task.is_finished());
    let unknown = |c: &Connection| !c.is_known.load(Ordering::Relaxed);
    let oldest = open.iter().position(unknown).unwrap_or(0);
    if let Some(connection) = open.remove(oldest) {
        connection.task.abort();
    }
}

/// Answers one request of a connection, which is closed afterwards.
fn connection(stream: TcpStream, answers: Arc<ServedAnswers>) -> Connection {
    let is_known = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&is_known);
    let task = tokio::spawn(async move {
        let service = service_fn(|request: Request<Incoming>| {
            let (answers, known) = (Arc::clone(&answers), Arc::clone(&known));
            async move {
                match answers.judge(&request) {
                    ServedVerdict::Done(response) => Ok(response),
                    ServedVerdict::Page(path) => {
                        known.store(true, Ordering::Relaxed);
                        tokio::task::spawn_blocking(move || answers.page(&path)).await
                    }
                }
            }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST)
                .max_buf_size(MAX_HEAD)
                .keep_alive(false)
                .title_case_headers(true)
                .serve_connection(TokioIo::new(stream), service)
        );
        // an error means that the client disconnected or did not send HTTP
        let in_time = timeout(REQUEST, &mut connection).await.is_ok();
        if !in_time && known.load(Ordering::Relaxed) {
            let _ = timeout(ANSWER, connection).await;
        }
    });
    Connection { task, is_known }
}
