//! The server's certificates: from files that may change, or self-signed; one a name if asked.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{info, warn};

use super::self_signed::self_signed;
use super::{ServeError, TlsOptions, x509};

/// A certificate chain and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Where a pair is, and for which names it is used.
#[derive(Clone, Debug)]
struct Place {
    chain: PathBuf,
    key: PathBuf,
    /// From the flag; empty for those in the certificate.
    names: Vec<String>,
}

impl Place {
    fn read(&self) -> Result<Pair, ServeError> {
        let read = |path: &Path| {
            fs::read(path).map_err(|problem| ServeError::File {
                what: path.display().to_string(),
                problem: problem.to_string(),
            })
        };
        Ok(Pair { chain: read(&self.chain)?, key: read(&self.key)? })
    }

    /// Reads `cert,key` or `cert,key:domain,domain`.
    fn parse(text: &str) -> Result<Place, ServeError> {
        let wrong = || ServeError::Flag {
            flag: "tls-sni-cert-key",
            problem: format!("{text:?} is not of the form cert,key or cert,key:domain,domain"),
        };
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        let (chain, key) = files.split_once(',').ok_or_else(wrong)?;
        if chain.is_empty() || key.is_empty() || key.contains(',') {
            return Err(wrong());
        }
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names = names.map(str::to_ascii_lowercase).collect();
        Ok(Place { chain: chain.into(), key: key.into(), names })
    }
}

/// What is served at one moment.
#[derive(Debug)]
struct Served {
    default: Arc<CertifiedKey>,
    /// By name, `*.example.com` included.
    named: BTreeMap<String, Arc<CertifiedKey>>,
}

/// The certificates; connections take what is in it when they begin.
#[derive(Debug)]
pub(super) struct Store {
    /// None: self-signed in memory.
    default: Option<Place>,
    generated: Option<Pair>,
    sni: Vec<Place>,
    served: RwLock<Arc<Served>>,
}

impl Store {
    /// Reads all files, and makes a certificate if there is none.
    ///
    /// # Errors
    /// [`ServeError`], the file or flag that can't be used.
    pub(super) fn load(options: &TlsOptions, bind: IpAddr) -> Result<Arc<Store>, ServeError> {
        let sni: Result<Vec<Place>, ServeError> =
            options.sni_cert_keys.iter().map(|text| Place::parse(text)).collect();
        let sni = sni?;
        let (default, generated) = match (&options.cert_file, &options.private_key_file) {
            (Some(chain), Some(key)) => (Some(place(chain.clone(), key.clone())), None),
            (None, None) => match &options.cert_dir {
                Some(dir) => (Some(kept(dir, bind)?), None),
                None => (None, Some(self_signed(bind)?)),
            },
            (Some(_), None) => return Err(missing("tls-private-key-file", "tls-cert-file")),
            (None, Some(_)) => return Err(missing("tls-cert-file", "tls-private-key-file")),
        };
        let pairs = read_all(&default, &generated, &sni)?;
        let served = RwLock::new(Arc::new(made(&pairs, &sni)?));
        Ok(Arc::new(Store { default, generated, sni, served }))
    }

    /// Looks at the files again and again; never returns. What can't be used is told once and
    /// leaves the old ones in place.
    pub(super) async fn follow(&self, every: Duration) {
        let mut last = read_all(&self.default, &self.generated, &self.sni).ok();
        let mut told = String::new();
        loop {
            tokio::time::sleep(every).await;
            let outcome = match read_all(&self.default, &self.generated, &self.sni) {
                Ok(pairs) if last.as_ref() == Some(&pairs) => continue,
                Ok(pairs) => made(&pairs, &self.sni).map(|served| (pairs, served)),
                Err(problem) => Err(problem),
            };
            match outcome {
                Ok((pairs, served)) => {
                    *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(served);
                    (last, told) = (Some(pairs), String::new());
                    info!("certificates reloaded");
                }
                Err(problem) if told != problem.to_string() => {
                    warn!(%problem, "certificates not reloaded, the old ones stay");
                    told = problem.to_string();
                }
                Err(_) => {}
            }
        }
    }

    /// Returns the resolver of a connection that came in at this address.
    pub(super) fn resolver(&self, local: IpAddr) -> Arc<dyn ResolvesServerCert> {
        let served = Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner));
        Arc::new(Resolver { served, local })
    }
}

#[derive(Debug)]
struct Resolver {
    served: Arc<Served>,
    local: IpAddr,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A client that asks for an address sends no name.
        let name = hello.server_name().map_or_else(|| self.local.to_string(), str::to_owned);
        Some(self.served.choose(&name))
    }
}

