use proptest::prelude::*;

use super::*;

fn token() -> Token {
    let join = Keyed { certificate: "join certificate".to_owned(), key: "join key".to_owned() };
    let endpoints = vec!["192.0.2.1:2379".parse().unwrap()];
    Token::new(Uuid::from_u128(7), "lab", endpoints, "authority".to_owned(), (join, [9; 32]))
}

#[test]
fn a_token_is_text_that_says_it_is_secret_and_comes_back() {
    let text = token().encode();
    assert!(text.starts_with("# Token of nearflash cluster 'lab' (00000000-"), "{text}");
    assert!(text.contains("root secret"));
    assert!(text.is_ascii() && text.lines().skip(2).all(|line| line.len() <= 76));
    assert_eq!(Token::decode(text.as_bytes()), Ok(token()));
    let elsewhere = text.replace('\n', "\r\n");
    assert_eq!(Token::decode(elsewhere.as_bytes()), Ok(token()));
    assert!(!format!("{:?}", token()).contains("join key"));
}

#[test]
fn a_token_says_when_it_expires_and_admits_nobody_afterwards() {
    let mut token = token();
    assert!(token.check_time(UnixTime(u64::MAX)).is_ok(), "without a lifetime");
    token.expires_at = Some(1_795_269_350);
    let text = token.encode();
    assert!(text.contains("# Machines can join with it until 2026-11-21 13:55:50Z.\n"), "{text}");
    let token = Token::decode(text.as_bytes()).unwrap();
    assert!(token.check_time(UnixTime(1_795_269_349)).is_ok());
    let expired = token.check_time(UnixTime(1_795_269_350)).unwrap_err();
    assert_eq!(
        expired.to_string(),
        "the token of cluster 'lab' expired at 2026-11-21 13:55:50Z: make a new one with 'nearflash \
         cluster token' on a machine of the cluster, or correct the clock of this machine"
    );
    for at in [0, u64::MAX] {
        let mut token = token.clone();
        token.expires_at = Some(at);
        assert!(Token::decode(token.encode().as_bytes()).is_ok_and(|it| it == token));
    }
}

#[test]
fn a_moment_is_a_date_of_the_calendar_and_a_time_in_utc() {
    for (seconds, text) in [
        (0, "1970-01-01 00:00:00Z"),
        (951_782_399, "2000-02-28 23:59:59Z"),
        (951_782_400, "2000-02-29 00:00:00Z"),
        (1_735_603_200, "2024-12-31 00:00:00Z"),
        (4_107_542_399, "2100-02-28 23:59:59Z"),
        (4_107_542_400, "2100-03-01 00:00:00Z"),
        (u64::MAX, "9999-12-31 23:59:59Z"),
    ] {
        assert_eq!(moment(UnixTime(seconds)), text);
    }
}

#[test]
fn another_file_is_not_a_token_and_an_incomplete_one_is_damaged() {
    for other in ["", "\n", "hello", "# comment\n", "AAAA\n", "-----BEGIN CERTIFICATE-----\n"] {
        assert_eq!(Token::decode(other.as_bytes()), Err(Defect::NotAToken), "{other}");
    }
    let text = token().encode();
    let shorter = &text[..text.len() - 100];
    assert_eq!(Token::decode(shorter.as_bytes()), Err(Defect::Damaged));
    assert_eq!(Token::decode(&vec![b'A'; TOKEN_LEN_MAX + 1]), Err(Defect::NotAToken));
}

proptest! {
    #[test]
    fn no_input_makes_a_token_by_accident(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(Token::decode(&bytes).is_err());
    }

    #[test]
    fn one_changed_character_of_a_token_is_noticed(at in any::<prop::sample::Index>(), to in 32u8..127) {
        let mut text = token().encode().into_bytes();
        let start = text.len() - text.rsplit(|&byte| byte == b'.').next().unwrap().len() + 1;
        let at = start + at.index(text.len() - start);
        let is_same = text[at] == to || text[at].is_ascii_whitespace();
        text[at] = to;
        match Token::decode(&text) {
            Ok(decoded) => prop_assert!(is_same && decoded == token()),
            Err(_) => prop_assert!(!is_same || text[at] != b'\n'),
        }
    }
}
