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
/// Ends of the names of variables that hold secrets.
const SECRETS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIALS"];
const SHORTEST_SECRET: usize = 6;
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

/// What in some variables is secret: the values of those that are called a
/// token, a password or alike, and the passwords within URLs.
///
/// Short values are left out: in a log they would be masked where they stand
/// by chance.
pub fn secrets_in<'a>(vars: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let secrets = vars.into_iter().filter_map(|(name, value)| {
        let upper = name.to_ascii_uppercase();
        let is_secret = SECRETS.iter().any(|word| upper.ends_with(word));
        if is_secret { Some(value) } else { password_in(value) }
    });
    secrets.filter(|secret| secret.len() >= SHORTEST_SECRET).map(str::to_owned).collect()
}

/// The password of a URL, or its user where that is all.
fn password_in(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':').map_or(user, |(_, password)| password))
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

    #[test]
    fn secrets_are_known_by_the_names_of_variables_and_as_passwords_of_urls() {
        let vars = [
            ("HF_TOKEN", "hf_abcdefgh"),
            ("uv_index_x_password", "hunter2-hunter2"),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUt"),
            ("HTTPS_PROXY", "http://alice:s3cret-word@proxy:3128"),
            ("PIP_INDEX_URL", "https://glpat-abcdef@host/simple/?x=a@b"),
            ("OTHER_TOKEN", "1"),
            ("PATH", "/usr/bin"),
            ("UV_INDEX_URL", "https://pypi.org/simple"),
            ("TOKENIZERS_PARALLELISM", "falsehood"),
        ];
        let secrets = ["hf_abcdefgh", "hunter2-hunter2", "wJalrXUt", "s3cret-word", "glpat-abcdef"];
        assert_eq!(secrets_in(vars), secrets);
    }
}
