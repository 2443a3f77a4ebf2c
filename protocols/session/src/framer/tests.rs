use super::*;
use crate::digest::append;
use proptest::prelude::*;

/// A header of four bytes: data, padding before and behind it, and more of the header.
#[derive(Clone, Copy)]
struct Rules {
    header: bool,
    data: bool,
}

#[derive(Debug, Eq, PartialEq)]
enum Fault {
    TooLong,
    Damaged,
}

const MAX: usize = 4 + 9 + DIGEST_LEN;

impl HeadRules for Rules {
    type Error = Fault;
    const PREFIX_LEN: usize = 4;

    fn shape(&self, prefix: &[u8]) -> Result<HeadShape, Fault> {
        let [data, before, behind, more] = *prefix.first_chunk().unwrap();
        if more > 9 {
            return Err(Fault::TooLong);
        }
        let header_len = 4 + usize::from(more);
        let head_len = header_len + if self.header { DIGEST_LEN } else { 0 };
        let is_digested = self.data && data > 0;
        let body = Layout { before, behind, is_digested, data: data.into() };
        Ok(HeadShape { header_len, head_len, is_digested: self.header, body })
    }

    fn damaged(_: u32, _: u32) -> Fault {
        Fault::Damaged
    }
}

fn pdu(data: &[u8], (before, behind, more): (u8, u8, u8), rules: Rules) -> Vec<u8> {
    let mut stream = vec![u8::try_from(data.len()).unwrap(), before, behind, more];
    stream.extend((0..more).map(|byte| 0x40 + byte));
    if rules.header {
        stream.extend(digest::digest(&stream).to_le_bytes());
    }
    stream.extend((0..before).map(|_| 0xBE));
    stream.extend_from_slice(data);
    let padding: Vec<u8> = (0..behind).map(|_| 0xEB).collect();
    stream.extend_from_slice(&padding);
    if rules.data && !data.is_empty() {
        stream.extend(append(digest::digest(data), &padding).to_le_bytes());
    }
    stream
}

/// Heads and data as they come out, and whether each body was sound.
fn run(stream: &[u8], rules: Rules, cuts: &[usize]) -> Result<Vec<Vec<u8>>, Fault> {
    let mut framer = Framer::<_, MAX>::new(rules);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut cuts = cuts.iter().copied().cycle();
    let mut stream = stream;
    while !stream.is_empty() {
        let (mut rest, after) = stream.split_at(cuts.next().unwrap().clamp(1, stream.len()));
        stream = after;
        loop {
            framer.body.skip_padding(&mut rest);
            if framer.body.data_is_next() {
                let data = framer.body.take_data(&mut rest);
                seen.last_mut().unwrap().extend_from_slice(data);
            }
            if !framer.body.take_end(&mut rest) {
                break;
            }
            assert_eq!(framer.body.damage(), None);
            let Some(head) = framer.take_head(&mut rest)? else { break };
            let head = match head {
                Head::InPlace(head) => head.to_vec(),
                Head::Gathered => framer.gathered().to_vec(),
            };
            seen.push(head[..4 + usize::from(head[3])].to_vec());
        }
    }
    assert!(!framer.is_midway());
    Ok(seen)
}

#[test]
fn a_pdu_that_cannot_be_is_refused_before_it_is_whole() {
    let mut framer = Framer::<_, MAX>::new(Rules { header: false, data: false });
    assert_eq!(framer.take_head(&mut &[1, 0, 0, 10][..]).unwrap_err(), Fault::TooLong);
}

#[test]
fn damage_is_noticed_in_header_data_and_padding() {
    let rules = Rules { header: true, data: true };
    let sound = pdu(&[7; 5], (2, 3, 1), rules);
    for place in [4, 12, 16, 17, 20] {
        let mut stream = sound.clone();
        stream[place] ^= 1;
        let mut rest = &stream[..];
        let mut framer = Framer::<_, MAX>::new(rules);
        let head = framer.take_head(&mut rest);
        if place == 4 {
            assert_eq!(head.unwrap_err(), Fault::Damaged);
            continue;
        }
        assert!(matches!(head, Ok(Some(Head::InPlace(_)))));
        framer.body.skip_padding(&mut rest);
        framer.body.take_data(&mut rest);
        assert!(framer.body.take_end(&mut rest) && rest.is_empty());
        assert!(framer.body.damage().is_some(), "byte {place}");
    }
}

proptest! {
    #[test]
    fn however_the_stream_is_cut_the_same_comes_out(
        pdus in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..99), (0u8..9, 0u8..9, 0u8..10)), 1..8
        ),
        cuts in prop::collection::vec(1usize..40, 1..8),
        (header, data) in any::<(bool, bool)>(),
    ) {
        let rules = Rules { header, data };
        let stream: Vec<u8> =
            pdus.iter().flat_map(|(data, layout)| pdu(data, *layout, rules)).collect();
        let whole = run(&stream, rules, &[stream.len()]);
        prop_assert_eq!(&run(&stream, rules, &cuts), &whole);
        let data = whole.unwrap().iter().map(|seen| seen[4 + usize::from(seen[3])..].to_vec()).collect::<Vec<_>>();
        prop_assert_eq!(data, pdus.into_iter().map(|(data, _)| data).collect::<Vec<_>>());
    }
}
