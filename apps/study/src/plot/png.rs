//! Figures as PNG.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::{Setting, draw};
use crate::exhibit::Figure;

/// Resolution: file pixels per SVG pixel.
const SCALE: f32 = 2.0;

/// The reason why there is no PNG. It does not depend on the figure's data.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The SVG is not valid.
    #[error("cannot draw the figure: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// There is no memory for the image.
    #[error("cannot draw the figure: no memory for {width} × {height} pixels")]
    Memory {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The encoder failed.
    #[error("cannot write the figure as PNG: {0}")]
    Encode(String),
}

/// An embedded font, so that pictures are the same on every machine.
static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans_condensed::regular().to_vec());
    fonts.load_font_data(dejavu::sans_condensed::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// The figure as a PNG file, on white.
///
/// # Errors
///
/// When the image cannot be rendered, allocated or encoded.
pub fn png(slug: &str, title: &str, figure: &Figure) -> Result<Vec<u8>, PlotError> {
    let text = draw(slug, title, figure, Setting::Paper);
    let options = Options {
        fontdb: FONTS.clone(),
        font_family: "DejaVu Sans".to_owned(),
        ..Options::default()
    };
    let tree = Tree::from_str(&text, &options)?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let (width, height) = size.map_or((0, 0), |size| (size.width(), size.height()));
    let mut pixels = Pixmap::new(width, height).ok_or(PlotError::Memory { width, height })?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PlotError::Encode(error.to_string()))
}
