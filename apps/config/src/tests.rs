use super::*;
use nearflash_nvme::Nqn;
use nearflash_session::DoorTls;

use nearflash_access::InitiatorName;

fn args(flags: &[&str]) -> ServeArgs {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }
    <Line as clap::Parser>::try_parse_from(["serve"].iter().chain(flags)).unwrap().serve
}

fn resolved(flags: &[&str]) -> Result<Config, ConfigError> {
    let mut args = args(flags);
    args.data_dir.get_or_insert("/data".into());
    Config::resolve(args)
}

fn refused(flags: &[&str]) -> String {
    let message = resolved(flags).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

/// Resolves a configuration file with this text; `FILE` stands for its path in the message.
fn with_file(text: &str, flags: &[&str]) -> Result<Config, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let flags: Vec<&str> = ["--config", path].into_iter().chain(flags.iter().copied()).collect();
    resolved(&flags).map_err(|error| error.to_string().replace(path, "FILE"))
}

fn doors(config: &Config, protocol: Protocol) -> Vec<&Door> {
    config.doors.iter().filter(|door| door.protocol == protocol).collect()
}

fn addresses(config: &Config, protocol: Protocol) -> Vec<String> {
    doors(config, protocol).iter().map(|door| door.address.to_string()).collect()
}

const DEVICE: [&str; 2] = ["--device", "r=ram:1GiB"];

#[test]
fn defaults_serve_this_machine_from_one_processor() {
    let config = resolved(&DEVICE).unwrap();
    assert_eq!(addresses(&config, Protocol::NvmeTcp), ["127.0.0.1:4420"]);
    assert_eq!(config.hosts, HostAccess::Any);
    assert_eq!(config.cores.len(), 1);
    assert_eq!((config.pool_len, config.spin_max), (ByteLen(32 << 20), Nanos::from_micros(200)));
    assert_eq!(config.log, LevelFilter::INFO);
    assert!(config.ktls);
}

#[test]
fn the_end_of_a_pulse_is_a_proof_unless_it_is_turned_off() {
    let file = |more| format!("cluster = true\ndirect = \"127.0.0.1:1\"\n{more}");
    for (flags, expected) in [(&[][..], true), (&["--pulse-proof", "off"][..], false)] {
        let config = with_file(&file(""), flags).unwrap();
        assert_eq!(config.cluster.unwrap().pulse_proof, expected);
    }
    let refused = with_file(&file("pulse-proof = \"no\""), &[]).unwrap_err();
    assert!(refused.contains("'no' is not 'on' or 'off'"), "{refused}");
}

#[test]
fn file_and_flags_have_the_same_names_and_values_and_flags_win() {
    let text = r#"
        device = ["a=ram:1GiB", "b=ram:2GiB"]
        volume = "data=1MiB@a"
        nvme-tcp = "127.0.0.1:1"
        host = ["nqn.2014-08.org.example:one"]
        cores = 0
        data-dir = "/elsewhere"
        pool = "64MiB"
        spin = "50us"
        ktls = "off"
        stall-timeout = "45s"
        log = "debug"
    "#;
    let file = with_file(text, &[]).unwrap();
    assert_eq!(file.devices.len(), 2);
    assert_eq!(file.volumes[0].name.as_str(), "data");
    assert_eq!((file.pool_len, file.log), (ByteLen(64 << 20), LevelFilter::DEBUG));
    assert_eq!(file.stall_timeout, Nanos::from_secs(45));
    assert_eq!(file.spin_max, Nanos::from_micros(50));
    assert!(!file.ktls);
    let flags = ["--device", "b=ram:3GiB", "--nvme-tcp", "127.0.0.1:2", "--pool", "8MiB"];
    let times = ["--stall-timeout", "1s", "--spin", "0", "--ktls", "on"];
    let both = with_file(text, &[&flags[..], &times].concat()).unwrap();
    assert_eq!(both.spin_max, Nanos(0));
    assert!(both.ktls);
    assert_eq!(both.stall_timeout, Nanos::from_secs(1));
    let devices: Vec<String> = both.devices.iter().map(ToString::to_string).collect();
    assert_eq!(devices, ["a=ram:1GiB", "b=ram:3GiB"]);
    assert_eq!(addresses(&both, Protocol::NvmeTcp), ["127.0.0.1:2"]);
    assert_eq!((both.pool_len, both.hosts), (ByteLen(8 << 20), file.hosts));
}

#[test]
fn an_unknown_key_is_refused_by_file_line_and_name() {
    let message = with_file("device = \"r=ram:1GiB\"\nvolumes = []\n", &[]).unwrap_err();
    assert_eq!(message, "FILE, line 2: unknown key 'volumes': the nearest key is 'volume'");
}

