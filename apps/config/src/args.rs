//! The flags of `nearflash serve`.

use std::path::PathBuf;

const DEVICE_HELP: &str = "\
Device to serve from (repeatable): NAME=file:PATH[,size=SIZE][,page-cache][,wipe], \
NAME=block:/dev/DISK[,page-cache][,wipe], NAME=ram:SIZE, \
NAME=null:SIZE[,read-delay=TIME][,write-delay=TIME], \
NAME=flash:SIZE[,spare=12%][,page=4KiB][,block=1MiB][,gc=greedy|cost-benefit|fifo][,moves=apart|mixed]\
[,dies=8][,read=60us][,program=200us][,erase=2ms][,endurance=3000][,data=none] or \
NAME=pcm:SIZE[,start-gap=100[,randomise]][,read=48ns][,write=150ns][,endurance=100000000][,data=none]. \
A missing file is created, sparse. The contents of ram, flash and pcm end with the node";

const VOLUME_HELP: &str = "\
Volume to serve (repeatable), created on the first start: \
NAME=SIZE@DEVICE[,block-size=512|4096][,subsystem=NAME][,provisioning=thin|thick]";

const REMOTE_HELP: &str = "\
Volume of another node that this node serves, too (repeatable): \
NAME=direct://HOST:PORT/VOLUME[?key=ID&secret-file=PATH]";

const FILES_HELP: &str = "\
Volume whose files this node owns (repeatable). Several machines mount it at the same time. Hosts and \
initiators do not see the volume, and direct clients write to it only through its files";

const CLUSTER_HELP: &str = "\
Serve the volumes of the cluster that 'nearflash cluster init' or 'cluster join' made this machine a \
part of. Needs an address for --direct, at which the other nodes reach this one";

const SLICE_HELP: &str = "\
Device that is a slice of the cluster's space (repeatable): NAME=file:PATH[,size=SIZE][,page-cache][,wipe], \
NAME=block:/dev/DISK[,page-cache][,wipe] or NAME=ram:SIZE. The cluster takes the whole device";

const STORAGE: &str = "Devices and volumes";
const ADDRESSES: &str = "Addresses";
const ACCESS: &str = "Who may connect";
const CLUSTER: &str = "Cluster";

