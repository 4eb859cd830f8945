//! A small HTTP server that can also close a connection without an answer.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Response, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinSet, spawn_blocking},
};

/// A complete request.
#[derive(Clone, Debug)]
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl HttpRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A complete response.
#[derive(Clone, Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl HttpResponse {
    pub(super) fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".into(), kind.into())],
            body: body.into(),
        }
    }

    pub(super) fn xml(body: Vec<u8>) -> Self {
        Self::new(200, "text/xml;charset=UTF-8", body)
    }
}

/// Answers requests; `None` closes the connection without an answer.
pub(super) type Handler = Arc<dyn Fn(HttpRequest) -> Option<HttpResponse> + Send + Sync>;

/// Makes a runtime whose threads are in the caller's namespaces. Call this on the network on which the runtime will listen and connect.
pub(super) fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("cloud")
        .thread_keep_alive(Duration::from_secs(2))
        .enable_all()
        .build()
        .expect("threads of the cloud")
}

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // aborting the task closes the listener and all connections
        self.task.abort();
    }
}

/// Serves on a listener, each request on a thread of its own.
pub(super) fn serve(
    runtime: &Handle,
    listener: TcpListener,
    handler: Handler,
) -> io::Result<Serving> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let task = runtime.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let handler = Arc::clone(&handler);
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let handler = Arc::clone(&handler);
                async move { answer(request, handler).await }
            });
            connections.spawn(async move {
                // clients may close connections at any time
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
            while connections.try_join_next().is_some() {}
        }
    });
    Ok(Serving { address, task })
}

async fn answer(
    request: hyper::Request<hyper::body::Incoming>,
    handler: Handler,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(io::Error::other)?
        .to_bytes()
        .to_vec();
    let path = head
        .uri
        .path_and_query()
        .map_or("/", |p| p.as_str())
        .to_owned();
    let request = HttpRequest {
        method: head.method,
        path,
        headers: head.headers,
        body,
    };
    // an error of the service makes hyper close the connection
    let answer = spawn_blocking(move || handler(request))
        .await
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other("hung up"))?;
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    response
        .body(Full::new(Bytes::from(answer.body)))
        .map_err(io::Error::other)
}
