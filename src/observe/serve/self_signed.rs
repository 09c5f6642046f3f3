//! A certificate for whoever brings none.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::ServeError;
use super::certificate::Pair;

/// Makes a certificate for localhost and the address, for a year, signed by a CA whose key is
/// thrown away.
///
/// Source: client-go/util/cert, GenerateSelfSignedCertKeyWithOptions.
pub(super) fn self_signed(bind: IpAddr) -> Result<Pair, ServeError> {
    let made = || -> Result<Pair, rcgen::Error> {
        let mut ca = dated(CertificateParams::default());
        ca.distinguished_name.push(DnType::CommonName, "berth-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        if !bind.is_unspecified() && !names.contains(&bind.to_string()) {
            names.push(bind.to_string());
        }
        let mut leaf = dated(CertificateParams::new(names)?);
        leaf.distinguished_name.push(DnType::CommonName, "berth");
        leaf.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &ca)?;
        let chain = format!("{}{}", certificate.pem(), ca.pem());
        Ok(Pair { chain: chain.into_bytes(), key: key.serialize_pem().into_bytes() })
    };
    made().map_err(|problem| ServeError::File {
        what: "making a certificate".to_owned(),
        problem: problem.to_string(),
    })
}

/// From yesterday, for clocks that are behind, until this day of the next year.
fn dated(mut params: CertificateParams) -> CertificateParams {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |date: jiff::civil::Date| {
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(date.year().into(), month, day)
    };
    params.not_before = day(today.yesterday().unwrap_or(today));
    params.not_after = day(today.saturating_add(jiff::Span::new().years(1)));
    params
}
