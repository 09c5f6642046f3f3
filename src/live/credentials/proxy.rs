//! A proxy on the way to the API server: the kubeconfig's `proxy-url`, or the environment's.

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::source::server_name;
use crate::live::client::ConnectError;

/// How connections go out.
#[derive(Clone)]
pub enum Proxy {
    Http(Through),
    Socks5(Through),
}

/// The proxy's address and what it asks for.
#[derive(Clone)]
pub struct Through(Intercept);

impl Proxy {
    /// Chooses the proxy for a server: `named` in the kubeconfig counts always, the environment's
    /// HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY for what is not on this machine.
    ///
    /// Source: client-go's `rest/transport.go`, Go's `http.ProxyFromEnvironment`.
    ///
    /// # Errors
    /// [`ConnectError::Proxy`] for a proxy that is spoken to in another way.
    pub(super) fn choose(named: Option<&str>, server: &Uri) -> Result<Option<Proxy>, ConnectError> {
        let matcher = match named.filter(|proxy| !proxy.is_empty()) {
            Some(proxy) => {
                let matcher = Matcher::builder().all(proxy.to_owned()).build();
                if matcher.intercept(server).is_none() {
                    return Err(ConnectError::Proxy(shown(proxy)));
                }
                matcher
            }
            None if is_local(server) => return Ok(None),
            None => Matcher::from_env(),
        };
        matcher.intercept(server).map(Proxy::of).transpose()
    }

    fn of(intercept: Intercept) -> Result<Proxy, ConnectError> {
        match intercept.uri().scheme_str() {
            Some("http") => Ok(Proxy::Http(Through(intercept))),
            Some("socks5" | "socks5h") => Ok(Proxy::Socks5(Through(intercept))),
            _ => Err(ConnectError::Proxy(server_name(intercept.uri()))),
        }
    }

    /// Returns what tells this proxy from another.
    pub(super) fn identity(&self) -> String {
        let (Proxy::Http(through) | Proxy::Socks5(through)) = self;
        let basic = through.0.basic_auth().map(HeaderValue::as_bytes);
        let secret = (basic, through.0.raw_auth());
        format!("{} {secret:?}", through.0.uri())
    }
}

impl Through {
    /// Asks the proxy for a tunnel (CONNECT), whatever the server's scheme.
    pub fn tunnel<C>(&self, connector: C) -> Tunnel<C> {
        let tunnel = Tunnel::new(self.0.uri().clone(), connector);
        match self.0.basic_auth() {
            Some(auth) => tunnel.with_auth(auth.clone()),
            None => tunnel,
        }
    }

    /// The proxy looks up the server's name.
    pub fn socks<C>(&self, connector: C) -> SocksV5<C> {
        let socks = SocksV5::new(self.0.uri().clone(), connector);
        match self.0.raw_auth() {
            Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
            None => socks,
        }
    }
}

fn is_local(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// Without what may be secret in it.
fn shown(proxy: &str) -> String {
    proxy.parse().map_or("(unreadable)".to_owned(), |uri| server_name(&uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(named: &str) -> Result<Option<Proxy>, String> {
        Proxy::choose(Some(named), &Uri::from_static("https://10.0.0.1:6443"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn http_and_socks5_proxies_are_taken_and_others_refused() {
        assert!(matches!(chosen("http://proxy.example:3128"), Ok(Some(Proxy::Http(_)))));
        assert!(matches!(chosen("socks5://proxy.example:1080"), Ok(Some(Proxy::Socks5(_)))));
        let refused = chosen("https://user:secret@proxy.example:3128").err().unwrap();
        assert!(refused.contains("https://proxy.example:3128") && !refused.contains("secret"));
        assert!(chosen("").is_ok_and(|_| true));
    }

    #[test]
    fn what_is_on_this_machine_needs_no_proxy_of_the_environment() {
        for (server, local) in [
            ("https://127.0.0.1:6443", true),
            ("https://[::1]:6443", true),
            ("https://localhost", true),
            ("https://10.0.0.1", false),
        ] {
            assert_eq!(is_local(&Uri::from_static(server)), local, "{server}");
        }
    }
}
