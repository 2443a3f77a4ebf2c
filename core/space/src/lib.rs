//! Space management: devices' data areas, extents, volumes laid out over them, the maps that
//! translate a volume's blocks into bytes of devices, and reservations. Pure.
//!
//! This crate does not depend on files, on the catalog that stores its data, or on clocks.

mod extent;
mod free;
mod label;
mod map;
mod name;
mod reservations;
pub mod slice;
mod space;
mod table;
mod volume;

pub use extent::{Extent, GRANULE};
pub use free::{FreeSpace, SpaceError, append_extents, truncate_extents};
pub use label::{LABEL_AREA_LEN, LABEL_LEN, LABEL_OFFSETS, Label};
pub use map::{
    EXTENTS_PER_VOLUME_MAX, Epoch, Map, MapError, Piece, Pieces, RowPart, Rows, STRIPE_UNIT_MAX,
    STRIPE_UNIT_MIN, STRIPE_WIDTH_MAX, Stripes,
};
pub use name::{NAME_LEN_MAX, Name, ParseNameError};
pub use reservations::{
    Changed, Persistent, REGISTRATIONS_MAX, Registration, Reservation, Reservations,
    RestoreReservationsError, Restriction,
};
pub use space::{
    NAMESPACES_PER_SUBSYSTEM_MAX, NameList, RestoreError, Space, SpaceDevice, VOLUMES_MAX,
    VolumeError, VolumeRequest, empty_device,
};
pub use table::{Sharing, VOLUME_IDS_MAX, VolumeEntry, VolumeTable};
pub use volume::{Home, ParseProvisioningError, Preparation, Provisioning, Volume};
