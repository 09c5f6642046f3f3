//! Who a request comes from: front proxy, client certificate, token, or nobody known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, header};
use ring::digest;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::cache::TtlCache;
use super::delegation::{Proxy, Trust, TrustStore};
use super::review::Reviews;
use super::x509;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Source: apiserver/pkg/authentication/user, CredentialIDKey.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Whom a request comes from, as the API server knows users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    fn anonymous() -> User {
        User {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..User::default()
        }
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// Source: apiserver/pkg/authentication/group/authenticated_group_adder.go.
    fn with_group(mut self) -> User {
        let says = self.groups.iter().any(|g| g == AUTHENTICATED || g == UNAUTHENTICATED);
        if !self.is_anonymous() && !says {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// SHA-256 of a token: the token itself is not kept.
type TokenKey = [u8; 32];

pub(super) struct Authenticator {
    trust: Arc<TrustStore>,
    /// None: tokens are ignored.
    tokens: Option<Reviews>,
    token_ttl: Duration,
    cache: TtlCache<TokenKey, Option<User>>,
}

impl Authenticator {
    pub(super) fn new(
        trust: Arc<TrustStore>,
        tokens: Option<Reviews>,
        token_ttl: Duration,
    ) -> Authenticator {
        Authenticator { trust, tokens, token_ttl, cache: TtlCache::new() }
    }

    /// Returns the first who is proven, in upstream's order. Without any credential it is
    /// anonymous; credentials that prove nobody are an error.
    ///
    /// # Errors
    /// What was wrong with each, for the log: no secret, but nothing for the caller either.
    pub(super) async fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Result<User, String> {
        let mut problems = Vec::new();
        match certified(&self.trust.current(), chain, headers) {
            Ok(Some(user)) => return Ok(user.with_group()),
            Ok(None) => {}
            Err(found) => problems = found,
        }
        if let (Some(reviews), Some(token)) = (&self.tokens, bearer_token(headers)) {
            match self.reviewed(reviews, token).await {
                Ok(Some(user)) => return Ok(user.with_group()),
                Ok(None) => problems.push("invalid bearer token".to_owned()),
                Err(problem) => problems.push(format!("token review: {problem}")),
            }
        }
        if problems.is_empty() { Ok(User::anonymous()) } else { Err(problems.join("; ")) }
    }

    async fn reviewed(&self, reviews: &Reviews, token: &str) -> Result<Option<User>, String> {
        let key = digest::digest(&digest::SHA256, token.as_bytes());
        let key: TokenKey = key.as_ref().try_into().map_err(|_| "digest length".to_owned())?;
        if let Some(known) = self.cache.get(&key, Instant::now()) {
            return Ok(known);
        }
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        let status = reviews.ask(TOKEN_REVIEWS, &review).await?;
        let user = user_of(&status);
        self.cache.insert(key, user.clone(), self.token_ttl, Instant::now());
        Ok(user)
    }
}

/// Tries the certificate as a front proxy's, then as the user's own.
fn certified(
    trust: &Trust,
    chain: &[CertificateDer<'_>],
    headers: &HeaderMap,
) -> Result<Option<User>, Vec<String>> {
    let mut problems = Vec::new();
    let Some(first) = chain.first() else { return Ok(None) };
    if let Some(proxy) = &trust.proxy {
        match spoken_for(proxy, chain, headers) {
            Ok(Some(user)) => return Ok(Some(user)),
            Ok(None) => {}
            Err(problem) => problems.push(format!("front proxy certificate: {problem}")),
        }
    }
    if let Some(ca) = &trust.client_ca {
        match ca.verify(chain).and_then(|()| named(first)) {
            Ok(Some(user)) => return Ok(Some(user)),
            Ok(None) => {}
            Err(problem) => problems.push(format!("client certificate: {problem}")),
        }
    }
    if problems.is_empty() { Ok(None) } else { Err(problems) }
}

/// Source: apiserver/pkg/authentication/request/x509, CommonNameUserConversion.
fn named(certificate: &CertificateDer<'_>) -> Result<Option<User>, String> {
    let subject = x509::subject(certificate)?;
    if subject.common_name.is_empty() {
        return Ok(None);
    }
    let digest = digest::digest(&digest::SHA256, certificate);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hex}")])]);
    let (name, uid, groups) = (subject.common_name, subject.uid, subject.organizations);
    Ok(Some(User { name, uid, groups, extra }))
}

/// Source: apiserver/pkg/authentication/request/headerrequest.
fn spoken_for(
    proxy: &Proxy,
    chain: &[CertificateDer<'_>],
    headers: &HeaderMap,
) -> Result<Option<User>, String> {
    proxy.ca.verify(chain)?;
    let name = x509::subject(&chain[0])?.common_name;
    if !proxy.allowed_names.is_empty() && !proxy.allowed_names.contains(&name) {
        return Err(format!("common name {name:?} is not in the allowed list"));
    }
    Ok(user_in_headers(proxy, headers))
}

fn user_in_headers(proxy: &Proxy, headers: &HeaderMap) -> Option<User> {
    let values = |names: &[String]| -> Vec<String> {
        let all = names.iter().flat_map(|name| headers.get_all(name.trim()));
        let text = all.filter_map(|value| value.to_str().ok()).filter(|value| !value.is_empty());
        text.map(str::to_owned).collect()
    };
    let name = values(&proxy.username_headers).into_iter().next()?;
    let uid = values(&proxy.uid_headers).into_iter().next().unwrap_or_default();
    let groups = values(&proxy.group_headers);
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in &proxy.extra_headers_prefix {
        let prefix = prefix.trim().to_ascii_lowercase();
        for (header, value) in headers {
            let Some(key) = header.as_str().strip_prefix(&prefix) else { continue };
            let Ok(value) = value.to_str() else { continue };
            extra.entry(percent_decoded(key)).or_default().push(value.to_owned());
        }
    }
    Some(User { name, uid, groups, extra })
}

/// Returns the text as it is where it is no percent-encoding.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let code = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(byte) = code else { return text.to_owned() };
        bytes.push(byte);
        rest = &after[2..];
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Reads a TokenReview's status; None is a token of nobody.
fn user_of(status: &Value) -> Option<User> {
    if status["authenticated"] != true {
        return None;
    }
    let user = &status["user"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().map(|all| all.iter().map(text).collect());
    let extra = user["extra"].as_object().into_iter().flatten();
    Some(User {
        name: text(&user["username"]),
        uid: text(&user["uid"]),
        groups: texts(&user["groups"]).unwrap_or_default(),
        extra: extra.map(|(key, all)| (key.clone(), texts(all).unwrap_or_default())).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn only_bearer_tokens_are_tokens() {
        assert_eq!(bearer_token(&headers("Bearer abc")), Some("abc"));
        assert_eq!(bearer_token(&headers("bEARER abc more")), Some("abc"));
        for nothing in ["Bearer ", "Bearer  abc", "Basic abc", "abc", ""] {
            assert_eq!(bearer_token(&headers(nothing)), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_review_names_a_user_only_if_it_says_authenticated() {
        let user = json!({"username": "a", "groups": ["g"], "extra": {"k": ["v", "w"]}});
        let found = user_of(&json!({"authenticated": true, "user": user})).unwrap().with_group();
        assert_eq!(found.name, "a");
        assert_eq!(found.groups, ["g", AUTHENTICATED]);
        assert_eq!(found.extra["k"], ["v", "w"]);
        assert_eq!(user_of(&json!({"authenticated": false, "user": user})), None);
        assert_eq!(user_of(&json!({"authenticated": "true", "user": user})), None);
        assert_eq!(user_of(&json!({"user": user})), None);
    }

    #[test]
    fn groups_say_once_who_is_authenticated() {
        assert_eq!(User::anonymous().with_group(), User::anonymous());
        let node = User { groups: vec![AUTHENTICATED.to_owned()], ..User::default() };
        assert_eq!(node.clone().with_group(), node);
    }

    #[test]
    fn extra_keys_are_decoded_if_they_are_encoded() {
        assert_eq!(percent_decoded("example.com%2fkey"), "example.com/key");
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("a%zz"), "a%zz");
    }
}