#[test]
fn a_file_that_is_no_toml_or_not_there_is_refused() {
    let message = with_file("device = \n", &[]).unwrap_err();
    assert!(message.starts_with("FILE, line 1: "), "{message}");
    for value in ["flash", "127.0.0.1", "0-1", "/srv/flash.img"] {
        let message = with_file(&format!("log = 'info'\ndevice = {value}\n"), &[]).unwrap_err();
        let expected = format!("FILE, line 2: a text is in quotes: write device = \"{value}\"");
        assert_eq!(message, expected);
    }
    let message = with_file("\ndevice = 7\n", &[]).unwrap_err();
    assert_eq!(message, "FILE, line 2: device: expected a string, a table, or a list of these");
    let message = refused(&["--config", "/does/not/exist"]);
    assert!(message.starts_with("/does/not/exist: No such file"), "{message}");
}

#[test]
fn an_unparsable_size_is_refused_where_it_stands() {
    assert_eq!(
        refused(&["--device", "r=ram:lots"]),
        "--device: device 'r': 'lots' is not a size: write a whole number and a unit, for example \
         512, 64KiB or 8GiB"
    );
    assert_eq!(
        with_file("device = 'r=ram:1GiB'\nvolume = 'v=1.5GiB@r'", &[]).unwrap_err(),
        "FILE, line 2: volume: '1.5GiB' is not a size: write a whole number and a unit, for example 512, \
         64KiB or 8GiB"
    );
    assert_eq!(
        refused(&["--device", "r=ram:1G", "--pool", "1"]),
        "--pool: '1' is not a valid pool size: use 4MiB to 64GiB"
    );
    assert_eq!(
        refused(&["--device", "r=ram:1G", "--spin", "1ms"]),
        "--spin: '1ms' is not a valid time to spin: use 0 to 200us"
    );
    assert_eq!(
        refused(&["--device", "r=ram:1G", "--login-timeout", "10ms"]),
        "--login-timeout: '10ms' is not a valid login time-out: use 1s to 5m"
    );
    assert_eq!(
        refused(&["--device", "r=ram:1G", "--stall-timeout", "6m"]),
        "--stall-timeout: '6m' is not a valid stall time-out: use 1s to 5m"
    );
}

#[test]
fn one_name_for_two_things_is_refused() {
    assert_eq!(
        refused(&["--device", "r=ram:1GiB", "--device", "r=ram:2GiB"]),
        "--device: the name 'r' is used twice: give each its own name"
    );
    assert_eq!(
        with_file("device = 'r=ram:1G'\nvolume = ['v=1M@r', 'v=2M@r']", &[]).unwrap_err(),
        "FILE, line 2: volume: the name 'v' is used twice: give each its own name"
    );
}

#[test]
fn what_stays_open_is_said_by_protocol_and_hosts_without_a_list_by_all_or_none() {
    let of = |flags: &[&str]| {
        let config = resolved(&[&DEVICE[..], flags].concat()).unwrap();
        (config.anonymous, config.unlisted_hosts)
    };
    assert_eq!(of(&[]), (Anonymous::default(), None));
    assert_eq!(of(&["--anonymous", "iscsi"]).0, Anonymous { direct: false, iscsi: true });
    let both = Anonymous { direct: true, iscsi: true };
    assert_eq!(of(&["--anonymous", "direct,iscsi"]).0, both);
    assert_eq!(with_file("anonymous = 'direct,iscsi'", &DEVICE).unwrap().anonymous, both);
    assert_eq!(of(&["--unlisted-hosts", "all"]).1, Some(UnlistedHosts::All));
    assert_eq!(of(&["--unlisted-hosts", "none"]).1, Some(UnlistedHosts::None));
    let message = refused(&[&DEVICE[..], &["--anonymous", "nvme-tcp"]].concat());
    assert!(message.starts_with("--anonymous: 'nvme-tcp' is not a protocol that"), "{message}");
}

#[test]
fn a_node_without_devices_or_a_volume_without_its_device_is_refused() {
    assert_eq!(
        refused(&[]),
        "no device: add --device NAME=file:PATH,size=SIZE (or block:, ram:, null:)"
    );
    assert_eq!(
        refused(&["--device", "r=ram:1GiB", "--volume", "v=1GiB@s"]),
        "--volume: volume 'v' needs device 's': add --device s=…"
    );
    let message = with_file("device = 'r=ram:1GiB'\nvolume = 'v=1MiB@s'", &[]).unwrap_err();
    assert!(message.starts_with("FILE, line 2: volume: volume 'v' needs device 's'"), "{message}");
}

