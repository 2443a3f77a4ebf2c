//! A minimal scripted iSCSI target: sockets and bytes are real, the rest follows a script. One
//! thread per connection; blocks are in memory.

mod login;
mod pdu;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pdu::{Header, Stream, opcode};

/// The size of a logical block.
pub(crate) const BLOCK_LEN: usize = 4096;
/// The number of blocks of the logical unit.
pub(crate) const BLOCKS: usize = 256;
/// The distance from ExpCmdSN to MaxCmdSN, plus 1.
const WINDOW: u32 = 64;

/// The behaviour of the target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Answers the first login request with this class and detail.
    pub(crate) login_status: Option<(u8, u8)>,
    /// Admits only this user, with this secret.
    pub(crate) account: Option<(&'static str, &'static str)>,
    /// Never answers.
    pub(crate) is_silent: bool,
    /// Closes the connection instead of answering the read or write with this number, from 0.
    pub(crate) closes_at: Option<usize>,
    /// Closes the connection instead of answering the other command with this number, from 0.
    pub(crate) closes_at_question: Option<usize>,
    /// Answers reads in pairs, the later one first.
    pub(crate) swaps: bool,
    /// Sends the data of a read in PDUs of at most this length.
    pub(crate) data_len_max: Option<usize>,
    /// Requests every write's data: nothing is unsolicited.
    pub(crate) asks: bool,
    /// Uses header and data digests.
    pub(crate) digests: bool,
    /// Answers this many commands with UNIT ATTENTION first.
    pub(crate) attentions: usize,
    /// Answers this many reads and writes with TASK SET FULL first.
    pub(crate) refusals: usize,
    /// Answers the read or write with this number, from 0, with a unit attention for a change of
    /// capacity.
    pub(crate) resized_at: Option<usize>,
    /// Sends this hostile PDU instead of the answer to the first read.
    pub(crate) says: Option<Says>,
}

/// The PDU of a hostile target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    /// Data for a task that does not exist.
    UnknownTask,
    /// Data past the end of the requested range.
    PastTheEnd,
    /// An opcode that no target sends.
    UnknownOpcode,
    /// A data segment of 16 MiB.
    Endless,
    /// An R2T for a read.
    R2tOfRead,
}

/// The state that all connections share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The stored blocks.
    pub(crate) blocks: Mutex<Vec<u8>>,
    /// The next CmdSN.
    exp_cmd_sn: AtomicU32,
    /// The number of connections that reached the full feature phase.
    pub(crate) logins: AtomicUsize,
}

/// A listening target.
pub(crate) struct FakeTarget {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Its state.
    pub(crate) shared: Arc<Shared>,
}

impl FakeTarget {
    /// Serves connections until the process ends: the n-th connection follows the n-th script, and
    /// all further ones the last.
    pub(crate) fn start(scripts: &[Script]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.blocks.lock().unwrap().resize(BLOCKS * BLOCK_LEN, 0);
        let (scripts, kept) = (scripts.to_vec(), Arc::clone(&shared));
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let script = scripts[index.min(scripts.len() - 1)].clone();
                let connection = Connection::new(stream.unwrap(), Arc::clone(&kept), script);
                std::thread::spawn(move || connection.serve());
            }
        });
        Self { address, shared }
    }
}

struct Connection {
    stream: Stream,
    shared: Arc<Shared>,
    script: Script,
    stat_sn: u32,
    /// The number of reads and writes so far, and of other commands.
    commands: usize,
    questions: usize,
    /// The read that the next one overtakes, and its data.
    held_back: Option<(Header, Vec<u8>)>,
}

impl Connection {
    fn new(stream: TcpStream, shared: Arc<Shared>, script: Script) -> Self {
        stream.set_nodelay(true).unwrap();
        let stream = Stream::new(stream);
        Self { stream, shared, script, stat_sn: 1, commands: 0, questions: 0, held_back: None }
    }

    /// Serves until the initiator or the script closes the connection.
    fn serve(mut self) {
        if self.log_in().is_ok() {
            self.shared.logins.fetch_add(1, Ordering::SeqCst);
            self.stream.has_digests = self.script.digests;
            while self.next_request().is_ok() {}
        }
    }

