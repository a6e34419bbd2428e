//! Colours and type of every picture, light and dark.
//!
//! Loads run from a quiet grey-blue over gold and orange to plum (on light ground; to pale yellow on
//! dark ground), with monotonic lightness, so that the order is visible to colour-blind
//! readers and in greyscale print. Width, height and dashes are redundant with it. Quantities without an absolute
//! scale have one hue, blue, so that hot colours always mean a share of the capacity.

use std::fmt::Write;

/// CSS class, colour on light ground, colour on dark ground.
const MARKS: [(&str, &str, &str); 15] = [
    ("u", "#8b949e", "#7d8792"),
    ("z", "#ccd3da", "#3b444e"),
    ("l1", "#9fb4ca", "#4f6a88"),
    ("l2", "#d7a13a", "#b5622f"),
    ("l3", "#dd6b26", "#e2853a"),
    ("l4", "#b32b30", "#f6ba57"),
    ("l5", "#5f0c38", "#fff3bf"),
    ("d", "#1b1f24", "#ffffff"),
    ("k0", "#0072b2", "#56b4e9"),
    ("k1", "#c05000", "#f09a4a"),
    ("k2", "#00805d", "#2bbf94"),
    ("k3", "#b0558a", "#e59cc7"),
    ("k4", "#7a6200", "#e6d84a"),
    ("k5", "#5b5bd6", "#a9b1ff"),
    ("k6", "#3a424b", "#c9d1d9"),
];

/// Load classes of quantities without an absolute scale: one hue, which judges nothing.
const AMOUNTS: [(&str, &str, &str); 5] = [
    ("l1", "#a9c6de", "#3d5a78"),
    ("l2", "#7ba6cd", "#4c7cab"),
    ("l3", "#4a83b8", "#64a2d8"),
    ("l4", "#2560a0", "#93c4ee"),
    ("l5", "#0c3470", "#d3e8fb"),
];

/// Selector, property, light, dark: all rules except marks.
const GROUND: [(&str, &str, &str, &str); 20] = [
    (".bg", "fill", "#ffffff", "#12161b"),
    (".panel", "fill", "#f6f8fa", "#1a2027"),
    ("text", "fill", "#1b1f24", "#e8ebef"),
    (".t3", "fill", "#57606a", "#a3adb8"),
    (".t4", "fill", "#57606a", "#a3adb8"),
    (".frame", "stroke", "#c3cbd3", "#414b56"),
    (".router", "fill", "#ffffff", "#232a32"),
    (".router", "stroke", "#7b8590", "#76818d"),
    (".job", "stroke", "#0b57d0", "#8ab4ff"),
    (".jobmark", "fill", "#0b57d0", "#8ab4ff"),
    (".halo", "stroke", "#ffffff", "#12161b"),
    (".badge", "fill", "#1b1f24", "#ffffff"),
    (".badge", "stroke", "#ffffff", "#12161b"),
    (".badget", "fill", "#ffffff", "#12161b"),
    (".leader", "stroke", "#1b1f24", "#ffffff"),
    (".errors", "fill", "#b5008a", "#ff7ad9"),
    (".lanes", "fill", "#7a4dd8", "#b79bff"),
    (".errors", "stroke", "#ffffff", "#12161b"),
    (".lanes", "stroke", "#ffffff", "#12161b"),
    (".cross", "stroke", "#1b1f24", "#ffffff"),
];

/// Rules without colours.
const FIXED: &str = "\
.hb text{font-family:ui-sans-serif,system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif;font-variant-numeric:tabular-nums}
.hb .t1{font-size:20px;font-weight:650;letter-spacing:-.01em}
.hb .t2{font-size:13px}
.hb .t3{font-size:11px}
.hb .t4{font-size:9px}
.hb .tb{font-size:12px;font-weight:600}
.hb .mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;font-size:11px}
.hb .badget{font-size:9px;font-weight:700}
.hb .b2{font-size:7.5px;letter-spacing:-.03em}
.hb .s path{fill:none;stroke-linejoin:round}
.hb .f path{stroke:none}
.hb .frame{fill:none;stroke-width:1}
.hb .job{fill:none}
.hb .halo{stroke-width:4;paint-order:stroke;stroke-linejoin:round}
.hb .badge{stroke-width:1}
.hb .leader{fill:none;stroke-width:.8}
.hb .sign{stroke-width:1;stroke-linejoin:round}
.hb .cross{fill:none;stroke-width:2.2;stroke-linecap:round}
";

/// The style sheet of the drawings; rules apply below class `hb` only.
pub fn sheet() -> String {
    let mut out = String::from(FIXED);
    rules(&mut out, false);
    out.push_str("@media (prefers-color-scheme:dark){\n");
    rules(&mut out, true);
    out.push_str("}\n");
    out
}

fn rules(out: &mut String, dark: bool) {
    for (class, light_colour, dark_colour) in MARKS {
        let colour = if dark { dark_colour } else { light_colour };
        let _ = writeln!(
            out,
            ".hb .s .{class}{{stroke:{colour}}}.hb .f .{class}{{fill:{colour}}}"
        );
    }
    for (class, light_colour, dark_colour) in AMOUNTS {
        let colour = if dark { dark_colour } else { light_colour };
        for amount in [".hb .amount", ".hb.amount"] {
            let _ = writeln!(
                out,
                "{amount} .s .{class}{{stroke:{colour}}}{amount} .f .{class}{{fill:{colour}}}"
            );
        }
    }
    for (selector, property, light_colour, dark_colour) in GROUND {
        let colour = if dark { dark_colour } else { light_colour };
        let _ = writeln!(out, ".hb {selector}{{{property}:{colour}}}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of `#rrggbb` (sRGB).
    fn luminance(colour: &str) -> f64 {
        let channel = |i: usize| {
            let c = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn the_ramp_keeps_its_order_in_grey() {
        let loads: Vec<_> = MARKS.into_iter().filter(|m| m.0.starts_with('l')).collect();
        for ramp in [&loads[..], &AMOUNTS] {
            assert_eq!(ramp.len(), 5);
            for pair in ramp.windows(2) {
                assert!(
                    luminance(pair[0].1) > luminance(pair[1].1),
                    "light {pair:?}"
                );
                assert!(luminance(pair[0].2) < luminance(pair[1].2), "dark {pair:?}");
            }
        }
    }

    #[test]
    fn text_and_heavy_loads_stand_out() {
        let ground = |s: &str, p: &str| *GROUND.iter().find(|g| g.0 == s && g.1 == p).unwrap();
        let (bg, panel) = (ground(".bg", "fill"), ground(".panel", "fill"));
        for (under_light, under_dark) in [(bg.2, bg.3), (panel.2, panel.3)] {
            for selector in ["text", ".t3", ".t4"] {
                let t = ground(selector, "fill");
                assert!(contrast(t.2, under_light) >= 4.5, "{selector} light");
                assert!(contrast(t.3, under_dark) >= 4.5, "{selector} dark");
            }
            for (class, light, dark) in MARKS.into_iter().chain(AMOUNTS) {
                if ["l3", "l4", "l5", "d"].contains(&class) || class.starts_with('k') {
                    assert!(contrast(light, under_light) >= 3.0, "{class} light");
                    assert!(contrast(dark, under_dark) >= 3.0, "{class} dark");
                }
            }
        }
    }
}