#[test]
fn nvme_hosts_prove_themselves_at_a_door_to_other_machines_unless_they_are_named() {
    let is_anonymous = |flags: &[&str]| {
        let config = resolved(&[&DEVICE[..], flags].concat()).unwrap();
        let doors = doors(&config, Protocol::NvmeTcp);
        doors.iter().map(|door| door.admits == Admits::Unproven).collect::<Vec<bool>>()
    };
    for address in ["0.0.0.0:4420", "192.0.2.1:0", "[::]:4420"] {
        assert_eq!(is_anonymous(&["--nvme-tcp", address]), [false]);
        assert_eq!(is_anonymous(&["--nvme-tcp", address, "--host", "any"]), [true]);
        assert_eq!(is_anonymous(&["--nvme-tcp", address, "--host", "nqn.2026-11.x:a"]), [true]);
        assert_eq!(is_anonymous(&["--nvme-tcp", address, "--host", "iqn.2026-11.x:a"]), [false]);
        let strict = format!("{address},auth=required");
        assert_eq!(is_anonymous(&["--nvme-tcp", &strict, "--host", "any"]), [false]);
    }
    for address in ["127.0.0.1:0", "[::1]:4420", "127.9.9.9:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(is_anonymous(&["--nvme-tcp", address]), [true]);
        assert_eq!(is_anonymous(&["--nvme-tcp", &format!("{address},auth=required")]), [false]);
    }
    let flags = [&DEVICE[..], &["--nvme-tcp", "127.0.0.1:1,auth=none"]].concat();
    assert_eq!(
        refused(&flags),
        "--nvme-tcp: 'auth=none' is not an option of an NVMe/TCP address: write ADDR:PORT, and behind it \
         ,auth=required, ,tls=required or ,tls=allowed"
    );
    assert!(
        refused(&[&DEVICE[..], &["--iscsi", "127.0.0.1:1,auth=required"]].concat())
            .contains("address")
    );
}

#[test]
fn an_nvme_door_uses_tls_as_its_option_says() {
    for (options, tls) in [
        ("", DoorTls::Off),
        (",tls=off", DoorTls::Off),
        (",tls=allowed", DoorTls::Allowed),
        (",auth=required,tls=required", DoorTls::Required),
    ] {
        let door = format!("127.0.0.1:1{options}");
        let flags = [&DEVICE[..], &["--nvme-tcp", &door]].concat();
        let config = resolved(&flags).unwrap();
        let doors = doors(&config, Protocol::NvmeTcp);
        assert_eq!(
            (doors[0].tls, doors[0].is_strict),
            (tls, options.contains("auth")),
            "{options}"
        );
    }
}

#[test]
fn a_direct_door_uses_tls_as_its_option_says_and_has_no_other_option() {
    for (options, tls) in [
        ("", DoorTls::Off),
        (",tls=off", DoorTls::Off),
        (",tls=allowed", DoorTls::Allowed),
        (",tls=required", DoorTls::Required),
    ] {
        let door = format!("127.0.0.1:1{options}");
        let config = resolved(&[&DEVICE[..], &["--direct", &door]].concat()).unwrap();
        assert_eq!(doors(&config, Protocol::Direct)[0].tls, tls, "{options}");
    }
    assert_eq!(
        refused(&[&DEVICE[..], &["--direct", "127.0.0.1:1,auth=required"]].concat()),
        "--direct: 'auth=required' is not an option of an address for direct clients: write ADDR:PORT, and \
         behind it ,tls=required or ,tls=allowed"
    );
    assert!(
        refused(&[&DEVICE[..], &["--iscsi", "127.0.0.1:1,tls=required"]].concat())
            .contains("address")
    );
}

#[test]
fn a_node_of_a_cluster_has_memory_for_other_nodes() {
    let node = ["--cluster", "--direct", "127.0.0.1:1", "--pool"];
    let with = |pool| [&node[..], &[pool]].concat();
    assert_eq!(
        refused(&with("7MiB")),
        "--cluster: a pool of 7MiB has too little memory for the requests of other nodes: use --pool 8MiB or more"
    );
    assert_eq!(resolved(&with("8MiB")).unwrap().pool_len, ByteLen(8 << 20));
}

#[test]
fn the_nodes_of_a_cluster_reach_each_other_without_tls() {
    let cluster = ["--cluster", "--direct", "127.0.0.1:1,tls=required"];
    let refused = refused(&cluster);
    assert!(refused.contains("write ,tls=allowed behind an address of --direct"), "{refused}");
    let allowed = ["--cluster", "--direct", "127.0.0.1:1,tls=allowed"];
    let other = [&cluster[..], &["--direct", "127.0.0.1:2"]].concat();
    assert!(resolved(&allowed).is_ok() && resolved(&other).is_ok());
}

#[test]
fn hosts_are_named_by_their_nqn() {
    let named = [&DEVICE[..], &["--host", "nqn.2014-08.org.example:a"]].concat();
    let allowed = Nqn::new("nqn.2014-08.org.example:a").unwrap();
    let access = resolved(&named).unwrap().hosts;
    assert!(access.admits(&allowed));
    assert!(!access.admits(&Nqn::new("nqn.2014-08.org.example:b").unwrap()));
}

