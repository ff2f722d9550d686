//! HTTP clients: one for servers of ours on loopback, one for the outside.

use std::time::Duration;

/// How long a host outside may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a download may stand still.
const STALL: Duration = Duration::from_secs(20);

/// A client that talks to loopback only: no proxy, no redirect, and no
/// connection kept, because servers close idle ones at their own time.
pub fn loopback_client(timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .timeout(timeout)
        .build()
}

/// A client for published files; an unreachable host costs about a second.
pub fn download_client() -> Result<reqwest::Client, reqwest::Error> {
    builder().connect_timeout(CONNECT).read_timeout(STALL).build()
}

fn builder() -> reqwest::ClientBuilder {
    // Fails only where a provider was installed before, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().user_agent(concat!("orchestrate/", env!("CARGO_PKG_VERSION")))
}
