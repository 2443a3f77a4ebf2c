use super::*;
use nearflash_request::VolumeId;
use nearflash_space::Epoch;
use nearflash_units::{BlockSize, Blocks, ByteOffset};

const NOW: UnixTime = UnixTime(1_000);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn volume(text: &str, uuid: u128, blocks: u64) -> Volume {
    Volume {
        home: nearflash_space::Home::Node,
        stripes: nearflash_space::Stripes::NONE,
        id: VolumeId(0),
        uuid: Uuid::from_u128(uuid),
        name: name(text),
        block_size: BlockSize::B4096,
        blocks: Blocks(blocks),
        subsystem: name(text),
        nsid: 1,
        preparing: None,
        epoch: Epoch(1),
        extents: Vec::new(),
        provisioning: nearflash_space::Provisioning::Thin,
        reservations: nearflash_space::Reservations::default(),
    }
}

fn secret() -> Secret {
    Secret::new([7; crate::SECRET_LEN])
}

fn with_credentials(ids: &[&str]) -> Grants {
    let mut grants = Grants::default();
    for id in ids {
        grants.create(&name(id), secret(), None, NOW).unwrap();
    }
    grants
}

fn request(credential: &str, range: &str) -> GrantRequest {
    GrantRequest {
        holder: Holder::Credential(name(credential)),
        covers: Covered::Range(range.parse().unwrap()),
        rights: Rights::ReadWrite,
        expires: None,
    }
}

#[test]
fn a_credential_has_a_name_of_its_own() {
    let mut grants = with_credentials(&["app"]);
    let refused = grants.create(&name("app"), secret(), None, NOW).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "credential 'app' exists already: choose another name, or remove it first"
    );
}

#[test]
fn a_removed_credential_takes_its_grants_along() {
    let mut grants = with_credentials(&["app", "backup"]);
    let data = volume("data", 1, 8);
    grants.add(request("app", "0.."), &data, NOW).unwrap();
    grants.add(request("backup", "0.."), &data, NOW).unwrap();
    assert_eq!(grants.remove(&name("app")).unwrap().id, name("app"));
    assert_eq!(grants.grants_of(&name("app")).count(), 0);
    assert_eq!(grants.grants().len(), 1);
    let again = grants.remove(&name("app")).unwrap_err();
    assert_eq!(again.to_string(), "no credential 'app': 'nearflash credential list' lists them");
}

#[test]
fn a_removed_volume_takes_its_grants_along_and_one_of_its_name_gets_none() {
    let mut grants = with_credentials(&["app"]);
    let (old, other) = (volume("data", 1, 8), volume("logs", 2, 8));
    grants.add(request("app", "0.."), &old, NOW).unwrap();
    grants.add(request("app", "0.."), &other, NOW).unwrap();
    let new = volume("data", 3, 8);
    grants.keep_those_on(|uuid| [new.uuid, other.uuid].contains(&uuid));
    assert!(grants.grants().all(|grant| grant.volume != new.uuid && grant.volume != old.uuid));
    assert_eq!(grants.grants().len(), 1);
}

#[test]
fn a_number_is_never_given_twice() {
    let mut grants = with_credentials(&["app"]);
    let data = volume("data", 1, 8);
    let first = grants.add(request("app", "0.."), &data, NOW).unwrap().number;
    assert_eq!(grants.revoke(first).unwrap().number, first);
    let second = grants.add(request("app", "0.."), &data, NOW).unwrap().number;
    assert_eq!((first, second), (GrantNumber(1), GrantNumber(2)));
    let again = grants.revoke(first).unwrap_err();
    assert_eq!(again.to_string(), "no grant 1: 'nearflash grant list' lists them");
}

#[test]
fn a_grant_beyond_its_volume_or_to_nobody_is_refused() {
    let mut grants = with_credentials(&["app"]);
    let data = volume("data", 1, 8);
    assert!(grants.add(request("app", "28KiB..32KiB"), &data, NOW).is_ok());
    let before = grants.clone();
    let refused = |grants: &mut Grants, asked| grants.add(asked, &data, NOW).unwrap_err();
    assert_eq!(
        refused(&mut grants, request("app", "4KiB..32769")).to_string(),
        "volume 'data' has 32KiB, and the range 4KiB..32769B exceeds it: write 4096.. for \
         everything up to its end, even after it grows"
    );
    let beyond = refused(&mut grants, request("app", "32KiB.."));
    assert!(matches!(beyond, GrantError::BeyondVolume { .. }));
    let nobody = refused(&mut grants, request("nobody", "0.."));
    assert_eq!(nobody, GrantError::NoCredential(name("nobody")));
    assert_eq!(grants, before, "what is refused changes nothing");
}

#[test]
fn what_would_have_expired_already_is_refused() {
    let mut grants = with_credentials(&["app"]);
    let refused = grants.create(&name("late"), secret(), Some(NOW), NOW).unwrap_err();
    assert_eq!(refused, GrantError::Past);
    let late = GrantRequest { expires: Some(UnixTime(999)), ..request("app", "0..") };
    assert_eq!(grants.add(late, &volume("data", 1, 8), NOW), Err(GrantError::Past));
}

