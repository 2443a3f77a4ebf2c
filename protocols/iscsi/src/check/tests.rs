use proptest::prelude::*;

use super::*;

fn any_pdus() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::sample::select(vec![
        "AuthMethod=CHAP\0",
        "AuthMethod=None\0",
        "CHAP_A=5\0",
        "CHAP_A=7\0CHAP_I=1\0CHAP_C=0x0102\0",
        "CHAP_N=host\0CHAP_R=0x00\0",
        "CHAP_N=node\0CHAP_R=0x00\0",
        "HeaderDigest=None\0MaxBurstLength=512\0",
        "InitialR2T=Yes\0X-a=b\0",
        "=\0",
        "",
    ]);
    let flags = prop_oneof![Just(0x00u8), Just(0x81), Just(0x04), Just(0x87), any::<u8>()];
    prop::collection::vec((flags, text), 0..8).prop_map(|pdus| {
        let pdu = |(flags, text): (u8, &str)| {
            let head = [flags, u8::try_from(text.len()).unwrap()];
            [&head[..], text.as_bytes()].concat()
        };
        pdus.into_iter().flat_map(pdu).collect()
    })
}

fn setups() -> impl Strategy<Value = Setup> {
    let keys = prop::sample::select(vec![
        "",
        "InitialR2T=No&ImmediateData=No&",
        "InitialR2T=No&ImmediateData=Yes&FirstBurstLength=1024&MaxBurstLength=2048&",
        "MaxRecvDataSegmentLength=512&MaxConnections=4&",
    ]);
    (any::<bool>(), any::<bool>(), keys).prop_map(|(header_digest, data_digest, keys)| Setup {
        header_digest,
        data_digest,
        keys,
    })
}

proptest! {
    #[test]
    fn hostile_targets_do_no_harm(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        check_initiator_never_panics(&input);
    }

    #[test]
    fn hostile_initiators_do_not_get_in(selector in any::<u8>(), pdus in any_pdus()) {
        check_login_never_panics(&[&[selector], &pdus[..]].concat());
    }

    #[test]
    fn impostors_are_not_believed(selector in any::<u8>(), pdus in any_pdus()) {
        check_initiator_login_never_panics(&[&[selector], &pdus[..]].concat());
    }

    #[test]
    fn both_ends_agree_about_a_volume(
        seed in any::<u64>(),
        digests in any::<[bool; 2]>(),
        (with_account, initial_r2t, immediate_data) in any::<(bool, bool, bool)>(),
        connections in 1u16..4,
        receive_len_max in prop::sample::select(vec![512, 1021, 8192, 262_144]),
    ) {
        check_pair(PairScenario {
            seed,
            digests,
            with_account,
            connections,
            initial_r2t,
            immediate_data,
            receive_len_max,
            operations: 40,
        });
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm_at_any_stage(
        stage in prop::sample::select(&Stage::ALL[..]),
        setup in setups(),
        stream in prop::collection::vec(any::<u8>(), 0..400),
        part_len in 1usize..100,
    ) {
        check_target_never_panics(stage, setup, &stream, part_len);
    }

    #[test]
    fn pdus_that_are_nearly_sound_do_no_harm(
        stage in prop::sample::select(&Stage::ALL[..]),
        setup in setups(),
        recipe in prop::collection::vec(any::<u8>(), 0..300),
        part_len in 1usize..3000,
    ) {
        let stream = stream_of(setup, &recipe);
        check_target_never_panics(stage, setup, &stream, part_len);
    }

    #[test]
    fn however_the_stream_is_cut_the_same_is_said(
        setup in setups(),
        recipe in prop::collection::vec(any::<u8>(), 0..300),
        part_len in 1usize..200,
    ) {
        check_segmentation_does_not_matter(setup, &stream_of(setup, &recipe), part_len);
    }
}