#[test]
fn values_that_are_none_are_refused_with_what_to_write() {
    let refused = |flags: &[&str]| refused(&[&DEVICE[..], flags].concat());
    assert_eq!(
        refused(&["--nvme-tcp", "localhost"]),
        "--nvme-tcp: 'localhost' is not a valid address: write IP:PORT, for example 127.0.0.1:4420 \
         or [::1]:4420"
    );
    assert_eq!(
        refused(&["--host", "example"]),
        "--host: 'example' is not a valid host: write an NVMe host's NQN (nqn.…), an iSCSI \
         initiator's name (iqn.…, eui.… or naa.…), or any"
    );
    assert!(refused(&["--host", "a\nb"]).contains("--host: 'a\\nb' is not a valid host"));
    assert!(refused(&["--host", "any", "--host", "nqn.x"]).contains("write only one of the two"));
    assert_eq!(
        refused(&["--cores", "zero"]),
        "--cores: 'zero' is not a valid list of processors: write for example 0, 0-3 or 0,2"
    );
    let message = refused(&["--cores", "8000"]);
    assert!(message.starts_with("--cores: processor 8000 is not available"), "{message}");
    assert_eq!(
        refused(&["--log", "loud"]),
        "--log: 'loud' is not a valid log level: use error, warn, info, debug or trace"
    );
    assert!(refused(&["--advertise", "here"]).contains("'here' is not a valid address"));
}

#[test]
fn an_advertised_address_may_leave_the_port_to_the_door() {
    let advertised =
        |text| resolved(&[&DEVICE[..], &["--advertise", text]].concat()).unwrap().advertise;
    let ip = "192.0.2.7".parse().unwrap();
    assert_eq!(advertised("192.0.2.7"), Some(Advertise { ip, port: None }));
    assert_eq!(advertised("192.0.2.7:9"), Some(Advertise { ip, port: Some(9) }));
}

#[test]
fn direct_doors_are_opened_only_where_it_is_said() {
    let config = resolved(&DEVICE).unwrap();
    assert_eq!((doors(&config, Protocol::Direct), &config.direct_local), (vec![], &None));
    let doors = ["--direct", "127.0.0.1", "--direct", "[::1]:9", "--direct-local", "d.sock"];
    let config = resolved(&[&DEVICE[..], &doors].concat()).unwrap();
    assert_eq!(addresses(&config, Protocol::Direct), ["127.0.0.1:4421", "[::1]:9"]);
    assert_eq!(config.direct_local, Some("d.sock".into()));
    assert_eq!(
        refused(&[&DEVICE[..], &["--direct-local", "run/direct"]].concat()),
        "--direct-local: clients write 'run/direct' in a URL, and the path ends with .sock there: use run/direct.sock"
    );
    let text = "device = 'r=ram:1GiB'\ndirect = '127.0.0.1:1'\ndirect-local = '/run/d.sock'";
    let file = with_file(text, &["--direct", "127.0.0.1:2"]).unwrap();
    assert_eq!(addresses(&file, Protocol::Direct), ["127.0.0.1:2"]);
    assert_eq!(file.direct_local, Some("/run/d.sock".into()));
    assert_eq!(
        refused(&[&DEVICE[..], &["--direct", "here"]].concat()),
        "--direct: 'here' is not a valid address: write IP:PORT, for example 127.0.0.1:4421 or \
         [::1]:4421"
    );
}

#[test]
fn a_direct_door_is_anonymous_on_the_loopback_or_when_everyone_may_come_in() {
    let is_anonymous = |flags: &[&str]| {
        let config = resolved(&[&DEVICE[..], flags].concat()).unwrap();
        let doors = doors(&config, Protocol::Direct);
        doors.iter().map(|door| door.admits == Admits::Unproven).collect::<Vec<bool>>()
    };
    assert_eq!(is_anonymous(&["--direct", "127.0.0.1:1", "--direct", "[::1]:1"]), [true, true]);
    for address in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1"] {
        assert_eq!(is_anonymous(&["--direct", address]), [false]);
        assert_eq!(is_anonymous(&["--direct", address, "--host", "any"]), [true]);
        assert_eq!(is_anonymous(&["--direct", address, "--host", "nqn.2014-08.org.x:a"]), [false]);
    }
    let text = "device = 'r=ram:1GiB'\ndirect = '0.0.0.0:1'\nhost = 'any'";
    let file = with_file(text, &[]).unwrap();
    assert_eq!(doors(&file, Protocol::Direct)[0].admits, Admits::Unproven);
    let named = with_file(text, &["--host", "nqn.2014-08.org.example:a"]).unwrap();
    let admits = doors(&named, Protocol::Direct)[0].admits;
    assert_eq!(admits, Admits::Proven, "a flag wins over the file");
}