/// The flags of `nearflash serve`. The values are unparsed strings: the configuration parses them,
/// whether they come from a flag or the file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// TOML file whose keys have the names and values of these flags. A flag takes precedence over
    /// its key; devices and volumes are merged by name
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Devices to serve from.
    #[arg(long = "device", value_name = "NAME=KIND:WHAT", help = DEVICE_HELP, help_heading = STORAGE)]
    pub devices: Vec<String>,
    /// Volumes to serve.
    #[arg(long = "volume", value_name = "NAME=SIZE@DEVICE", help = VOLUME_HELP, help_heading = STORAGE)]
    pub volumes: Vec<String>,
    /// Volumes of other nodes.
    #[arg(long = "remote", value_name = "NAME=URL", help = REMOTE_HELP, help_heading = STORAGE)]
    pub remotes: Vec<String>,
    /// The volumes whose files it owns.
    #[arg(long = "files", value_name = "VOLUME", help = FILES_HELP, help_heading = STORAGE)]
    pub files: Vec<String>,
    /// The cluster.
    #[arg(long, help = CLUSTER_HELP, help_heading = CLUSTER)]
    pub cluster: bool,
    /// Slices of the cluster's space.
    #[arg(long = "slice", value_name = "NAME=KIND:WHAT", help = SLICE_HELP, help_heading = CLUSTER)]
    pub slices: Vec<String>,
    /// Name of this node in the cluster [default: the name of the machine]
    #[arg(long = "node", value_name = "NAME", help_heading = CLUSTER)]
    pub node_name: Option<String>,
    /// Address for the messages of the cluster's other nodes about mirrors [default: port 4422 at the
    /// machine's address in the cluster]
    #[arg(long, value_name = "ADDR:PORT", help_heading = CLUSTER)]
    pub pulse: Option<String>,
    /// Whether the end of another node's connection to that address proves that the node's process has
    /// ended: on or off. Choose off if a proxy may end connections between the nodes [default: on]
    #[arg(long, value_name = "on|off", help_heading = CLUSTER)]
    pub pulse_proof: Option<String>,
    /// Address for NVMe/TCP hosts (repeatable); port 0 selects a free port. ',auth=required' behind it
    /// admits only hosts that authenticate with keys, see 'nearflash host'. ',tls=required' admits only
    /// connections with TLS, and ',tls=allowed' both kinds [default: 127.0.0.1:4420]
    #[arg(long, value_name = "ADDR:PORT[,auth=required][,tls=required]", help_heading = ADDRESSES)]
    pub nvme_tcp: Vec<String>,
    /// Address that discovery reports instead of the listening address
    #[arg(long, value_name = "ADDR[:PORT]", help_heading = ADDRESSES)]
    pub advertise: Option<String>,
    /// Address for direct clients (repeatable); port 0 selects a free port. ',tls=required' behind it
    /// admits only connections with TLS, whose clients have a credential or a seal, and ',tls=allowed'
    /// both kinds [default: none; default port: 4421]
    #[arg(long, value_name = "ADDR:PORT[,tls=required]", help_heading = ADDRESSES)]
    pub direct: Vec<String>,
    /// Socket for direct clients on this machine, which share memory with the node [default: none]
    #[arg(long, value_name = "PATH", help_heading = ADDRESSES)]
    pub direct_local: Option<String>,
    /// Address for iSCSI initiators (repeatable); port 0 selects a free port [default: none;
    /// default port: 3260]
    #[arg(long, value_name = "ADDR:PORT", help_heading = ADDRESSES)]
    pub iscsi: Vec<String>,
    /// Address for HTTP (REST) with TLS and tokens, or none to switch HTTP off; port 0 selects a free
    /// port [default: only the Unix socket http.sock in the data directory; default port: 4423]
    #[arg(long, value_name = "ADDR:PORT|none", help_heading = ADDRESSES)]
    pub http: Option<String>,
    /// Certificate of --http, with those of its issuers, in PEM
    #[arg(long, value_name = "FILE", help_heading = ADDRESSES)]
    pub http_cert: Option<PathBuf>,
    /// Private key of --http-cert, in PEM
    #[arg(long, value_name = "FILE", help_heading = ADDRESSES)]
    pub http_key: Option<PathBuf>,
    /// Host (NQN) or iSCSI initiator (iqn., eui. or naa. name) that may connect (repeatable), or 'any'
    /// [default: everyone at loopback addresses; at others, only hosts with keys and initiators with accounts].
    /// docs/access.md has the rules for each protocol
    #[arg(long = "host", value_name = "NQN|INITIATOR|any", help_heading = ACCESS)]
    pub hosts: Vec<String>,
    /// Volumes of hosts and initiators that have no list of volumes, see 'nearflash host allow': all or
    /// none [default: all until a host has a list, and none from then on]
    #[arg(long, value_name = "all|none", help_heading = ACCESS)]
    pub unlisted_hosts: Option<String>,
    /// Protocols that admit peers without a key again when their last credential or CHAP account is removed:
    /// direct, iscsi, or both [default: none; a protocol that has had a key stays closed without one]
    #[arg(long, value_name = "PROTOCOL[,PROTOCOL]", help_heading = ACCESS)]
    pub anonymous: Option<String>,
    /// Whether the kernel handles the records of TLS, if it can: on or off [default: on]
    #[arg(long, value_name = "on|off")]
    pub ktls: Option<String>,
    /// Processors to serve on, for example 0, 0-3 or 0,2 [default: the first that the process may
    /// use]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Directory of the catalog and the control socket [default: $NEARFLASH_DATA_DIR; otherwise the
    /// key of the file, then /var/lib/nearflash for root, $XDG_STATE_HOME/nearflash for others]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Memory for data in flight on each core [default: 32MiB]
    #[arg(long, value_name = "SIZE")]
    pub pool: Option<String>,
    /// Longest time for which a core waits for its next work by spinning, before it sleeps; 0 to
    /// sleep at once, on processors that others need [default: 200us]
    #[arg(long, value_name = "TIME")]
    pub spin: Option<String>,
    /// Longest time from the start of a connection to its completed login, for hosts, initiators
    /// and clients [default: 10s, 15s for iSCSI]
    #[arg(long, value_name = "TIME")]
    pub login_timeout: Option<String>,
    /// Time limit for a host, initiator or client that neither takes its answers nor sends the data
    /// that it announced [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub stall_timeout: Option<String>,
    /// Level of the log on stderr: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
}