impl Served {
    fn choose(&self, name: &str) -> Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        let wildcard = || {
            let (_, rest) = name.split_once('.')?;
            self.named.get(&format!("*.{rest}"))
        };
        Arc::clone(self.named.get(&name).or_else(wildcard).unwrap_or(&self.default))
    }
}

fn place(chain: PathBuf, key: PathBuf) -> Place {
    Place { chain, key, names: Vec::new() }
}

fn missing(flag: &'static str, given: &str) -> ServeError {
    ServeError::Flag { flag, problem: format!("must be given with --{given}") }
}

/// Reads the default pair, then those of SNI.
fn read_all(
    default: &Option<Place>,
    generated: &Option<Pair>,
    sni: &[Place],
) -> Result<Vec<Pair>, ServeError> {
    let mut pairs = Vec::new();
    match (default, generated) {
        (Some(place), _) => pairs.push(place.read()?),
        (None, Some(pair)) => pairs.push(pair.clone()),
        (None, None) => {}
    }
    for place in sni {
        pairs.push(place.read()?);
    }
    Ok(pairs)
}

/// Names given in the flag win over those in the certificate, earlier flags over later ones.
fn made(pairs: &[Pair], sni: &[Place]) -> Result<Served, ServeError> {
    let (first, others) = pairs.split_first().expect("the default pair is always read");
    let default = certified(first)?;
    let mut keys = Vec::new();
    for pair in others {
        keys.push(certified(pair)?);
    }
    let mut named: BTreeMap<String, Arc<CertifiedKey>> = BTreeMap::new();
    for (place, key) in sni.iter().zip(&keys) {
        for name in &place.names {
            named.entry(name.clone()).or_insert_with(|| Arc::clone(key));
        }
    }
    for (place, key) in sni.iter().zip(&keys) {
        let own = key.cert.first().filter(|_| place.names.is_empty());
        for name in own.map(|cert| x509::names(cert)).unwrap_or_default() {
            named.entry(name.to_ascii_lowercase()).or_insert_with(|| Arc::clone(key));
        }
    }
    Ok(Served { default, named })
}

fn certified(pair: &Pair) -> Result<Arc<CertifiedKey>, ServeError> {
    let wrong = |problem: String| ServeError::File { what: "certificate".to_owned(), problem };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pair.chain).collect();
    let chain = chain.map_err(|problem| wrong(problem.to_string()))?;
    if chain.is_empty() {
        return Err(wrong("there is none in the file".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&pair.key)
        .map_err(|problem| wrong(format!("private key: {problem}")))?;
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
    key.map(Arc::new).map_err(|problem| wrong(problem.to_string()))
}

/// Returns the pair in the folder: kube-scheduler's if it left one, else Berth's, made if there is
/// none.
///
/// Source: apiserver/pkg/server/options/serving.go, MaybeDefaultWithSelfSignedCerts.
fn kept(dir: &Path, bind: IpAddr) -> Result<Place, ServeError> {
    let named =
        |name: &str| place(dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
    for found in ["kube-scheduler", "berth"].map(named) {
        if found.chain.exists() && found.key.exists() {
            return Ok(found);
        }
    }
    let place = named("berth");
    let pair = self_signed(bind)?;
    let failed = |problem: std::io::Error| ServeError::File {
        what: dir.display().to_string(),
        problem: problem.to_string(),
    };
    fs::create_dir_all(dir).map_err(failed)?;
    fs::write(&place.chain, &pair.chain).map_err(failed)?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&place.key);
    file.and_then(|mut file| file.write_all(&pair.key)).map_err(failed)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_the_certificate() {
        let bind = IpAddr::from([127, 0, 0, 1]);
        let pairs: Vec<Pair> = (0..3).map(|_| self_signed(bind).unwrap()).collect();
        let sni = ["a,b:one.example,*.example", "a,b"].map(|text| Place::parse(text).unwrap());
        let served = made(&pairs, &sni).unwrap();
        let chosen = |name: &str| {
            let key = served.choose(name);
            let same = |pair: &Pair| certified(pair).unwrap().cert == key.cert;
            pairs.iter().position(same).unwrap()
        };
        assert_eq!(chosen("ONE.example"), 1);
        assert_eq!(chosen("two.example"), 1);
        assert_eq!(chosen("a.two.example"), 0);
        assert_eq!(chosen("localhost"), 2);
        assert_eq!(chosen("127.0.0.1"), 2);
        assert_eq!(chosen("elsewhere"), 0);
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let bind = IpAddr::from([127, 0, 0, 1]);
        let (one, two) = (self_signed(bind).unwrap(), self_signed(bind).unwrap());
        assert!(certified(&Pair { chain: one.chain, key: two.key }).is_err());
        assert!(Place::parse("only-one-file").is_err());
    }
}