#[test]
fn iscsi_doors_are_opened_only_where_it_is_said() {
    assert!(addresses(&resolved(&DEVICE).unwrap(), Protocol::Iscsi).is_empty());
    let doors = ["--iscsi", "127.0.0.1", "--iscsi", "[::1]:0"];
    let config = resolved(&[&DEVICE[..], &doors].concat()).unwrap();
    assert_eq!(addresses(&config, Protocol::Iscsi), ["127.0.0.1:3260", "[::1]:0"]);
    let text = "device = 'r=ram:1GiB'\niscsi = ['127.0.0.1:1', '127.0.0.1:3']";
    assert_eq!(addresses(&with_file(text, &[]).unwrap(), Protocol::Iscsi).len(), 2);
    let file = with_file(text, &["--iscsi", "127.0.0.1:2"]).unwrap();
    assert_eq!(addresses(&file, Protocol::Iscsi), ["127.0.0.1:2"]);
    assert_eq!(
        refused(&[&DEVICE[..], &["--iscsi", "here"]].concat()),
        "--iscsi: 'here' is not a valid address: write IP:PORT, for example 127.0.0.1:3260 or \
         [::1]:3260"
    );
}

#[test]
fn an_iscsi_door_is_anonymous_on_the_loopback_or_when_it_is_said_who_may_come_in() {
    let is_anonymous = |flags: &[&str]| {
        let config = resolved(&[&DEVICE[..], flags].concat()).unwrap();
        let doors = doors(&config, Protocol::Iscsi);
        doors.iter().map(|door| door.admits == Admits::Unproven).collect::<Vec<bool>>()
    };
    assert_eq!(is_anonymous(&["--iscsi", "127.0.0.1:1", "--iscsi", "[::1]:1"]), [true, true]);
    for address in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1"] {
        assert_eq!(is_anonymous(&["--iscsi", address]), [false]);
        assert_eq!(is_anonymous(&["--iscsi", address, "--host", "any"]), [true]);
        assert_eq!(is_anonymous(&["--iscsi", address, "--host", "iqn.2026-11.x:a"]), [true]);
        assert_eq!(is_anonymous(&["--iscsi", address, "--host", "nqn.2014-08.org.x:a"]), [false]);
    }
}

#[test]
fn hosts_and_initiators_are_named_each_for_itself() {
    let initiator: InitiatorName = "iqn.2026-11.x:a".parse().unwrap();
    let named = |hosts: &[&str]| {
        let flags: Vec<&str> = hosts.iter().flat_map(|host| ["--host", host]).collect();
        let config = resolved(&[&DEVICE[..], &flags].concat()).unwrap();
        (config.hosts, config.initiators)
    };
    assert_eq!(named(&["any"]), (HostAccess::Any, InitiatorAccess::Any));
    let only = InitiatorAccess::Only(vec![initiator].into());
    assert_eq!(named(&["IQN.2026-11.X:a"]), (HostAccess::Any, only.clone()));
    let (hosts, initiators) = named(&["nqn.2014-08.org.x:a", "iqn.2026-11.x:a"]);
    assert!(matches!(hosts, HostAccess::Only(hosts) if hosts.len() == 1));
    assert_eq!(initiators, only);
}

#[test]
fn http_is_on_this_machine_by_default_and_on_the_network_with_tls() {
    let http = |flags: &[&str]| resolved(&[&DEVICE[..], flags].concat()).unwrap().http;
    assert_eq!(http(&[]), HttpConfig { is_on: true, network: None });
    assert_eq!(http(&["--http", "none"]), HttpConfig { is_on: false, network: None });
    let tls = ["--http-cert", "c", "--http-key", "k"];
    let network = http(&[&["--http", "192.0.2.1"][..], &tls].concat()).network.unwrap();
    assert_eq!(network.address, "192.0.2.1:4423".parse().unwrap());
    assert_eq!((network.cert, network.key), ("c".into(), "k".into()));
    let refused = |flags: &[&str]| refused(&[&DEVICE[..], flags].concat());
    for flags in [&["--http", "127.0.0.1"][..], &["--http", "127.0.0.1", "--http-key", "k"]] {
        assert!(refused(flags).contains("needs TLS"), "{flags:?}");
    }
    for flags in [&tls[..], &["--http", "none", "--http-cert", "c"]] {
        assert!(refused(flags).contains("add --http ADDR:PORT"), "{flags:?}");
    }
    let text = "device = \"r=ram:1GiB\"\nhttp = \"none\"\n";
    assert!(!with_file(text, &[]).unwrap().http.is_on);
}

