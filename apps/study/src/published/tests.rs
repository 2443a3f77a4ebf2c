use super::{disaggregation, networked_flash as flash, quicksan};

fn close(printed: f64, computed: f64, within: f64) -> bool {
    (printed - computed).abs() <= within
}

#[test]
fn table_3_predicts_by_the_sum_of_tables_1_and_2() {
    for remote in flash::REMOTE {
        let device = flash::DEVICES[remote.device];
        let network = flash::NETWORKS[remote.network];
        let sum = device.read_us[1] + network.tcp_us;
        assert!(close(remote.predicted_us, sum, 0.01), "{} {}", device.name, network.name);
    }
}

#[test]
fn table_3_prints_its_differences_without_rounding_up() {
    for remote in flash::REMOTE {
        let difference = (remote.measured_us / remote.predicted_us - 1.0) * 100.0;
        assert!(close(remote.difference_percent, difference, 0.11), "{remote:?}: {difference}");
    }
}

#[test]
fn quicksan_table_1_sums_to_its_last_row_within_its_rounding() {
    for stack in quicksan::STACKS {
        let file_system = stack.file_system.map_or((0.0, 0.0), |it| (it.read, it.write));
        let read = stack.system.read + file_system.0 + stack.transport.read;
        let write = stack.system.write + file_system.1 + stack.transport.write;
        assert!(close(stack.total.read, read, 0.11), "{}: {read}", stack.name);
        assert!(close(stack.total.write, write, 0.11), "{}: {write}", stack.name);
    }
}

#[test]
fn processor_shares_sum_to_a_hundred() {
    for (name, shares) in disaggregation::CPU_SHARES {
        assert!(close(100.0, shares.iter().sum(), 0.01), "{name}");
    }
}
