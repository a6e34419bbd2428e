//! Two states of one machine in one picture, at the same scale.

use super::page::{DrawOptions, Page, WIDTH};
use super::{LinkLoads, Looks, Picture, Scale, badges, picture};
use hopbyte_fabric::{Fabric, LinkId};

/// Distance of the two pictures.
const GAP: f32 = 20.0;
/// Target height of each picture.
const HEIGHT: f32 = 640.0;
/// Routers and nodes up to which half the width is enough for a picture.
const FEW: usize = 420;

/// Draws a fabric twice, with the loads before and after at one scale, as a complete SVG file.
///
/// Small machines are drawn side by side, large ones one above the other. Looks and limits are those of
/// [`super::fabric_svg`].
pub fn compare_svg(
    fabric: &Fabric,
    before: (&str, &LinkLoads),
    after: (&str, &LinkLoads),
    options: &DrawOptions,
) -> String {
    let scale = options.scale.or_else(|| Scale::of([before.1, after.1]));
    let sides = [("Before", before), ("After", after)];
    let beside = fabric.routers().len() + fabric.nodes().len() <= FEW;
    let width = if beside { (WIDTH - GAP) / 2.0 } else { WIDTH };
    let looks = sides.map(|(_, (_, l))| Looks::new(fabric, Some(l), scale, &options.job));
    let worst = sides.map(|(_, (_, l))| l.worst(options.worst));
    let mut page = Page::new();
    page.head(fabric, Some(before.1), options);
    page.legend(&looks[0], Some(&looks[1]));
    let top = page.y;
    let mut bottom = top;
    let mut words = String::new();
    for (i, (word, (label, _))) in sides.into_iter().enumerate() {
        let left = if beside {
            i as f32 * (width + GAP)
        } else {
            0.0
        };
        if beside {
            page.y = top;
        }
        page.line("tb", left, &format!("{word}: {label}"), 80);
        page.y += 3.0;
        let drawn = numbered(&looks[i], width, &worst[i]);
        page.place(&drawn, left);
        bottom = page.y.max(bottom);
        words = drawn.words;
    }
    page.y = bottom;
    page.words(&words);
    let top = page.y;
    for (i, (word, _)) in sides.into_iter().enumerate() {
        page.y = top;
        let half = (WIDTH - GAP) / 2.0;
        let title = format!("Worst links {}", word.to_lowercase());
        page.worst(&looks[i], i as f32 * (half + GAP), half, &title, &worst[i]);
        bottom = page.y.max(bottom);
    }
    page.y = bottom;
    page.command(options);
    page.finish(fabric, options)
}

/// A picture with its worst links numbered.
fn numbered(looks: &Looks, width: f32, worst: &[(LinkId, f64)]) -> Picture {
    let mut drawn = picture(looks, width, HEIGHT);
    let links: Vec<LinkId> = worst.iter().map(|&(l, _)| l).collect();
    badges::add(&mut drawn, &links);
    drawn
}