fn errors(text: &str) -> Vec<String> {
    let read = Config::of_text(Path::new("FILE"), text, Purpose::Read);
    read.unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn all_errors_of_a_file_are_reported_in_the_order_of_their_lines() {
    let text = r#"
polo = "8MiB"
spin = "1ms"
volume = ["a=1MiB@r", "a=2MiB@r"]
device = ["r=ram:1GiB", "s=ram:lots"]
log = 7

[[remote]]
name = "far"
ulr = "direct://192.0.2.1:4421/data"

[[chap]]
user = "app"
secret-file = "app.secret"
mutual-user = "node"

[[host]]
nqn = "iqn.x"
dhchap-key = ["a"]
"#;
    assert_eq!(
        errors(text),
        [
            "FILE, line 2: unknown key 'polo': the nearest key is 'pool'",
            "FILE, line 3: spin: '1ms' is not a valid time to spin: use 0 to 200us",
            "FILE, line 5: device: device 's': 'lots' is not a size: write a whole number and a unit, \
             for example 512, 64KiB or 8GiB",
            "FILE, line 6: log: expected a string",
            "FILE, line 8: remote: the key 'url' is missing",
            "FILE, line 10: unknown key 'ulr' of remote: the nearest key is 'url'",
            "FILE, line 12: chap: mutual CHAP needs a user and a secret: write both mutual-user and \
             mutual-secret-file, or neither",
            "FILE, line 19: host: dhchap-key: expected a string",
        ]
    );
    let form_is_right = text
        .replace("polo", "pool")
        .replace("ulr", "url")
        .replace("= 7", "= 'info'")
        .replace("[\"a\"]", "'a'");
    let found = errors(&form_is_right);
    let lines: Vec<&str> = found.iter().filter_map(|line| line.get(..13)).collect();
    assert_eq!(
        lines,
        ["FILE, line 3:", "FILE, line 4:", "FILE, line 5:", "FILE, line 12", "FILE, line 17"]
    );
    assert!(found[1].contains("the name 'a' is used twice"), "{found:?}");
    assert!(found[3].contains("mutual-user and mutual-secret-file"), "{found:?}");
    // A volume may be right if its device is wrong.
    assert!(!found.iter().any(|line| line.contains("needs device")), "{found:?}");
}

#[test]
fn a_table_of_a_host_has_keys_a_psk_and_a_list_of_strings_and_tables() {
    let text = r#"
[[host]]
nqn = "nqn.2026-11.x:a"
psk-file = "a.psk"
tls = "allowed"
volumes = ["b:r", { name = "a" }, { name = "c", rights = "r" }]

[[host]]
nqn = "nqn.2026-11.x:b"
volumes = []
"#;
    let hosts = Config::of_text(Path::new("FILE"), text, Purpose::Read).unwrap().access.hosts;
    let psk = hosts[0].psk.as_ref().unwrap();
    assert_eq!((psk.file.to_str(), psk.demand.to_string()), (Some("a.psk"), "allowed".to_owned()));
    assert!(hosts[0].dhchap.is_none() && hosts[1].dhchap.is_none() && hosts[1].psk.is_none());
    let list = |place: usize| -> Vec<String> {
        let volumes = hosts[place].volumes.as_ref().unwrap();
        volumes.iter().map(|(name, rights)| format!("{name}:{rights}")).collect()
    };
    assert_eq!(list(0), ["a:rw", "b:r", "c:r"]);
    assert!(list(1).is_empty());
}

#[test]
fn a_table_of_a_host_that_cannot_be_is_refused_with_the_reason() {
    for (keys, reason) in [
        ("", "host: the host has nothing but its name: add dhchap-key, psk-file or volumes"),
        ("tls = 'allowed'", "host: the key 'tls' needs the key 'psk-file'"),
        ("hash = 'sha256'", "host: the key 'hash' needs the key 'dhchap-key'"),
        ("volumes = 'a'", "host: volumes: expected a list of strings and tables"),
        ("volumes = [7]", "host: volumes: expected a list of strings and tables"),
        ("volumes = [{ rights = 'r' }]", "host: volumes: the key 'name' is missing"),
        ("volumes = ['a', 'a:r']", "host: 'a' is there twice"),
        ("volumes = ['a:x']", "host: 'x' is not"),
        (
            "psk-file = 'p'
tls = 'off'",
            "host: 'off' does not say whether",
        ),
    ] {
        let found = errors(&format!(
            "[[host]]
nqn = 'nqn.2026-11.x:a'
{keys}
"
        ));
        let rest = found[0].split_once(": ").unwrap().1;
        assert!(found.len() == 1 && rest.starts_with(reason), "{keys}: {found:?}");
    }
}

#[test]
fn every_syntax_error_is_reported_and_nothing_else() {
    let found = errors("pool = \n\nlog = \nunknown = 1\n");
    assert!(found.len() >= 2, "{found:?}");
    assert!(found[0].starts_with("FILE, line 1: ") && found[1].starts_with("FILE, line 3: "));
    assert!(!found.iter().any(|line| line.contains("unknown key")), "{found:?}");
}

#[test]
fn a_volume_without_a_device_is_the_clusters_and_only_apply_makes_it() {
    let text = "cluster = true\ndirect = '127.0.0.1:0'\nvolume = { name = 'a', size = '1GiB', replicas = 2, \
                stripe-unit = '128KiB', width = 3, placement = 'local:n1', provisioning = 'thick' }\n";
    for purpose in [Purpose::Read, Purpose::Serve] {
        let config = Config::of_text(Path::new("FILE"), text, purpose).unwrap();
        assert!(config.volumes.is_empty());
        let expected = UnplacedVolume {
            name: "a".parse().unwrap(),
            len: ByteLen(1 << 30),
            subsystem: None,
            provisioning: nearflash_space::Provisioning::Thick,
            replicas: Some(2),
            stripe_unit: Some(ByteLen(128 << 10)),
            width: Some(3),
            placement: Some("local:n1".to_owned()),
        };
        assert_eq!(config.unplaced, [expected]);
    }
    // A file alone does not say of which node it is.
    let alone = text.replace("cluster = true", "device = 'r=ram:64MiB'");
    let read = Config::of_text(Path::new("FILE"), &alone, Purpose::Read).unwrap();
    assert_eq!(read.unplaced.len(), 1);
    let found = Config::of_text(Path::new("FILE"), &alone, Purpose::Serve).unwrap_err();
    let expected = "FILE, line 3: volume: volume 'a' has no device, and the node serves no cluster: add the key \
                    'device' to its table";
    assert_eq!(found[0].to_string(), expected);
}

#[test]
fn a_key_of_the_other_kind_of_volume_is_refused_with_the_remedy() {
    let found = |rest: &str| {
        let text = format!("[[volume]]\nname = 'a'\nsize = '1GiB'\n{rest}\n");
        errors(&text).concat()
    };
    for key in ["replicas = 2", "stripe-unit = '64KiB'", "width = 1", "placement = 'spread'"] {
        let (name, refused) =
            (key.split(' ').next().unwrap(), found(&format!("device = 'r'\n{key}")));
        let remedy = format!("this one has a device: remove '{name}', or remove 'device'");
        assert!(refused.starts_with("FILE, line 1: ") && refused.ends_with(&remedy), "{refused}");
    }
    let blocks = found("block-size = 512");
    assert!(blocks.contains("the key 'block-size' needs the key 'device'"), "{blocks}");
    let place = found("placement = 'near:n1'");
    assert!(place.contains("'near:n1' is not a placement: write spread"), "{place}");
    let replicas = found("replicas = 1000");
    assert!(replicas.contains("'1000' is not a whole number, or too large"), "{replicas}");
    let unknown = found("stripe_unit = '64KiB'");
    assert!(unknown.contains("the nearest key is 'stripe-unit'"), "{unknown}");
}

#[test]
fn a_key_that_is_there_twice_is_named_with_the_remedy() {
    for text in
        ["volume = 'a=1MiB@r'\n\n[[volume]]\nname = 'b'\n", "pool = '8MiB'\n\npool = '8MiB'"]
    {
        let key = &text[..text.find(' ').unwrap()];
        let found = errors(text);
        let message = format!("FILE, line 3: the key '{key}' is there twice: write one list");
        assert!(found[0].starts_with(&message), "{found:?}");
    }
}

#[test]
fn a_file_alone_needs_no_devices_and_is_for_any_machine() {
    let text = "volume = 'data=1MiB@r'\ncores = '7000'\n";
    let config = Config::of_text(Path::new("FILE"), text, Purpose::Read).unwrap();
    assert_eq!((config.volumes.len(), config.cores), (1, vec![7000]));
    let missing = errors("volume = 'data=1MiB@r'\ndevice = 's=ram:1MiB'\n");
    assert!(missing[0].contains("volume 'data' needs device 'r'"), "{missing:?}");
}

#[test]
fn tables_and_strings_can_be_together_and_a_flag_replaces_a_table() {
    let text = r#"
volume = ["a=1MiB@r", { name = "b", size = 2097152, device = "r", block-size = 4096 }]
host = ["nqn.2026-11.x:a", { nqn = "nqn.2026-11.x:b", dhchap-key = "b.key", hash = "sha384" }]

[[device]]
name = "r"
kind = "ram"
size = "1GiB"

[[device]]
name = "disk"
kind = "file"
path = "/srv/a,b.img"
size = "1GiB"
wipe = true

[[grant]]
credential = "app"
volume = "a"
range = "0..1MiB"
rights = "rw"

[[credential]]
id = "app"
secret-file = "app.secret"
"#;
    let config = with_file(text, &["--device", "r=ram:2GiB"]).unwrap();
    let names: Vec<&str> = config.volumes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(config.volumes[1], parse_volume("b=2MiB@r,block-size=4096").unwrap());
    let devices: Vec<String> = config.devices.iter().map(ToString::to_string).collect();
    assert_eq!(devices, ["disk=file:/srv/a,b.img,size=1GiB,wipe", "r=ram:2GiB"]);
    assert_eq!(config.devices[0].path(), Path::new("/srv/a,b.img"));
    assert!(matches!(config.hosts, HostAccess::Only(hosts) if hosts.len() == 1));
    let AccessConfig { hosts, credentials, grants, chap } = config.access;
    assert_eq!((hosts.len(), credentials.len(), grants.len(), chap.len()), (1, 1, 1, 0));
    assert_eq!(hosts[0].nqn.as_str(), "nqn.2026-11.x:b");
    assert_eq!(grants[0].rights, nearflash_access::Rights::ReadWrite);
}

#[test]
fn a_resource_that_is_there_twice_is_named() {
    let twice = |table: &str| errors(&format!("{table}{table}")).remove(0);
    let chap = "[[chap]]\nuser = 'app'\nsecret-file = 's'\n";
    assert_eq!(twice(chap), "FILE, line 4: chap: 'app' is there twice: remove one of the two");
    let grant = "[[grant]]\ncredential = 'app'\nvolume = 'v'\n";
    assert_eq!(
        twice(grant),
        "FILE, line 4: grant: 'app v 0.. r' is there twice: remove one of the two"
    );
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// A value that is often right.
    fn text(often: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop_oneof![
            9 => proptest::sample::select(often).prop_map(str::to_owned),
            1 => "[a-zA-Z0-9 .=@:/-]{0,8}",
        ]
    }

    fn quoted(text: &str) -> String {
        format!("{text:?}")
    }

    /// The resource of a file with one, or its error.
    fn read(file: &str) -> Result<Config, String> {
        let read = Config::of_text(Path::new("FILE"), file, Purpose::Read);
        // The place differs, and the message of a wrong form quotes the one-line form.
        let message = |errors: Vec<ConfigError>| {
            let message = errors[0].to_string();
            message.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
        };
        read.map_err(message)
    }

    proptest! {
        #[test]
        fn a_volume_as_a_table_is_the_same_as_on_one_line(
            name in text(&["data", "a"]),
            size in text(&["1MiB", "4096", "2 GB"]),
            device in text(&["r", "flash"]),
            block_size in proptest::option::of(text(&["512", "4096", "4KiB"])),
            subsystem in proptest::option::of(text(&["all"])),
            provisioning in proptest::option::of(text(&["thin", "thick"])),
        ) {
            let options = [
                ("block-size", &block_size),
                ("subsystem", &subsystem),
                ("provisioning", &provisioning),
            ];
            let (mut line, mut table) = (format!("{name}={size}@{device}"), String::new());
            for (key, value) in [("name", &name), ("size", &size), ("device", &device)] {
                table += &format!("{key} = {}\n", quoted(value));
            }
            for (key, value) in options {
                if let Some(value) = value {
                    line += &format!(",{key}={value}");
                    table += &format!("{key} = {}\n", quoted(value));
                }
            }
            let (line, table) = (
                read(&format!("volume = {}", quoted(&line))),
                read(&format!("[[volume]]\n{table}")),
            );
            // Only the one-line form gives a sign in a name or a size a meaning.
            if [&name, &size].iter().all(|text| !text.contains(['=', '@'])) && !device.contains('@') {
                prop_assert_eq!(line, table);
            }
        }

        #[test]
        fn a_device_as_a_table_is_the_same_as_on_one_line(
            kind in proptest::sample::select(&["file", "block", "ram", "null", "flash", "pcm"]),
            path in "[a-z/. ]{1,12}",
            size in text(&["64MiB", "1GiB"]),
            options in proptest::sample::subsequence(
                vec![
                    ("wipe", ""), ("read-delay", "10us"), ("spare", "12%"), ("gc", "fifo"),
                    ("endurance", "3000"), ("randomise", ""), ("read", "48ns"), ("data", "none"),
                ],
                0..3,
            ),
        ) {
            let is_path = ["file", "block"].contains(&kind);
            let main = if is_path { ("path", &path) } else { ("size", &size) };
            let (mut line, mut table) = (format!("d={kind}:{}", main.1), String::new());
            table += &format!("name = 'd'\nkind = '{kind}'\n{} = {}\n", main.0, quoted(main.1));
            for (key, value) in options {
                match value {
                    "" => {
                        line += &format!(",{key}");
                        table += &format!("{key} = true\n");
                    }
                    value => {
                        line += &format!(",{key}={value}");
                        table += &format!("{key} = '{value}'\n");
                    }
                }
            }
            let (line, table) = (
                read(&format!("device = {}", quoted(&line))).map(|config| config.devices),
                read(&format!("[[device]]\n{table}")).map(|config| config.devices),
            );
            prop_assert_eq!(line.is_ok(), table.is_ok());
            if line.is_ok() {
                prop_assert_eq!(line, table);
            }
        }

        #[test]
        fn any_text_is_a_valid_file_or_refused_in_single_lines(text in "(?s).{0,200}") {
            super::check::check_config_file(&text);
        }
    }
}

#[test]
fn a_slice_that_keeps_no_data_is_refused() {
    let clustered = ["--cluster", "--direct", "127.0.0.1:0"];
    for what in ["null:1GiB", "flash:64MiB,data=none", "pcm:64MiB,data=none"] {
        let slice = format!("s={what}");
        let said = refused(&[&clustered[..], &["--slice", &slice]].concat());
        assert!(said.contains("--slice: slice 's' would lose what is written to it"), "{said}");
    }
    for what in ["ram:1GiB", "flash:64MiB", "file:/tmp/slice"] {
        let slice = format!("s={what}");
        assert!(resolved(&[&clustered[..], &["--slice", &slice]].concat()).is_ok(), "{what}");
    }
}
