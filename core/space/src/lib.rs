//! The space: devices' data areas, extents, volumes laid out over them, and the maps that turn a
//! volume's blocks into bytes of devices by arithmetic. Pure.
//!
//! Knows nothing of files, of the catalog that keeps all this, of protocols or of time.

mod extent;
mod map;
mod name;
mod table;

pub use extent::{DeviceId, Extent, GRANULE, round_up_to_granule};
pub use map::{EXTENTS_PER_VOLUME_MAX, Epoch, Map, MapError, Piece, Pieces};
pub use name::{NAME_LEN_MAX, Name, ParseNameError};
pub use table::{VOLUME_IDS_MAX, VolumeEntry, VolumeTable};
