//! Remote beside local beside the floor, measured in turns.
//!
//! Machines are noisy, and virtual ones move their cores. So figures are never compared across
//! minutes: every round measures all sides shortly after one another on the same cores, with the
//! core-to-core time before and after, and a round counts only when it stayed in one place and had
//! its cores to itself. What is told is the median of the rounds' ratios, and their quartiles.

mod awake;
mod contest;
mod demo;
mod direct;
mod node;
mod resources;
mod round;
mod stand;
mod table;

pub use contest::{Arena, Contest, ContestResult, Part, Reads, Score, Side, Turn};
pub use demo::demo;
pub use direct::{DirectTargets, GRANTS, contests, to_json, to_markdown};
pub use node::{Node, NodeError, NodeSpec};
pub use resources::{Resources, resources};
pub use round::{Figure, Measured, Ratio, Round, Verdict};
pub use stand::{Device, Load, Stand, Timing};
pub use table::{Row, RowResult, Table, measure_table, rows};