#[test]
fn the_next_expiry_is_the_first_that_is_to_come() {
    let mut grants = with_credentials(&["for-ever"]);
    assert_eq!(grants.next_expiry(NOW), None);
    grants.create(&name("app"), secret(), Some(UnixTime(1_500)), NOW).unwrap();
    let short = GrantRequest { expires: Some(UnixTime(1_200)), ..request("app", "0..") };
    grants.add(short, &volume("data", 1, 8), NOW).unwrap();
    assert_eq!(grants.next_expiry(NOW), Some(UnixTime(1_200)));
    assert_eq!(grants.next_expiry(UnixTime(1_200)), Some(UnixTime(1_500)));
    assert_eq!(grants.next_expiry(UnixTime(1_500)), None);
    assert!(is_expired(Some(UnixTime(1_200)), UnixTime(1_200)) && !is_expired(None, NOW));
}

#[test]
fn there_are_bounds_with_names() {
    let mut grants = Grants::default();
    for index in 0..CREDENTIALS_MAX {
        grants.create(&name(&format!("c{index}")), secret(), None, NOW).unwrap();
    }
    let one_more = grants.create(&name("more"), secret(), None, NOW).unwrap_err();
    assert_eq!(one_more, GrantError::TooManyCredentials);
    let data = volume("data", 1, 8);
    for _ in 0..GRANTS_MAX {
        grants.add(request("c0", "0.."), &data, NOW).unwrap();
    }
    let one_more = grants.add(request("c0", "0.."), &data, NOW).unwrap_err();
    assert_eq!(one_more, GrantError::TooManyGrants);
    let text = GrantError::TooManyGrants.to_string();
    assert!(text.starts_with(&format!("the node has {GRANTS_MAX} grants")));
    let text = GrantError::TooManyCredentials.to_string();
    assert!(text.starts_with(&format!("the node has {CREDENTIALS_MAX} credentials")));
}

#[test]
fn what_was_recorded_is_restored_and_what_does_not_fit_is_refused() {
    let mut grants = with_credentials(&["app"]);
    let range = GrantRange::new(ByteOffset(0), Some(ByteOffset(4096))).unwrap();
    let asked = GrantRequest { covers: Covered::Range(range), ..request("app", "0..") };
    grants.add(asked, &volume("data", 1, 8), NOW).unwrap();
    let credentials: Vec<Credential> = grants.credentials().cloned().collect();
    let recorded: Vec<Grant> = grants.grants().cloned().collect();
    let restore = |credentials: &[Credential], grants: &[Grant], last| {
        Grants::restore(credentials.to_vec(), grants.to_vec(), last)
    };
    let restored = restore(&credentials, &recorded, 1).unwrap();
    assert_eq!(restored.with_had_credential(true), grants);
    let number = GrantNumber(1);
    let orphan = RestoreGrantsError::NoCredential { number, credential: name("app") };
    assert_eq!(restore(&[], &recorded, 1), Err(orphan));
    let unknown = Err(RestoreGrantsError::Number(number));
    assert_eq!(restore(&credentials, &recorded, 0), unknown);
    assert_eq!(restore(&credentials, &[recorded.clone(), recorded].concat(), 1), unknown);
}

#[test]
fn a_seal_is_a_grant_of_whole_blocks_for_a_day_at_most() {
    let mut grants = Grants::default();
    let data = volume("data", 1, 16);
    let mut add = |range: &str, expires: Option<u64>| {
        let holder = Holder::Seal(secret());
        let request = GrantRequest { holder, ..request("none", range) };
        let request = GrantRequest { expires: expires.map(UnixTime), ..request };
        grants.add(request, &data, NOW).cloned()
    };
    let made = add("4096..", Some(1_060)).unwrap();
    let range = GrantRange::new(ByteOffset(4096), Some(ByteOffset(65_536))).unwrap();
    assert_eq!(made.covers, Covered::Range(range), "the volume's end as it is now");
    assert_eq!(made.credential(), None);
    add("0..4KiB", Some(1_000 + SEAL_LIFE_MAX)).unwrap();
    for (range, expires, refused) in [
        ("0..4KiB", Some(1_001 + SEAL_LIFE_MAX), "24 hours at most"),
        ("0..4KiB", None, "24 hours at most"),
        ("0..4KiB", Some(1_000), "in the past"),
        ("0..100", Some(1_060), "multiples of 4096 bytes"),
        ("512..", Some(1_060), "multiples of 4096 bytes"),
        ("0..1MiB", Some(1_060), "exceeds it"),
    ] {
        let error = add(range, expires).unwrap_err().to_string();
        assert!(error.contains(refused), "{range}: {error}");
    }
    let covers = Covered::Files("/models".parse().unwrap());
    let (holder, expires) = (Holder::Seal(secret()), Some(UnixTime(1_060)));
    let of_files = GrantRequest { holder, expires, covers, ..request("none", "0..") };
    let error = grants.add(of_files, &data, NOW).unwrap_err().to_string();
    assert!(error.contains("add a grant on /models to a credential"), "{error}");
    let remote = Volume { home: Home::PrimaryFace, ..volume("far", 2, 16) };
    let holder = Holder::Seal(secret());
    let far = GrantRequest { holder, expires: Some(UnixTime(1_060)), ..request("none", "0..") };
    assert_eq!(grants.add(far, &remote, NOW).unwrap_err(), GrantError::NoSeals(name("far")));
    assert_eq!(grants.next_expiry(NOW), Some(UnixTime(1_060)));
    // The next seal takes the place of those that have expired.
    let holder = Holder::Seal(secret());
    let expires = Some(UnixTime(1_070));
    let next = GrantRequest { holder, expires, ..request("none", "0..") };
    let next = grants.add(next, &data, UnixTime(1_060)).unwrap().number;
    let left: Vec<GrantNumber> = grants.grants().map(|grant| grant.number).collect();
    assert_eq!(left, [GrantNumber(2), next]);
    assert!(grants.revoke(next).is_ok());
}