    fn next_request(&mut self) -> io::Result<()> {
        let (header, data) = self.stream.receive()?;
        if !header.is_immediate() && header.opcode() != opcode::DATA_OUT {
            self.shared.exp_cmd_sn.fetch_max(header.word(24).wrapping_add(1), Ordering::SeqCst);
        }
        match header.opcode() {
            opcode::COMMAND => self.command(&header, data),
            opcode::NOP_OUT if header.word(16) != u32::MAX => {
                let nop = self.answer(opcode::NOP_IN, &header).with_word(20, u32::MAX);
                self.stream.send(nop, &data)
            }
            opcode::NOP_OUT => Ok(()),
            opcode::TEXT => {
                let text = self.answer(opcode::TEXT_RESPONSE, &header).with_word(20, u32::MAX);
                self.stream.send(text, &targets(self.stream.local_port()))
            }
            opcode::LOGOUT => {
                let done = self.answer(opcode::LOGOUT_RESPONSE, &header);
                self.stream.send(done, &[])?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            other => panic!("no initiator sends {other:#x} here"),
        }
    }

    /// A header with the fields of every answer.
    fn answer(&mut self, opcode: u8, request: &Header) -> Header {
        let answer = self.unnumbered(opcode, request).with_word(24, self.stat_sn);
        self.stat_sn = self.stat_sn.wrapping_add(1);
        answer
    }

    /// An answer that does not advance StatSN.
    fn unnumbered(&self, opcode: u8, request: &Header) -> Header {
        let expected = self.shared.exp_cmd_sn.load(Ordering::SeqCst);
        Header::new(opcode)
            .with_byte(1, 0x80)
            .with_word(16, request.word(16))
            .with_word(24, self.stat_sn)
            .with_word(28, expected)
            .with_word(32, expected.wrapping_add(WINDOW - 1))
    }

    fn command(&mut self, header: &Header, data: Vec<u8>) -> io::Result<()> {
        let (code, lba, count) = header.cdb_range();
        let is_io = matches!(code, 0x88 | 0x8A);
        let is_told = is_io && self.script.resized_at == Some(self.commands);
        if is_io {
            let number = self.commands;
            self.commands += 1;
            if self.script.closes_at == Some(number) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if let Some(says) = self.script.says.filter(|_| number == 0) {
                return self.be_hostile(says, header);
            }
        }
        if !is_io {
            self.questions += 1;
            if self.script.closes_at_question == Some(self.questions - 1) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        if self.script.attentions > 0 {
            self.script.attentions -= 1;
            return self.check_condition(header, 0x06, 0x2900);
        }
        if header.byte(9) != 0 {
            // ILLEGAL REQUEST, LOGICAL UNIT NOT SUPPORTED.
            return self.check_condition(header, 0x05, 0x2500);
        }
        let (start, end) = (lba * BLOCK_LEN, (lba + count) * BLOCK_LEN);
        if is_io && (self.script.refusals > 0 || is_told) {
            if code == 0x8A {
                self.all_of(header, data, end - start)?;
            }
            return self.refuse(header, is_told);
        }
        match code {
            0x88 | 0x8A if end > BLOCKS * BLOCK_LEN => {
                // ILLEGAL REQUEST, LOGICAL BLOCK ADDRESS OUT OF RANGE.
                self.check_condition(header, 0x05, 0x2100)
            }
            0x88 => {
                let data = self.shared.blocks.lock().unwrap()[start..end].to_vec();
                self.send_data(header, &data)
            }
            0x8A => {
                let data = self.all_of(header, data, end - start)?;
                self.shared.blocks.lock().unwrap()[start..end].copy_from_slice(&data);
                self.good(header)
            }
            0x9E => self.send_data(header, &capacity()),
            0xA0 => self.send_data(header, &luns()),
            0x12 => self.send_data(header, &inquiry(header)),
            0x00 | 0x35 | 0x91 => self.good(header),
            // ILLEGAL REQUEST, INVALID COMMAND OPERATION CODE.
            _ => self.check_condition(header, 0x05, 0x2000),
        }
    }

    /// Receives the rest of a write's data, if it did not come with the command.
    fn all_of(&mut self, header: &Header, mut data: Vec<u8>, len: usize) -> io::Result<Vec<u8>> {
        // Unsolicited data follows a command that is not final.
        let mut is_final = header.byte(1) & 0x80 != 0;
        while data.len() < len {
            if is_final {
                let words = [data.len(), len - data.len()].map(|n| u32::try_from(n).unwrap());
                let r2t = self.unnumbered(opcode::R2T, header).with_word(20, 7);
                self.stream.send(r2t.with_word(40, words[0]).with_word(44, words[1]), &[])?;
            }
            let (part, bytes) = self.stream.receive()?;
            if part.opcode() != opcode::DATA_OUT {
                // The target does not serve other commands in between.
                panic!("tests leave one write at a time without its data");
            }
            assert_eq!(part.word(40), u32::try_from(data.len()).unwrap(), "data is in order");
            data.extend(bytes);
            is_final = part.byte(1) & 0x80 != 0;
        }
        assert_eq!(data.len(), len);
        Ok(data)
    }

    /// Refuses a command: with a unit attention, or with TASK SET FULL.
    fn refuse(&mut self, request: &Header, is_told: bool) -> io::Result<()> {
        if is_told {
            return self.check_condition(request, 0x06, 0x2A09);
        }
        self.script.refusals -= 1;
        let response = self.answer(opcode::RESPONSE, request).with_byte(3, 0x28);
        self.stream.send(response, &[])
    }

    fn good(&mut self, request: &Header) -> io::Result<()> {
        let response = self.answer(opcode::RESPONSE, request);
        self.stream.send(response, &[])
    }

    fn check_condition(&mut self, request: &Header, key: u8, code: u16) -> io::Result<()> {
        let [code, qualifier] = code.to_be_bytes();
        let mut sense = vec![0, 18, 0x70, 0, key, 0, 0, 0, 0, 10];
        sense.extend([0, 0, 0, 0, code, qualifier, 0, 0, 0, 0]);
        let response = self.answer(opcode::RESPONSE, request).with_byte(3, 2);
        self.stream.send(response, &sense)
    }

    fn send_data(&mut self, request: &Header, data: &[u8]) -> io::Result<()> {
        let is_swapped = self.script.swaps && request.byte(32) == 0x88;
        let earlier = self.held_back.take_if(|_| is_swapped);
        if is_swapped && earlier.is_none() {
            self.held_back = Some((request.clone(), data.to_vec()));
            return Ok(());
        }
        let mut pdus = self.encode_data(request, data);
        if let Some((request, data)) = earlier {
            pdus.extend(self.encode_data(&request, &data));
        }
        self.stream.send_bytes(&pdus)
    }

    /// Encodes Data-In PDUs, the last one with the status.
    fn encode_data(&mut self, request: &Header, data: &[u8]) -> Vec<u8> {
        let asked = usize::try_from(request.word(20)).unwrap();
        let residual = u32::try_from(asked.saturating_sub(data.len())).unwrap();
        let data = &data[..data.len().min(asked)];
        let step = self.script.data_len_max.unwrap_or(usize::MAX).min(self.stream.data_len_max);
        let mut pdus = Vec::new();
        for (index, part) in data.chunks(step).enumerate() {
            let is_last = (index + 1) * step >= data.len();
            let header = match is_last {
                true => {
                    let flags = 0x81 | if residual > 0 { 2 } else { 0 };
                    let header = self.answer(opcode::DATA_IN, request).with_byte(1, flags);
                    header.with_word(44, residual)
                }
                false => self.unnumbered(opcode::DATA_IN, request).with_byte(1, 0),
            };
            let words = [index, index * step].map(|n| u32::try_from(n).unwrap());
            let header = header.with_word(20, u32::MAX);
            let header = header.with_word(36, words[0]).with_word(40, words[1]);
            pdus.extend(self.stream.encode(header, part));
        }
        pdus
    }

    fn be_hostile(&mut self, says: Says, request: &Header) -> io::Result<()> {
        let data = vec![0xEE; BLOCK_LEN];
        let data_in = self.answer(opcode::DATA_IN, request).with_byte(1, 0x81);
        let data_in = data_in.with_word(20, u32::MAX);
        match says {
            Says::UnknownTask => self.stream.send(data_in.with_word(16, 0x00FF_FFF0), &data),
            Says::PastTheEnd => self.stream.send(data_in.with_word(40, 1 << 30), &data),
            Says::UnknownOpcode => self.stream.send(data_in.with_byte(0, 0x3C), &[]),
            Says::Endless => {
                let header = data_in.with_word(4, 0x00FF_FFFF);
                self.stream.send_bytes(&header.0)
            }
            Says::R2tOfRead => {
                let r2t = self.unnumbered(opcode::R2T, request).with_word(20, 7);
                self.stream.send(r2t.with_word(44, 512), &[])
            }
        }?;
        // Until the initiator closes.
        self.stream.receive().map(|_| ())
    }
}

/// The data of READ CAPACITY (16).
fn capacity() -> [u8; 32] {
    let mut data = [0; 32];
    data[..8].copy_from_slice(&(u64::try_from(BLOCKS).unwrap() - 1).to_be_bytes());
    data[8..12].copy_from_slice(&u32::try_from(BLOCK_LEN).unwrap().to_be_bytes());
    data
}

/// The data of REPORT LUNS: LUNs 0 and 3.
fn luns() -> [u8; 24] {
    let mut data = [0; 24];
    data[3] = 16;
    data[17] = 3;
    data
}

/// The data of INQUIRY, and the Block Limits page with a maximum of 1 MiB.
fn inquiry(header: &Header) -> Vec<u8> {
    let is_block_limits = header.byte(33) == 1 && header.byte(34) == 0xB0;
    let mut data = vec![0; 64];
    if is_block_limits {
        (data[1], data[3]) = (0xB0, 60);
        data[8..12].copy_from_slice(&256u32.to_be_bytes());
    } else {
        (data[2], data[3], data[4]) = (6, 2, 59);
    }
    data
}

/// The answer to SendTargets=All.
fn targets(port: u16) -> Vec<u8> {
    let mut text = Vec::new();
    for name in ["iqn.test:a", "iqn.test:b"] {
        for address in [format!("127.0.0.1:{port},1"), "[2001:db8::7]:3260,2".to_owned()] {
            if text.is_empty() || address.starts_with("127") {
                text.extend(format!("TargetName={name}\0").bytes());
            }
            text.extend(format!("TargetAddress={address}\0").bytes());
        }
    }
    text
}
