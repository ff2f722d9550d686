//! The part of our own environment that children may see.

use std::collections::BTreeMap;
use std::ffi::OsString;

const NAMES: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    // Requests and curl keep trust anchors of their own.
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];
const PREFIXES: [&str; 4] = ["LC_", "SSL_CERT_", "UV_", "PIP_"];
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// Picks from `vars` what any program needs to find its files, its locale and
/// the network, and nothing else.
///
/// Kept: `PATH`, `HOME`, `USER`, `LOGNAME`, `LANG`, `LANGUAGE`, `LC_*`, `TZ`,
/// `TMPDIR`, `SSL_CERT_*`, `REQUESTS_CA_BUNDLE`, `CURL_CA_BUNDLE`, the proxy
/// variables in either case, and the settings of the Python installers
/// (`UV_*`, `PIP_*`). Values that are not UTF-8 are left out.
#[must_use]
pub fn base_environment<N, V>(vars: impl IntoIterator<Item = (N, V)>) -> BTreeMap<String, String>
where
    N: Into<OsString>,
    V: Into<OsString>,
{
    vars.into_iter()
        .filter_map(|(name, value)| Some((name.into().into_string().ok()?, value.into().into_string().ok()?)))
        .filter(|(name, _)| is_allowed(name))
        .collect()
}

fn is_allowed(name: &str) -> bool {
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PROXIES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_program_needs_is_kept() {
        let vars = ["PATH", "LC_ALL", "HTTPS_PROXY", "no_proxy", "UV_CACHE_DIR", "AWS_SECRET", "LD_PRELOAD"]
            .map(|name| (name, "x"));
        let kept: Vec<String> = base_environment(vars).into_keys().collect();
        assert_eq!(kept, ["HTTPS_PROXY", "LC_ALL", "PATH", "UV_CACHE_DIR", "no_proxy"]);
    }
}
