//! Notes that several studies attach to their exhibits.

use super::Setting;

/// The note of exhibits in which a node has several cores.
pub(super) fn more_cores_note() -> String {
    "If the node has more than one core, the clients have fewer. A gain of the node may then be \
     lost at the clients."
        .to_owned()
}

/// The note of exhibits that compare many clients with the bare exchange, on machines where they
/// have several cores.
pub(super) fn wire_note(setting: &Setting) -> Option<String> {
    (setting.core_count > 2).then(|| {
        "The wire is measured by one thread on one core. The clients of a node share more cores."
            .to_owned()
    })
}

/// A note on how clients and a node of `node_cores` cores share the machine.
pub(super) fn cores_note(setting: &Setting, node_cores: usize) -> String {
    let rest = setting.core_count.saturating_sub(node_cores);
    let core =
        |count: usize| if count == 1 { "one core".to_owned() } else { format!("{count} cores") };
    let node = core(node_cores);
    match rest {
        0 => format!("The node and all clients share {}.", core(setting.core_count)),
        rest => format!("The node has {node}; all clients share {}.", core(rest)),
    }
}
