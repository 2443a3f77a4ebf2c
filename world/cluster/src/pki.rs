//! The cluster's certificates: an authority, one that signs the certificates of machines that join,
//! and those.
//!
//! A token carries the second one with its key. The authority's own key stays on the first machine.

use std::net::IpAddr;

use nearflash_records::token::Keyed;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use uuid::Uuid;

/// Both signing certificates of a new cluster: its authority, and that of its token.
pub(super) fn authorities(cluster: Uuid) -> Result<(Keyed, Keyed), rcgen::Error> {
    let key = KeyPair::generate()?;
    let params = authority_params(cluster);
    let certificate = params.self_signed(&key)?.pem();
    let authority = Keyed { certificate, key: key.serialize_pem() };
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let certificate = join_params(cluster).signed_by(&key, &issuer)?.pem();
    Ok((authority, Keyed { certificate, key: key.serialize_pem() }))
}

/// The certificate of a machine, for both ends of its connections, followed by that which signed it.
pub(super) fn machine(
    cluster: Uuid,
    join: &Keyed,
    machine: &str,
    addresses: &[IpAddr],
) -> Result<Keyed, rcgen::Error> {
    // An issuer consists of its name and its key, and the name follows from the cluster.
    let issuer = Issuer::new(join_params(cluster), KeyPair::from_pem(&join.key)?);
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names)?;
    always(&mut params);
    params.distinguished_name.push(DnType::CommonName, machine);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?.pem() + &join.certificate;
    Ok(Keyed { certificate, key: key.serialize_pem() })
}

fn authority_params(cluster: Uuid) -> CertificateParams {
    signing_params(format!("nearflash cluster {cluster}"), BasicConstraints::Unconstrained)
}

fn join_params(cluster: Uuid) -> CertificateParams {
    let mut params = signing_params(
        format!("nearflash cluster {cluster} join"),
        BasicConstraints::Constrained(0),
    );
    params.use_authority_key_identifier_extension = true;
    params
}

/// The first day of a certificate. A clock that has lost its time begins in 1970.
fn always(params: &mut CertificateParams) {
    params.not_before = rcgen::date_time_ymd(1970, 1, 1);
}

fn signing_params(name: String, constraints: BasicConstraints) -> CertificateParams {
    let mut params = CertificateParams::default();
    always(&mut params);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
